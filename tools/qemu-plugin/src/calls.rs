//! System calls: what they do to the code in memory and to signals.

use std::ffi::{CStr, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Mutex;

use crate::event::{
    HANDLER, MAP, MAP_EXECUTABLE, MAP_PROGRAM, RESTART, SIGNAL_RETURN, SYSTEM_CALL, UNMAP, event,
};
use crate::mappings::{self, Mapping};
use crate::target::Call;
use crate::thread::{self, SystemCall, Thread};
use crate::{Recorder, api, inputs, outputs, recorder, replacement, system};

pub const MAP_ANONYMOUS: u64 = 0x20;
pub const FAILED: std::ops::Range<i64> = -4095..0;

/// Where executable memory is, as far as the stream has told: (address, length).
static CODE: Mutex<Vec<(u64, u64)>> = Mutex::new(Vec::new());

/// A system call is about to be made.
pub fn begin(index: u32, number: i64, arguments: [u64; 6]) {
    let recorder = recorder();
    if recorder.is_abandoned() {
        return;
    }
    let Some(thread) = thread::get(index) else { return };
    thread.push(&[event(SYSTEM_CALL, number as u32)]);
    thread.call = SystemCall { number, arguments, handler: None };
    match recorder.target.call(number) {
        Call::SignalAction if arguments[1] != 0 => thread.call.handler = recorder.pointer_at(arguments[1]),
        // If it succeeds, nothing of this process is left to write.
        Call::Execute => {
            thread.flush();
            replacement::replace(recorder, thread);
        }
        // What it did before is there, however it and its child end.
        Call::Fork if recorder.children.is_some() => thread.flush(),
        _ => {}
    }
}

/// A system call came back.
pub fn end(index: u32, number: i64, result: i64) {
    let recorder = recorder();
    if recorder.is_abandoned() {
        return;
    }
    let Some(thread) = thread::get(index) else { return };
    if thread.call.number == -1 {
        return;
    }
    match result {
        api::RESULT_SIGRETURN => return thread.push(&[event(SIGNAL_RETURN, 0)]),
        api::RESULT_RESTART => return thread.push(&[event(RESTART, 0)]),
        _ => {}
    }
    if let Some(streams) = &recorder.streams {
        outputs::record(thread, recorder, streams, result);
    }
    if recorder.inputs {
        inputs::record(thread, recorder, result);
    }
    if FAILED.contains(&result) || thread.call.number != number {
        return;
    }
    let [first, second, third, fourth, fifth, sixth] = thread.call.arguments;
    match recorder.target.call(number) {
        Call::SignalAction => {
            if let Some(handler) = thread.call.handler {
                thread.push(&[event(HANDLER, first as u32), handler as u32, (handler >> 32) as u32]);
                // It is the handler of all threads: what they write must come later.
                thread.flush();
            }
        }
        Call::Map { offset_unit } => {
            let address = result as u64;
            unmapped(thread, address, second);
            if third as u32 & MAP_EXECUTABLE != 0 {
                let anonymous = fourth & MAP_ANONYMOUS != 0;
                let path = if anonymous { Vec::new() } else { mappings::file_of(fifth) };
                let offset = sixth.wrapping_mul(offset_unit);
                mapped(thread, Mapping { address, length: second, offset, protection: third as u32, path });
            }
        }
        Call::Unmap => {
            unmapped(thread, first, second);
        }
        Call::Remap if unmapped(thread, first, second) => {
            made_executable(thread, recorder, result as u64, third, MAP_EXECUTABLE | 1);
        }
        Call::Protect if third as u32 & MAP_EXECUTABLE != 0 => {
            made_executable(thread, recorder, first, second, third as u32);
        }
        _ => {}
    }
}

/// In a forked child: nobody who is not here holds what is shared.
pub fn is_free() -> bool {
    CODE.try_lock().is_ok()
}

/// In a forked child: says what it has from its parent.
pub fn inherited(thread: &mut Thread, recorder: &Recorder) {
    if let Some(base) = recorder.base() {
        initial_mappings(thread, recorder, base);
    }
    thread.flush();
}

/// Tells what QEMU mapped before the program began.
pub fn initial_mappings(thread: &mut Thread, recorder: &Recorder, base: u64) {
    let listing = mappings::listing();
    let program = program_path();
    for mut mapping in mappings::of_program(&listing, recorder.target, base) {
        if mapping.path == program {
            mapping.protection |= MAP_PROGRAM;
        }
        mapped(thread, mapping);
    }
}

/// The program, as the kernel lists it.
pub fn program_path() -> Vec<u8> {
    // SAFETY: QEMU gives a string or nothing.
    let path = unsafe {
        let path = api::qemu_plugin_path_to_binary();
        if path.is_null() {
            return Vec::new();
        }
        CStr::from_ptr(path)
    };
    mappings::canonical(Path::new(OsStr::from_bytes(path.to_bytes())))
}

/// Memory that was there already became executable: its file is in the kernel's listing.
fn made_executable(thread: &mut Thread, recorder: &Recorder, address: u64, length: u64, protection: u32) {
    let covered = |&(start, size): &(u64, u64)| {
        start <= address && address.saturating_add(length) <= start.saturating_add(size)
    };
    if CODE.lock().is_ok_and(|code| code.iter().any(covered)) {
        return;
    }
    let listing = mappings::listing();
    let host = address.wrapping_add(recorder.base().unwrap_or(0));
    let (path, offset) = match mappings::covering(&listing, host) {
        Some(mapping) if mapping.path.starts_with(b"/") => {
            (mapping.path.clone(), mapping.offset + (host - mapping.address))
        }
        _ => (Vec::new(), 0),
    };
    mapped(thread, Mapping { address, length, offset, protection, path });
}

fn mapped(thread: &mut Thread, mapping: Mapping) {
    if let Ok(mut code) = CODE.lock() {
        code.push((mapping.address, mapping.length));
    }
    let mut record = Vec::with_capacity(32 + mapping.path.len());
    record.extend_from_slice(&event(MAP, mapping.protection).to_le_bytes());
    for number in [mapping.address, mapping.length, mapping.offset] {
        record.extend_from_slice(&number.to_le_bytes());
    }
    record.extend_from_slice(&(mapping.path.len() as u32).to_le_bytes());
    record.extend_from_slice(&mapping.path);
    thread.push_bytes(&record);
    // Other threads may run the new code: what they write must come later.
    thread.flush();
}

/// Tells that memory is gone, if there was code in it.
fn unmapped(thread: &mut Thread, address: u64, length: u64) -> bool {
    let end = address.saturating_add(length);
    let Ok(mut code) = CODE.lock() else { return false };
    let before = code.clone();
    code.clear();
    let mut hit = false;
    for (start, size) in before {
        let stop = start.saturating_add(size);
        if stop <= address || end <= start {
            code.push((start, size));
            continue;
        }
        hit = true;
        if start < address {
            code.push((start, address - start));
        }
        if end < stop {
            code.push((end, stop - end));
        }
    }
    drop(code);
    if hit {
        let halves = [address, length].map(|number| [number as u32, (number >> 32) as u32]);
        let [[a, b], [c, d]] = halves;
        thread.push(&[event(UNMAP, 0), a, b, c, d]);
        thread.flush();
    }
    hit
}

impl Recorder {
    /// Reads a pointer of the program's memory.
    pub fn pointer_at(&self, address: u64) -> Option<u64> {
        self.number_at(address, self.target.pointer())
    }

    /// Reads a number of the program's memory.
    pub fn number_at(&self, address: u64, size: usize) -> Option<u64> {
        let mut bytes = [0; 8];
        let read = system::read_memory(self.base()?.wrapping_add(address), &mut bytes[..size]);
        (read == size).then(|| u64::from_le_bytes(bytes))
    }
}
