//! How the scheme is built: its parameters, three sizes, and the state that each has.

use super::estimate;
use super::history::{self, Context};
use super::predictor::{self, LEVELS};
use super::states::Machine;
use super::targets;

/// How the scheme is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mix {
    /// States of each context.
    pub table: u32,
    /// Bits of a state: 3 to 7.
    pub state: u8,
    /// Bits of a tag that says which context a state belongs to; 0 for none.
    pub tag_bits: u8,
    /// Contexts of recent events of all branches: how many events each has. The first should be 0: the branch alone.
    pub events: [u16; 16],
    /// Contexts of the iterations of the innermost loop and of recent events: how many.
    pub iterations: [u16; 2],
    /// Contexts of recent outcomes of this branch.
    pub locals: [u16; 3],
    /// Contexts of the path: how many steps each has.
    pub paths: [u16; 4],
    /// A context of this branch's runs: whether the run at hand is as long as the last one.
    pub loops: bool,
    /// A context of how long this branch's last runs were.
    pub runs: bool,
    /// Branches whose own outcomes and runs are kept.
    pub branches: u16,
    /// How wrong, in 1/65536, the mix must be for contexts with a history to learn.
    pub surprise: u16,
    /// How fast weights adapt, in 1/4096.
    pub rate: u8,
    /// How certain the first four contexts have to be for a bit to be coded without the others, in 1/8 of the stretched domain;
    /// 0: they never are.
    pub certain: u8,
    /// Sets of weights chosen by address.
    pub sets: u16,
    /// There are also sets of weights by the last outcomes and by the match, and what all give is mixed again.
    pub layers: bool,
    /// Branches for which the mix is refined.
    pub refined: u16,
    /// Return addresses.
    pub returns: u16,
    /// Targets in the dictionary.
    pub targets: u16,
    /// log2 of the events among which repeats are looked for; 0: none are.
    pub buffer_bits: u8,
    /// log2 of the places where a repeat may begin.
    pub start_bits: u8,
    /// Bits of an address.
    pub address_bits: u32,
}

/// How many of the lengths are used.
pub(super) fn used(lengths: &[u16]) -> impl Iterator<Item = u16> + '_ {
    lengths.iter().copied().filter(|&length| length != Mix::UNUSED)
}

/// Most inputs of a mixer.
pub(super) const MOST: usize = 32;

impl Mix {
    /// No context.
    pub const UNUSED: u16 = u16::MAX;

    /// At most 1 KB of state.
    pub const SMALL: Self = Self {
        table: 574,
        state: 3,
        tag_bits: 0,
        events: list([0, 5]),
        iterations: list([0]),
        locals: list([]),
        paths: list([]),
        loops: false,
        runs: false,
        branches: 0,
        surprise: 7864,
        rate: 20,
        certain: 0,
        sets: 2,
        layers: false,
        refined: 0,
        returns: 8,
        targets: 64,
        buffer_bits: 0,
        start_bits: 0,
        address_bits: 64,
    };

    /// At most 8 KB of state.
    pub const MEDIUM: Self = Self {
        table: 1460,
        state: 4,
        events: list([0, 3, 6, 10, 16, 28, 48]),
        iterations: list([]),
        loops: true,
        branches: 100,
        surprise: 1966,
        certain: 48,
        sets: 32,
        returns: 16,
        targets: 128,
        ..Self::SMALL
    };

    /// At most 1 MB of state.
    pub const LARGE: Self = Self {
        table: 30000,
        state: 7,
        tag_bits: 8,
        events: list([0, 4, 14, 60, 2, 8, 22, 34, 120, 300]),
        iterations: list([0]),
        locals: list([10]),
        paths: list([8]),
        loops: true,
        runs: true,
        surprise: 400,
        certain: 48,
        branches: 1024,
        sets: 512,
        layers: true,
        refined: 256,
        returns: 64,
        targets: 256,
        buffer_bits: 16,
        start_bits: 14,
        ..Self::SMALL
    };

