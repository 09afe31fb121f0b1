//! Several profiles into one, and weights.

use std::collections::HashMap;

use crate::count::NumberMap;
use crate::events::EventProfile;
use crate::paths::{PathContext, PathElement, PathProfile};
use crate::profile::{Block, CallNode, Edge, Function, Profile, Thread};

impl Profile {
    /// Adds what another profile counted. The same code is the same wherever it was loaded; threads of different captures
    /// stay apart. [Parts](crate::count_part) of one source, all of them added in whatever order, are the profile of the source.
    pub fn merge(&mut self, other: Profile) {
        let mut merger = Merger::new(self);
        merger.add(other);
    }

    /// Multiplies every count, to mix profiles of different lengths; halves are rounded up, and what was executed stays
    /// at least 1.
    pub fn scale(&mut self, factor: f64) {
        let scaled = |count: u64| match count {
            0 => 0,
            // A number with a fraction of 53 bits: exact up to 2⁵³, and close enough above.
            count => ((count as f64 * factor).round() as u64).max(1),
        };
        for block in &mut self.blocks {
            (block.count, block.entries) = (scaled(block.count), scaled(block.entries));
            (block.cycles, block.certain_cycles) = (scaled(block.cycles), scaled(block.certain_cycles));
        }
        self.edges.iter_mut().for_each(|edge| edge.count = scaled(edge.count));
        for node in &mut self.calls {
            (node.calls, node.instructions) = (scaled(node.calls), scaled(node.instructions));
            node.cycles = scaled(node.cycles);
        }
        for function in &mut self.functions {
            function.certain_cycles = scaled(function.certain_cycles);
        }
        self.events.iter_mut().for_each(|events| events.scale(factor, &scaled));
        self.totals.cycles = scaled(self.totals.cycles);
        self.totals.instructions =
            self.blocks.iter().map(|block| block.count.saturating_mul(block.instructions.into())).sum();
        self.count_functions();
    }
}

struct Merger<'a> {
    profile: &'a mut Profile,
    functions: NumberMap<(u32, u64, u8), u32>,
    blocks: NumberMap<(u32, u64, u64, u8), u32>,
    edges: NumberMap<(u32, u32, u8), u32>,
    nodes: NumberMap<(u32, u32), u32>,
}

fn function_key(function: &Function) -> (u32, u64, u8) {
    (function.module, function.start.unwrap_or(0), u8::from(function.start.is_some()))
}

fn block_key(block: &Block) -> (u32, u64, u64, u8) {
    (block.function, block.start, block.end, block.isa as u8)
}

fn edge_key(edge: &Edge) -> (u32, u32, u8) {
    (edge.from, edge.to, edge.kind as u8)
}

fn numbered<T, K: std::hash::Hash + Eq>(items: &[T], key: impl Fn(&T) -> K) -> NumberMap<K, u32> {
    items.iter().zip(0..).map(|(item, number)| (key(item), number)).collect()
}

impl<'a> Merger<'a> {
    fn new(profile: &'a mut Profile) -> Self {
        let called = profile
            .calls
            .iter()
            .zip(0..)
            .filter_map(|(node, number)| Some(((node.parent?, node.function?), number)));
        Self {
            functions: numbered(&profile.functions, function_key),
            blocks: numbered(&profile.blocks, block_key),
            edges: numbered(&profile.edges, edge_key),
            nodes: called.collect(),
            profile,
        }
    }

    fn add(&mut self, other: Profile) {
        let modules: Vec<u32> =
            other.modules.into_iter().map(|module| self.profile.module_number(module)).collect();
        let new = |numbers: &[u32], old: u32| numbers.get(old as usize).copied().unwrap_or(old);
        let functions: Vec<u32> = other
            .functions
            .into_iter()
            .map(|function| self.function(Function { module: new(&modules, function.module), ..function }))
            .collect();
        let blocks: Vec<u32> = other
            .blocks
            .into_iter()
            .map(|block| {
                let code = other.code.get(block.code.clone()).unwrap_or_default();
                self.block(Block { function: new(&functions, block.function), ..block }, code)
            })
            .collect();
        for edge in other.edges {
            self.edge(Edge { from: new(&blocks, edge.from), to: new(&blocks, edge.to), ..edge });
        }
        let known: Vec<Option<usize>> = other.threads.iter().map(|thread| self.thread_like(thread)).collect();
        let roots = other
            .threads
            .iter()
            .zip(&known)
            .filter_map(|(thread, known)| Some((thread.node, self.profile.threads.get((*known)?)?.node)));
        let nodes = self.calls(&other.calls, &functions, &roots.collect());
        for (mut thread, known) in other.threads.into_iter().zip(known) {
            if let Some(known) = known.and_then(|known| self.profile.threads.get_mut(known)) {
                known.learn(thread);
                continue;
            }
            thread.node = new(&nodes, thread.node);
            thread.slices.iter_mut().for_each(|slice| slice.function = new(&functions, slice.function));
            self.profile.threads.push(thread);
        }
        for mut stretch in other.stretches {
            stretch.root = new(&nodes, stretch.root);
            let place = &mut stretch.arrival.place;
            place.function = new(&functions, place.function);
            for frame in &mut stretch.frames {
                frame.kept.node = new(&nodes, frame.kept.node);
                frame.function = new(&functions, frame.function);
            }
            stretch.slices.iter_mut().for_each(|slice| slice.function = new(&functions, slice.function));
            self.profile.stretches.push(stretch);
        }
        for events in other.events {
            self.events(&events, &|block| new(&blocks, block), &|function| new(&functions, function));
        }
        for (cause, count) in other.exceptions {
            let sum = self.profile.exceptions.entry(cause).or_default();
            *sum = sum.saturating_add(count);
        }
        if let Some(paths) = other.paths {
            self.paths(paths, &|block| new(&blocks, block));
        }
        self.profile.totals += other.totals;
        self.profile.count_functions();
    }

