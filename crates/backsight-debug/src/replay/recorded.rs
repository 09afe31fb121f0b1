//! Registers and memory out of a recording of the same run, which has its loads and stores.
//!
//! Trace and recording number instructions each for itself. A number is the same in both as far as all instructions before it are, so
//! each source is compared with its thread of the recording from the first instruction on. Beyond the first difference nothing is known.
//! Where the trace says that something is missing, whole turns of a loop may be: what comes after that has the same numbers only if
//! everything agrees up to the end of both.

use std::ops::Range;

use backsight::core::{Address, Budget};
use backsight::description::events::{Item as LogItem, State as LogState};
use backsight::flow::Range as Executed;
use backsight::image::ElfKind;
use backsight::moments::InWindow;
use backsight::{Capture, Error, Event, Item, Result};
use backsight_run::history::{History, Hit, InitialMemory, Instructions, Wanted};

use super::memory::segments;
use super::state::{Access, At, Register, State, Touch};
use super::traced;
use super::walk::Replay;

/// Bytes of a segment without contents in the file that are said to be zero. Larger ones are not known before they are used.
const MOST_ZEROS: u64 = 16 << 20;

/// What the programs of a capture put into memory before they run.
///
/// # Errors
/// If code cannot be read.
pub fn initial_memory(capture: &Capture) -> Result<Vec<InitialMemory<'_>>> {
    let code = capture.code()?.seen_by_all();
    let mut parts = Vec::new();
    for module in code.image().modules() {
        let Some((elf, contents)) = module.elf().zip(module.contents()) else { continue };
        if elf.kind == ElfKind::Core {
            continue;
        }
        for segment in segments(elf, contents) {
            let bytes = usize::try_from(segment.offset).ok().and_then(|offset| contents.get(offset..));
            let bytes = bytes.unwrap_or_default();
            let bytes = usize::try_from(segment.in_file).ok().and_then(|length| bytes.get(..length));
            let Some(bytes) = bytes else { continue };
            let zeros = (segment.addresses.end - segment.addresses.start).saturating_sub(segment.in_file);
            parts.push(InitialMemory {
                address: segment.addresses.start.wrapping_add(module.bias()),
                bytes,
                length: segment.in_file + if zeros > MOST_ZEROS { 0 } else { zeros },
            });
        }
    }
    Ok(parts)
}

/// Where loads and stores are from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Origin {
    Recording,
    DataTrace,
}

/// A source, and what the recording has of it.
struct Part {
    /// The number of the history that has it.
    history: usize,
    thread: u32,
    /// So many of them are the same in both.
    agreed: u64,
    /// Why not more.
    limit: Option<Limit>,
}

/// Why trace and recording do not have the same numbers from some instruction on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// They have different instructions there.
    Difference,
    /// The trace has a gap, and not all that follows is the same.
    Gap,
    /// The recording has no more.
    End,
}

/// Registers and memory of a recording.
pub struct Recorded {
    /// One, or one for each source with data trace.
    histories: Vec<History>,
    origin: Origin,
    parts: Vec<Option<Part>>,
    /// A place whose number among all threads is known, and that number.
    place: Option<(At, u64)>,
}

impl Recorded {
    /// What a recording knows of the sources of a walk.
    ///
    /// # Errors
    /// If it is of another run, has no loads and stores, or cannot say whose memory something is.
    pub fn new(mut history: History, replay: &Replay<'_>) -> Result<Self> {
        let refuse = |why: &str| {
            Err(Error::Absent(format!("the recording says nothing of registers and memory: {why}")))
        };
        if !history.has_data() {
            return refuse("it has no loads and stores (`record --truth=accesses` keeps them)");
        }
        if has_several_programs(replay.capture()) {
            return refuse("it is of several programs, and does not say whose memory was accessed");
        }
        let mut parts = Vec::new();
        for (number, track) in replay.tracks().iter().enumerate() {
            let Some(thread) = thread_of(track.source.name(), number, &history) else {
                parts.push(None);
                continue;
            };
            let mut comparison = Comparison {
                theirs: history.instructions_by(thread),
                agreed: 0,
                gap: None,
                hart: None,
                limit: None,
            };
            track.follow(&mut comparison)?;
            let (agreed, limit) = comparison.finish();
            parts.push((agreed > 0).then_some(Part { history: 0, thread, agreed, limit }));
        }
        if parts.iter().all(Option::is_none) {
            return refuse(
                "it is not of this run, its first instructions are others than those of the trace",
            );
        }
        Ok(Self { histories: vec![history], origin: Origin::Recording, parts, place: None })
    }

