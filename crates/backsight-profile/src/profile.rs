//! What was counted: a value of its own, that no longer needs the capture.

use std::collections::BTreeMap;
use std::ops::Range;

use backsight::core::{Address, Cause, Isa};
use backsight::isa::{Class, Flags, classify};

use crate::count::Stretch;
use crate::events::EventProfile;
use crate::module::Module;
use crate::paths::PathProfile;

/// What a program executed, counted.
///
/// Blocks, functions, edges and nodes of the tree of calls name each other by their numbers. Addresses are those of the
/// files, whatever address each was loaded at: profiles of several captures can be [merged](Profile::merge).
#[derive(Clone, Debug, Default)]
pub struct Profile {
    /// The files that the code is in.
    pub modules: Vec<Module>,
    /// The functions that were executed.
    pub functions: Vec<Function>,
    /// The blocks that were executed.
    pub blocks: Vec<Block>,
    /// How execution went from block to block.
    pub edges: Vec<Edge>,
    /// Functions by chain of callers; every node comes after its caller.
    pub calls: Vec<CallNode>,
    /// What ran by itself.
    pub threads: Vec<Thread>,
    /// Exceptions and interrupts that were taken.
    pub exceptions: BTreeMap<Cause, u64>,
    /// Outcomes of branches by path, where they were asked for.
    pub paths: Option<PathProfile>,
    /// Events of the trace unit that were asked for.
    pub events: Vec<EventProfile>,
    /// Sums.
    pub totals: Totals,
    /// The code of blocks.
    pub(crate) code: Vec<u8>,
    /// Stretches of threads whose calls were not put together yet.
    pub(crate) stretches: Vec<Stretch>,
}

/// A function that was executed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// The number of its file.
    pub module: u32,
    /// Where it begins in its file's own numbering; `None` for all the code of a file that no symbol names.
    pub start: Option<u64>,
    /// Its size in bytes; 0 if it is not known.
    pub size: u64,
    /// Its name, as the programmer wrote it.
    pub name: String,
    /// Its name in the file; empty if it has none.
    pub mangled: String,
    /// How often it was entered: called, jumped to from another function, or begun with where the trace begins.
    pub entries: u64,
    /// Instructions executed in it, without what it called.
    pub instructions: u64,
    /// Cycles spent in it, where the trace counts them.
    pub cycles: u64,
    /// Those of them of which that is certain: nothing else was executed between two counts of the trace.
    pub certain_cycles: u64,
}

/// Instructions that were executed one after the other. Only the last may be a branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// The number of its function.
    pub function: u32,
    /// Address of the first instruction in its file's own numbering.
    pub start: u64,
    /// Address after the last instruction.
    pub end: u64,
    /// Address of the first instruction in memory.
    pub memory_start: Address,
    /// Instruction set.
    pub isa: Isa,
    /// Number of instructions.
    pub instructions: u32,
    /// Size of the last instruction in bytes.
    pub last_size: u8,
    /// What the last instruction is.
    pub class: Class,
    /// More about the last instruction.
    pub flags: Flags,
    /// How often it was executed.
    pub count: u64,
    /// How often execution came to it without an edge: where the trace begins, and after gaps.
    pub entries: u64,
    /// Cycles spent in it, where the trace counts them.
    pub cycles: u64,
    /// Those of them of which that is certain: nothing else was executed between two counts of the trace.
    pub certain_cycles: u64,
    pub(crate) code: Range<usize>,
}

impl Block {
    /// Address of the last instruction.
    pub fn last(&self) -> u64 {
        self.end.wrapping_sub(self.last_size.into())
    }

    /// Does it end in a branch that may or may not be taken?
    pub fn is_conditional(&self) -> bool {
        self.flags.conditional && matches!(self.class, Class::DirectBranch | Class::IndirectBranch)
    }
}

/// How execution went from one block to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// The block that was left.
    pub from: u32,
    /// The block that came next.
    pub to: u32,
    /// How.
    pub kind: EdgeKind,
    /// How often.
    pub count: u64,
}

/// How execution leaves a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum EdgeKind {
    /// Straight on: the block does not end in a branch.
    Sequence,
    /// Straight on: its branch was not taken.
    NotTaken,
    /// By its conditional branch.
    Taken,
    /// By its unconditional branch.
    Jump,
    /// By its call.
    Call,
    /// By a branch whose target is not in the code.
    IndirectJump,
    /// By a call whose target is not in the code.
    IndirectCall,
    /// By its return.
    Return,
    /// An exception or interrupt was taken.
    Exception,
    /// By its return from an exception.
    ExceptionReturn,
}

