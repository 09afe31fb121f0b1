//! Text of instructions, for people to read. Nothing decides anything by it.

mod a64;
mod aarch32;
mod addresses;
mod it_block;
mod riscv;

use backsight_core::{Address, AddressSpace, Isa};
use backsight_isa::{Class, classify};

use crate::{Code, Image};
use addresses::Addresses;
use it_block::ItBlock;

/// The instruction at the start of `bytes`, as an assembler would read it; branches name their target. What is no
/// instruction is shown as data. A T32 instruction is taken to be outside of an IT block: where that may be wrong, a
/// [`Disassembler`] knows more.
pub fn disassemble(isa: Isa, bytes: &[u8], address: Address) -> String {
    Disassembler::default().disassemble(isa, bytes, address).text
}

/// The bytes of an instruction as manuals and listings write them: one hexadecimal number, or two half-words for the
/// long instructions of T32.
pub fn encoding(isa: Isa, bytes: &[u8]) -> String {
    let number = |bytes: &[u8]| bytes.iter().rev().map(|byte| format!("{byte:02x}")).collect::<String>();
    match (isa, bytes) {
        (Isa::T32, [_, _, _, _]) => format!("{} {}", number(&bytes[..2]), number(&bytes[2..])),
        _ => number(bytes),
    }
}

/// Text of instructions, given in the order of their addresses or of their execution.
///
/// What an instruction means may depend on those before it: in T32 an IT instruction gives conditions to those that
/// follow, and in A64 and RISC-V two instructions together form an address. This remembers what is needed of them,
/// and forgets it where the next address is not the one that follows.
#[derive(Clone, Debug, Default)]
pub struct Disassembler {
    next: Option<(Isa, Address)>,
    block: ItBlock,
    addresses: Addresses,
}

/// An instruction as text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disassembly {
    /// As an assembler would read it, addresses as numbers.
    pub text: String,
    /// Its size in bytes.
    pub size: u8,
    /// The address that it leads to, loads from or computes, where that is known from the code alone: targets of
    /// branches, `adr`, `adrp`, `auipc`, loads relative to the program counter, and what follows an `adrp` or
    /// `auipc` and adds to its result.
    pub target: Option<Address>,
}

impl Disassembly {
    /// The text, with the name of the address that it speaks of: `bl 0x401000 <puts@plt>`. An address that the
    /// operands do not spell out is added: `ld a0, 16(a0) # 0x12010 <table>`.
    pub fn with_name(&self, name: impl FnOnce(Address) -> Option<String>) -> String {
        let Some(target) = self.target else { return self.text.clone() };
        let spelled = self.text.ends_with(&format!(" {:#x}", target.0));
        match (spelled, name(target)) {
            (true, Some(name)) => format!("{} <{name}>", self.text),
            (true, None) => self.text.clone(),
            (false, Some(name)) => format!("{} # {:#x} <{name}>", self.text, target.0),
            (false, None) => format!("{} # {:#x}", self.text, target.0),
        }
    }
}

impl Disassembler {
    /// The instruction at `address`; `None` where there is no code. Where it does not follow the last one, what its
    /// function has before it says whether it is in an IT block: an exception may return into the middle of one.
    pub fn disassemble_at(
        &mut self,
        isa: Isa,
        code: &impl Code,
        names: &Image,
        space: AddressSpace,
        address: Address,
    ) -> Option<Disassembly> {
        let (opcode, length) = code.opcode_at(space, address);
        if length == 0 {
            return None;
        }
        if isa == Isa::T32 && self.next != Some((isa, address)) {
            self.restart(isa, address);
            self.block = it_block::before(code, names, space, address);
        }
        Some(self.disassemble(isa, &opcode[..length], address))
    }

    /// The instruction at the start of `bytes`.
    pub fn disassemble(&mut self, isa: Isa, bytes: &[u8], address: Address) -> Disassembly {
        if self.next != Some((isa, address)) {
            self.restart(isa, address);
        }
        let size = size(isa, bytes).min(bytes.len());
        let bytes = &bytes[..size];
        let branch = classify(isa, bytes, address).filter(|instruction| instruction.is_branch());
        let direct = branch.filter(|branch| branch.class == Class::DirectBranch).map(|branch| branch.target);
        let text = match (isa, bytes) {
            (Isa::A64, &[a, b, c, d]) => a64::text(u32::from_le_bytes([a, b, c, d]), address),
            (Isa::A32, &[_, _, _, _]) => aarch32::a32(bytes, address, direct),
            (Isa::T32, &[_, _] | &[_, _, _, _]) => {
                aarch32::t32(bytes, address, direct, self.block.condition())
            }
            (Isa::Rv32 | Isa::Rv64, _) => riscv::text(isa == Isa::Rv64, bytes, address),
            _ => None,
        };
        if let (Isa::T32, Some(first)) = (isa, bytes.first_chunk()) {
            self.block = self.block.after(u16::from_le_bytes(*first));
        }
        self.next = Some((isa, address.plus(size as u64)));
        let target =
            text.as_ref().and_then(|text| direct.or_else(|| self.addresses.find(isa, text, address)));
        if branch.is_some_and(|branch| branch.flags.link || !branch.flags.conditional) {
            self.addresses = Addresses::default();
        }
        Disassembly { text: text.unwrap_or_else(|| data(bytes)), size: size as u8, target }
    }

    fn restart(&mut self, isa: Isa, address: Address) {
        *self = Self { next: Some((isa, address)), ..Self::default() };
    }
}

fn size(isa: Isa, bytes: &[u8]) -> usize {
    let Some(first) = bytes.first_chunk().map(|first| u16::from_le_bytes(*first)) else { return bytes.len() };
    match isa {
        Isa::A64 | Isa::A32 => 4,
        Isa::T32 | Isa::ThumbEe => usize::from(backsight_isa::t32::size(first)),
        Isa::Jazelle => 1,
        Isa::Rv32 | Isa::Rv64 => usize::from(backsight_isa::rv::size(first)),
    }
}

fn data(bytes: &[u8]) -> String {
    match *bytes {
        [a, b, c, d] => format!(".word {:#010x}", u32::from_le_bytes([a, b, c, d])),
        [a, b] => format!(".half {:#06x}", u16::from_le_bytes([a, b])),
        _ => format!(".byte {bytes:02x?}"),
    }
}
