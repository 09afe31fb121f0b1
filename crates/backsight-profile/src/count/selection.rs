//! Some of what was executed, in place of all of it: samples, or what a filter lets through.

use super::blocks::{Blocks, NONE, Way};
use super::calls::Tree;
use super::hash::NumberMap;

/// A step to a block.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    /// The block before; [`NONE`] if that is not known.
    pub from: u32,
    pub way: Way,
    pub block: u32,
    /// The innermost call.
    pub node: u32,
    pub instructions: u32,
    /// It is the first of a call.
    pub is_call: bool,
}

/// The counts of steps that were selected.
#[derive(Debug, Default)]
pub(crate) struct Selection {
    pub edges: NumberMap<(u32, u32, u8), u64>,
    pub entries: NumberMap<u32, u64>,
    nodes: NumberMap<u32, (u64, u64)>,
}

impl Selection {
    pub fn add(&mut self, step: Step) {
        match step.from {
            NONE => *self.entries.entry(step.block).or_default() += 1,
            from => *self.edges.entry((from, step.block, step.way as u8)).or_default() += 1,
        }
        let (calls, instructions) = self.nodes.entry(step.node).or_default();
        *calls += u64::from(step.is_call);
        *instructions += u64::from(step.instructions);
    }

    /// Adds what was selected in the next part of the source, whose blocks and nodes have these numbers here.
    pub fn join(&mut self, later: Self, blocks: &[u32], nodes: &[u32]) {
        let number = |numbers: &[u32], old: u32| numbers.get(old as usize).copied().unwrap_or(NONE);
        for ((from, to, way), count) in later.edges {
            *self.edges.entry((number(blocks, from), number(blocks, to), way)).or_default() += count;
        }
        for (block, count) in later.entries {
            *self.entries.entry(number(blocks, block)).or_default() += count;
        }
        for (node, (calls, instructions)) in later.nodes {
            let sums = self.nodes.entry(number(nodes, node)).or_default();
            *sums = (sums.0 + calls, sums.1 + instructions);
        }
    }

    /// A node was called.
    pub fn add_call(&mut self, node: u32) {
        self.nodes.entry(node).or_default().0 += 1;
    }

    /// Puts what was selected in place of what was counted.
    pub fn replace(&self, blocks: &mut Blocks, tree: &mut Tree) {
        for edge in &mut blocks.edges {
            edge.count = self.edges.get(&(edge.from, edge.to, edge.way as u8)).copied().unwrap_or(0);
        }
        for (block, number) in blocks.blocks.iter_mut().zip(0..) {
            block.entries = self.entries.get(&number).copied().unwrap_or(0);
        }
        for (node, number) in tree.nodes.iter_mut().zip(0..) {
            (node.calls, node.instructions) = self.nodes.get(&number).copied().unwrap_or((0, 0));
        }
    }
}