    /// What the data trace of the sources of a walk says of memory. `None` if there is none.
    ///
    /// # Errors
    /// If it needs more memory than the budget has, or bytes or code cannot be read.
    pub fn from_data_trace(replay: &Replay<'_>, budget: &Budget) -> Result<Option<Self>> {
        let (mut histories, mut parts) = (Vec::new(), Vec::new());
        for track in replay.tracks() {
            let history = traced::history(track, budget)?;
            let number = histories.len();
            let part =
                |_: &History| Part { history: number, thread: 0, agreed: track.instructions, limit: None };
            parts.push(history.as_ref().map(part));
            histories.extend(history);
        }
        let is_any = !histories.is_empty();
        Ok(is_any.then_some(Self { histories, origin: Origin::DataTrace, parts, place: None }))
    }

    /// What the user should know about the sources that the recording does not have in full.
    pub fn warnings(&self) -> Vec<String> {
        let is_whole = |part: &Option<Part>| part.as_ref().is_some_and(|part| part.limit.is_none());
        (0..self.parts.len())
            .filter(|source| !self.parts.get(*source).is_some_and(is_whole))
            .map(|source| self.words(source))
            .collect()
    }

    /// The history of a place, the thread, and the number of the instruction among all threads, if it is known up to there.
    fn number(&mut self, at: At) -> Option<(&mut History, u32, u64)> {
        let part = self.parts.get(at.source)?.as_ref().filter(|part| at.instruction < part.agreed)?;
        let (history, thread) = (self.histories.get_mut(part.history)?, part.thread);
        let number = match self.place {
            Some((place, number)) if place == at => number,
            _ => history.number_of(thread, at.instruction)?,
        };
        self.place = Some((at, number));
        Some((history, thread, number))
    }

    /// An access by its number in the source.
    fn access(&mut self, source: usize, hit: Hit) -> Option<Access> {
        let part = self.parts.get(source)?.as_ref()?;
        let instruction = self.histories.get_mut(part.history)?.instructions_of(hit.thread, hit.instruction);
        let access = Access { instruction, address: hit.address.0, length: hit.length, is_write: hit.store };
        (instruction < part.agreed).then_some(access)
    }
}

/// Accesses that are looked for.
fn wanted(thread: u32, addresses: &Range<u64>, touch: Touch) -> Wanted {
    Wanted {
        address: addresses.start,
        length: addresses.end.saturating_sub(addresses.start),
        reads: touch != Touch::Write,
        writes: touch != Touch::Read,
        thread: Some(thread),
    }
}

impl State for Recorded {
    fn register(&mut self, at: At, register: Register) -> Option<u64> {
        let (history, thread, number) = self.number(at)?;
        history.at(number).register_of(thread, register.0)
    }

    fn memory(&mut self, at: At, address: u64, bytes: &mut [u8], known: &mut [bool]) {
        let Some((history, _, number)) = self.number(at) else { return };
        let moment = history.at(number);
        for ((byte, is_known), n) in bytes.iter_mut().zip(known).zip(0..) {
            if let Some(found) = moment.byte(address.wrapping_add(n)) {
                (*byte, *is_known) = (found, true);
            }
        }
    }

    fn last_access_before(&mut self, at: At, addresses: Range<u64>, touch: Touch) -> Option<Access> {
        let part = self.parts.get(at.source)?.as_ref()?;
        // Beyond what agrees, nothing is known of accesses.
        let (thread, instruction) = (part.thread, at.instruction.min(part.agreed));
        let history = self.histories.get_mut(part.history)?;
        let number = history.number_of(thread, instruction)?;
        let hit = history.last_access(number, &wanted(thread, &addresses, touch))?;
        self.access(at.source, hit)
    }

    fn next_access_after(&mut self, at: At, addresses: Range<u64>, touch: Touch) -> Option<Access> {
        let (history, thread, number) = self.number(at)?;
        let hit = history.next_access(number, &wanted(thread, &addresses, touch))?;
        self.access(at.source, hit)
    }

    fn access_at(&mut self, at: At, addresses: Range<u64>, touch: Touch) -> Option<Access> {
        let (history, thread, number) = self.number(at)?;
        let hit = history.access_by(number, &wanted(thread, &addresses, touch))?;
        self.access(at.source, hit)
    }

    fn knows_accesses(&self) -> bool {
        true
    }

    fn order(&mut self, at: At) -> Option<u64> {
        // Data trace of several sources has no order of its own.
        let is_common = self.origin == Origin::Recording;
        self.number(at).filter(|_| is_common).map(|(_, _, number)| number)
    }

    fn place_in(&mut self, source: usize, order: u64) -> Option<u64> {
        let part = self.parts.get(source)?.as_ref().filter(|_| self.origin == Origin::Recording)?;
        let instruction = self.histories.get_mut(part.history)?.instructions_of(part.thread, order);
        (instruction <= part.agreed).then_some(instruction)
    }

