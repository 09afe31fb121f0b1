//! The walk: where it stands, and how it goes on.

mod motion;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use backsight::core::{Address, AddressSpace, Isa};
use backsight::decode::{Decode, Execution};
use backsight::moments::{Moment, Moments};
use backsight::{Capture, Error, Event, Result, Source, SourceCode};

use super::calls::Call;
use super::chunk::{Executor, Instruction};
use super::memory;
use super::state::{At, Register, State, Unknown};
use super::track::{Reader, Track};
use super::watch::Watchpoint;

/// Threads that are told apart. Where there are more, the others are not listed.
const MOST_THREADS: usize = 1 << 12;

/// The number of a thread in [`Replay::threads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ThreadId(pub usize);

/// Who executes: a core or hart, or a thread on it where the contexts of the trace tell threads apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Thread {
    /// The source, by its number.
    pub source: usize,
    /// The hart; 0 where the source has one.
    pub hart: u16,
    /// What contexts say of the thread.
    pub context: Option<u64>,
    /// What it is called.
    pub name: String,
}

/// What moves when something moves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Scheduler {
    /// All sources, to the same time, as far as the trace says what time it is.
    #[default]
    Time,
    /// Only the source that is stepped through.
    Alone,
}

/// A place to stop at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Breakpoint {
    /// The address.
    pub address: u64,
    /// The file that has code there, and where in it: code of another file at the same address is not meant.
    pub file: Option<(PathBuf, u64)>,
}

/// Where to stop.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    /// At these instructions.
    pub breakpoints: BTreeSet<Breakpoint>,
    /// Where this memory was touched: after the instruction that did it on the way forwards, before it on the way back. As far as
    /// accesses are known.
    pub watchpoints: BTreeSet<Watchpoint>,
    /// Where something is missing.
    pub gaps: bool,
    /// Where an exception was taken.
    pub exceptions: bool,
}

/// Why it stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stopped {
    /// A step was made.
    Step,
    /// At a breakpoint.
    Breakpoint(u64),
    /// The instruction that was passed over touched this memory.
    Touched(Watchpoint),
    /// Something is missing right before the instruction.
    Gap,
    /// An exception was taken right before the instruction.
    Exception,
    /// There is nothing before.
    Beginning,
    /// There is nothing after.
    End,
    /// Somebody wanted it to.
    Interrupted,
}

/// What is to be executed at a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct What {
    /// The address of the instruction.
    pub address: Address,
    /// Its instruction set.
    pub isa: Isa,
    /// The space that its code is in.
    pub space: AddressSpace,
}

/// A walk through the execution of a capture.
pub struct Replay<'c> {
    capture: &'c Capture,
    tracks: Vec<Track<'c>>,
    /// Where each stands: with [`Scheduler::Time`], only that of the active one counts.
    at: Vec<u64>,
    active: usize,
    /// Where the others are at the time of the active one, as far as somebody has asked.
    beside: Vec<Option<u64>>,
    threads: Vec<Thread>,
    current: ThreadId,
    scheduler: Scheduler,
    stop: Arc<AtomicBool>,
    cores: usize,
    state: Box<dyn State + 'c>,
}

impl<'c> Replay<'c> {
    /// Stands at the last instruction of the source that ends last. The index of the moments has to know the sources that the decode is for.
    ///
    /// # Errors
    /// If no source has instructions, or bytes or code cannot be read.
    pub fn new(capture: &'c Capture, moments: &Moments<'c>, decode: &Decode<'c, Execution>) -> Result<Self> {
        let stop = Arc::<AtomicBool>::default();
        let reader = Reader { moments: moments.clone(), decode: decode.clone(), stop: stop.clone() };
        let (code, mut tracks, mut last) = (capture.code()?, Vec::new(), None);
        for source in decode.sources()? {
            let known = moments.known_index().and_then(|index| index.source(&source));
            let Some(end) = known.map(|known| known.end).filter(|end| end.instructions > 0) else { continue };
            if last.is_none_or(|(time, _)| end.time > time) {
                last = Some((end.time, tracks.len()));
            }
            let seen = code.seen_by(&source);
            tracks.push(Track::new(source, seen, end.instructions, reader.clone()));
        }
        let Some((_, active)) = last else {
            let why = "no instruction is in the trace: `backsight doctor` says why";
            return Err(Error::Absent(format!("{}: {why}", capture.name())));
        };
        let mut replay = Self {
            capture,
            at: tracks.iter().map(|track| track.instructions - 1).collect(),
            beside: vec![None; tracks.len()],
            tracks,
            active,
            threads: Vec::new(),
            current: ThreadId(0),
            scheduler: Scheduler::default(),
            stop,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            state: Box::new(Unknown),
        };
        (0..replay.tracks.len()).try_for_each(|source| replay.meet(source, replay.at[source]))?;
        replay.arrive(active, replay.at[active])?;
        Ok(replay)
    }

