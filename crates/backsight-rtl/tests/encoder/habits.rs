//! Habits of programs that the tables of an encoder live by.

use backsight_riscv::etrace::Params;
use backsight_riscv::ingress::{Block, Itype};
use backsight_testing::Random;

/// What programs do again and again, for the tables of encoders that have any: returns to where calls were made, also
/// hundreds of them in a row; branches that always go the same way; a few targets of jumps.
pub struct Habits {
    params: Params,
    /// Where the calls under way return to.
    calls: Vec<u64>,
    /// Branches at one address, all of which go this way.
    steady: (u32, u64, Itype),
    /// Calls, then returns, that are still to be made in a row.
    deep: (u32, u32),
}

/// Calls that an encoder can keep, as a power of two.
pub fn levels(params: &Params) -> u32 {
    u32::from(params.return_stack_size) + u32::from(params.call_counter_size)
}

impl Habits {
    /// A long stream begins with calls and returns in a row.
    pub fn new(params: &Params, count: usize) -> Self {
        let deep = if levels(params) >= 9 && count >= 800 { (280, 280) } else { (0, 0) };
        Self { params: *params, calls: Vec::new(), steady: (0, 0, Itype::None), deep }
    }

    /// Is a habit under way that a gap would end?
    pub const fn is_busy(&self) -> bool {
        self.steady.0 > 0 || self.deep.0 > 0 || self.deep.1 > 0
    }

    /// How the next block, of so many half-words, ends and where it begins, if a habit says so.
    pub fn next(
        &mut self,
        random: &mut Random,
        before: &Block,
        iretire: u32,
    ) -> (Option<Itype>, Option<u64>) {
        let Params { bpred_size, cache_size, .. } = self.params;
        let levels = levels(&self.params);
        let mut begins = None;
        if levels > 0 && before.itype == Itype::Return {
            begins = self.calls.pop().filter(|_| self.deep.1 > 0 || random.below(4) != 0);
        } else if cache_size > 0 && before.itype.is_uninferable() && random.below(8) != 0 {
            begins = Some(self.params.wrap(0x1234_5678 + 0x7777_0135_790A * random.below(5)));
        }
        if let (calls @ 1.., returns) = self.deep {
            self.deep = (calls - 1, returns);
            // Many calls are the same one again and again.
            let again = (levels >= 9).then_some(0x4000 - 2 * u64::from(iretire));
            return (Some(Itype::InferableCall), begins.or(again));
        }
        if self.deep.1 > 0 {
            self.deep.1 -= 1;
            return (Some(Itype::Return), begins);
        }
        if let (left @ 1.., address, itype) = self.steady {
            self.steady.0 = left - 1;
            return (Some(itype), begins.or(Some(address)));
        }
        if bpred_size > 0 && random.below(60) == 0 {
            let itype = [Itype::Taken, Itype::NotTaken][random.below(2) as usize];
            self.steady = (40 + random.below(140) as u32, 0x2000 + 2 * random.below(1 << bpred_size), itype);
        } else if levels >= 9 && random.below(800) == 0 {
            self.deep = (280, 280);
        } else if (1..9).contains(&levels) && random.below(25) == 0 {
            self.deep = (6, 6);
        }
        ((cache_size > 0 && random.below(4) == 0).then_some(Itype::UninferableJump), begins)
    }

    pub fn note(&mut self, block: &Block) {
        if block.itype.is_call() {
            self.calls.push(self.params.wrap(block.end()));
        }
    }
}