    fn words(&self, source: usize) -> String {
        let part = self.parts.get(source).and_then(Option::as_ref);
        let Some((part, history)) = part.and_then(|part| Some((part, self.histories.get(part.history)?)))
        else {
            return match self.origin {
                Origin::Recording => {
                    "registers and memory are not known: the recording has other instructions than this source"
                }
                Origin::DataTrace => "registers and memory are not known: this source has no data trace",
            }
            .to_owned();
        };
        let mut words = match (self.origin, history.has_registers()) {
            (Origin::DataTrace, _) => {
                "memory is known as far as data trace has loads and stores, registers are not".to_owned()
            }
            (Origin::Recording, true) => format!(
                "registers, and memory that the program read or wrote, are known: thread {} of the recording",
                part.thread
            ),
            (Origin::Recording, false) => format!(
                "memory that the program read or wrote is known, registers are not: thread {} of the recording",
                part.thread
            ),
        };
        if let Some(limit) = part.limit {
            let why = match limit {
                Limit::Difference => "trace and recording differ from there on",
                Limit::Gap => "the trace has a gap there, and does not agree with the recording afterwards",
                Limit::End => "the recording ends there",
            };
            words += &format!(", before #{}: {why}", part.agreed);
        }
        if history.truncated().is_some() {
            words += "; the recording was cut off";
        }
        if history.is_other_program() {
            words += "; the program's file is another one than was executed, and is not believed";
        }
        if history.surprises() > 0 {
            words += &format!(
                "; {} loads brought what nobody was seen to write: before them, memory there is older",
                history.surprises()
            );
        }
        match history.disagreements() {
            0 => {}
            times => {
                words += &format!(
                    "; executed again, it gives something else than was recorded {times} times: registers are not known from there on"
                );
            }
        }
        words
    }
}

/// The thread of the recording that a source is of: by its name, as recordings give it, or by its place.
fn thread_of(name: &str, number: usize, history: &History) -> Option<u32> {
    let named = name.strip_prefix("unit_").and_then(|digits| digits.parse().ok());
    let named = named.filter(|thread| history.threads().contains_key(thread));
    named.or_else(|| history.threads().keys().nth(number).copied())
}

/// Does the event log name more than one process, or a program that takes the place of another one?
fn has_several_programs(capture: &Capture) -> bool {
    let Some(events) = &capture.description().events else { return false };
    let (mut records, mut first, mut has_ended) = (events.records(), None, false);
    while let Some(record) = records.next() {
        let pid = match &record.item {
            LogItem::Mapping(LogState::End, mapping) if mapping.main => {
                has_ended = true;
                continue;
            }
            LogItem::Mapping(_, mapping) if mapping.main && has_ended => return true,
            LogItem::Mapping(_, mapping) if mapping.main => mapping.pid,
            LogItem::Thread { pid, .. } | LogItem::Switch { pid, .. } => *pid,
            _ => continue,
        };
        if *first.get_or_insert(pid) != pid {
            return true;
        }
    }
    false
}

/// Holds what a source executed beside what the recording has.
struct Comparison<'h> {
    theirs: Instructions<'h>,
    /// So many instructions are the same.
    agreed: u64,
    /// As many were before the first gap.
    gap: Option<u64>,
    hart: Option<u16>,
    limit: Option<Limit>,
}

impl Comparison<'_> {
    fn range(&mut self, range: &Executed) {
        let mut address: Address = range.start;
        for _ in 0..range.instructions {
            match self.theirs.next() {
                Some(theirs) if theirs.address == address => {
                    address = theirs.end();
                    self.agreed += 1;
                }
                Some(_) => return self.limit = Some(Limit::Difference),
                None => return self.limit = Some(Limit::End),
            }
        }
        if address != range.end {
            self.limit = Some(Limit::Difference);
        }
    }

    /// How many instructions have the same numbers in both, and why not more.
    fn finish(mut self) -> (u64, Option<Limit>) {
        match self.gap {
            Some(gap) if self.limit.is_some() || self.theirs.next().is_some() => (gap, Some(Limit::Gap)),
            _ => (self.agreed, self.limit),
        }
    }
}

impl InWindow for Comparison<'_> {
    fn item(&mut self, item: Item<'_, Event>) {
        if self.limit.is_some() {
            return;
        }
        match &item.value {
            Event::Range(range) if range.instructions > 0 => {
                // Of several harts of a source, the recording has each by itself.
                match *self.hart.get_or_insert(item.sub_source) == item.sub_source {
                    true => self.range(range),
                    false => self.limit = Some(Limit::Difference),
                }
            }
            event
                if self.agreed > 0 && (event.is_break() || matches!(event, Event::UncountedLoop { .. })) =>
            {
                self.gap.get_or_insert(self.agreed);
            }
            _ => {}
        }
    }

    fn has_enough(&self) -> bool {
        self.limit.is_some()
    }
}
