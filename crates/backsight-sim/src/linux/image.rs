//! The memory of a program that is about to start: segments, heap, stack with arguments and auxiliary vector.

use super::signals::TRAMPOLINE;
use crate::elf::{Elf, ElfError};
use crate::memory::{END, Memory, PAGE, Protection};

/// The stack ends here.
pub const STACK_TOP: u64 = END - 0x10_0000;
/// Bytes of stack.
pub const STACK_SIZE: u64 = 8 << 20;
/// Mappings are made below.
pub const MAPPINGS_TOP: u64 = STACK_TOP - STACK_SIZE - 0x10_0000;

/// The page with the code that signal handlers return to.
pub const KERNEL_CODE: u64 = STACK_TOP + 0x8_0000;

/// Entries of the auxiliary vector.
const AT_PHDR: u64 = 3;
const AT_PHENT: u64 = 4;
const AT_PHNUM: u64 = 5;
const AT_PAGESZ: u64 = 6;
const AT_BASE: u64 = 7;
const AT_FLAGS: u64 = 8;
const AT_ENTRY: u64 = 9;
const AT_UID: u64 = 11;
const AT_EUID: u64 = 12;
const AT_GID: u64 = 13;
const AT_EGID: u64 = 14;
const AT_HWCAP: u64 = 16;
const AT_CLKTCK: u64 = 17;
const AT_SECURE: u64 = 23;
const AT_RANDOM: u64 = 25;
const AT_EXECFN: u64 = 31;

/// A, C, D, F, I, M: one bit per letter.
const HWCAP: u64 = 1 | 1 << 2 | 1 << 3 | 1 << 5 | 1 << 8 | 1 << 12;

/// The same "random" bytes for every run.
const RANDOM: [u8; 16] = *b"backsight random";

/// Rounds up to whole pages.
pub fn page_end(address: u64) -> u64 {
    address.saturating_add(PAGE - 1) & !(PAGE - 1)
}

fn protection(flags: u32) -> Protection {
    Protection { read: flags & 4 != 0, write: flags & 2 != 0, execute: flags & 1 != 0, backed: true }
}

/// Loads the segments; gives the end of the last one, where the heap begins.
pub fn load_program(memory: &mut Memory, elf: &Elf<'_>, limit: u64) -> Result<u64, ElfError> {
    let total = elf.segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.size));
    if total > limit {
        return Err(ElfError::TooLarge);
    }
    let mut last = 0;
    for segment in &elf.segments {
        let start = segment.address & !(PAGE - 1);
        let end = page_end(segment.address + segment.size);
        // Segments may share a page: the later one decides what may be done there, and keeps its contents.
        let fresh = start.max(last);
        if fresh < end {
            memory.map(fresh, end, protection(segment.flags));
        }
        if start < fresh {
            memory.protect(start, fresh.min(end), protection(segment.flags));
        }
        memory.initialize(segment.address, segment.bytes).map_err(|_| ElfError::TooLarge)?;
        if segment.flags & 1 != 0 {
            memory.know_code(segment.address, segment.bytes);
        }
        last = last.max(end);
    }
    Ok(last)
}

/// Puts the code that signal handlers return to where the program can execute it.
pub fn load_trampoline(memory: &mut Memory) -> Result<(), ElfError> {
    let protection = Protection { read: true, write: false, execute: true, backed: true };
    memory.map(KERNEL_CODE, KERNEL_CODE + PAGE, protection);
    memory.initialize(KERNEL_CODE, &TRAMPOLINE).map_err(|_| ElfError::TooLarge)
}

/// Writes downwards from the top of the stack.
struct Stack<'a> {
    memory: &'a mut Memory,
    pointer: u64,
}

impl Stack<'_> {
    fn push(&mut self, bytes: &[u8]) -> Result<u64, ElfError> {
        let address = self.pointer.checked_sub(bytes.len() as u64).ok_or(ElfError::TooLarge)?;
        self.memory.write(address, bytes).map_err(|_| ElfError::TooLarge)?;
        self.pointer = address;
        Ok(address)
    }

    fn push_text(&mut self, text: &str) -> Result<u64, ElfError> {
        self.push(&[0])?;
        self.push(text.as_bytes())
    }
}

/// Makes the stack; gives the stack pointer.
pub fn build_stack(
    memory: &mut Memory,
    elf: &Elf<'_>,
    arguments: &[String],
    variables: &[String],
) -> Result<u64, ElfError> {
    let protection = Protection { execute: elf.executable_stack, ..Protection::DATA };
    memory.map(STACK_TOP - STACK_SIZE, STACK_TOP, protection);
    let mut stack = Stack { memory, pointer: STACK_TOP - 8 };
    let name = stack.push_text(arguments.first().map_or("program", String::as_str))?;
    let variables: Vec<u64> =
        variables.iter().rev().map(|text| stack.push_text(text)).collect::<Result<_, _>>()?;
    let arguments: Vec<u64> =
        arguments.iter().rev().map(|text| stack.push_text(text)).collect::<Result<_, _>>()?;
    stack.pointer &= !15;
    let random = stack.push(&RANDOM)?;

    let mut words = vec![arguments.len() as u64];
    words.extend(arguments.iter().rev());
    words.push(0);
    words.extend(variables.iter().rev());
    words.push(0);
    for (kind, value) in [
        (AT_PHDR, elf.headers),
        (AT_PHENT, 56),
        (AT_PHNUM, u64::from(elf.header_count)),
        (AT_PAGESZ, PAGE),
        (AT_BASE, 0),
        (AT_FLAGS, 0),
        (AT_ENTRY, elf.entry),
        (AT_UID, 1000),
        (AT_EUID, 1000),
        (AT_GID, 1000),
        (AT_EGID, 1000),
        (AT_HWCAP, HWCAP),
        (AT_CLKTCK, 100),
        (AT_RANDOM, random),
        (AT_SECURE, 0),
        (AT_EXECFN, name),
        (0, 0),
    ] {
        words.extend([kind, value]);
    }
    // The stack pointer is a multiple of 16, and points at the number of arguments.
    if words.len() % 2 != 0 {
        words.push(0);
    }
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    stack.push(&bytes)
}
