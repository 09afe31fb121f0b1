//! Loops: which code goes around together, how loops are inside of each other, and how often they go around.

mod nesting;
mod pieces;

use std::collections::BTreeMap;

use crate::Profile;
use nesting::{FoundLoop, Graph, LoopKind};
use pieces::{Arrivals, Pieces};

/// A loop that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The number of its function.
    pub function: u32,
    /// Where it is entered, in its file's own numbering.
    pub address: u64,
    /// A block that begins there, or goes through it.
    pub header: u32,
    /// The loop around it, by its number.
    pub parent: Option<usize>,
    /// Loops around it.
    pub depth: u32,
    /// Blocks that lie in it, in whole or in part, those of inner loops included.
    pub blocks: Vec<u32>,
    /// How often execution came into it from outside.
    pub entries: u64,
    /// How often its body was executed. Where nothing leaves the loop at its end, a test at its beginning is not the body:
    /// when it leaves the loop, that is no iteration.
    pub iterations: u64,
    /// It is entered at several places: the address is one of them.
    pub is_irreducible: bool,
}

impl Loop {
    /// Iterations for each time that it was entered.
    pub fn iterations_per_entry(&self) -> f64 {
        self.iterations as f64 / self.entries.max(1) as f64
    }
}

impl Profile {
    /// The loops of all functions; every loop comes after the one around it.
    pub fn loops(&self) -> Vec<Loop> {
        let mut by_function: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (block, number) in self.blocks.iter().zip(0..) {
            by_function.entry(block.function).or_default().push(number);
        }
        let mut arrivals = Arrivals::of(self);
        let mut loops = Vec::new();
        for (function, blocks) in by_function {
            let start = self.functions.get(function as usize).and_then(|function| function.start);
            loops_of(function, start, &arrivals.pieces(function, &blocks), &mut loops);
        }
        loops
    }
}

/// Finds the loops of a function.
fn loops_of(function: u32, start: Option<u64>, pieces: &Pieces, loops: &mut Vec<Loop>) {
    let mut graph = Graph::new(pieces.nodes.len());
    let mut has_predecessor = vec![false; pieces.nodes.len()];
    for (from, piece) in pieces.nodes.iter().enumerate() {
        for &(to, _) in piece.successors.iter().filter(|(to, _)| *to > 0) {
            graph.add(from, to);
            has_predecessor[to] |= to != from;
        }
    }
    for (node, piece) in pieces.nodes.iter().enumerate().skip(1) {
        if piece.is_entered || Some(piece.start) == start || !has_predecessor[node] {
            graph.add(0, node);
        }
    }
    let is_unknown = |node: &usize| pieces.nodes[*node].unknown > 0;
    graph.reach_all((1..pieces.nodes.len()).filter(is_unknown));
    graph.reach_all(1..pieces.nodes.len());
    let nesting = graph.nesting();
    let mut position: Vec<usize> = Vec::new();
    let mut body = Body { of: vec![usize::MAX; pieces.nodes.len()], number: 0, pieces };
    for found in &nesting {
        let parent = found.parent.and_then(|parent| position.get(parent).copied());
        position.push(loops.len());
        body.enter(found);
        let depth = parent.and_then(|parent| loops.get(parent)).map_or(0, |around| around.depth + 1);
        loops.push(Loop {
            function,
            address: pieces.nodes[found.header].start,
            header: pieces.nodes[found.header].block,
            parent,
            depth,
            blocks: body.blocks(found),
            entries: body.entries(found),
            iterations: body.iterations(found),
            is_irreducible: found.kind == LoopKind::Irreducible,
        });
    }
}

/// Which nodes are in the loop that is looked at.
struct Body<'p> {
    /// The last loop that each node was found in.
    of: Vec<usize>,
    number: usize,
    pieces: &'p Pieces,
}

impl Body<'_> {
    fn enter(&mut self, found: &FoundLoop) {
        self.number += 1;
        found.nodes.iter().for_each(|&node| self.of[node] = self.number);
    }

    fn has(&self, node: usize) -> bool {
        self.of[node] == self.number
    }

    fn blocks(&self, found: &FoundLoop) -> Vec<u32> {
        let mut blocks: Vec<u32> =
            found.nodes.iter().flat_map(|&node| self.pieces.nodes[node].ends.iter().copied()).collect();
        blocks.sort_unstable();
        blocks.dedup();
        blocks
    }

    /// Executions of its nodes that no other of its nodes led to. Where something is missing, it is not known whether
    /// execution came from outside.
    fn entries(&self, found: &FoundLoop) -> u64 {
        let nodes = || found.nodes.iter().map(|&node| &self.pieces.nodes[node]);
        let executed: u128 = nodes().map(|piece| u128::from(piece.count)).sum();
        let inside: u128 = nodes()
            .flat_map(|piece| &piece.successors)
            .filter(|(to, _)| self.has(*to))
            .map(|(_, count)| u128::from(*count))
            .sum();
        let unknown: u128 = nodes().map(|piece| u128::from(piece.unknown)).sum();
        executed.saturating_sub(inside).saturating_sub(unknown) as u64
    }

    /// A loop that nothing leaves at its end is left by a test at its beginning, or from its middle.
    fn iterations(&self, found: &FoundLoop) -> u64 {
        let nodes = &self.pieces.nodes;
        let executed = nodes[found.header].count;
        let leaves = |node: usize| nodes[node].successors.iter().any(|(to, _)| !self.has(*to));
        let mut ends = found
            .nodes
            .iter()
            .filter(|&&node| nodes[node].successors.iter().any(|(to, _)| *to == found.header));
        if ends.any(|&end| leaves(end) || nodes[end].has_unseen_outcome) {
            return executed;
        }
        // The test ends the first piece after which execution has a choice.
        let (mut test, mut steps) = (found.header, 0);
        while let [(next, _)] = nodes[test].successors[..]
            && self.has(next)
            && !nodes[test].has_unseen_outcome
            && steps < found.nodes.len()
        {
            (test, steps) = (next, steps + 1);
        }
        let left = nodes[test].successors.iter().filter(|(to, _)| !self.has(*to)).map(|(_, count)| count);
        executed.saturating_sub(left.sum())
    }
}

#[cfg(test)]
mod tests;
