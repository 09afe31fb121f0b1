//! The tree of calls, as formats for people need it.

use super::Weight;
use crate::Profile;

/// The cost of each node, with all that it called.
pub(super) fn totals(profile: &Profile, weight: Weight) -> Vec<u64> {
    let mut totals: Vec<u64> = profile.calls.iter().map(|node| weight.of(node)).collect();
    // Callees come after their callers.
    for (number, node) in profile.calls.iter().enumerate().rev() {
        let total = totals.get(number).copied().unwrap_or(0);
        if let Some(sum) = node.parent.and_then(|parent| totals.get_mut(parent as usize)) {
            *sum += total;
        }
    }
    totals
}

/// The functions from a node up to the outermost.
pub(super) fn functions_of(profile: &Profile, node: u32) -> Vec<u32> {
    let mut functions = Vec::new();
    let mut next = Some(node);
    while let Some(node) = next.and_then(|number| profile.calls.get(number as usize)) {
        functions.extend(node.function);
        next = node.parent;
    }
    functions
}

/// The thread that each node belongs to, by its number among the threads.
pub(super) fn threads_of(profile: &Profile) -> Vec<Option<u32>> {
    let mut threads: Vec<Option<u32>> = vec![None; profile.calls.len()];
    for (thread, number) in profile.threads.iter().zip(0..) {
        if let Some(slot) = threads.get_mut(thread.node as usize) {
            *slot = Some(number);
        }
    }
    for (number, node) in profile.calls.iter().enumerate() {
        if threads[number].is_none() {
            threads[number] = node.parent.and_then(|parent| threads.get(parent as usize).copied().flatten());
        }
    }
    threads
}
