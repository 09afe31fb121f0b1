//! From the tables of a counter to a profile that stands on its own.

use backsight::core::{Address, AddressSpace};
use backsight::image::{Code as _, Image, Window};
use backsight::isa::Class;

use super::blocks::{BlockRecord, EdgeRecord, Ending, Way};
use super::paths::{INDIRECT, PathCounter};
use super::{Counter, Hart, NONE, NumberMap, ThreadRecord};
use crate::module::Module;
use crate::paths::{PathContext, PathElement, PathProfile};
use crate::profile::{Block, CallNode, Edge, EdgeKind, Function, Profile, Slice, Thread};

impl Counter<'_> {
    /// The trace ends: what was counted.
    pub fn finish(self) -> Profile {
        self.whole().finish_whole()
    }

    fn finish_whole(mut self) -> Profile {
        let mut harts = std::mem::take(&mut self.others);
        let Self { tree, timeline, hart, blocks, .. } = &mut self;
        for hart in harts.iter_mut().chain([&mut *hart]) {
            let (calls, mut ledger) = hart.stack.split(tree, timeline, &mut hart.clock);
            calls.clear(&mut ledger);
            hart.walked.settle(blocks);
        }
        self.count_samples();
        if let Some(sampler) = self.sampler.take() {
            sampler.selection.replace(&mut self.blocks, &mut self.tree);
            self.totals.windows = sampler.samples;
        }
        if let Some((_, selection)) = self.filter.take().filter(|_| self.totals.samples == 0) {
            selection.replace(&mut self.blocks, &mut self.tree);
            self.exceptions.retain(|_, count| *count > 0);
            (self.totals.cycles, self.totals.unattributed_cycles) = (self.cycles.iter().sum(), 0);
        }
        let events = self.events.take();
        let mut profile = Profile { exceptions: self.exceptions.clone(), ..Profile::default() };
        self.add_functions(&mut profile);
        self.add_blocks(&mut profile);
        self.add_calls(&mut profile);
        self.add_threads(&harts, &mut profile);
        self.add_stretches(&harts, &mut profile);
        profile.paths = self.paths.as_ref().map(path_profile);
        let block_of = |number: u32| {
            profile.blocks.get(number as usize).map_or((NONE, 1), |block| (block.function, block.count))
        };
        profile.events = events.map(|events| events.finish(&block_of)).unwrap_or_default();
        profile.totals = self.totals;
        profile.totals.instructions =
            profile.blocks.iter().map(|block| block.count * u64::from(block.instructions)).sum();
        profile.totals.folded_calls = self.tree.folded;
        profile.totals.unjoined_turns = self.tree.unjoined;
        profile.totals.short_slices = self.timeline.left_out;
        profile.count_functions();
        profile
    }

    /// Files by their name: one that is in memory several times is one.
    fn add_functions(&self, profile: &mut Profile) {
        let image = self.functions.code().image();
        for (number, record) in self.functions.list().iter().enumerate() {
            let module = module_number(image, record.module, profile);
            let file = record.module.and_then(|module| image.modules().get(module as usize));
            let names = self.functions.code_at(record.window);
            let symbol = |start| names.names_at(record.space, start).symbolise(record.space, start);
            let found = record.start.and_then(symbol);
            let start = record.start.map(|start| file.map_or(start.0, |file| file.file_address(start)));
            let size = start.and_then(|start| profile.modules.get(module as usize)?.size_of_function(start));
            let (name, mangled) = match found {
                Some(symbol) => (symbol.name.to_owned(), symbol.mangled.to_owned()),
                None => {
                    let name = profile.modules.get(module as usize).map_or("?", Module::short_name);
                    (format!("[{name}]"), String::new())
                }
            };
            profile.functions.push(Function {
                module,
                start,
                size: size.unwrap_or(0),
                name,
                mangled,
                entries: 0,
                instructions: 0,
                cycles: 0,
                certain_cycles: self.certain_cycles.by_function.get(number).copied().unwrap_or(0),
            });
        }
    }

    fn add_blocks(&self, profile: &mut Profile) {
        let counts = self.blocks.counts();
        for (number, (record, count)) in self.blocks.blocks.iter().zip(counts).enumerate() {
            let cycles = self.cycles.get(number).copied().unwrap_or(0);
            let certain_cycles = self.certain_cycles.by_block.get(number).copied().unwrap_or(0);
            let block = self.block(record, (count, self.blocks.time_of(number)), profile);
            profile.blocks.push(Block { cycles, certain_cycles, ..block });
        }
        let edges = self.blocks.edges.iter();
        profile.edges = edges
            .filter_map(|edge| {
                let from = self.blocks.blocks.get(edge.from as usize)?;
                Some(Edge { from: edge.from, to: edge.to, kind: kind_of(from, edge), count: edge.count })
            })
            .collect();
    }

    fn block(
        &self,
        record: &BlockRecord,
        (count, met): (u64, Option<Window>),
        profile: &mut Profile,
    ) -> Block {
        let (code, range) = (self.functions.code_at(met), &record.range);
        let function = self.functions.list().get(record.function as usize);
        let file = function.and_then(|one| code.image().modules().get(one.module? as usize));
        let start = file.map_or(range.start.0, |file| file.file_address(range.start));
        let bytes = bytes_of(&code, record.space, range.start, range.end);
        let offset = profile.code.len();
        profile.code.extend_from_slice(&bytes);
        Block {
            function: record.function,
            start,
            end: start.wrapping_add(range.end.0.wrapping_sub(range.start.0)),
            memory_start: range.start,
            isa: range.isa,
            instructions: range.instructions,
            last_size: range.last_size,
            class: range.class,
            flags: range.flags,
            count,
            entries: record.entries,
            cycles: 0,
            certain_cycles: 0,
            code: offset..profile.code.len(),
        }
    }

    fn add_calls(&self, profile: &mut Profile) {
        profile.calls = self
            .tree
            .nodes
            .iter()
            .map(|node| CallNode {
                function: (node.function != NONE).then_some(node.function),
                parent: (node.parent != NONE).then_some(node.parent),
                calls: node.calls,
                instructions: node.instructions,
                cycles: node.cycles,
            })
            .collect();
    }

    fn add_threads(&self, others: &[Hart], profile: &mut Profile) {
        for thread in &self.threads {
            let hart = others.iter().chain([&self.hart]).find(|hart| hart.number == thread.hart);
            let slices = self.timeline.slices.iter().filter(|slice| slice.root == thread.root);
            let mut slices: Vec<Slice> = slices
                .map(|slice| Slice {
                    function: slice.function,
                    depth: slice.depth,
                    begin: slice.begin,
                    end: slice.end,
                })
                .collect();
            slices.sort_by_key(|slice| (slice.begin, slice.depth));
            profile.threads.push(Thread {
                name: self.name_of(thread),
                capture: String::new(),
                node: thread.root,
                slices,
                timestamps: hart.map(|hart| hart.axis.points.clone()).unwrap_or_default(),
                part: None,
            });
        }
    }

    /// Stretches of threads that may have gone on elsewhere, with the part of the timeline that is theirs.
    fn add_stretches(&mut self, others: &[Hart], profile: &mut Profile) {
        profile.stretches = std::mem::take(&mut self.tree.stretches);
        let numbers: NumberMap<u32, usize> =
            profile.stretches.iter().enumerate().map(|(number, stretch)| (stretch.root, number)).collect();
        for slice in &self.timeline.slices {
            if let Some(stretch) = numbers.get(&slice.root).and_then(|&one| profile.stretches.get_mut(one)) {
                let &super::timeline::Slice { function, depth, begin, end, .. } = slice;
                stretch.slices.push(Slice { function, depth, begin, end });
            }
        }
        for hart in others.iter().chain([&self.hart]) {
            let points = &hart.axis.points;
            let of_hart = profile.stretches.iter_mut().filter(|stretch| stretch.hart == hart.number);
            for stretch in of_hart.filter(|_| !points.is_empty()) {
                let (begin, end) = stretch.clock;
                let first = points.partition_point(|&(clock, _)| clock < begin);
                let inside = points.iter().skip(first).take_while(|&&(clock, _)| clock <= end);
                stretch.timestamps.extend(inside);
            }
        }
    }

    /// The core and, where several threads ran on it, the context.
    fn name_of(&self, thread: &ThreadRecord) -> String {
        let mut name = self.source.hart_name(thread.hart);
        let several = self.threads.iter().filter(|other| other.hart == thread.hart).count() > 1;
        if several && let Some(id) = thread.context_id {
            name.push_str(&format!(" context {id:#x}"));
        }
        name
    }
}

