//! Stops where memory is read or written.

use std::collections::BTreeSet;

use super::search::Direction;
use super::state::{At, State, Touch};

/// Memory to stop at when it is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Watchpoint {
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub length: u64,
    /// What has to be done to any of them.
    pub touch: Touch,
}

impl Watchpoint {
    /// The bytes.
    pub(super) fn addresses(&self) -> std::ops::Range<u64> {
        self.address..self.address.saturating_add(self.length)
    }
}

/// The nearest instruction that touches watched memory: from a place on, or before it.
pub(super) fn nearest(
    state: &mut dyn State,
    at: At,
    direction: Direction,
    watchpoints: &BTreeSet<Watchpoint>,
) -> Option<(u64, Watchpoint)> {
    let found = watchpoints.iter().filter_map(|watchpoint| {
        let Watchpoint { touch, .. } = *watchpoint;
        let access = match direction {
            Direction::Forwards => state.next_access_after(at, watchpoint.addresses(), touch),
            Direction::Backwards => state.last_access_before(at, watchpoint.addresses(), touch),
        };
        Some((access?.instruction, *watchpoint))
    });
    match direction {
        Direction::Forwards => found.min_by_key(|found| found.0),
        Direction::Backwards => found.max_by_key(|found| found.0),
    }
}
