//! The part of a report that shows two profiles side by side.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::{Compared, Limits, MOST_NODES, shown};
use crate::compare::{Comparison, FunctionCounts};
use crate::export::Weight;
use crate::{CallNode, Profile};

/// Lines that are shown.
const MOST_LINES: usize = 400;

pub(super) fn data(profile: &Profile, other: &Compared<'_>, weight: Weight) -> Value {
    let mut comparison = Comparison::new(profile, other.profile);
    let of_weight = |counts: &FunctionCounts| match weight {
        Weight::Instructions => counts.instructions,
        Weight::Cycles => counts.cycles,
    };
    comparison.sort_functions_by(of_weight);
    let functions = comparison.functions.iter().take(Limits::REPORT.functions).map(|function| {
        let [this, other] = function.counts.each_ref().map(of_weight);
        let [called, other_called] = function.counts.map(|counts| counts.entries);
        json!([shown(&function.name), function.module, this, other, called, other_called])
    });
    let lines = comparison.lines.iter().take(MOST_LINES).map(|line| {
        let [this, other] = line.instructions;
        json!([format!("{}:{}", line.file, line.line), this, other])
    });
    json!({
        "names": other.names,
        "unit": weight.name(),
        "omitted": {
            "functions": comparison.functions.len().saturating_sub(Limits::REPORT.functions),
            "lines": comparison.lines.len().saturating_sub(MOST_LINES),
        },
        "functions": functions.collect::<Vec<_>>(),
        "lines": lines.collect::<Vec<_>>(),
        "tree": Tree::new([profile, other.profile], weight).to_value(),
    })
}

/// A chain of callers on both sides.
#[derive(Clone, Copy)]
struct Node {
    /// The number of its name.
    name: usize,
    parent: Option<usize>,
    own: [u64; 2],
    calls: [u64; 2],
}

/// The calls of two profiles in one tree, by the names of functions. Every node comes after its parent.
#[derive(Default)]
struct Tree<'p> {
    names: Vec<&'p str>,
    known: HashMap<&'p str, usize>,
    nodes: Vec<Node>,
    children: HashMap<(Option<usize>, usize), usize>,
}

impl<'p> Tree<'p> {
    fn new(sides: [&'p Profile; 2], weight: Weight) -> Self {
        let mut tree = Self::default();
        // A thread on each side is the same, whatever it is called.
        let is_one_thread = sides.iter().all(|profile| profile.threads.len() == 1);
        for (side, profile) in sides.into_iter().enumerate() {
            let threads: HashMap<u32, &str> =
                profile.threads.iter().map(|thread| (thread.node, thread.name.as_str())).collect();
            let mut place: Vec<usize> = Vec::with_capacity(profile.calls.len());
            for (node, number) in profile.calls.iter().zip(0..) {
                let function = node.function.and_then(|function| profile.functions.get(function as usize));
                let name = match function {
                    Some(function) => function.name.as_str(),
                    None if is_one_thread => "thread",
                    None => threads.get(&number).copied().unwrap_or("?"),
                };
                let parent = node.parent.and_then(|parent| place.get(parent as usize).copied());
                let at = tree.node(parent, name);
                place.push(at);
                tree.nodes[at].add(side, node, weight);
            }
        }
        tree
    }

    fn node(&mut self, parent: Option<usize>, name: &'p str) -> usize {
        let name = *self.known.entry(name).or_insert_with(|| {
            self.names.push(name);
            self.names.len() - 1
        });
        *self.children.entry((parent, name)).or_insert_with(|| {
            self.nodes.push(Node { name, parent, own: [0; 2], calls: [0; 2] });
            self.nodes.len() - 1
        })
    }

    /// What is too small to be seen on either side is added to its caller.
    fn to_value(&self) -> Value {
        let mut totals: Vec<[u64; 2]> = self.nodes.iter().map(|node| node.own).collect();
        for (number, node) in self.nodes.iter().enumerate().rev() {
            let total = totals[number];
            if let Some(parent) = node.parent {
                totals[parent] = added(totals[parent], total);
            }
        }
        let size = |total: &[u64; 2]| total[0].max(total[1]);
        let mut sizes: Vec<u64> = totals.iter().map(size).collect();
        sizes.sort_unstable_by(|one, other| other.cmp(one));
        let least = sizes.get(MOST_NODES).map_or(1, |size| size + 1);
        let mut place: Vec<Option<usize>> = Vec::with_capacity(self.nodes.len());
        let mut kept: Vec<Node> = Vec::new();
        for (node, total) in self.nodes.iter().zip(&totals) {
            let parent = node.parent.and_then(|parent| place[parent]);
            if size(total) >= least {
                place.push(Some(kept.len()));
                kept.push(Node { parent, ..*node });
                continue;
            }
            place.push(parent);
            if let Some(parent) = parent.and_then(|parent| kept.get_mut(parent)) {
                parent.own = added(parent.own, node.own);
            }
        }
        let nodes: Vec<_> =
            kept.iter().map(|Node { name, parent, own, calls }| json!([name, parent, own, calls])).collect();
        let names: Vec<String> = self.names.iter().map(|name| shown(name)).collect();
        json!({ "names": names, "nodes": nodes })
    }
}

fn added(one: [u64; 2], other: [u64; 2]) -> [u64; 2] {
    [one[0].saturating_add(other[0]), one[1].saturating_add(other[1])]
}

impl Node {
    fn add(&mut self, side: usize, node: &CallNode, weight: Weight) {
        self.own[side] = self.own[side].saturating_add(weight.of(node));
        self.calls[side] = self.calls[side].saturating_add(node.calls);
    }
}
