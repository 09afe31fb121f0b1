//! The code of a function in pieces that do not overlap, and how execution went between them.
//!
//! A block begins where execution came to and ends at the next branch. A loop that is entered by falling into it is the
//! end of a longer block the first time, and a block of its own from the second time on. Where the code is cut wherever
//! any block begins or ends, each instruction is in one piece.

use std::collections::{BTreeMap, HashMap};

use crate::count::NONE;
use crate::{Block, Edge, EdgeKind, Profile};

/// How execution comes to an address of a function from outside.
#[derive(Clone, Copy, Debug, Default)]
struct Arrival {
    /// By returns, and by jumps from other functions.
    returned: u64,
    /// By a call or as the handler of an exception.
    is_called: bool,
    /// It is not known how: the trace begins, or something is missing.
    unknown: u64,
}

/// How execution comes to the functions of a profile, by function and address.
pub(super) struct Arrivals<'p> {
    profile: &'p Profile,
    edges_from: Vec<Vec<&'p Edge>>,
    by_address: HashMap<(u32, u64), Arrival>,
}

/// The pieces of a function that were executed, as nodes. Node 0 stands for all that is outside.
pub(super) struct Pieces {
    pub nodes: Vec<Piece>,
    /// The last node of each block.
    lasts: Vec<(u32, usize)>,
}

/// A piece of code.
#[derive(Clone, Debug, Default)]
pub(super) struct Piece {
    pub start: u64,
    /// A block that begins with it, or goes through it.
    pub block: u32,
    /// Blocks that begin with it or end with it.
    pub ends: Vec<u32>,
    /// How often it was executed.
    pub count: u64,
    /// How often it is not known how execution came to it.
    pub unknown: u64,
    /// Execution comes to it from outside.
    pub is_entered: bool,
    /// Where execution went from it, and how often.
    pub successors: Vec<(usize, u64)>,
    /// It ends in a branch of which only one outcome was seen.
    pub has_unseen_outcome: bool,
}

const NOT_TAKEN: u8 = 1;
const TAKEN: u8 = 2;

/// Where a block ends. It has an address, whatever a damaged profile says, unless it is at the end of all.
fn end_of(block: &Block) -> u64 {
    block.end.max(block.start.saturating_add(1))
}

impl<'p> Arrivals<'p> {
    pub fn of(profile: &'p Profile) -> Self {
        let mut by_address: HashMap<(u32, u64), Arrival> = HashMap::new();
        for block in profile.blocks.iter().filter(|block| block.entries > 0) {
            by_address.entry((block.function, block.start)).or_default().unknown += block.entries;
        }
        for edge in &profile.edges {
            let blocks = (profile.blocks.get(edge.from as usize), profile.blocks.get(edge.to as usize));
            let (Some(from), Some(to)) = blocks else { continue };
            let arrival = by_address.entry((to.function, to.start)).or_default();
            match edge.kind {
                EdgeKind::Call | EdgeKind::IndirectCall | EdgeKind::Exception => arrival.is_called = true,
                EdgeKind::Return | EdgeKind::ExceptionReturn => arrival.add(edge.count),
                _ if from.function != to.function => arrival.add(edge.count),
                _ => {}
            }
        }
        Self { profile, edges_from: profile.edges_from(), by_address }
    }

    /// The pieces of a function that has these blocks.
    pub fn pieces(&mut self, function: u32, blocks: &[u32]) -> Pieces {
        let records: Vec<(u32, &Block)> = blocks
            .iter()
            .filter_map(|&number| Some((number, self.profile.blocks.get(number as usize)?)))
            .filter(|(_, block)| block.count > 0 && end_of(block) > block.start)
            .collect();
        let mut cuts: Vec<u64> = records.iter().flat_map(|(_, block)| [block.start, end_of(block)]).collect();
        cuts.sort_unstable();
        cuts.dedup();
        let cut = |address: u64| cuts.partition_point(|&cut| cut < address);
        // Sums of differences: where a count begins, and where it ends.
        let (mut counts, mut onwards) = (vec![0_i128; cuts.len() + 1], vec![0_i128; cuts.len() + 1]);
        for (_, block) in &records {
            let (first, after) = (cut(block.start), cut(end_of(block)));
            for (sums, after) in [(&mut counts, after), (&mut onwards, after - 1)] {
                sums[first] += i128::from(block.count);
                sums[after] -= i128::from(block.count);
            }
        }
        let mut pieces = Pieces { nodes: vec![Piece::default()], lasts: Vec::new() };
        let (mut numbers, mut links) = (vec![0; cuts.len()], Links::default());
        let (mut count, mut on) = (0, 0);
        for (index, &start) in cuts.iter().enumerate() {
            if on > 0 {
                links.add(pieces.nodes.len() - 1, pieces.nodes.len(), clamped(on));
            }
            count += counts[index];
            on += onwards[index];
            if count > 0 {
                numbers[index] = pieces.nodes.len();
                pieces.nodes.push(Piece { start, count: clamped(count), block: NONE, ..Piece::default() });
            }
        }
        for &(number, block) in &records {
            let (first, last) = (numbers[cut(block.start)], numbers[cut(end_of(block)) - 1]);
            pieces.lasts.push((number, last));
            pieces.nodes[first].block = number;
            [first, last].iter().for_each(|&node| pieces.nodes[node].ends.push(number));
        }
        // Where no block begins, one goes on that began before.
        for node in 1..pieces.nodes.len() {
            if pieces.nodes[node].block == NONE {
                pieces.nodes[node].block = pieces.nodes[node - 1].block;
            }
        }
        let node_at = |address: u64| match cuts.binary_search(&address) {
            Ok(index) => numbers[index],
            Err(_) => 0,
        };
        self.link(function, &mut pieces, &mut links, &node_at);
        for ((from, to), count) in links.0 {
            pieces.nodes[from].successors.push((to, count));
        }
        pieces
    }

