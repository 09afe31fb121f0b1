//! What was really executed: retired instructions, as a recording keeps them beside its trace, in each of the formats of execution.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;

use backsight_core::{
    Access, Address, Cause, Context, Execution, Privilege, Retired, TraceId, Trap, TrapKind,
};
use backsight_flow::{AccessKind, Event, Range, TraceOn, TracedAccess};
use backsight_isa::{Class, classify_retired};

use super::event_line::write_address;
use super::{ExecutionFormat, ExecutionWriter, Filter, FilterOptions, ListedCounts, Style};
use crate::decode::Consumer as _;
use crate::{Result, SourceCode};

/// How retired instructions are listed.
#[derive(Clone, Debug, Default)]
pub struct TruthSettings {
    /// How.
    pub style: Style,
    /// What of them.
    pub filter: FilterOptions,
    /// Trace IDs of the threads that are wanted; none: all.
    pub ids: Vec<u64>,
    /// The trace ID of each thread, where it has one.
    pub threads: BTreeMap<u32, TraceId>,
}

/// Lists retired instructions.
pub struct TruthWriter<'i> {
    settings: TruthSettings,
    code: SourceCode<'i>,
    filter: Filter<'i>,
    threads: BTreeMap<u32, Thread<'i>>,
    current: u32,
    is_wanted: bool,
    instructions: u64,
    counts: Arc<ListedCounts>,
    text: Vec<u8>,
}

/// A thread, with the instructions that are not written yet.
struct Thread<'i> {
    writer: ExecutionWriter<'i>,
    context: Context,
    /// The context that was listed last.
    listed: Option<Context>,
    range: Option<Range>,
    /// The newest instruction: accesses that follow are its own.
    last: Option<Address>,
}

impl<'i> TruthWriter<'i> {
    /// Lists in that way.
    ///
    /// # Errors
    /// If a filter names what the code does not have.
    pub fn new(settings: TruthSettings, code: SourceCode<'i>) -> Result<Self> {
        let filter = Filter::new(&settings.filter, || code.image())?.following(code);
        let (threads, counts, text) = Default::default();
        let (current, is_wanted, instructions) = (0, true, 0);
        let mut writer =
            Self { settings, code, filter, threads, current, is_wanted, instructions, counts, text };
        writer.is_wanted = writer.wants(0);
        Ok(writer)
    }

    /// The text that is written so far, to be taken out.
    pub fn text(&mut self) -> &mut Vec<u8> {
        &mut self.text
    }