impl EdgeKind {
    /// The name used in listings.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sequence => "sequence",
            Self::NotTaken => "not taken",
            Self::Taken => "taken",
            Self::Jump => "jump",
            Self::Call => "call",
            Self::IndirectJump => "indirect jump",
            Self::IndirectCall => "indirect call",
            Self::Return => "return",
            Self::Exception => "exception",
            Self::ExceptionReturn => "exception return",
        }
    }

    /// Did a branch do it?
    pub const fn is_branch(self) -> bool {
        !matches!(self, Self::Sequence | Self::NotTaken | Self::Exception)
    }

    /// Is it a call?
    pub const fn is_call(self) -> bool {
        matches!(self, Self::Call | Self::IndirectCall)
    }
}

/// A function, called by the same chain of callers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CallNode {
    /// Its number; `None` for the node of a thread.
    pub function: Option<u32>,
    /// The number of its caller's node; `None` for the node of a thread.
    pub parent: Option<u32>,
    /// How often it was called.
    pub calls: u64,
    /// Instructions, without what it called.
    pub instructions: u64,
    /// Cycles, without what it called, where the trace counts them.
    pub cycles: u64,
}

/// What ran by itself: a core or hart or, where the trace names contexts, each of them. Where a thread ran on several
/// cores that give the time, it is one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Thread {
    /// Its name.
    pub name: String,
    /// The capture that it is from.
    pub capture: String,
    /// Its node in the tree of calls.
    pub node: u32,
    /// Its calls over time, where they were asked for, by their beginning.
    pub slices: Vec<Slice>,
    /// Instructions as calls over time count them, and the time of the trace then, where calls over time were asked for.
    pub timestamps: Vec<(u64, u64)>,
    /// Of which part of a source it is, where a source was counted in parts.
    pub(crate) part: Option<ThreadPart>,
}

/// A thread in one of the parts that its source was counted in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ThreadPart {
    pub buffer: String,
    pub source: u8,
    /// Its number among the threads of the source.
    pub number: u32,
    /// Where the part begins. Later ones know more names.
    pub start: u64,
}

impl Thread {
    /// Is it the same thread in another part of the source?
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        let of = |part: &ThreadPart| (part.buffer.clone(), part.source, part.number);
        self.capture == other.capture
            && self.part.is_some()
            && self.part.as_ref().map(of) == other.part.as_ref().map(of)
    }
}

/// A call over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slice {
    /// The number of the function.
    pub function: u32,
    /// Calls around it.
    pub depth: u32,
    /// Instructions that its core had executed when it began; of a thread that went from core to core, the thread.
    pub begin: u64,
    /// And when it ended.
    pub end: u64,
}

/// Sums over a profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Instructions in blocks.
    pub instructions: u64,
    /// Instructions that were executed on a path that is not known.
    pub unknown_path: u64,
    /// Cycles that the trace counts.
    pub cycles: u64,
    /// Those of them that no block can be said to have spent.
    pub unattributed_cycles: u64,
    /// Times that something is missing after a block: no edge leads on from there.
    pub breaks: u64,
    /// Loops whose number of rounds is not in the trace.
    pub uncounted_loops: u64,
    /// Instructions of blocks that were too many to be counted.
    pub uncounted: u64,
    /// Samples of the program counter, where that is all that the trace has: instructions are samples then.
    pub samples: u64,
    /// Samples at which the processor slept.
    pub sleeping_samples: u64,
    /// Windows of branches that were sampled, where only those count.
    pub windows: u64,
    /// Edges that were too many to be counted.
    pub uncounted_edges: u64,
    /// Calls that were added to their caller: there were too many different chains, or they were too deep.
    pub folded_calls: u64,
    /// Calls over time that were too short to be kept.
    pub short_slices: u64,
    /// Threads that ran on several cores whose turns no timestamps order: their calls are kept by core.
    pub unordered_threads: u64,
    /// Times that a thread may have gone on on another core, and was taken to go on on the same one: there were too many.
    pub unjoined_turns: u64,
}

impl Totals {
    /// All of them, in the order in which they travel.
    pub(crate) fn all_mut(&mut self) -> [&mut u64; 15] {
        let Self {
            instructions,
            unknown_path,
            cycles,
            unattributed_cycles,
            breaks,
            uncounted_loops,
            uncounted,
            samples,
            sleeping_samples,
            windows,
            uncounted_edges,
            folded_calls,
            short_slices,
            unordered_threads,
            unjoined_turns,
        } = self;
        [
            instructions,
            unknown_path,
            cycles,
            unattributed_cycles,
            breaks,
            uncounted_loops,
            uncounted,
            samples,
            sleeping_samples,
            windows,
            uncounted_edges,
            folded_calls,
            short_slices,
            unordered_threads,
            unjoined_turns,
        ]
    }
}

