//! Loops: which blocks go around together, how they are inside of each other, and how often they go around.

mod nesting;

use std::collections::BTreeMap;

use crate::{EdgeKind, Profile};
use nesting::{Graph, LoopKind};

/// A loop that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The number of its function.
    pub function: u32,
    /// The block that it is entered by.
    pub header: u32,
    /// The loop around it, by its number.
    pub parent: Option<usize>,
    /// Loops around it.
    pub depth: u32,
    /// Its blocks, those of inner loops included.
    pub blocks: Vec<u32>,
    /// How often execution came into it from outside.
    pub entries: u64,
    /// How often its header was executed.
    pub rounds: u64,
    /// It is entered at several blocks: the header is one of them.
    pub is_irreducible: bool,
}

impl Loop {
    /// Rounds for each time that it was entered.
    pub fn trip_count(&self) -> f64 {
        self.rounds as f64 / self.entries.max(1) as f64
    }
}

impl Profile {
    /// The loops of all functions; every loop comes after the one around it.
    pub fn loops(&self) -> Vec<Loop> {
        let mut by_function: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (block, number) in self.blocks.iter().zip(0..) {
            by_function.entry(block.function).or_default().push(number);
        }
        let inside = self.edges_inside();
        let mut loops = Vec::new();
        for (function, blocks) in by_function {
            self.loops_of(function, &blocks, &inside, &mut loops);
        }
        loops
    }

    /// Edges between blocks of one function, by the block that is left. A call leads on to where it returns to.
    fn edges_inside(&self) -> BTreeMap<u32, Vec<(u32, u64)>> {
        let mut edges: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        let mut returns: BTreeMap<(u32, u64), (u32, u64)> = BTreeMap::new();
        for edge in &self.edges {
            let (Some(from), Some(to)) =
                (self.blocks.get(edge.from as usize), self.blocks.get(edge.to as usize))
            else {
                continue;
            };
            match edge.kind {
                EdgeKind::Return | EdgeKind::ExceptionReturn => {
                    let known = returns.entry((to.function, to.start)).or_insert((edge.to, 0));
                    known.1 += edge.count;
                }
                kind if !kind.is_call() && from.function == to.function => {
                    edges.entry(edge.from).or_default().push((edge.to, edge.count));
                }
                _ => {}
            }
        }
        for (block, number) in self.blocks.iter().zip(0..) {
            if block.flags.link
                && let Some(&(to, count)) = returns.get(&(block.function, block.end))
            {
                edges.entry(number).or_default().push((to, count.min(block.count)));
            }
        }
        edges
    }

    fn loops_of(
        &self,
        function: u32,
        blocks: &[u32],
        inside: &BTreeMap<u32, Vec<(u32, u64)>>,
        loops: &mut Vec<Loop>,
    ) {
        let local: BTreeMap<u32, usize> = blocks.iter().copied().zip(1..).collect();
        // Node 0 stands for whatever comes from outside.
        let mut graph = Graph::new(blocks.len() + 1);
        let mut has_predecessor = vec![false; blocks.len() + 1];
        for (&from, &number) in &local {
            for (to, _) in inside.get(&from).into_iter().flatten() {
                if let Some(&to) = local.get(to) {
                    graph.add(number, to);
                    has_predecessor[to] |= to != number;
                }
            }
        }
        let start = self.functions.get(function as usize).and_then(|function| function.start);
        for (&block, &number) in &local {
            let record = self.blocks.get(block as usize);
            let is_start = record.is_some_and(|record| Some(record.start) == start || record.entries > 0);
            if is_start || !has_predecessor[number] {
                graph.add(0, number);
            }
        }
        graph.reach_all();
        let nesting = graph.nesting();
        let first = loops.len();
        let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
        for (number, found) in nesting.iter().enumerate() {
            let body: Vec<u32> =
                found.nodes.iter().filter_map(|&node| blocks.get(node.checked_sub(1)?).copied()).collect();
            let Some(&header) = found.header.checked_sub(1).and_then(|index| blocks.get(index)) else {
                continue;
            };
            let rounds = self.blocks.get(header as usize).map_or(0, |block| block.count);
            let again: u64 = body
                .iter()
                .flat_map(|block| inside.get(block).into_iter().flatten())
                .filter(|(to, _)| *to == header)
                .map(|(_, count)| count)
                .sum();
            numbers.insert(number, loops.len());
            loops.push(Loop {
                function,
                header,
                parent: found.parent.and_then(|parent| numbers.get(&parent).copied()),
                depth: 0,
                blocks: body,
                entries: rounds.saturating_sub(again),
                rounds,
                is_irreducible: found.kind == LoopKind::Irreducible,
            });
        }
        for number in first..loops.len() {
            let around = loops[number].parent.and_then(|parent| loops.get(parent));
            loops[number].depth = around.map_or(0, |around| around.depth + 1);
        }
    }
}
