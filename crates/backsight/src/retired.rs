//! Execution as single instructions: what a trace says, in the terms in which processors are observed.
//!
//! A range says where its instructions are; where the last one led shows only in what comes next. What a trace does not say
//! (cycles of single instructions, loads and stores) is not there, and where it has a hole there is a gap.

use backsight_core::{Address, AddressSpace, Context, Execution, Isa, Retired, Trap, TrapKind};
use backsight_flow::{Event, Range};
use backsight_image::Code as _;
use backsight_isa::{Class, classify_retired};

use crate::listing::steps;
use crate::{Code, Item, Source, SourceCode};

/// Turns the events of one source into what its processor retired.
#[derive(Debug)]
pub struct RetiredInstructions<'c> {
    code: SourceCode<'c>,
    space: AddressSpace,
    context: Option<Context>,
    /// The last instruction: where it led is not known yet.
    last: Option<Last>,
    /// An exception whose handler is not known yet.
    trap: Option<Trap>,
    /// Nothing is known of what comes before the next instruction.
    gap: bool,
}

#[derive(Clone, Copy, Debug)]
struct Last {
    retired: Retired,
    /// It goes to wherever the next instruction is.
    leads_elsewhere: bool,
}

impl<'c> RetiredInstructions<'c> {
    /// Of a source, whose code is among this.
    pub fn new(code: &'c Code, source: &Source) -> Self {
        Self {
            code: code.seen_by(source),
            space: AddressSpace::ANY,
            context: None,
            last: None,
            trap: None,
            gap: false,
        }
    }

    /// Takes the next event of the source.
    pub fn push(&mut self, item: &Item<'_, Event>, sink: &mut dyn FnMut(Execution)) {
        if let Some(window) = item.window {
            self.code.enter(window);
        }
        match item.value {
            Event::Range(range) => self.range(&range, sink),
            Event::Context(context, _) => self.enter(context, sink),
            Event::Exception { cause, return_address, is_branch_target, value, .. } => {
                let goes_on = self.last.map(|last| last.retired.end());
                let return_address = return_address.or(goes_on).unwrap_or(Address(0));
                self.lead_to(is_branch_target.then_some(return_address), sink);
                self.hand_out_trap(Address(0), sink);
                let kind = if cause.is_interrupt() { TrapKind::Interrupt } else { TrapKind::Exception };
                let (cause, handler) = (cause.number(), Address(0));
                self.trap = Some(Trap { kind, cause, value, return_address, handler, cycle: 0 });
            }
            Event::NoSync(_)
            | Event::TraceOn(_)
            | Event::AddressUnknown
            | Event::PathUnknown { .. }
            | Event::UncountedLoop { .. }
            | Event::NoMemory { .. } => self.lose(sink),
            _ => {}
        }
    }

    /// Nothing more comes of this source.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Execution)) {
        self.lead_to(None, sink);
        self.hand_out_trap(Address(0), sink);
    }

    fn enter(&mut self, context: Context, sink: &mut dyn FnMut(Execution)) {
        self.space = self.code.space_of(&context);
        if self.context != Some(context) {
            // It is that of what follows.
            if self.trap.is_none() {
                self.lead_to(None, sink);
            }
            self.context = Some(context);
            sink(Execution::Context(context));
        }
    }

    fn range(&mut self, range: &Range, sink: &mut dyn FnMut(Execution)) {
        self.lead_to(Some(range.start), sink);
        self.hand_out_trap(range.start, sink);
        if std::mem::take(&mut self.gap) {
            sink(Execution::Gap);
        }
        let mut before = None;
        steps(range, self.space, &self.code, |step| {
            let next = step.address.plus(u64::from(step.size));
            let retired = Retired {
                address: step.address,
                next,
                cycle: 0,
                opcode: opcode(range.isa, step.bytes, step.size),
                size: step.size,
                isa: range.isa,
                taken: true,
            };
            if let Some(earlier) = before.replace(retired) {
                sink(Execution::Instruction(earlier));
            }
        });
        let Some(retired) = before else { return };
        let branches = matches!(range.class, Class::DirectBranch | Class::IndirectBranch);
        self.last = Some(Last {
            retired: Retired { taken: range.executed, ..retired },
            leads_elsewhere: branches && range.executed,
        });
    }

    /// Hands out the last instruction, which led there if that is known.
    fn lead_to(&mut self, next: Option<Address>, sink: &mut dyn FnMut(Execution)) {
        let Some(Last { mut retired, leads_elsewhere }) = self.last.take() else { return };
        if leads_elsewhere {
            retired.next = next.unwrap_or_else(|| target(&retired));
        }
        sink(Execution::Instruction(retired));
    }

    fn hand_out_trap(&mut self, handler: Address, sink: &mut dyn FnMut(Execution)) {
        if let Some(trap) = self.trap.take() {
            sink(Execution::Trap(Trap { handler, ..trap }));
        }
    }

    /// What follows is not known for a while.
    fn lose(&mut self, sink: &mut dyn FnMut(Execution)) {
        self.finish(sink);
        self.gap = true;
    }
}

/// Where a branch goes by its opcode; after it, if that does not say.
fn target(retired: &Retired) -> Address {
    let instruction = classify_retired(retired);
    if instruction.class == Class::DirectBranch { instruction.target } else { retired.end() }
}

/// The opcode as fetched, from its bytes in memory.
pub(crate) fn opcode(isa: Isa, bytes: [u8; 4], size: u8) -> u32 {
    let word = u32::from_le_bytes(bytes);
    match (size, isa) {
        (2, _) => word & 0xFFFF,
        (4, Isa::T32) => word.rotate_left(16),
        (4, _) => word,
        _ => u32::from(bytes[0]),
    }
}
