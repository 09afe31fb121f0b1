//! The kernel: enough of Linux for statically linked programs of one thread.
//!
//! Everything is repeatable unless the host is asked for: time passes by one nanosecond per instruction, random
//! numbers and process numbers are always the same, standard streams are always pipes. Signals that a program
//! sends to itself end it as their default action says, or are ignored; handlers are never called.

mod errno;
mod files;
mod image;
mod maps;
mod paths;
mod system;

pub use files::Streams;

use crate::elf::{Elf, ElfError};
use crate::environment::After;
use crate::hart::Hart;
use crate::memory::Memory;
use crate::simulator::{Clock, Exit, Options};
use errno::Errno;
use files::Files;
use std::collections::BTreeMap;

const A0: u8 = 10;
const A7: u8 = 17;

/// The state of the kernel for one process.
pub struct Kernel {
    files: Files,
    host_files: bool,
    /// The name it was started by.
    program: String,
    clock: Clock,
    /// Nanoseconds that the program asked to sleep.
    slept: u64,
    heap_start: u64,
    heap_end: u64,
    /// Executable mappings changed in this call.
    code_changed: bool,
    /// Bit n: signal n is ignored.
    ignored: u64,
    random: u64,
    unknown: BTreeMap<u64, u64>,
}

impl Kernel {
    /// Loads a program: makes its memory, and the hart that begins to execute it.
    pub fn load(elf: &Elf<'_>, options: Options) -> Result<(Self, Memory, Hart), ElfError> {
        let mut memory = Memory::new(options.memory);
        let heap = image::place_program(&mut memory, elf, options.memory)?;
        let sp = image::place_stack(&mut memory, elf, &options.arguments, &options.variables)?;
        let mut hart = Hart::default();
        hart.pc = elf.entry;
        hart.set_x(2, sp);
        let kernel = Self {
            files: Files::new(options.streams),
            host_files: options.host_files,
            program: options.arguments.into_iter().next().unwrap_or_default(),
            clock: options.clock,
            slept: 0,
            heap_start: heap,
            heap_end: heap,
            code_changed: false,
            ignored: 0,
            random: 0x6261_636B_7369_6768,
            unknown: BTreeMap::new(),
        };
        Ok((kernel, memory, hart))
    }

    /// The numbers of system calls that are not implemented, and how often each was called.
    pub fn unknown(&self) -> &BTreeMap<u64, u64> {
        &self.unknown
    }

    /// Does what the registers ask for.
    pub fn call(&mut self, memory: &mut Memory, hart: &mut Hart) -> After {
        let number = hart.x(A7);
        let a: [u64; 6] = core::array::from_fn(|n| hart.x(A0 + n as u8));
        self.code_changed = false;
        let result = match number {
            93 | 94 => return After::Exit(Exit::Status(a[0] as u8)),
            129..=131 => match self.kill(number, a) {
                Ok(Some(signal)) => return After::Exit(Exit::Signal(signal)),
                Ok(None) => Ok(0),
                Err(errno) => Err(errno),
            },
            _ => self.serve(memory, hart.retired, number, a),
        };
        hart.set_x(
            A0,
            match result {
                Ok(value) => value,
                Err(Errno(errno)) => i64::from(-errno) as u64,
            },
        );
        if self.code_changed { After::CodeChanged } else { After::Continue }
    }

    fn serve(&mut self, memory: &mut Memory, retired: u64, number: u64, a: [u64; 6]) -> Result<u64, Errno> {
        match number {
            17 => self.current_directory(memory, a),
            23 => self.files.duplicate(a[0], 0),
            24 => self.files.duplicate_to(a[0], a[1]),
            25 => self.file_control(a),
            29 => self.files.get(a[0]).and(Err(Errno::NOTTY)),
            34 => self.make_directory(memory, a),
            35 => self.unlink(memory, a),
            38 | 276 => self.rename(memory, a),
            46 => self.files.truncate(a[0], a[1]),
            48 | 439 => self.access(memory, a),
            56 => self.open(memory, a),
            57 => self.files.close(a[0]),
            61 => self.directory_entries(memory, a),
            62 => self.files.seek(a[0], a[1] as i64, a[2]),
            63 => self.files.read(memory, a[0], a[1], a[2], None),
            64 => self.files.write(memory, a[0], a[1], a[2], None),
            65 => self.files.vectors(memory, a[0], a[1], a[2], |files, memory, address, length| {
                files.read(memory, a[0], address, length, None)
            }),
            66 => self.files.vectors(memory, a[0], a[1], a[2], |files, memory, address, length| {
                files.write(memory, a[0], address, length, None)
            }),
            67 => self.files.read(memory, a[0], a[1], a[2], Some(a[3])),
            68 => self.files.write(memory, a[0], a[1], a[2], Some(a[3])),
            78 => self.read_link(memory, a),
            79 => self.stat(memory, a),
            80 => self.stat_descriptor(memory, a[0], a[1]),
            // fchmod, fchmodat, fchown, sync, fsync, fdatasync, utimensat: nothing that the program could see.
            52 | 53 | 55 | 81 | 82 | 83 | 88 => Ok(0),
            214 => self.set_break(memory, a[0]),
            215 => self.unmap(memory, a[0], a[1]),
            216 => self.remap(memory, a),
            222 => self.map(memory, a),
            226 => self.protect(memory, a),
            259 => {
                self.code_changed = true;
                Ok(0)
            }
            _ => self.serve_system(memory, retired, number, a),
        }
    }

    fn file_control(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        const DUPLICATE: u64 = 0;
        const DUPLICATE_CLOSE_ON_EXEC: u64 = 1030;
        self.files.get(a[0])?;
        match a[1] {
            DUPLICATE | DUPLICATE_CLOSE_ON_EXEC => self.files.duplicate(a[0], a[2]),
            // Descriptor and status flags: nothing is ever executed, nothing waits.
            1 | 2 | 4 => Ok(0),
            3 => Ok(2),
            _ => Err(Errno::INVAL),
        }
    }
}
