//! What was really executed: the retired instructions that a recording keeps beside its trace.

use std::collections::BTreeMap;
use std::io::{BufReader, Read};
use std::sync::Arc;

use backsight::SourceCode;
use backsight::core::{
    Access, Address, Cause, Context, Execution, Privilege, Retired, TraceId, Trap, TrapKind,
};
use backsight::decode::Consumer as _;
use backsight::description::{Capture, FileRef, Format as CaptureFormat};
use backsight::flow::{AccessKind, Event, Range, TraceOn, TracedAccess};
use backsight::isa::{Class, classify_retired};
use backsight::listing::{ExecutionWriter, Filter, ListedCounts, write_address};
use backsight_run::TRUTH;
use backsight_run::retired::{RetiredError, RetiredReader};

use super::{Flow, Format};
use crate::failure::{Failure, Result};
use crate::output::{Output, say};

/// Lists the truth of a capture.
pub fn run(command: &Flow) -> Result {
    if command.format == Format::Branches {
        return Err(Failure::usage("--truth: a list of branches comes from packets, and the truth has none"));
    }
    let capture = command.capture.open(&command.images, command.output.quiet)?;
    let description = capture.description();
    let file = FileRef::new(&description.folder, TRUTH).map_err(Failure::new)?;
    if description.format == CaptureFormat::Bare || !file.exists() {
        return Err(Failure::new(format!(
            "{}: the capture has no {TRUTH}; record it with --truth",
            command.capture.capture.display()
        )));
    }
    let code = capture.code()?;
    if !command.output.quiet {
        code.warnings().iter().for_each(|warning| say(format_args!("warning: {warning}")));
    }
    let mut reader = RetiredReader::new(BufReader::new(file.open().map_err(Failure::new)?))
        .map_err(|error| Failure::new(format!("{file}: {error}")))?;
    let mut listing = Listing::new(command, description, code.seen_by_all())?;
    let outcome = match list(&mut reader, &mut listing) {
        // That the end is missing is said already.
        Ok(Err(RetiredError::Truncated { .. })) if description.recording().is_some() => {
            listing.end().map(|()| Ok(()))
        }
        Ok(outcome) => listing.end().map(|()| outcome),
        Err(failure) => Err(failure),
    };
    match outcome {
        Ok(Ok(())) | Err(Failure::Enough) => listing.finish()?,
        _ => drop(listing),
    }
    outcome?.map_err(|error| Failure::new(format!("{file}: {error}")))
}

/// The inner error is what is wrong with the file; what came before it is listed on standard output.
fn list<R: Read>(
    reader: &mut RetiredReader<R>,
    listing: &mut Listing<'_>,
) -> Result<std::result::Result<(), RetiredError>> {
    for item in reader {
        match item {
            Ok(item) => listing.item(item)?,
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(()))
}

struct Listing<'i> {
    command: &'i Flow,
    code: SourceCode<'i>,
    output: Output,
    filter: Filter<'i>,
    /// The trace ID of each thread.
    ids: BTreeMap<u32, TraceId>,
    threads: BTreeMap<u32, Thread<'i>>,
    current: u32,
    wanted: bool,
    instructions: u64,
    counts: Arc<ListedCounts>,
    text: Vec<u8>,
}

/// Puts out what was written.
fn put_out(writer: &mut ExecutionWriter<'_>, output: &mut Output) -> Result {
    let Some(text) = writer.text() else { return Ok(()) };
    let outcome = output.put_lines(text);
    text.clear();
    outcome
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

impl<'i> Listing<'i> {
    fn new(command: &'i Flow, capture: &Capture, code: SourceCode<'i>) -> Result<Self> {
        let thread_of = |name: &str| name.strip_prefix("unit_").and_then(|number| number.parse().ok());
        let sources = capture.sources.iter();
        let ids: BTreeMap<u32, TraceId> =
            sources.filter_map(|source| Some((thread_of(&source.name)?, source.id?))).collect();
        let mut listing = Self {
            command,
            code,
            output: Output::open(command.output.output.as_deref(), &command.capture.inputs(&command.images))?
                .limit(command.limit),
            filter: Filter::new(&command.filter.options(), || code.image())?.following(code),
            ids,
            threads: BTreeMap::new(),
            current: 0,
            wanted: true,
            instructions: 0,
            counts: Arc::default(),
            text: Vec::new(),
        };
        listing.wanted = listing.wants(0);
        Ok(listing)
    }

    fn id(&self, thread: u32) -> TraceId {
        self.ids.get(&thread).copied().unwrap_or_else(|| TraceId::new(thread.min(0x6E) as u8 + 1))
    }

    fn wants(&self, thread: u32) -> bool {
        let ids = &self.command.capture.id;
        ids.is_empty() || ids.contains(&u64::from(self.id(thread).get()))
    }

    fn item(&mut self, item: Execution) -> Result {
        if let Execution::Thread(thread) = item {
            self.current = thread;
            self.wanted = self.wants(thread);
            return Ok(());
        }
        if !self.wanted {
            return Ok(());
        }
        // What functions call is found out by those who list ranges.
        let is_plain = self.command.format == Format::Pcs && !self.filter.follows_calls();
        if let (true, Execution::Instruction(retired)) = (is_plain, &item) {
            self.instructions += 1;
            let address = retired.address;
            return match self.filter.wants_address(address) {
                true => {
                    self.text.clear();
                    let _ = write_address(&mut self.text, address);
                    self.output.put_lines(&self.text)
                }
                false => Ok(()),
            };
        }
        if is_plain {
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
    fn instruction(&mut self, retired: &Retired) -> Result {
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
    fn access(&mut self, access: &Access) -> Result {
        self.end_range()?;
        let kind = if access.store { AccessKind::Store } else { AccessKind::Load };
        let traced = TracedAccess::new(kind, access.size)
            .at(Some(access.address.0))
            .with_value(access.known.then_some(access.value))
            .by(self.thread()?.last);
        self.event(Event::Access(traced))
    }

    fn end_range(&mut self) -> Result {
        match self.thread()?.range.take() {
            Some(range) => self.event(Event::Range(range)),
            None => Ok(()),
        }
    }

    fn event(&mut self, event: Event) -> Result {
        let index = self.instructions;
        let Some(thread) = self.threads.get_mut(&self.current) else { return Ok(()) };
        thread.writer.event(0, &|| index, &event);
        put_out(&mut thread.writer, &mut self.output)
    }

    fn thread(&mut self) -> Result<&mut Thread<'i>> {
        let (command, code, id) = (self.command, self.code, self.id(self.current));
        if !self.threads.contains_key(&self.current) {
            let filter = Filter::new(&command.filter.options(), || code.image())?;
            let counts = Arc::clone(&self.counts);
            let writer = ExecutionWriter::labelled(command.style(false), id, code, filter, counts);
            let thread =
                Thread { writer, context: Context::default(), listed: None, range: None, last: None };
            self.threads.insert(self.current, thread);
        }
        self.threads.get_mut(&self.current).ok_or(Failure::Enough)
    }

    /// Writes what is left of each thread.
    fn end(&mut self) -> Result {
        let threads: Vec<u32> = self.threads.keys().copied().collect();
        for thread in threads {
            self.current = thread;
            self.end_range()?;
            if let Some(thread) = self.threads.get_mut(&thread) {
                thread.writer.finish();
                put_out(&mut thread.writer, &mut self.output)?;
            }
        }
        Ok(())
    }

    fn finish(self) -> Result {
        self.output.finish()?;
        if !self.command.output.quiet {
            say(format_args!("{} instructions", self.instructions));
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