    /// Finds out where execution goes from the ends of blocks.
    fn link(
        &mut self,
        function: u32,
        pieces: &mut Pieces,
        links: &mut Links,
        node_at: &dyn Fn(u64) -> usize,
    ) {
        let mut outcomes = vec![0_u8; pieces.nodes.len()];
        let mut interrupted: Vec<(u64, usize, Vec<u64>)> = Vec::new();
        for &(number, last) in &pieces.lasts {
            let Some(block) = self.profile.blocks.get(number as usize) else { continue };
            let (mut exceptions, mut goes_on_at) = (0, vec![block.end]);
            for edge in self.edges_from.get(number as usize).into_iter().flatten() {
                let Some(to) = self.profile.blocks.get(edge.to as usize) else { continue };
                outcomes[last] |= if edge.kind == EdgeKind::NotTaken { NOT_TAKEN } else { TAKEN };
                match edge.kind {
                    EdgeKind::Exception => exceptions += edge.count,
                    kind if kind.is_call() => {}
                    EdgeKind::Return | EdgeKind::ExceptionReturn => links.add(last, 0, edge.count),
                    _ if to.function == function => {
                        links.add(last, node_at(to.start), edge.count);
                        goes_on_at.push(to.start);
                    }
                    _ => links.add(last, 0, edge.count),
                }
            }
            pieces.nodes[last].has_unseen_outcome |= block.is_conditional();
            // A call goes on where it returns to, whether what was called is in the trace or not.
            if block.flags.link
                && node_at(block.end) > 0
                && let Some(arrival) = self.by_address.get_mut(&(function, block.end))
            {
                let arrived = std::mem::take(&mut arrival.returned).saturating_add(arrival.unknown);
                arrival.unknown = 0;
                links.add(last, node_at(block.end), arrived);
            } else if exceptions > 0 {
                interrupted.push((exceptions, last, goes_on_at));
            }
        }
        // What an exception interrupted goes on when its handler has returned.
        for (mut left, last, goes_on_at) in interrupted {
            for address in goes_on_at {
                let Some(arrival) = self.by_address.get_mut(&(function, address)) else { continue };
                let arrived = left.min(arrival.returned);
                arrival.returned -= arrived;
                left -= arrived;
                links.add(last, node_at(address), arrived);
            }
        }
        for (piece, outcomes) in pieces.nodes.iter_mut().zip(outcomes) {
            piece.has_unseen_outcome &= outcomes != NOT_TAKEN | TAKEN;
            if let Some(arrival) = self.by_address.get(&(function, piece.start)) {
                piece.unknown = arrival.unknown;
                piece.is_entered = arrival.is_called || arrival.returned > 0;
            }
        }
    }
}

impl Arrival {
    fn add(&mut self, count: u64) {
        self.returned = self.returned.saturating_add(count);
    }
}

/// How often execution went from node to node.
#[derive(Default)]
struct Links(BTreeMap<(usize, usize), u64>);

impl Links {
    fn add(&mut self, from: usize, to: usize, count: u64) {
        if count > 0 && from > 0 {
            let sum = self.0.entry((from, to)).or_default();
            *sum = sum.saturating_add(count);
        }
    }
}

fn clamped(count: i128) -> u64 {
    u64::try_from(count).unwrap_or(u64::MAX)
}
