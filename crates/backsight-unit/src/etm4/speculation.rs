//! A front end that guesses.
//!
//! A processor that predicts branches hands instructions to its trace unit before it knows that they belong to the
//! program. With a maximum speculation depth above 0 the unit traces them at once, and takes them back: Cancel says
//! that the newest elements never happened, Mispredict that the newest atom was the other one, Commit that the oldest
//! elements are final. The model here guesses wrong at a given rate and makes up what it would have traced on the
//! wrong path: atoms, addresses, exceptions.

use super::packer::{Location, Packer, Taken};
use super::port::Output;
use backsight_core::Address;

/// How a front end guesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrontEnd {
    /// Start of its random numbers: the same seed gives the same trace.
    pub seed: u64,
    /// How many of 256 atoms it gets wrong.
    pub wrong: u8,
    /// Most elements that it traces on a wrong path.
    pub longest_path: u8,
}

impl Default for FrontEnd {
    fn default() -> Self {
        Self { seed: 1, wrong: 16, longest_path: 8 }
    }
}

pub(super) struct Speculation {
    front_end: FrontEnd,
    state: u64,
}

impl Speculation {
    pub(super) fn new(front_end: FrontEnd) -> Self {
        Self { front_end, state: front_end.seed | 1 }
    }

    /// xorshift: any sequence will do, as long as it is the same each time.
    fn below(&mut self, bound: u32) -> u32 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        ((self.state >> 32) as u32) % bound.max(1)
    }

    /// The atom of the P0 instruction at `at`, with the guesses around it.
    pub(super) fn atom(&mut self, executed: bool, at: Location, packer: &mut Packer, out: &mut impl Output) {
        if self.below(256) >= u32::from(self.front_end.wrong) {
            packer.atom(executed, out);
        } else {
            self.wrong_guess(executed, at, packer, out);
        }
        if self.below(16) == 0 {
            packer.flush(out);
            let count = self.below(packer.depth() + 1);
            packer.commit(count, out);
        }
    }

    fn wrong_guess(&mut self, executed: bool, at: Location, packer: &mut Packer, out: &mut impl Output) {
        // The branch itself must still be open when it is put right.
        let longest = packer.max_speculation().saturating_sub(1).min(self.front_end.longest_path.into());
        let length = self.below(longest + 1);
        match self.below(3) {
            0 => {
                packer.atom(!executed, out);
                if length == 0 && self.below(2) == 0 {
                    packer.address(self.elsewhere(at), None, out);
                }
                self.wrong_path(length, at, packer, out);
                packer.cancel(length, true, out);
            }
            1 => {
                packer.atom(executed, out);
                self.wrong_path(length, at, packer, out);
                packer.cancel(length + 1, false, out);
                packer.atom(executed, out);
            }
            _ => {
                packer.atom(executed, out);
                self.wrong_path(length, at, packer, out);
                if length > 0 {
                    packer.cancel(length, false, out);
                }
            }
        }
    }

    /// Elements that will be cancelled. Addresses among them come after the first: before it they would stay.
    fn wrong_path(&mut self, length: u32, at: Location, packer: &mut Packer, out: &mut impl Output) {
        for done in 0..length {
            if done > 0 && self.below(8) == 0 {
                packer.address(self.elsewhere(at), None, out);
            }
            if self.below(16) == 0 {
                let back_to = self.elsewhere(at);
                packer.exception(Taken { number: 0x0E, back_to, at_target: false }, None, out);
            } else {
                let executed = self.below(4) != 0;
                packer.atom(executed, out);
            }
        }
    }

    fn elsewhere(&mut self, at: Location) -> Location {
        let spread = [6, 10, 15, 20][self.below(4) as usize];
        let distance = u64::from(self.below(1 << spread)) << 2;
        Location { address: Address(at.address.0 ^ distance), isa: at.isa }
    }
}