    /// Instructions of the threads that are wanted, so far.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    fn id(&self, thread: u32) -> TraceId {
        let known = self.settings.threads.get(&thread).copied();
        known.unwrap_or_else(|| TraceId::new(thread.min(0x6E) as u8 + 1))
    }

    fn wants(&self, thread: u32) -> bool {
        let ids = &self.settings.ids;
        ids.is_empty() || ids.contains(&u64::from(self.id(thread).get()))
    }

    /// Takes what the recording says next.
    ///
    /// # Errors
    /// If a filter names what the code does not have.
    pub fn item(&mut self, item: Execution) -> Result<()> {
        if let Execution::Thread(thread) = item {
            self.current = thread;
            self.is_wanted = self.wants(thread);
            return Ok(());
        }
        if !self.is_wanted {
            return Ok(());
        }
        // What functions call is found out by those who list ranges.
        if self.settings.style.format == ExecutionFormat::Pcs && !self.filter.follows_calls() {
            if let Execution::Instruction(Retired { address, .. }) = item {
                self.instructions += 1;
                if self.filter.wants_address(address) {
                    // Memory takes everything.
                    let _ = write_address(&mut self.text, address);
                }
            }
            return Ok(());
        }
        match item {
            Execution::Instruction(retired) => self.instruction(&retired),
            Execution::Context(context) => {
                self.end_range()?;
                self.thread()?.context = context;
                Ok(())
            }
            Execution::Trap(trap) => {
                self.end_range()?;
                let privilege = self.thread()?.context.privilege;
                self.event(exception(&trap, privilege))
            }
            Execution::Gap => {
                self.end_range()?;
                self.event(Event::TraceOn(TraceOn::Begin))
            }
            Execution::Access(access) => self.access(&access),
            Execution::Input(_) | Execution::Thread(_) => Ok(()),
        }
    }

    /// Instructions that follow each other make a range; branches end it.
    fn instruction(&mut self, retired: &Retired) -> Result<()> {
        self.instructions += 1;
        let thread = self.thread()?;
        let follows = thread
            .range
            .as_ref()
            .is_some_and(|range| range.end == retired.address && range.isa == retired.isa);
        if !follows {
            self.end_range()?;
            let thread = self.thread()?;
            let context = thread.context;
            if thread.listed.replace(context) != Some(context) {
                self.event(Event::Context(context, retired.isa))?;
            }
        }
        let instruction = classify_retired(retired);
        let thread = self.thread()?;
        thread.last = Some(retired.address);
        let start = thread.range.as_ref().map_or(retired.address, |range| range.start);
        let before = thread.range.as_ref().map_or(0, |range| range.instructions);
        thread.range = Some(Range {
            start,
            end: retired.end(),
            instructions: before + 1,
            isa: retired.isa,
            class: instruction.class,
            flags: instruction.flags,
            last_size: retired.size,
            executed: retired.taken,
        });
        let ends =
            retired.next != retired.end() || instruction.class != Class::Other || before == u32::MAX - 1;
        if ends { self.end_range() } else { Ok(()) }
    }

    /// A load or store of the newest instruction, which ends its range.
    fn access(&mut self, access: &Access) -> Result<()> {
        self.end_range()?;
        let kind = if access.store { AccessKind::Store } else { AccessKind::Load };
        let traced = TracedAccess::new(kind, access.size)
            .at(Some(access.address.0))
            .with_value(access.known.then_some(access.value))
            .by(self.thread()?.last);
        self.event(Event::Access(traced))
    }

    fn end_range(&mut self) -> Result<()> {
        match self.thread()?.range.take() {
            Some(range) => self.event(Event::Range(range)),
            None => Ok(()),
        }
    }

    fn event(&mut self, event: Event) -> Result<()> {
        let index = self.instructions;
        let Some(thread) = self.threads.get_mut(&self.current) else { return Ok(()) };
        thread.writer.event(0, &|| index, &event);
        thread.writer.text().into_iter().for_each(|text| self.text.append(text));
        Ok(())
    }

    fn thread(&mut self) -> Result<&mut Thread<'i>> {
        let id = self.id(self.current);
        let Self { settings, code, counts, threads, .. } = self;
        Ok(match threads.entry(self.current) {
            Entry::Occupied(thread) => thread.into_mut(),
            Entry::Vacant(place) => {
                let filter = Filter::new(&settings.filter, || code.image())?;
                let writer = ExecutionWriter::labelled(settings.style, id, *code, filter, Arc::clone(counts));
                let context = Context::default();
                place.insert(Thread { writer, context, listed: None, range: None, last: None })
            }
        })
    }

    /// Writes what is left of each thread.
    ///
    /// # Errors
    /// As [`TruthWriter::item`].
    pub fn finish(&mut self) -> Result<()> {
        let threads: Vec<u32> = self.threads.keys().copied().collect();
        for thread in threads {
            self.current = thread;
            self.end_range()?;
            if let Some(thread) = self.threads.get_mut(&thread) {
                thread.writer.finish();
                thread.writer.text().into_iter().for_each(|text| self.text.append(text));
            }
        }
        Ok(())
    }
}

fn exception(trap: &Trap, privilege: Privilege) -> Event {
    let cause = match (privilege, trap.kind) {
        (Privilege::Riscv(_), TrapKind::Interrupt) => Cause::RiscvInterrupt(trap.cause),
        (Privilege::Riscv(_), TrapKind::Exception) => Cause::Riscv(trap.cause),
        _ => Cause::Arm(trap.cause as u16),
    };
    Event::Exception {
        cause,
        return_address: Some(trap.return_address),
        is_branch_target: false,
        fault_pending: false,
        value: trap.value,
    }
}
