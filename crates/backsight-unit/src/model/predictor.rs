//! A branch predictor: outcomes by the address and the last outcomes (gshare, counters of two bits), indirect targets by
//! the last one, returns by a stack.

use backsight_core::{Address, Retired};
use backsight_isa::{Class, Instruction};

/// Entries of the stack of return addresses.
const RETURNS: usize = 16;
/// Entries of the table of targets.
const TARGETS: usize = 512;

/// A branch predictor.
#[derive(Debug)]
pub(super) struct Predictor {
    /// 0 and 1: not taken; 2 and 3: taken.
    counters: Vec<u8>,
    history: usize,
    targets: Vec<Address>,
    returns: [Address; RETURNS],
    depth: usize,
}

impl Predictor {
    /// A predictor with 2^`bits` counters, which knows nothing yet.
    pub fn new(bits: u32) -> Self {
        Self {
            counters: vec![1; 1 << bits],
            history: 0,
            targets: vec![Address(0); TARGETS],
            returns: [Address(0); RETURNS],
            depth: 0,
        }
    }

    /// An instruction was executed. Was it a branch that was predicted wrongly?
    pub fn is_wrong(&mut self, retired: &Retired, instruction: &Instruction) -> bool {
        let mut wrong = false;
        let is_branch = matches!(instruction.class, Class::DirectBranch | Class::IndirectBranch);
        if is_branch && instruction.flags.conditional {
            wrong = self.outcome(retired) != retired.taken;
        }
        if is_branch && retired.taken {
            if instruction.class == Class::IndirectBranch {
                wrong |= self.target(retired, instruction) != retired.next;
            }
            if instruction.flags.link {
                self.returns[self.depth % RETURNS] = retired.end();
                self.depth += 1;
            }
        }
        wrong
    }

    /// The outcome that was predicted; what it was is learnt.
    fn outcome(&mut self, retired: &Retired) -> bool {
        let index = ((retired.address.0 >> 1) as usize ^ self.history) % self.counters.len();
        let counter = &mut self.counters[index];
        let predicted = *counter >= 2;
        *counter = if retired.taken { (*counter + 1).min(3) } else { counter.saturating_sub(1) };
        self.history = (self.history << 1 | usize::from(retired.taken)) & (self.counters.len() - 1);
        predicted
    }

    /// The target that was predicted; what it was is learnt.
    fn target(&mut self, retired: &Retired, instruction: &Instruction) -> Address {
        if instruction.flags.returns {
            let Some(depth) = self.depth.checked_sub(1) else { return Address(0) };
            self.depth = depth;
            return self.returns[depth % RETURNS];
        }
        let entry = &mut self.targets[(retired.address.0 >> 1) as usize % TARGETS];
        std::mem::replace(entry, retired.next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::Isa;
    use backsight_isa::classify_retired;

    fn wrong(predictor: &mut Predictor, address: u64, opcode: u32, next: u64) -> bool {
        let taken = next != address + 4;
        let (address, next) = (Address(address), Address(next));
        let retired = Retired { address, next, cycle: 0, opcode, size: 4, isa: Isa::A64, taken };
        predictor.is_wrong(&retired, &classify_retired(&retired))
    }

    #[test]
    fn a_loop_is_wrong_at_first_and_where_it_ends() {
        let mut predictor = Predictor::new(4);
        // b.ne back to 0x1000
        let outcomes: Vec<bool> = (0..32)
            .map(|round| wrong(&mut predictor, 0x1010, 0x54FF_FF81, if round < 31 { 0x1000 } else { 0x1014 }))
            .collect();
        assert!(outcomes[0] && outcomes[31]);
        assert!(!outcomes[8..31].contains(&true), "{outcomes:?}");
    }

    #[test]
    fn returns_go_to_where_they_were_called_from_and_jumps_to_where_they_went_last() {
        let (bl, ret, br) = (0x9400_0400, 0xD65F_03C0, 0xD61F_0000);
        let mut predictor = Predictor::new(4);
        assert!(!wrong(&mut predictor, 0x1000, bl, 0x2000));
        assert!(!wrong(&mut predictor, 0x2000, ret, 0x1004));
        assert!(wrong(&mut predictor, 0x2000, ret, 0x1004), "the stack is empty");
        assert!(wrong(&mut predictor, 0x3000, br, 0x4000));
        assert!(!wrong(&mut predictor, 0x3000, br, 0x4000));
        assert!(wrong(&mut predictor, 0x3000, br, 0x5000));
    }
}