fn module_number(image: &Image, number: Option<u32>, profile: &mut Profile) -> u32 {
    let Some(module) = number.and_then(|number| image.modules().get(number as usize)) else {
        return profile.module_number(Module::unknown());
    };
    let named = Module::named(module);
    match profile.modules.iter().position(|known| known.is(&named)) {
        Some(number) => number as u32,
        None => profile.module_number(Module::of_image(image, module)),
    }
}

/// The code of a block; empty where a part of it cannot be read any more.
fn bytes_of(code: &backsight::SourceCode<'_>, space: AddressSpace, start: Address, end: Address) -> Vec<u8> {
    /// Longest block whose code is kept.
    const LONGEST: u64 = 1 << 20;
    let mut left = end.0.wrapping_sub(start.0);
    let (mut bytes, mut address) = (Vec::new(), start);
    if left > LONGEST {
        return bytes;
    }
    while left > 0 {
        let Some(part) = code.bytes_at(space, address) else { return Vec::new() };
        let length = (part.len() as u64).min(left);
        bytes.extend_from_slice(&part[..length as usize]);
        address = address.plus(length);
        left -= length;
    }
    bytes
}

fn path_profile(paths: &PathCounter) -> PathProfile {
    let element = |code: u32| match code & INDIRECT {
        0 => PathElement::Conditional { block: code >> 1, taken: code & 1 == 1 },
        _ => PathElement::Target { block: code & !INDIRECT },
    };
    let mut contexts: Vec<PathContext> = paths
        .records
        .iter()
        .map(|(&(block, _), record)| PathContext {
            block,
            path: record.path[..paths.window].iter().copied().map(element).collect(),
            taken: record.taken,
            not_taken: record.not_taken,
        })
        .collect();
    contexts.sort_by(|one, other| (one.block, &one.path).cmp(&(other.block, &other.path)));
    PathProfile { window: paths.window, contexts, left_out: paths.left_out }
}

fn kind_of(from: &BlockRecord, edge: &EdgeRecord) -> EdgeKind {
    let is_indirect = from.range.class == Class::IndirectBranch;
    match (edge.way, from.ending) {
        (Way::Exception, _) => EdgeKind::Exception,
        (Way::ExceptionReturn, _) | (Way::Taken, Ending::ExceptionReturn) => EdgeKind::ExceptionReturn,
        (Way::Onwards, _) if from.range.ends_in_branch() => EdgeKind::NotTaken,
        (Way::Onwards, _) => EdgeKind::Sequence,
        (Way::Taken, Ending::Call) if is_indirect => EdgeKind::IndirectCall,
        (Way::Taken, Ending::Call) => EdgeKind::Call,
        (Way::Taken, Ending::Return) => EdgeKind::Return,
        (Way::Taken, Ending::Jump) if is_indirect => EdgeKind::IndirectJump,
        (Way::Taken, Ending::Jump) if from.range.flags.conditional => EdgeKind::Taken,
        (Way::Taken, Ending::Jump) => EdgeKind::Jump,
    }
}
