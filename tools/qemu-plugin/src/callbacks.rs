//! What QEMU calls while the program runs.

use std::ffi::{c_uint, c_void};

use crate::api::{self, Block, PluginId};
use crate::event::{ACCESS, EXIT, access, event};
use crate::target::Target;
use crate::thread;
use crate::{Recorder, calls, recorder};

/// In a definition: the instruction is counted when it begins.
const WATCHED: u8 = 0x80;
/// In a definition: the instruction may access memory.
const MAY_FAULT: u8 = 0x40;

/// A thread was made, by another thread or at the start of the program.
pub extern "C" fn thread_starts(_: PluginId, index: c_uint) {
    if !recorder().is_abandoned() {
        thread::start(index);
    }
}

/// A thread other than the last ended.
pub extern "C" fn thread_ends(_: PluginId, index: c_uint) {
    if let Some(thread) = thread::get(index) {
        thread.push(&[event(EXIT, 0)]);
        thread.flush();
    }
    thread::end(index);
}

/// The program ended in order.
pub extern "C" fn program_ends(_: PluginId, _: *mut c_void) {
    if recorder().is_abandoned() {
        return;
    }
    thread::for_each(|thread| {
        thread.flush();
        thread.retire();
    });
    if let Some(mut output) = recorder().output() {
        output.finish();
    }
}

pub extern "C" fn system_call(
    _: PluginId,
    index: c_uint,
    number: i64,
    a: u64,
    b: u64,
    c: u64,
    d: u64,
    e: u64,
    f: u64,
    _: u64,
    _: u64,
) {
    calls::begin(index, number, [a, b, c, d, e, f]);
}

pub extern "C" fn system_call_result(_: PluginId, index: c_uint, number: i64, result: i64) {
    calls::end(index, number, result);
}

/// A block was translated: gives it a number and asks for the callbacks that it needs.
pub extern "C" fn translated(_: PluginId, block: *mut Block) {
    let recorder = recorder();
    if recorder.is_abandoned() {
        return;
    }
    // SAFETY: the block and its instructions are valid during this call, and only then.
    let mut instructions: Vec<_> = unsafe {
        let count = api::qemu_plugin_tb_n_insns(block);
        (0..count).map(|index| Instruction::new(api::qemu_plugin_tb_get_insn(block, index))).collect()
    };
    drop_lookahead(&mut instructions);
    let Some(first) = instructions.first() else { return };
    recorder.begun.call_once(|| begin_recording(recorder, first));
    let (definition, watched) = define(recorder, first.address, &instructions);
    let Some(number) = recorder.output().map(|mut output| output.number(&definition)) else { return };
    let count = watched.iter().filter(|&&watched| watched).count() as u32;
    // SAFETY: as above; the data of the callbacks is a number, not a pointer.
    unsafe {
        let data = (u64::from(count) << 32 | u64::from(number)) as *mut c_void;
        api::qemu_plugin_register_vcpu_tb_exec_cb(block, block_begins, api::NO_REGISTERS, data);
        for (instruction, watched) in instructions.iter().zip(watched) {
            if watched {
                watch(instruction);
            }
        }
        for (index, instruction) in instructions.iter().enumerate() {
            if recorder.memory {
                api::qemu_plugin_register_vcpu_mem_cb(
                    instruction.handle,
                    accessed,
                    api::NO_REGISTERS,
                    api::LOADS_AND_STORES,
                    index as *mut c_void,
                );
            }
        }
    }
}

struct Instruction {
    handle: *mut api::Instruction,
    address: u64,
    bytes: &'static [u8],
}

impl Instruction {
    /// # Safety
    /// The instruction must be of a block being translated, and the result must not outlive the translation.
    unsafe fn new(handle: *mut api::Instruction) -> Self {
        // SAFETY: the caller's promise. An instruction without bytes may have no data.
        unsafe {
            let size = api::qemu_plugin_insn_size(handle);
            let data = api::qemu_plugin_insn_data(handle);
            let bytes =
                if size == 0 || data.is_null() { &[] } else { std::slice::from_raw_parts(data, size) };
            Self { handle, address: api::qemu_plugin_insn_vaddr(handle), bytes }
        }
    }
}

/// Near the end of a page QEMU looks at the halfword behind an instruction, and counts it among its bytes.
fn drop_lookahead(instructions: &mut [Instruction]) {
    let mut next = None;
    for instruction in instructions.iter_mut().rev() {
        // No instruction of these targets is longer than 4 bytes.
        let distance = next.map_or(4, |next: u64| next.wrapping_sub(instruction.address));
        if distance < instruction.bytes.len() as u64 {
            instruction.bytes = &instruction.bytes[..distance as usize];
        }
        next = Some(instruction.address);
    }
}

