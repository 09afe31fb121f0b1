//! QEMU's plugin interface, version 1, as far as it is used here.
//!
//! The symbols are QEMU's own: they are found when QEMU loads the plugin.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// What `qemu_plugin_install` returns to be loaded.
pub const INSTALLED: c_int = 0;
/// What `qemu_plugin_install` returns to be refused.
pub const REFUSED: c_int = -1;

/// The callback reads and writes no guest registers.
pub const NO_REGISTERS: c_int = 0;
/// Both loads and stores are asked for.
pub const LOADS_AND_STORES: c_int = 3;
/// The inline operation of version 1: add a constant to a 64-bit number in memory.
pub const INLINE_ADD_U64: c_int = 0;

/// A system call that came back from a signal handler, as QEMU reports it.
pub const RESULT_SIGRETURN: i64 = -513;
/// A system call that a signal interrupted and that will be made again.
pub const RESULT_RESTART: i64 = -512;

pub type PluginId = u64;

/// A block being translated.
#[repr(C)]
pub struct Block {
    _opaque: [u8; 0],
}

/// An instruction of such a block.
#[repr(C)]
pub struct Instruction {
    _opaque: [u8; 0],
}

/// What QEMU tells at installation.
#[repr(C)]
pub struct Info {
    /// The target: `aarch64`, `arm`, `riscv64` …
    pub target_name: *const c_char,
    pub minimum_version: c_int,
    pub current_version: c_int,
    /// A whole system, rather than one program.
    pub system_emulation: bool,
}

pub type VcpuCallback = extern "C" fn(PluginId, c_uint);
pub type TranslationCallback = extern "C" fn(PluginId, *mut Block);
pub type ExecutionCallback = extern "C" fn(c_uint, *mut c_void);
pub type AccessCallback = extern "C" fn(c_uint, u32, u64, *mut c_void);
pub type SystemCallCallback = extern "C" fn(PluginId, c_uint, i64, u64, u64, u64, u64, u64, u64, u64, u64);
pub type SystemCallResultCallback = extern "C" fn(PluginId, c_uint, i64, i64);
pub type ExitCallback = extern "C" fn(PluginId, *mut c_void);

unsafe extern "C" {
    pub fn qemu_plugin_register_vcpu_init_cb(id: PluginId, callback: VcpuCallback);
    pub fn qemu_plugin_register_vcpu_exit_cb(id: PluginId, callback: VcpuCallback);
    pub fn qemu_plugin_register_vcpu_tb_trans_cb(id: PluginId, callback: TranslationCallback);
    pub fn qemu_plugin_register_vcpu_syscall_cb(id: PluginId, callback: SystemCallCallback);
    pub fn qemu_plugin_register_vcpu_syscall_ret_cb(id: PluginId, callback: SystemCallResultCallback);
    pub fn qemu_plugin_register_atexit_cb(id: PluginId, callback: ExitCallback, data: *mut c_void);
    pub fn qemu_plugin_register_vcpu_tb_exec_cb(
        block: *mut Block,
        callback: ExecutionCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_cb(
        instruction: *mut Instruction,
        callback: ExecutionCallback,
        flags: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_register_vcpu_insn_exec_inline(
        instruction: *mut Instruction,
        operation: c_int,
        number: *mut u64,
        addend: u64,
    );
    pub fn qemu_plugin_register_vcpu_mem_cb(
        instruction: *mut Instruction,
        callback: AccessCallback,
        flags: c_int,
        direction: c_int,
        data: *mut c_void,
    );
    pub fn qemu_plugin_tb_n_insns(block: *const Block) -> usize;
    pub fn qemu_plugin_tb_get_insn(block: *const Block, index: usize) -> *mut Instruction;
    pub fn qemu_plugin_insn_data(instruction: *const Instruction) -> *const u8;
    pub fn qemu_plugin_insn_size(instruction: *const Instruction) -> usize;
    pub fn qemu_plugin_insn_vaddr(instruction: *const Instruction) -> u64;
    pub fn qemu_plugin_insn_haddr(instruction: *const Instruction) -> *const u8;
    pub fn qemu_plugin_mem_size_shift(info: u32) -> c_uint;
    pub fn qemu_plugin_mem_is_store(info: u32) -> bool;
    pub fn qemu_plugin_path_to_binary() -> *const c_char;
}
