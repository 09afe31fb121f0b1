//! Random programs, and random walks through them.
//!
//! A program is code that could run: functions of plain instructions, branches, calls and returns, and exception
//! handlers. A walk goes through it from instruction to instruction; the code says where it can go, chance where it
//! goes. What comes out is the truth that traces are checked against.

#![allow(dead_code, reason = "each test uses a part")]

pub mod accesses;
pub mod blocks;
pub mod decode;
mod emit;
pub mod snapshot;
mod walk;

use backsight_core::{Address, AddressSpace, Isa};
use backsight_testing::Random;
#[allow(unused_imports, reason = "each test uses a part")]
pub use walk::{Walk, Walker};

/// What the program is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flavour {
    /// A64 only.
    A64,
    /// A32 and T32, calling each other.
    AArch32,
}

/// Code in memory.
pub struct Program {
    pub flavour: Flavour,
    pub segments: Vec<(u64, Vec<u8>)>,
    /// Functions, by entry and instruction set.
    pub functions: Vec<(Address, Isa)>,
    /// Where exceptions are handled.
    pub handlers: Vec<(Address, Isa)>,
}

impl Program {
    /// A program of some dozens of functions, near and far from each other, half of it branches.
    pub fn random(seed: u64, flavour: Flavour, transactions: bool) -> Self {
        Self::with_blocks(seed, flavour, transactions, 0)
    }

    /// The same with up to `plain` instructions more between two others.
    pub fn with_blocks(seed: u64, flavour: Flavour, transactions: bool, plain: u64) -> Self {
        let random = &mut Random(seed);
        let isa = |random: &mut Random| match flavour {
            Flavour::A64 => Isa::A64,
            Flavour::AArch32 if random.below(2) == 0 => Isa::A32,
            Flavour::AArch32 => Isa::T32,
        };
        let mut functions = Vec::new();
        for cluster in [0x0001_0000, 0x0040_0000, 0x0043_0020] {
            for slot in 0..8 {
                functions.push((Address(cluster + slot * 0x1000), isa(random)));
            }
        }
        let far = if flavour == Flavour::A64 { 0xFFFF_8000_1234_0000 } else { 0x8123_0000 };
        let handlers: Vec<_> = (0..3).map(|slot| (Address(far + slot * 0x1000), isa(random))).collect();
        if flavour == Flavour::A64 {
            functions.extend((0..3).map(|slot| (Address(0x7F_1234_5000 + slot * 0x1000), Isa::A64)));
        }
        let mut segments = Vec::new();
        for (index, &(at, isa)) in functions.iter().chain(&handlers).enumerate() {
            let handler = index >= functions.len();
            let code =
                emit::function(random, (at, isa), &functions, emit::Style { handler, transactions, plain });
            segments.push((at.0, code));
        }
        Self { flavour, segments, functions, handlers }
    }
}

impl backsight_image::Code for Program {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        self.segments.iter().find_map(|(base, bytes)| {
            let offset = usize::try_from(address.0.checked_sub(*base)?).ok()?;
            bytes.get(offset..).filter(|rest| !rest.is_empty())
        })
    }
}
