//! Which instructions the trace speaks about.
//!
//! P0 instructions are branches, instruction barriers, and what the configuration adds: waits, transaction starts,
//! loads, stores. Most instructions are none, and are to cost next to nothing: in A64 three bits of the opcode tell
//! most of them apart, in A32 and T32 a small table remembers opcodes that were looked at.

use backsight_arm::etm4::Config;
use backsight_core::{Isa, Retired};
use backsight_isa::{Class, Instruction};

/// TCOMMIT: ends a transaction. No P0 instruction, but one that the trace speaks about.
const TCOMMIT: u32 = 0xD503_307F;

const REMEMBERED: usize = 1024;

pub(super) struct Classifier {
    wait: bool,
    transactions: bool,
    load: bool,
    store: bool,
    /// Opcodes of A32 and T32 that are nothing special; the instruction set is in the upper half.
    plain: Box<[u64; REMEMBERED]>,
}

/// What the unit must do for an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Plain,
    P0,
    TransactionCommit,
}

impl Classifier {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            wait: config.wfx_p0(),
            transactions: config.is_ete(),
            load: config.loads_p0(),
            store: config.stores_p0(),
            plain: Box::new([0; REMEMBERED]),
        }
    }

    /// Is it known at a quick look that the trace does not speak about the instruction?
    #[inline]
    pub(super) fn is_plain(&self, retired: &Retired) -> bool {
        if retired.isa == Isa::A64 {
            // Branches, barriers, hints and system instructions, old and new, have 101 in bits 28:26.
            return retired.opcode >> 26 & 7 != 0b101 && !self.load && !self.store;
        }
        self.plain[Self::slot(retired)] == Self::key(retired)
    }

    fn key(retired: &Retired) -> u64 {
        // Never 0, which an empty slot holds.
        let size_and_isa = u64::from(retired.size) << 8 | (retired.isa as u64 + 1);
        size_and_isa << 32 | u64::from(retired.opcode)
    }

    fn slot(retired: &Retired) -> usize {
        (retired.opcode.wrapping_mul(0x9E37_79B1) >> 22) as usize % REMEMBERED
    }

    /// What is to be done for the instruction.
    #[inline]
    pub(super) fn kind(&mut self, retired: &Retired, instruction: &Instruction) -> Kind {
        let flags = instruction.flags;
        let p0 = match instruction.class {
            Class::DirectBranch | Class::IndirectBranch | Class::Isb => true,
            Class::Wait => self.wait,
            Class::TransactionStart => self.transactions,
            Class::Other | Class::DataBarrier => flags.load && self.load || flags.store && self.store,
        };
        if p0 {
            return Kind::P0;
        }
        if self.transactions && retired.isa == Isa::A64 && retired.opcode == TCOMMIT {
            return Kind::TransactionCommit;
        }
        if retired.isa != Isa::A64 {
            self.plain[Self::slot(retired)] = Self::key(retired);
        }
        Kind::Plain
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::Address;
    use backsight_isa::classify_retired;
    use backsight_testing::Random;

    fn kind(classifier: &mut Classifier, retired: &Retired) -> Kind {
        classifier.kind(retired, &classify_retired(retired))
    }

    fn retired(opcode: u32, isa: Isa, size: u8) -> Retired {
        let (address, next) = (Address(0x1000), Address(0x1000 + u64::from(size)));
        Retired { address, next, cycle: 0, opcode, size, isa, taken: true }
    }

    #[test]
    fn an_instruction_that_is_plain_at_a_quick_look_is_plain() {
        let mut random = Random(3);
        let mut classifier = Classifier::new(&Config::ete_default());
        for _ in 0..200_000 {
            let opcode = random.next() as u32;
            let instruction = match random.below(4) {
                0 => retired(opcode, Isa::A64, 4),
                1 => retired(opcode, Isa::A32, 4),
                2 => retired(opcode | 0xE800_0000, Isa::T32, 4),
                _ => retired(opcode & 0xFFFF, Isa::T32, 2),
            };
            let quick = classifier.is_plain(&instruction);
            let plain = kind(&mut classifier, &instruction) == Kind::Plain;
            assert!(plain || !quick, "{instruction:x?}");
        }
    }

    #[test]
    fn plain_aarch32_opcodes_are_remembered() {
        let mut classifier = Classifier::new(&Config::etm4_default());
        let add = retired(0xE081_0002, Isa::A32, 4);
        assert!(!classifier.is_plain(&add));
        assert_eq!(kind(&mut classifier, &add), Kind::Plain);
        assert!(classifier.is_plain(&add));
        assert!(!classifier.is_plain(&retired(0xE081_0002, Isa::T32, 4)));
    }

    #[test]
    fn loads_and_stores_are_p0_where_the_configuration_says_so() {
        let mut config = Config::etm4_default();
        config.registers.configr |= 0b010;
        let mut classifier = Classifier::new(&config);
        let [load, store] = [0xF940_0000, 0xF900_0000].map(|opcode| retired(opcode, Isa::A64, 4));
        assert!(!classifier.is_plain(&load));
        assert_eq!(kind(&mut classifier, &load), Kind::P0);
        assert_eq!(kind(&mut classifier, &store), Kind::Plain);
    }
}
