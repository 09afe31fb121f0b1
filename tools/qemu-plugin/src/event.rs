//! The words of a thread's stream.
//!
//! A word with its top bit clear is the number of a block that began to execute. The others are events: the
//! kind in bits 30:24, an argument in bits 23:0, and the words that the kind asks for.

/// The block before it stopped at the watched instruction of this number, which did not complete.
pub const CUT: u32 = 1;
/// A load or store; the argument is [`access`], then address (2 words), then the value (1 to 4 words) if known.
pub const ACCESS: u32 = 2;
/// The system call just made returned from a signal handler.
pub const SIGNAL_RETURN: u32 = 3;
/// The system call just made was interrupted and will be made again.
pub const RESTART: u32 = 4;
/// The handler of signal (argument) is now at an address (2 words); bit 0 says Thumb on Arm.
pub const HANDLER: u32 = 5;
/// Memory was mapped: argument = protection; address, length, offset (2 words each), length of the path, path.
pub const MAP: u32 = 6;
/// Code was unmapped: address, length (2 words each).
pub const UNMAP: u32 = 7;
/// The thread ended.
pub const EXIT: u32 = 8;
/// The last instruction of the block before makes the system call of this number.
pub const SYSTEM_CALL: u32 = 9;
/// What the system call just made returned (2 words).
pub const RESULT: u32 = 10;
/// The system call just made wrote so many bytes (argument) to memory: address (2 words), the bytes.
pub const WRITTEN: u32 = 11;
/// The system call just made cleared memory: address, length (2 words each).
pub const CLEARED: u32 = 12;

/// The system call just made wrote so many bytes (argument, bits 22:0) to standard output or error: the bytes.
pub const OUTPUT: u32 = 13;

/// In the argument of [`OUTPUT`]: standard error.
pub const OUTPUT_ERROR: u32 = 1 << 23;
/// In the argument of [`MAP`]: readable, writable, executable as in `mmap`.
pub const MAP_EXECUTABLE: u32 = 4;
/// In the argument of [`MAP`]: whether it is executable is not known.
pub const MAP_MAYBE_EXECUTABLE: u32 = 8;
/// In the argument of [`MAP`]: it is the program itself.
pub const MAP_PROGRAM: u32 = 16;

/// The first word of an event.
pub const fn event(kind: u32, argument: u32) -> u32 {
    1 << 31 | kind << 24 | argument & 0x00FF_FFFF
}

/// The argument of [`ACCESS`]: index of the instruction in its block, binary logarithm of the size.
pub const fn access(index: u32, size_shift: u32, store: bool, known: bool) -> u32 {
    index & 0x1FF | (size_shift & 7) << 9 | (store as u32) << 12 | (known as u32) << 13
}