/// The first block of the program: everything is mapped, and nothing has run.
fn begin_recording(recorder: &Recorder, first: &Instruction) {
    // SAFETY: the instruction is of the block being translated.
    let host = unsafe { api::qemu_plugin_insn_haddr(first.handle) };
    recorder.learn_base(first.address, host, first.bytes);
    if let (Some(base), Some(thread)) = (recorder.base(), thread::get(0)) {
        calls::initial_mappings(thread, recorder, base);
    }
}

/// The definition of a block, without its number, and which instructions are watched: those that may fault,
/// and, if one of them is not the last, the last, which begins only if the others have completed.
fn define(recorder: &Recorder, address: u64, instructions: &[Instruction]) -> (Vec<u8>, Vec<bool>) {
    let may_fault = |instruction: &Instruction| recorder.target.may_fault(instruction.bytes);
    let last = instructions.len().saturating_sub(1);
    let needed = recorder.watch && instructions[..last].iter().any(may_fault);
    let mut definition = Vec::with_capacity(12 + 5 * instructions.len());
    definition.extend_from_slice(&address.to_le_bytes());
    definition.extend_from_slice(&(instructions.len() as u32).to_le_bytes());
    let mut watched = Vec::with_capacity(instructions.len());
    for (index, instruction) in instructions.iter().enumerate() {
        let may_fault = may_fault(instruction);
        let watch = needed && (may_fault || index == last);
        let flags = if watch { WATCHED } else { 0 } | if may_fault { MAY_FAULT } else { 0 };
        definition.push(instruction.bytes.len() as u8 & 0x0F | flags);
        watched.push(watch);
    }
    for instruction in instructions {
        definition.extend_from_slice(instruction.bytes);
    }
    (definition, watched)
}

/// Counts an instruction when it begins: in translated code while there is one thread. QEMU translates
/// everything again when the second thread starts.
///
/// # Safety
/// The instruction must be of the block being translated.
unsafe fn watch(instruction: &Instruction) {
    let alone = (thread::started() == 1).then(|| thread::get(0)).flatten();
    // SAFETY: the caller's promise. The memory of the first thread's counter is never given back.
    unsafe {
        match alone {
            Some(thread) => api::qemu_plugin_register_vcpu_insn_exec_inline(
                instruction.handle,
                api::INLINE_ADD_U64,
                thread.begun(),
                1,
            ),
            None => api::qemu_plugin_register_vcpu_insn_exec_cb(
                instruction.handle,
                watched_begins,
                api::NO_REGISTERS,
                std::ptr::null_mut(),
            ),
        }
    }
}

extern "C" fn block_begins(index: c_uint, data: *mut c_void) {
    let data = data as u64;
    if let Some(thread) = thread::get(index) {
        thread.block(data as u32, (data >> 32) as u32);
    }
}

extern "C" fn watched_begins(index: c_uint, _: *mut c_void) {
    if let Some(thread) = thread::get(index) {
        thread.count();
    }
}

extern "C" fn accessed(index: c_uint, info: u32, address: u64, instruction: *mut c_void) {
    let Some(thread) = thread::get(index) else { return };
    let recorder = recorder();
    // SAFETY: `info` is what QEMU gave.
    let (shift, store) =
        unsafe { (api::qemu_plugin_mem_size_shift(info), api::qemu_plugin_mem_is_store(info)) };
    let base = recorder.base().filter(|_| recorder.values && shift <= 4);
    let first = event(ACCESS, access(instruction as u32, shift, store, base.is_some()));
    let (low, high) = (address as u32, (address >> 32) as u32);
    let Some(base) = base else { return thread.push(&[first, low, high]) };
    // Bits 63:56 of an AArch64 address may hold a tag.
    let place = if recorder.target == Target::Aarch64 { address & (u64::MAX >> 8) } else { address };
    let host = base.wrapping_add(place) as *const u32;
    // SAFETY: the program accessed this memory an instant ago, and it is the host's at this distance.
    unsafe {
        match shift {
            0 => thread.push(&[first, low, high, host.cast::<u8>().read().into()]),
            1 => thread.push(&[first, low, high, host.cast::<u16>().read_unaligned().into()]),
            2 => thread.push(&[first, low, high, host.read_unaligned()]),
            3 => {
                let value = host.cast::<[u32; 2]>().read_unaligned();
                thread.push(&[first, low, high, value[0], value[1]]);
            }
            _ => {
                let value = host.cast::<[u32; 4]>().read_unaligned();
                thread.push(&[first, low, high, value[0], value[1], value[2], value[3]]);
            }
        }
    }
}
