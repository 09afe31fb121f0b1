//! Lines of a Tarmac log to retired instructions, for those who make trace of them.

use backsight_core::{Access, Address, Context, Execution, Isa, Located, Retired, Trap, TrapKind};
use backsight_tarmac::{Bad, Exception, ExceptionKind, Instruction, Line, Memory, Packet};

use super::outcome::{self, Last, Taken};
use super::{GAP, MOST_ACCESSES, context_of, isa_of, pieces};

/// Tells the retired instructions of one core out of the lines of its log, with their accesses, and the exceptions between them.
///
/// As a [`Follower`](super::Follower), it holds an instruction until the next one says what became of it.
#[derive(Clone, Debug, Default)]
pub struct Retirement {
    last: Option<Last>,
    accesses: Vec<Access>,
    exception: Option<Exception>,
    branch: Option<u64>,
    context: Option<Context>,
    /// An exception whose handler comes next.
    trap: Option<Trap>,
    conditional: u8,
    /// Lines that may have been instructions, and jumps that no line explains.
    gaps: u64,
}

impl Retirement {
    /// Nothing was executed.
    pub fn new() -> Self {
        Self::default()
    }

    /// How often the log does not say what was executed.
    pub const fn gaps(&self) -> u64 {
        self.gaps
    }

    /// Takes the next line of the core.
    pub fn push(&mut self, packet: &Located<Packet>, sink: &mut dyn FnMut(Execution)) {
        match &packet.value.line {
            Line::Instruction(instruction) => self.instruction(instruction, sink),
            Line::Memory(memory) => self.memory(memory),
            Line::Exception(exception) if exception.kind == ExceptionKind::ModeChange => {}
            Line::Exception(exception) => {
                // They nest: where one comes after another, the first is done.
                if self.exception.is_some() {
                    self.settle(exception.address, sink);
                }
                self.exception = Some(*exception);
            }
            Line::Branch(address) => self.branch = Some(*address),
            Line::Bad(Bad::Value | Bad::Register | Bad::Size | Bad::Picture) => {}
            Line::Text(word) if word.as_str() != GAP => {}
            Line::Bad(_) | Line::Text(_) => {
                self.settle(None, sink);
                self.gap(sink);
            }
            Line::Register(_) => {}
        }
    }

    /// The log ends.
    pub fn finish(&mut self, sink: &mut dyn FnMut(Execution)) {
        self.settle(None, sink);
    }

    fn gap(&mut self, sink: &mut dyn FnMut(Execution)) {
        self.gaps += 1;
        self.conditional = 0;
        self.trap = None;
        sink(Execution::Gap);
    }

    fn instruction(&mut self, it: &Instruction, sink: &mut dyn FnMut(Execution)) {
        self.settle(Some(it.address), sink);
        if let Some(trap) = self.trap.take() {
            sink(Execution::Trap(Trap { handler: Address(it.address), ..trap }));
        }
        let isa = isa_of(it.state);
        let context = context_of(it.mode, isa);
        if self.context.replace(context) != Some(context) {
            sink(Execution::Context(context));
        }
        let at = Located { offset: 0, length: 0, value: () };
        self.last = Some(Last::new(it, isa, at, 0, &mut self.conditional));
    }

    fn settle(&mut self, next: Option<u64>, sink: &mut dyn FnMut(Execution)) {
        let Some(last) = self.last.take() else {
            self.exception = None;
            return;
        };
        let branch = self.branch.take();
        let exception = self.exception.take();
        let outcome = last.outcome(exception.as_ref(), branch, next);
        if outcome.is_executed {
            let is_sequential = outcome.taken == Taken::No;
            let next = match exception {
                Some(_) => outcome.returns_to,
                None if is_sequential => last.end(),
                None => next.or(branch).unwrap_or(last.end()),
            };
            let taken = if last.is_branch() { !is_sequential } else { last.executed || last.isa == Isa::A64 };
            let &Last { opcode, size, isa, .. } = &last;
            let (address, next) = (Address(last.address), Address(next));
            sink(Execution::Instruction(Retired { address, next, cycle: 0, opcode, size, isa, taken }));
            self.accesses.drain(..).for_each(|access| sink(Execution::Access(access)));
        }
        self.accesses.clear();
        if outcome.leaves {
            self.gap(sink);
        }
        if let Some(exception) = exception {
            let cause = outcome::cause(&exception, Some(&last));
            let kind = if cause.is_interrupt() { TrapKind::Interrupt } else { TrapKind::Exception };
            let (return_address, handler) = (Address(outcome.returns_to), Address(0));
            self.trap =
                Some(Trap { kind, cause: cause.number(), value: 0, return_address, handler, cycle: 0 });
        }
    }

    fn memory(&mut self, memory: &Memory) {
        if memory.aborted || self.last.is_none() {
            return;
        }
        for (first, size) in pieces(memory.data.touched) {
            if self.accesses.len() >= MOST_ACCESSES {
                return;
            }
            let (value, known) = memory.part(first, size);
            self.accesses.push(Access {
                address: Address(memory.address.wrapping_add(first as u64)),
                value: if known { value } else { 0 },
                size: size as u8,
                store: memory.write,
                known,
            });
        }
    }
}
