//! Static RV64 programs.

use std::fmt;

use backsight_image::elf_headers::{
    ElfHeaderError, ElfHeaders, ElfIdentity, PF_X, PT_INTERP, PT_LOAD, ProgramHeader,
};

/// Why a file cannot be run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElfError {
    /// It does not begin with `7F 45 4C 46`.
    NotElf,
    /// A 32-bit program.
    Not64Bit,
    /// A big-endian program.
    NotLittleEndian,
    /// For another processor: its `e_machine`.
    WrongMachine(u16),
    /// An object file, core file or library: its `e_type`.
    NotExecutable(u16),
    /// It wants a dynamic linker.
    Dynamic,
    /// The file ends before this offset.
    Truncated(u64),
    /// The program header with this number makes no sense.
    BadSegment(u16),
    /// Nothing to load.
    NoSegments,
    /// The first instruction is in no segment that may be executed.
    BadEntry(u64),
    /// Its memory is larger than the simulator may use.
    TooLarge,
}

impl fmt::Display for ElfError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotElf => f.write_str("not an ELF file"),
            Self::Not64Bit => f.write_str("a 32-bit program; expected 64-bit RISC-V"),
            Self::NotLittleEndian => f.write_str("a big-endian program; expected little-endian RISC-V"),
            Self::WrongMachine(machine) => {
                let name = match machine {
                    3 => " (x86)",
                    40 => " (Arm)",
                    62 => " (x86-64)",
                    183 => " (AArch64)",
                    _ => "",
                };
                write!(f, "a program for machine {machine}{name}; expected 243 (RISC-V)")
            }
            Self::NotExecutable(kind) => write!(f, "not a program: ELF type {kind}; expected an executable"),
            Self::Dynamic => f.write_str("a dynamically linked program; link it with -static to run it here"),
            Self::Truncated(offset) => write!(f, "truncated: nothing at offset {offset:#x}"),
            Self::BadSegment(number) => {
                write!(f, "program header {number} is corrupt: its sizes or addresses make no sense")
            }
            Self::NoSegments => f.write_str("nothing to load: no program header of type LOAD"),
            Self::BadEntry(entry) => write!(f, "the entry point {entry:#x} is not in executable code"),
            Self::TooLarge => f.write_str("needs more memory than the simulator may use"),
        }
    }
}

impl std::error::Error for ElfError {}

/// A part of the file to be loaded into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment<'a> {
    /// Where it goes.
    pub address: u64,
    /// Bytes in memory; what the file does not give is zero.
    pub size: u64,
    /// What the file gives.
    pub bytes: &'a [u8],
    /// `p_flags`: 1 execute, 2 write, 4 read.
    pub flags: u32,
}

/// A program, as far as loading it goes.
#[derive(Clone, Debug)]
pub struct Elf<'a> {
    /// Its first instruction.
    pub entry: u64,
    /// What to load into memory.
    pub segments: Vec<Segment<'a>>,
    /// Address of the program headers in memory, 0 if they are not loaded.
    pub headers: u64,
    /// Number of program headers.
    pub header_count: u16,
    /// What was added to every address of the file: not 0 for position-independent programs.
    pub bias: u64,
    /// It executes code on its stack (functions inside functions do).
    pub executable_stack: bool,
}

/// Where position-independent programs go.
const PIE_BASE: u64 = 0x2A_AAAA_A000;
/// The end of what a program may occupy: above are its heap, mappings and stack.
const HIGHEST: u64 = 0x30_0000_0000;
const GNU_STACK: u32 = 0x6474_E551;
const RISCV: u16 = 243;

impl From<ElfHeaderError> for ElfError {
    fn from(error: ElfHeaderError) -> Self {
        match error {
            ElfHeaderError::NotElf => Self::NotElf,
            ElfHeaderError::Class(_) => Self::Not64Bit,
            ElfHeaderError::Encoding(_) => Self::NotLittleEndian,
            ElfHeaderError::Truncated(offset) => Self::Truncated(offset),
            ElfHeaderError::HeaderSize(_) => Self::BadSegment(0),
        }
    }
}

impl<'a> Elf<'a> {
    /// Takes a file apart.
    pub fn parse(file: &'a [u8]) -> Result<Self, ElfError> {
        let identity = ElfIdentity::parse(file)?;
        if !identity.wide {
            return Err(ElfError::Not64Bit);
        }
        if !identity.little_endian {
            return Err(ElfError::NotLittleEndian);
        }
        if identity.machine != RISCV {
            return Err(ElfError::WrongMachine(identity.machine));
        }
        let bias = match identity.file_type {
            2 => 0,
            3 => PIE_BASE,
            other => return Err(ElfError::NotExecutable(other)),
        };
        let headers = ElfHeaders::parse(file)?;
        let mut elf = Self {
            entry: headers.entry.wrapping_add(bias),
            segments: Vec::new(),
            headers: 0,
            header_count: headers.programs.len() as u16,
            bias,
            executable_stack: false,
        };
        for (number, header) in headers.programs.iter().enumerate() {
            match header.kind {
                PT_LOAD => elf.add(file, header, headers.table, number as u16, bias)?,
                PT_INTERP => return Err(ElfError::Dynamic),
                GNU_STACK => elf.executable_stack = header.flags & PF_X != 0,
                _ => {}
            }
        }
        elf.check()?;
        Ok(elf)
    }

    fn add(
        &mut self,
        file: &'a [u8],
        header: &ProgramHeader,
        table: u64,
        number: u16,
        bias: u64,
    ) -> Result<(), ElfError> {
        let bad = ElfError::BadSegment(number);
        let ProgramHeader { flags, offset, file_size, memory_size: size, .. } = *header;
        let address = header.address.wrapping_add(bias);
        let end = address.checked_add(size).ok_or(bad)?;
        if file_size > size || end > HIGHEST {
            return Err(bad);
        }
        let last = offset.checked_add(file_size).ok_or(bad)?;
        let bytes = usize::try_from(offset)
            .ok()
            .zip(usize::try_from(last).ok())
            .and_then(|(first, last)| file.get(first..last))
            .ok_or(ElfError::Truncated(last))?;
        if size == 0 {
            return Ok(());
        }
        if (offset..last).contains(&table) {
            self.headers = address + (table - offset);
        }
        self.segments.push(Segment { address, size, bytes, flags });
        Ok(())
    }

    fn check(&self) -> Result<(), ElfError> {
        if self.segments.is_empty() {
            return Err(ElfError::NoSegments);
        }
        let executable = self.segments.iter().any(|segment| {
            segment.flags & PF_X != 0
                && (segment.address..segment.address + segment.size).contains(&self.entry)
        });
        if executable { Ok(()) } else { Err(ElfError::BadEntry(self.entry)) }
    }
}
