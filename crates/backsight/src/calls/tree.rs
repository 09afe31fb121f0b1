//! What each function cost, by who called it.

use std::collections::BTreeMap;

use backsight_core::Address;

use super::{Cost, Visit};

/// Most nodes of a tree: what does not fit is added to the caller.
const MOST_NODES: usize = 1 << 16;

/// Deepest calls that have nodes of their own.
const DEEPEST: usize = 256;

/// A function, called by the same chain of callers.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name; the first address that was executed, where the image has none.
    pub name: String,
    /// Callers around it.
    pub depth: usize,
    /// How often it was called.
    pub calls: u64,
    /// What it cost, without what it called.
    pub own: Cost,
    /// What it cost, with all that it called.
    pub total: Cost,
    /// By the beginning of their functions.
    callees: BTreeMap<Address, usize>,
}

/// Adds up the stays in functions by who called them.
#[derive(Clone, Debug, Default)]
pub struct CallTree {
    nodes: Vec<Node>,
    /// The functions that nobody is known to have called.
    roots: BTreeMap<Address, usize>,
    /// The nodes of the calls under way.
    path: Vec<usize>,
    /// Stays that were added to a caller, for want of room.
    folded: u64,
}

impl CallTree {
    /// Adds a stay.
    pub fn add(&mut self, visit: &Visit<'_>) {
        self.path.truncate(visit.depth.min(DEEPEST));
        let key = visit.function.symbol.map_or(visit.function.address, |symbol| symbol.start);
        let caller = self.path.last().copied();
        let callees = match caller.and_then(|caller| self.nodes.get(caller)) {
            Some(node) => &node.callees,
            None => &self.roots,
        };
        let known = callees.get(&key).copied();
        let is_full = visit.depth > DEEPEST || self.nodes.len() >= MOST_NODES;
        let index = match (known, caller) {
            (Some(index), _) => index,
            (None, Some(caller)) if is_full => {
                self.folded += 1;
                caller
            }
            (None, _) => self.new_node(key, caller, visit),
        };
        if let Some(node) = self.nodes.get_mut(index) {
            node.own += visit.own;
            node.calls += u64::from(visit.is_entry && Some(index) != caller);
        }
        self.path.push(index);
    }

    fn new_node(&mut self, key: Address, caller: Option<usize>, visit: &Visit<'_>) -> usize {
        let name = visit.function.to_string();
        let index = self.nodes.len();
        let (own, total, callees) = Default::default();
        self.nodes.push(Node { name, depth: self.path.len(), calls: 0, own, total, callees });
        let siblings = match caller.and_then(|caller| self.nodes.get_mut(caller)) {
            Some(node) => &mut node.callees,
            None => &mut self.roots,
        };
        siblings.insert(key, index);
        index
    }

    /// Stays that were added to their caller: there were too many different chains of calls.
    pub fn folded(&self) -> u64 {
        self.folded
    }

    /// Every node after its caller; among those of one caller, the most expensive first.
    pub fn nodes(&self) -> Vec<Node> {
        let mut totals: Vec<Cost> = self.nodes.iter().map(|node| node.own).collect();
        // Callees are made after their callers.
        for (index, node) in self.nodes.iter().enumerate().rev() {
            for &callee in node.callees.values() {
                let total = totals.get(callee).copied().unwrap_or_default();
                totals[index] += total;
            }
        }
        let mut sorted = Vec::with_capacity(self.nodes.len());
        let mut left: Vec<usize> = by_cost(&self.roots, &totals);
        while let Some(index) = left.pop() {
            let (Some(node), Some(total)) = (self.nodes.get(index), totals.get(index)) else { continue };
            sorted.push(Node { total: *total, ..node.clone() });
            left.extend(by_cost(&node.callees, &totals));
        }
        sorted
    }
}

/// The cheapest first: they are taken from the end.
fn by_cost(nodes: &BTreeMap<Address, usize>, totals: &[Cost]) -> Vec<usize> {
    let mut nodes: Vec<usize> = nodes.values().copied().collect();
    nodes.sort_by_key(|&index| (totals.get(index).map(|total| total.instructions), std::cmp::Reverse(index)));
    nodes
}