    /// Can it be built?
    pub fn check(&self) -> Result<(), &'static str> {
        if !(16..=1 << 16).contains(&self.table) || !Machine::has(self.state) || self.tag_bits > 8 {
            return Err("contexts have 16 to 65536 states of 3 to 7 bits, and tags of at most 8");
        }
        if self.contexts().count() == 0 || self.inputs() > MOST {
            return Err("there are 1 to 30 contexts");
        }
        let longest = used(&self.events).chain(used(&self.iterations)).chain(used(&self.paths)).max();
        if longest > Some(4096) || used(&self.locals).max() > Some(16) {
            return Err("at most 4096 events or steps and 16 outcomes of a branch are kept");
        }
        if self.targets > 4096 || self.returns > 4096 || self.sets > 4096 || self.refined > 4096 {
            return Err("there are at most 4096 targets, returns, sets of weights and refined branches");
        }
        let kept = self.buffer_bits == 0 || (6..=24).contains(&self.buffer_bits);
        if !kept || self.start_bits > 24 {
            return Err("repeats are looked for among 2^6 to 2^24 events, from at most 2^24 places");
        }
        crate::check_address_bits(self.address_bits)
    }

    /// What the contexts are made of, in their order.
    pub(super) fn contexts(&self) -> impl Iterator<Item = Context> + '_ {
        used(&self.events)
            .map(Context::Events)
            .chain(used(&self.iterations).map(Context::Iterations))
            .chain(used(&self.locals).map(Context::Local))
            .chain(self.loops.then_some(Context::Loop))
            .chain(self.runs.then_some(Context::Runs))
            .chain(used(&self.paths).map(Context::Path))
    }

    /// Inputs of a mixer: contexts, what a match says, and one that is always there.
    pub(super) fn inputs(&self) -> usize {
        self.contexts().count() + usize::from(self.buffer_bits > 0) + 1
    }

    /// Bits of state: everything that changes. Addresses count as 32 bits.
    pub fn state_bits(&self) -> u64 {
        let contexts = self.contexts().count() as u64;
        let states = Machine::get(self.state).len() as u64;
        let longest = |lengths: &[u16]| u64::from(used(lengths).max().unwrap_or(0));
        let inputs = self.inputs() as u64;
        let matched = self.buffer_bits > 0;
        let number = u64::from(crate::log2_up(u32::from(self.targets) + 4));

        let tables = contexts * u64::from(self.table) * u64::from(self.state + self.tag_bits);
        // That of nothing seen stays as it is.
        let meanings = contexts * (states - 1) * 22;
        let sure = if self.certain > 0 { predictor::SURE_GROUPS as u64 * estimate::BITS } else { 0 };
        let more_sets = if self.layers { predictor::OUTCOME_SETS + predictor::MATCH_SETS } else { 0 };
        let first = if self.certain > 0 { contexts.min(predictor::FIRST as u64) + 1 } else { 0 };
        let weights = (u64::from(self.sets.max(1)) * (inputs + first) + more_sets as u64 * inputs)
            * predictor::WEIGHT_BITS
            + if self.layers { predictor::LAST_SETS as u64 * 3 * 19 } else { 0 };
        let refined = u64::from(self.refined) * predictor::STEPS as u64 * 22;
        // An event is an outcome or eight bits of a target; of each length there is a hash.
        let events = longest(&self.events).max(longest(&self.iterations)) * 9 + contexts * 32;
        let iterations =
            if used(&self.iterations).next().is_none() { 0 } else { 32 + history::ITERATION_BITS };
        let runs = if self.loops || self.runs { 3 * history::RUN_BITS } else { 0 };
        let local = u64::from(self.branches) * (longest(&self.locals) + u64::from(runs));
        let path = longest(&self.paths) * 16;
        let returns = u64::from(self.returns) * 32 + 12 + 2 * estimate::BITS;
        // Targets with their registers; the hand; whether a target is in; the last one in full.
        let regions = targets::REGIONS as u64 * u64::from(32 - targets::LOW);
        let targets = u64::from(self.targets) * targets::ENTRY_BITS + regions + 12 + 4 * estimate::BITS + 32;
        let matches = if matched {
            (number << self.buffer_bits)
                + ((u64::from(self.buffer_bits) + 4) << self.start_bits)
                + 4 * LEVELS as u64 * estimate::BITS
                + 2 * 32
                + 16
        } else {
            0
        };
        // Random numbers and the coder.
        let rest = 32 + 128;
        tables
            + meanings
            + sure
            + weights
            + refined
            + events
            + u64::from(iterations)
            + local
            + path
            + returns
            + targets
            + matches
            + rest
    }
}

/// A list of fixed length from one that may be shorter.
const fn list<const N: usize, const M: usize>(lengths: [u16; N]) -> [u16; M] {
    let mut all = [Mix::UNUSED; M];
    let mut at = 0;
    while at < N {
        all[at] = lengths[at];
        at += 1;
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_size_keeps_within_its_state() {
        for (build, bytes) in [(Mix::SMALL, 1 << 10), (Mix::MEDIUM, 8 << 10), (Mix::LARGE, 1 << 20)] {
            assert_eq!(build.check(), Ok(()));
            assert!(build.state_bits() <= bytes * 8, "{} of {bytes} bytes", build.state_bits().div_ceil(8));
        }
    }
}