impl std::ops::AddAssign for Totals {
    fn add_assign(&mut self, mut other: Self) {
        for (sum, more) in self.all_mut().into_iter().zip(other.all_mut()) {
            *sum = sum.saturating_add(*more);
        }
    }
}

impl Profile {
    /// The same with other names: to try what formats make of any name.
    #[doc(hidden)]
    pub fn renamed(&self, rename: &mut dyn FnMut(&str) -> String) -> Self {
        let mut renamed = self.clone();
        renamed.modules = self.modules.iter().map(|module| module.renamed(rename)).collect();
        for function in &mut renamed.functions {
            function.name = rename(&function.name);
            function.mangled = rename(&function.mangled);
        }
        for thread in &mut renamed.threads {
            thread.name = rename(&thread.name);
            thread.capture = rename(&thread.capture);
        }
        renamed.events.iter_mut().for_each(|events| events.choice.name = rename(&events.choice.name));
        renamed
    }

    /// The function of a block.
    pub fn function_of(&self, block: &Block) -> Option<&Function> {
        self.functions.get(block.function as usize)
    }

    /// The file of a function.
    pub fn module_of(&self, function: &Function) -> Option<&Module> {
        self.modules.get(function.module as usize)
    }

    /// The code of a block; empty where it was not kept.
    pub fn code_of(&self, block: &Block) -> &[u8] {
        self.code.get(block.code.clone()).unwrap_or_default()
    }

    /// The instructions of a block: address and size of each.
    pub fn instructions_of<'a>(&'a self, block: &'a Block) -> impl Iterator<Item = (u64, u8)> + 'a {
        let code = self.code_of(block);
        let mut offset = 0;
        std::iter::from_fn(move || {
            let bytes = code.get(offset..).filter(|bytes| !bytes.is_empty())?;
            let address = block.start + offset as u64;
            let instruction = classify(block.isa, &bytes[..bytes.len().min(4)], Address(address));
            let size = instruction.map_or(bytes.len().min(2) as u8, |instruction| instruction.size);
            offset += usize::from(size);
            Some((address, size))
        })
    }

    /// The edges out of each block, by its number.
    pub fn edges_from(&self) -> Vec<Vec<&Edge>> {
        let mut lists = vec![Vec::new(); self.blocks.len()];
        for edge in &self.edges {
            if let Some(list) = lists.get_mut(edge.from as usize) {
                list.push(edge);
            }
        }
        lists
    }

    /// Does an edge enter the function that it leads to: by a call, or from another function?
    pub fn is_entry(&self, edge: &Edge) -> bool {
        let (Some(from), Some(to)) = (self.blocks.get(edge.from as usize), self.blocks.get(edge.to as usize))
        else {
            return false;
        };
        let is_start = self.function_of(to).is_some_and(|function| function.start == Some(to.start));
        is_start && (edge.kind.is_call() || from.function != to.function)
    }

    /// Does the trace count cycles?
    pub fn has_cycles(&self) -> bool {
        self.totals.cycles > 0
    }

    /// Adds up what belongs to functions.
    pub(crate) fn count_functions(&mut self) {
        for function in &mut self.functions {
            (function.entries, function.instructions, function.cycles) = (0, 0, 0);
        }
        for block in &self.blocks {
            let Some(function) = self.functions.get_mut(block.function as usize) else { continue };
            let instructions = block.count.saturating_mul(block.instructions.into());
            function.instructions = function.instructions.saturating_add(instructions);
            function.cycles = function.cycles.saturating_add(block.cycles);
            if function.start == Some(block.start) {
                function.entries = function.entries.saturating_add(block.entries);
            }
        }
        for edge in &self.edges {
            if self.is_entry(edge)
                && let Some(to) = self.blocks.get(edge.to as usize)
                && let Some(function) = self.functions.get_mut(to.function as usize)
            {
                function.entries = function.entries.saturating_add(edge.count);
            }
        }
    }

    /// The number of a file, which is added if it is new.
    pub(crate) fn module_number(&mut self, module: Module) -> u32 {
        let known = self.modules.iter().position(|one| one.is(&module));
        let number = known.unwrap_or(self.modules.len());
        if number == self.modules.len() {
            self.modules.push(module);
        }
        number as u32
    }
}
