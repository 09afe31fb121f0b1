//! Registers and memory out of a Tarmac log.
//!
//! The log has lines, and the walk numbers instructions: an instruction is found in the log by decoding from the nearest point of the
//! index, and so is the number of the instruction that an access is of.

use std::ops::Range;
use std::sync::Arc;

use backsight::decode::{Decode, Execution};
use backsight::moments::{InWindow, Moment, Moments, Place, Window};
use backsight::states::{
    Bank, Class, LogPlace, ModeKind, Register as LogRegister, StateIndex, States, Touch as LogTouch, Watched,
};
use backsight::{Event, Item, Result, Source};

use super::state::{Access, At, Register, State, Touch};
use super::walk::Replay;

/// Bytes of the log before an access, in which decoding begins that finds its number.
const APPROACH: u64 = 1 << 12;

/// Bytes of the log behind an access, in which the core goes on that it is of: it is reported with the next instruction.
const MOST_LATE: u64 = 1 << 24;

/// Places of instructions in the log that are kept.
const MOST_PLACES: usize = 64;

/// The registers and the memory of logs.
pub struct Logged<'c> {
    moments: Moments<'c>,
    decode: Decode<'c, Execution>,
    /// Of each source that is a log.
    logs: Vec<Option<Log<'c>>>,
}

struct Log<'c> {
    source: Source,
    instructions: u64,
    states: States<'c>,
    places: Vec<(u64, LogPlace)>,
}

impl<'c> Logged<'c> {
    /// What the log of a walk says, by its index; `None` if no source is a log.
    ///
    /// # Errors
    /// If a log can be read once only.
    pub fn new(replay: &Replay<'c>, index: Arc<StateIndex>) -> Result<Option<Self>> {
        let (mut logs, mut moments_and_decode) = (Vec::new(), None);
        let log = replay.capture().log().map(|(source, _)| source);
        for track in replay.tracks() {
            let is_log = log
                .as_ref()
                .is_some_and(|log| log.buffer() == track.source.buffer() && log.id() == track.source.id());
            if !is_log {
                logs.push(None);
                continue;
            }
            let reader = track.reader();
            let states = States::new(reader.moments.capture(), &track.source, Some(Arc::clone(&index)))?;
            let (source, instructions) = (track.source.clone(), track.instructions);
            logs.push(Some(Log { source, instructions, states, places: Vec::new() }));
            moments_and_decode = Some((reader.moments.clone(), reader.decode.clone()));
        }
        Ok(moments_and_decode.map(|(moments, decode)| Self { moments, decode, logs }))
    }

    /// Where an instruction is in its log.
    fn place(&mut self, at: At) -> Option<LogPlace> {
        let log = self.logs.get_mut(at.source)?.as_mut()?;
        if let Some((_, place)) = log.places.iter().find(|known| known.0 == at.instruction) {
            return Some(*place);
        }
        let moment =
            if at.instruction < log.instructions { Moment::Instruction(at.instruction) } else { Moment::END };
        let place = log.states.find(&self.moments, &self.decode, &log.source, moment).ok()?;
        if log.places.len() >= MOST_PLACES {
            log.places.remove(0);
        }
        log.places.push((at.instruction, place));
        Some(place)
    }

    /// The access of an instruction that touched something, by its number.
    fn access(&self, source: usize, touch: LogTouch) -> Option<Access> {
        let log = self.logs.get(source)?.as_ref()?;
        let offset = touch.writer.offset;
        let mut number = Number {
            offset,
            core: touch.core,
            place: Place::default(),
            last: None,
            found: None,
            is_past: false,
        };
        let from = Some(Moment::Position(offset.saturating_sub(APPROACH)));
        let mut wanted = [from, None].into_iter();
        // Ranges of other cores may hide where it is: then all that comes before it is looked at.
        while number.found.is_none()
            && let Some(from) = wanted.next()
        {
            (number.last, number.place, number.is_past) = (None, Place::default(), false);
            let window = Window { from, to: None };
            self.moments.take(self.decode.clone(), &log.source, window, &mut number).ok()?;
        }
        let instruction = number.found?;
        let LogTouch { address, length, is_write, .. } = touch;
        Some(Access { instruction, address, length, is_write })
    }