    fn events(&mut self, other: &EventProfile, block: &dyn Fn(u32) -> u32, function: &dyn Fn(u32) -> u32) {
        let mine = &mut self.profile.events;
        let known = mine.iter().position(|one| one.choice == other.choice).unwrap_or(mine.len());
        if known == mine.len() {
            mine.push(EventProfile::empty(other.choice.clone()));
        }
        mine[known].merge(other, block, function);
    }

    fn paths(&mut self, other: PathProfile, new: &dyn Fn(u32) -> u32) {
        let mine = self
            .profile
            .paths
            .get_or_insert_with(|| PathProfile { window: other.window, ..Default::default() });
        let mut known: HashMap<(u32, Vec<PathElement>), usize> = HashMap::new();
        for (number, context) in mine.contexts.iter().enumerate() {
            known.insert((context.block, context.path.clone()), number);
        }
        mine.left_out += other.left_out;
        for context in other.contexts {
            let block = new(context.block);
            let path: Vec<_> = context.path.iter().map(|element| element.renumbered(new)).collect();
            let number = *known.entry((block, path.clone())).or_insert(mine.contexts.len());
            match mine.contexts.get_mut(number) {
                Some(same) => {
                    same.taken += context.taken;
                    same.not_taken += context.not_taken;
                }
                None => mine.contexts.push(PathContext { block, path, ..context }),
            }
        }
    }

    fn function(&mut self, function: Function) -> u32 {
        let next = self.profile.functions.len() as u32;
        let number = *self.functions.entry(function_key(&function)).or_insert(next);
        match self.profile.functions.get_mut(number as usize) {
            Some(known) => {
                known.certain_cycles = known.certain_cycles.saturating_add(function.certain_cycles)
            }
            None => self.profile.functions.push(function),
        }
        number
    }

    fn block(&mut self, block: Block, code: &[u8]) -> u32 {
        let next = self.profile.blocks.len() as u32;
        let number = *self.blocks.entry(block_key(&block)).or_insert(next);
        if let Some(known) = self.profile.blocks.get_mut(number as usize) {
            known.count = known.count.saturating_add(block.count);
            known.entries = known.entries.saturating_add(block.entries);
            known.cycles = known.cycles.saturating_add(block.cycles);
            known.certain_cycles = known.certain_cycles.saturating_add(block.certain_cycles);
            return number;
        }
        let offset = self.profile.code.len();
        self.profile.code.extend_from_slice(code);
        self.profile.blocks.push(Block { code: offset..self.profile.code.len(), ..block });
        number
    }

    fn edge(&mut self, edge: Edge) {
        let next = self.profile.edges.len() as u32;
        let number = *self.edges.entry(edge_key(&edge)).or_insert(next);
        match self.profile.edges.get_mut(number as usize) {
            Some(known) => known.count = known.count.saturating_add(edge.count),
            None => self.profile.edges.push(edge),
        }
    }

    /// The thread of which this is another part.
    fn thread_like(&self, thread: &Thread) -> Option<usize> {
        thread.part.as_ref()?;
        self.profile.threads.iter().position(|known| known.is_same(thread))
    }

    /// Gives the new numbers of nodes. Threads get nodes of their own, but for those whose nodes are known.
    fn calls(&mut self, nodes: &[CallNode], functions: &[u32], roots: &NumberMap<u32, u32>) -> Vec<u32> {
        let mut numbers: Vec<u32> = Vec::with_capacity(nodes.len());
        for (node, old) in nodes.iter().zip(0..) {
            let function = node.function.and_then(|number| functions.get(number as usize)).copied();
            let parent = node.parent.and_then(|number| numbers.get(number as usize)).copied();
            let next = self.profile.calls.len() as u32;
            let number = match (parent, function) {
                (Some(parent), Some(function)) => *self.nodes.entry((parent, function)).or_insert(next),
                _ => roots.get(&old).copied().unwrap_or(next),
            };
            match self.profile.calls.get_mut(number as usize) {
                Some(known) => {
                    known.calls = known.calls.saturating_add(node.calls);
                    known.instructions = known.instructions.saturating_add(node.instructions);
                    known.cycles = known.cycles.saturating_add(node.cycles);
                }
                None => self.profile.calls.push(CallNode { function, parent, ..*node }),
            }
            numbers.push(number);
        }
        numbers
    }
}

impl Thread {
    /// Takes what another part of it knows better: later ones have seen more contexts.
    fn learn(&mut self, other: Self) {
        let start = |thread: &Self| thread.part.as_ref().map(|part| part.start);
        if start(self) < start(&other) {
            (self.name, self.part) = (other.name, other.part);
        }
    }

    /// Its name, with that of its capture where there are several.
    pub fn full_name(&self, several_captures: bool) -> String {
        match several_captures && !self.capture.is_empty() {
            true => format!("{}: {}", self.capture, self.name),
            false => self.name.clone(),
        }
    }
}