    /// With what is known of registers and memory.
    #[must_use]
    pub fn with_state(self, state: Box<dyn State + 'c>) -> Self {
        let beside = vec![None; self.tracks.len()];
        Self { state, beside, ..self }
    }

    /// What moves when something moves.
    pub fn set_scheduler(&mut self, scheduler: Scheduler) {
        if self.scheduler != scheduler {
            // Each stays where it is.
            for source in 0..self.tracks.len() {
                self.at[source] = self.position(source).unwrap_or(self.at[source]);
            }
            self.scheduler = scheduler;
        }
    }

    /// Searches use so many cores.
    pub fn set_cores(&mut self, cores: usize) {
        self.cores = cores.max(1);
    }

    /// Ends a search, from another thread. It is for the debugger to take the flag back.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        self.stop.clone()
    }

    /// The capture.
    pub fn capture(&self) -> &'c Capture {
        self.capture
    }

    pub(super) fn tracks(&self) -> &[Track<'c>] {
        &self.tracks
    }

    /// The sources that have instructions.
    pub fn sources(&self) -> impl Iterator<Item = &Source> {
        self.tracks.iter().map(|track| &track.source)
    }

    /// Instructions of a source.
    pub fn instructions(&self, source: usize) -> u64 {
        self.tracks.get(source).map_or(0, |track| track.instructions)
    }

    /// Those that were met so far: a thread that runs elsewhere is listed once the walk has come near.
    pub fn threads(&self) -> &[Thread] {
        &self.threads
    }

    /// The one that moved last.
    pub fn current(&self) -> ThreadId {
        self.current
    }

    /// Where a thread is; `None` if it was not met near by.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn place(&mut self, thread: ThreadId) -> Result<Option<At>> {
        let Some(&Thread { source, hart, context, .. }) = self.threads.get(thread.0) else { return Ok(None) };
        let number = self.position(source)?;
        let executor = Executor { hart, thread: context };
        let found = last_of(&mut self.tracks[source], executor, number)?;
        Ok(found.map(|instruction| At { source, hart, instruction }))
    }

    /// What is to be executed at a place.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn what(&mut self, at: At) -> Result<Option<What>> {
        let instruction = self.instruction(at)?;
        Ok(instruction.map(|found| What {
            address: Address(found.address),
            isa: found.isa,
            space: found.scene.space,
        }))
    }

    fn instruction(&mut self, at: At) -> Result<Option<Instruction>> {
        let Some(track) = self.tracks.get_mut(at.source) else { return Ok(None) };
        track.instruction(at.instruction)
    }

    /// The code as it was at a place.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn code(&mut self, at: At) -> Result<SourceCode<'c>> {
        let span = self.instruction(at)?.and_then(|found| found.scene.span);
        let all = self.capture.code()?;
        let mut code = match self.tracks.get(at.source) {
            Some(track) => all.seen_by(&track.source),
            None => all.seen_by_all(),
        };
        span.into_iter().for_each(|span| drop(code.enter(span)));
        Ok(code)
    }

    /// The latest time that the trace names before a place.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn time(&mut self, at: At) -> Result<Option<u64>> {
        self.tracks.get_mut(at.source).map_or(Ok(None), |track| track.time(at.instruction))
    }

    /// What was reported right before a place: exceptions, gaps; with `after_last`, at the end of the source.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn events(&mut self, at: At, after_last: bool) -> Result<Vec<Event>> {
        let Some(track) = self.tracks.get_mut(at.source) else { return Ok(Vec::new()) };
        let number = if after_last { track.instructions } else { at.instruction };
        let notes = track.notes(number)?;
        Ok(notes.into_iter().filter(|note| note.hart == at.hart).map(|note| note.event).collect())
    }

    /// The calls under way at a place, the innermost first, and whether more are around them that are not known any more.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn calls(&mut self, at: At) -> Result<(Vec<Call>, bool)> {
        self.tracks.get_mut(at.source).map_or(Ok(Default::default()), |track| track.calls(at.instruction))
    }

    /// How many calls are under way at a place, those that are not known any more included.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn depth(&mut self, at: At) -> Result<u32> {
        self.tracks.get_mut(at.source).map_or(Ok(0), |track| track.depth(at.instruction))
    }

    /// The value of a register, if it is known.
    pub fn register(&mut self, at: At, register: Register) -> Option<u64> {
        self.state.register(at, register)
    }

    /// What is known of registers and memory beyond code.
    pub fn state(&mut self) -> &mut (dyn State + 'c) {
        &mut *self.state
    }

    /// Bytes of memory from an address on; those that are not known are `None`.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn memory(&mut self, at: At, address: u64, length: usize) -> Result<Vec<Option<u8>>> {
        let code = self.code(at)?;
        let space = self.instruction(at)?.map_or(AddressSpace::ANY, |found| found.scene.space);
        let (mut bytes, mut known) = (vec![0; length], vec![false; length]);
        memory::constant(&code, space, address, &mut bytes, &mut known);
        self.state.memory(at, address, &mut bytes, &mut known);
        Ok(bytes.into_iter().zip(known).map(|(byte, is_known)| is_known.then_some(byte)).collect())
    }

    /// A place to stop at, as code is at another place.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn breakpoint(&mut self, at: At, address: u64) -> Result<Breakpoint> {
        let code = self.code(at)?;
        let space = self.instruction(at)?.map_or(AddressSpace::ANY, |found| found.scene.space);
        Ok(Breakpoint { address, file: file_at(&code, space, address) })
    }

    /// Where a source stands.
    fn position(&mut self, source: usize) -> Result<u64> {
        if source == self.active || self.scheduler == Scheduler::Alone {
            return Ok(self.at[source]);
        }
        if let Some(known) = self.beside[source] {
            return Ok(known);
        }
        let active = At { source: self.active, hart: 0, instruction: self.at[self.active] };
        let order = self.state.order(active);
        let recorded = order.and_then(|order| self.state.place_in(source, order));
        let number = match (recorded, self.tracks[self.active].time(active.instruction)?) {
            (Some(number), _) => self.tracks[source].clamp(number),
            // Where nobody says what time it is, nothing moves.
            (None, None) => self.at[source],
            (None, Some(time)) => {
                let track = &self.tracks[source];
                track.find(Moment::Time(time))?.unwrap_or(track.instructions - 1)
            }
        };
        self.beside[source] = Some(number);
        self.at[source] = number;
        self.meet(source, number)?;
        Ok(number)
    }

    /// Lists the threads that are met around a place.
    fn meet(&mut self, source: usize, number: u64) -> Result<()> {
        let track = &mut self.tracks[source];
        let executors: Vec<_> = track.chunk(number)?.scenes.iter().map(|scene| scene.executor).collect();
        for executor in executors {
            self.thread_of(source, executor)?;
        }
        Ok(())
    }

    fn thread_of(&mut self, source: usize, executor: Executor) -> Result<Option<ThreadId>> {
        let Executor { hart, thread: context } = executor;
        let is_it = |one: &Thread| (one.source, one.hart, one.context) == (source, hart, context);
        if let Some(known) = self.threads.iter().position(is_it) {
            return Ok(Some(ThreadId(known)));
        }
        if self.threads.len() >= MOST_THREADS {
            return Ok(None);
        }
        let core = self.tracks[source].source.hart_name(hart);
        let name = match context {
            Some(context) => format!("{core}: {}", self.capture.code()?.thread_name(context)),
            None => core,
        };
        self.threads.push(Thread { source, hart, context, name });
        Ok(Some(ThreadId(self.threads.len() - 1)))
    }

    /// Stands at an instruction from now on.
    fn arrive(&mut self, source: usize, number: u64) -> Result<()> {
        self.active = source;
        self.at[source] = number;
        self.beside.fill(None);
        if let Some(found) = self.tracks[source].instruction(number)? {
            let known = self.thread_of(source, found.scene.executor)?;
            self.current = match known {
                Some(known) => known,
                None => {
                    self.threads.iter().position(|one| one.source == source).map_or(self.current, ThreadId)
                }
            };
        }
        self.meet(source, number)
    }

    /// Goes to a moment of the source of a thread. False if it does not come to that.
    ///
    /// # Errors
    /// If the moment is not known in this capture, or bytes or code cannot be read.
    pub fn go_to(&mut self, thread: ThreadId, moment: Moment) -> Result<bool> {
        let source = self.threads.get(thread.0).map_or(self.active, |thread| thread.source);
        match self.tracks[source].find(moment)? {
            Some(number) => self.arrive(source, number).map(|()| true),
            None => Ok(false),
        }
    }

    /// Goes to a place.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn go_to_place(&mut self, at: At) -> Result<()> {
        match self.tracks.get(at.source) {
            Some(track) => {
                let number = track.clamp(at.instruction);
                self.arrive(at.source, number)
            }
            None => Ok(()),
        }
    }
}

/// The file that has code at an address, and where in it.
fn file_at(code: &SourceCode<'_>, space: AddressSpace, address: u64) -> Option<(PathBuf, u64)> {
    let image = code.names_at(space, Address(address));
    let (module, _) = image.module_at(space, Address(address))?;
    Some((module.name().to_owned(), module.file_address(Address(address))))
}

/// The last instruction of an executor that is not after another one, if it is near.
fn last_of(track: &mut Track<'_>, executor: Executor, number: u64) -> Result<Option<u64>> {
    let chunk = track.chunk(number)?;
    let Some(place) = chunk.run_at(number) else { return Ok(None) };
    let mut runs = chunk.runs[..=place].iter().rev();
    let found = runs.find(|run| chunk.scene(run).is_some_and(|scene| scene.executor == executor));
    Ok(found.map(|run| number.min(run.number + u64::from(run.range.instructions) - 1)))
}