    fn value(&mut self, at: At, register: Register) -> Option<u64> {
        let place = self.place(at)?;
        let it = place.instruction?;
        let (number, is_wide) = (u8::try_from(register.0).ok()?, it.state.is_wide());
        let bank = Bank::new(it.mode.name().as_bytes());
        let candidates = match (is_wide, number) {
            (true, 0..=30) => vec![LogRegister::new(Class::X, number)],
            (true, 31) => stack_pointers(it.mode.kind),
            (false, 0..=12) => match it.mode.kind {
                ModeKind::Fiq if number >= 8 => {
                    vec![LogRegister { bank, ..LogRegister::new(Class::R, number) }]
                }
                _ => vec![LogRegister::new(Class::X, number)],
            },
            (false, 13 | 14) => {
                let of_mode = LogRegister { bank, ..LogRegister::new(Class::R, number) };
                let mut all = vec![of_mode, LogRegister::new(Class::R, number)];
                // They have no other bank: those of User mode.
                if matches!(it.mode.kind, ModeKind::Sys) {
                    all.insert(1, LogRegister { bank: Bank::new(b"usr"), ..of_mode });
                }
                // Which of its stack pointers Thread mode has is in a register that logs name in many ways.
                if matches!(it.mode.kind, ModeKind::Thread) && number == 13 {
                    all.clear();
                }
                all
            }
            _ => return None,
        };
        let log = self.logs.get_mut(at.source)?.as_mut()?;
        let machine = log.states.before(place.offset).ok()?;
        let contents = candidates.into_iter().find_map(|register| machine.register(at.hart, register))?;
        let bytes = contents.bytes.get(..if is_wide { 8 } else { 4 })?;
        bytes.iter().rev().try_fold(0, |sum, byte| Some(sum << 8 | u64::from((*byte)?)))
    }
}

/// The names that the stack pointer of AArch64 has in a mode.
fn stack_pointers(mode: ModeKind) -> Vec<LogRegister> {
    let named = |bank: &[u8]| LogRegister { bank: Bank::new(bank), ..LogRegister::new(Class::Sp, 0) };
    let banked = match mode {
        ModeKind::Level(0, _) | ModeKind::Level(_, false) => Some(named(b"el0")),
        ModeKind::Level(1, true) => Some(named(b"el1")),
        ModeKind::Level(2, true) => Some(named(b"el2")),
        ModeKind::Level(_, true) => Some(named(b"el3")),
        _ => None,
    };
    banked.into_iter().chain([named(b"")]).collect()
}

fn watched(addresses: Range<u64>, touch: Touch) -> Watched {
    Watched::Memory { addresses, reads: touch != Touch::Write, writes: touch != Touch::Read }
}

impl State for Logged<'_> {
    fn register(&mut self, at: At, register: Register) -> Option<u64> {
        self.value(at, register)
    }

    fn memory(&mut self, at: At, address: u64, bytes: &mut [u8], known: &mut [bool]) {
        let Some(place) = self.place(at) else { return };
        let Some(Some(log)) = self.logs.get_mut(at.source) else { return };
        let Ok(machine) = log.states.before(place.offset) else { return };
        for ((byte, is_known), n) in bytes.iter_mut().zip(known).zip(0..) {
            if let Some((found, _)) = machine.byte(address.wrapping_add(n)) {
                (*byte, *is_known) = (found, true);
            }
        }
    }

    fn last_access_before(&mut self, at: At, addresses: Range<u64>, touch: Touch) -> Option<Access> {
        let mut offset = self.place(at)?.offset;
        loop {
            let log = self.logs.get_mut(at.source)?.as_mut()?;
            let found = log.states.last_before(offset, &watched(addresses.clone(), touch)).ok()??;
            offset = found.writer.offset;
            // What an instruction accessed that was not executed in the end is passed over.
            if let Some(access) = self.access(at.source, found).filter(|one| one.instruction < at.instruction)
            {
                return Some(access);
            }
        }
    }

    fn next_access_after(&mut self, at: At, addresses: Range<u64>, touch: Touch) -> Option<Access> {
        let mut offset = self.place(at)?.offset;
        loop {
            let log = self.logs.get_mut(at.source)?.as_mut()?;
            let found = log.states.next_from(offset, &watched(addresses.clone(), touch)).ok()??;
            offset = found.writer.offset + 1;
            if let Some(access) =
                self.access(at.source, found).filter(|one| one.instruction >= at.instruction)
            {
                return Some(access);
            }
        }
    }

    fn knows_accesses(&self) -> bool {
        true
    }

    fn words(&self, source: usize) -> String {
        let Some(Some(log)) = self.logs.get(source) else {
            return "registers and memory are not known: this source is no log".to_owned();
        };
        let mut words = "registers and memory are known as far as the log has told".to_owned();
        if log.states.index().is_damaged() {
            words += "; the index of states is damaged, and says less than it did";
        }
        words
    }
}

/// Finds the number of the instruction that an access is of.
struct Number {
    offset: u64,
    core: u16,
    place: Place,
    /// The last instruction of the core: its number.
    last: Option<u64>,
    found: Option<u64>,
    is_past: bool,
}

impl InWindow for Number {
    fn begin(&mut self, place: &Place) {
        self.place = *place;
    }

    fn item(&mut self, item: Item<'_, Event>) {
        self.is_past |= item.offset > self.offset.saturating_add(MOST_LATE);
        match item.value {
            Event::Range(range) => {
                self.place.instructions += u64::from(range.instructions);
                if item.sub_source == self.core {
                    self.last = self.place.instructions.checked_sub(1);
                }
            }
            Event::Access(_) if item.sub_source == self.core && item.offset == self.offset => {
                self.found = self.found.or(self.last);
            }
            _ => {}
        }
    }

    fn has_enough(&self) -> bool {
        self.found.is_some() || self.is_past
    }
}
