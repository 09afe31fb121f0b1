//! Kinds of program.

use std::fmt;

use backsight_core::Isa;
use backsight_image::elf_headers::ElfIdentity;

/// What kind of program it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Target {
    /// 64-bit Arm.
    Aarch64,
    /// 32-bit Arm, A32 and T32.
    Arm,
    /// 64-bit RISC-V.
    Riscv64,
}

impl Target {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Riscv64, Self::Aarch64, Self::Arm];

    /// The name that QEMU has for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
            Self::Riscv64 => "riscv64",
        }
    }

    /// The target of an ELF file, from its first bytes; `None` if it is no little-endian ELF file of a known machine.
    pub fn of_elf(file: &[u8]) -> Option<Self> {
        let identity = ElfIdentity::parse(file).ok().filter(|identity| identity.little_endian)?;
        match (identity.machine, identity.wide) {
            (183, true) => Some(Self::Aarch64),
            (40, false) => Some(Self::Arm),
            (243, true) => Some(Self::Riscv64),
            _ => None,
        }
    }

    /// Why a file is none of them, and what would be, in words.
    pub fn refusal(file: &[u8]) -> String {
        let found = match ElfIdentity::parse(file) {
            Err(_) => "no ELF file".to_owned(),
            Ok(identity) if !identity.little_endian => "a big-endian program".to_owned(),
            Ok(identity) => match (identity.machine, identity.wide) {
                (3, _) => "a program for x86 (32 bits)".to_owned(),
                (62, _) => "a program for x86-64".to_owned(),
                (40, true) | (183, false) => "a program for an Arm ABI that is not supported".to_owned(),
                (243, _) => "a program for riscv32".to_owned(),
                (machine, _) => format!("a program for machine {machine} of ELF"),
            },
        };
        format!(
            "{found}; only programs for riscv64, aarch64 or arm run here, in the simulator or under QEMU: build it for one of \
             them, as with `aarch64-linux-gnu-gcc -static`"
        )
    }

    /// The instruction set that programs start in, unless they are T32 from the first instruction on.
    pub const fn first_isa(self) -> Isa {
        match self {
            Self::Aarch64 => Isa::A64,
            Self::Arm => Isa::A32,
            Self::Riscv64 => Isa::Rv64,
        }
    }

    /// The instruction set, if there is only one.
    pub(crate) const fn isa(self) -> Option<Isa> {
        match self {
            Self::Arm => None,
            target => Some(target.first_isa()),
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
