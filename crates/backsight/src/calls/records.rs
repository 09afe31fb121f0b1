//! What a part of a source does to the calls of a hart, written down by a thread that does not know the calls under way before it.
//!
//! Most of it depends on nothing before the part: stays in calls that began in it have only to learn how deep they are. The rest
//! is told as far as it is known: when the stay ended that went on, when and where execution came to that returns to callers.
//! Who knows the calls under way [joins](super::ShadowStack::join) it to them.
//!
//! A record is a word of 64 bits, its kind in the lowest four, and more words by kind. They never leave the process.

use backsight_core::{Address, AddressSpace};

use super::clock::Clock;
use super::functions::Functions;
use super::shadow::{Stay, Stays, Visited};
use super::stack::{Arrival, Departure, Frame, NameId, Place};

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// A stay in a call that began in this stretch, in instructions only.
    Stay,
    /// The same, by the clock.
    TimedStay,
    /// A stay in the call that the stretch began with.
    FirstStay,
    /// Another function comes in place of the one that the stretch began with.
    Replace,
    /// A name gets a number.
    Name,
    /// A stretch begins.
    Begin,
    /// It ends, with these calls under way.
    End,
    /// Something is missing.
    Loss,
    /// Another thread has its turn.
    Thread,
    /// The stay that goes on is shown as far as it has come.
    Interrupt,
    /// The part ends.
    PartEnd,
    /// Lines.
    Text,
    /// Where the last event was reported.
    Index,
    /// What follows is of this hart.
    Hart,
    /// The source ends.
    Done,
}

const KINDS: [Kind; 15] = [
    Kind::Stay,
    Kind::TimedStay,
    Kind::FirstStay,
    Kind::Replace,
    Kind::Name,
    Kind::Begin,
    Kind::End,
    Kind::Loss,
    Kind::Thread,
    Kind::Interrupt,
    Kind::PartEnd,
    Kind::Text,
    Kind::Index,
    Kind::Hart,
    Kind::Done,
];

/// Flags of a record.
const ONE: u64 = 1 << 4;
const OTHER: u64 = 1 << 5;
const THIRD: u64 = 1 << 6;
const FOURTH: u64 = 1 << 7;

/// The bit, where something holds.
fn flag(holds: bool, bit: u64) -> u64 {
    if holds { bit } else { 0 }
}

/// Writes records.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    /// What was written.
    pub bytes: Vec<u8>,
    /// Where the event was reported that what follows is about, where that is shown.
    pub index: Option<u64>,
    /// The part that a name was said in last, by its number.
    named: Vec<u32>,
    part: u32,
    /// The stay that goes on began in the stretch.
    knows_stay: bool,
    /// Most calls of the stretch before another one began.
    peak: usize,
}

/// Nothing but records comes of it.
impl Stays<'_> for Recorder {
    fn take(&mut self, _functions: &Functions<'_>, _stay: &Stay) {}

    #[inline(always)]
    fn recorder(&mut self) -> Option<&mut Recorder> {
        Some(self)
    }
}

impl Recorder {
    #[inline(always)]
    fn put<const N: usize>(&mut self, kind: Kind, mut words: [u64; N]) {
        if let Some(index) = self.index.take() {
            self.put_index(index);
        }
        words[0] |= kind as u64;
        self.bytes.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
    }

    #[cold]
    fn put_index(&mut self, index: u64) {
        self.put(Kind::Index, [0, index]);
    }

    fn put_clock(&mut self, clock: &Clock) {
        let Clock { instructions, cycles, time } = *clock;
        let first = instructions << 2 | u64::from(cycles.is_some()) | u64::from(time.is_some()) << 1;
        for word in [Some(first), cycles, time].into_iter().flatten() {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
    }

    /// Nothing that was said before is known to who reads what follows.
    pub fn begin_part(&mut self) {
        self.part += 1;
        (self.knows_stay, self.peak, self.index) = (false, 0, None);
    }

    /// Names are numbered in another way from now on.
    pub fn forget_names(&mut self) {
        self.named.clear();
    }

    /// What follows is of this hart. `is_first`: nothing was in this part.
    pub fn hart(&mut self, hart: u16, is_first: bool) {
        let word = Kind::Hart as u64 | flag(is_first, ONE) | u64::from(hart) << 32;
        self.bytes.extend_from_slice(&word.to_le_bytes());
    }

    pub fn done(&mut self) {
        self.put(Kind::Done, [0]);
    }

    /// Lines that depend on nothing before.
    pub fn lines(&mut self, write: impl FnOnce(&mut Vec<u8>)) {
        self.put(Kind::Text, [0, 0]);
        let begin = self.bytes.len();
        write(&mut self.bytes);
        let length = self.bytes.len() - begin;
        self.bytes.resize(begin + length.next_multiple_of(8), 0);
        if let Some(place) = self.bytes.get_mut(begin - 8..begin) {
            place.copy_from_slice(&(length as u64).to_le_bytes());
        }
    }

    /// A name that calls and stays have.
    #[inline(always)]
    pub fn name(&mut self, name: NameId, space: AddressSpace, address: Address) {
        if self.named.get(name.get() as usize) != Some(&self.part) {
            self.put_name(name, space, address);
        }
    }

    #[inline(never)]
    fn put_name(&mut self, name: NameId, space: AddressSpace, address: Address) {
        let index = name.get() as usize;
        if self.named.len() <= index {
            self.named.resize(index + 1, 0);
        }
        self.named[index] = self.part;
        self.put(Kind::Name, [u64::from(name.get()) << 32, space_word(space), address.0]);
    }

    /// A call begins above so many of the stretch.
    #[inline(always)]
    pub fn call(&mut self, callers: usize) {
        self.peak = self.peak.max(callers);
    }

    /// The stay ends that began with `began`, in the last of these calls, all of which are of the stretch; `call` is what that was
    /// entered with, if it ends.
    #[inline(always)]
    pub(super) fn stay(&mut self, calls: &mut [Frame<Visited>], began: &Clock, now: &Clock, ends: bool) {
        let depth = calls.len() as u64 - 1;
        let Some(Frame { kept: top, .. }) = calls.last_mut() else { return };
        if depth == 0 {
            return self.first_stay(began, now);
        }
        let call = ends && top.is_beginning_known;
        let own = now.instructions - began.instructions;
        if own == 0 && !call {
            return;
        }
        let is_entry = !std::mem::replace(&mut top.was_visited, true);
        let head = flag(is_entry, ONE) | flag(call, OTHER) | depth << 8 | u64::from(top.name.get()) << 32;
        let took = if call { now.instructions - top.entered.instructions } else { 0 };
        if now.counts_instructions_only() && took.max(own) < 1 << 32 {
            return self.put(Kind::Stay, [head, own | took << 32]);
        }
        self.put(Kind::TimedStay, [head]);
        self.put_clock(began);
        self.put_clock(now);
        if call {
            self.put_clock(&top.entered);
        }
    }

    #[inline(never)]
    fn first_stay(&mut self, began: &Clock, now: &Clock) {
        self.put(Kind::FirstStay, [flag(self.knows_stay, ONE)]);
        self.put_clock(began);
        self.put_clock(now);
        self.knows_stay = true;
    }

    /// Another function comes in place of the one that the stretch began with.
    pub fn replace(&mut self, name: NameId, place: &Place, space: AddressSpace) {
        self.put(Kind::Replace, [u64::from(name.get()) << 32, space_word(space), place.address.0]);
    }

    /// A stretch begins.
    pub fn begin(&mut self, arrival: &Arrival, space: AddressSpace, now: &Clock) {
        (self.knows_stay, self.peak) = (false, 0);
        let Arrival { departure, is_lost, place } = arrival;
        let (kind, return_address) = departure_words(*departure);
        self.put(
            Kind::Begin,
            [flag(*is_lost, ONE) | kind << 8, return_address, space_word(space), place.address.0],
        );
        self.put_clock(now);
    }

    /// It ends, with these calls under way.
    pub(super) fn end(
        &mut self,
        functions: &Functions<'_>,
        calls: &[Frame<Visited>],
        began: &Clock,
        now: &Clock,
    ) {
        let head = flag(self.knows_stay, ONE) | (self.peak as u64) << 8;
        self.put(Kind::End, [head, calls.len() as u64]);
        self.put_clock(began);
        self.put_clock(now);
        for Frame { function, is_handler, return_address, kept } in calls.iter().skip(1) {
            let record = functions.list().get(*function as usize);
            let (space, met) = record.map_or_else(Default::default, |one| (space_word(one.space), one.met.0));
            let head = flag(*is_handler, ONE)
                | flag(return_address.is_some(), OTHER)
                | flag(kept.is_beginning_known, THIRD)
                | flag(kept.was_visited, FOURTH)
                | u64::from(kept.name.get()) << 32;
            let words = [head, space, met, return_address.map_or(0, |address| address.0)];
            self.bytes.extend_from_slice(words.map(u64::to_le_bytes).as_flattened());
            self.put_clock(&kept.entered);
        }
    }

    /// What happens to the calls that are under way, whichever they are; they are left by a return if `returns`.
    pub fn state(&mut self, kind: Kind, returns: bool, now: &Clock) {
        self.put(kind, [flag(returns, ONE)]);
        self.put_clock(now);
    }

    pub fn thread(&mut self, thread: u64, returns: bool, now: &Clock) {
        self.state(Kind::Thread, returns, now);
        self.bytes.extend_from_slice(&thread.to_le_bytes());
    }
}

fn space_word(space: AddressSpace) -> u64 {
    u64::from(space.process()) << 8 | u64::from(space.view())
}

fn departure_words(departure: Departure) -> (u64, u64) {
    match departure {
        Departure::Sequence => (0, 0),
        Departure::Jump { is_indirect } => (1 + u64::from(is_indirect), 0),
        Departure::Call { return_address } => (3, return_address.0),
        Departure::Return => (4, 0),
        Departure::ExceptionReturn => (5, 0),
        Departure::Exception { return_address } => (6, return_address.0),
        Departure::ExceptionSomewhere => (7, 0),
    }
}

/// Reads records.
#[derive(Clone, Debug)]
pub(crate) struct Records<'r> {
    words: &'r [[u8; 8]],
}

/// The first word of a record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Head(u64);

impl Head {
    #[inline(always)]
    pub const fn has_one(self) -> bool {
        self.0 & ONE != 0
    }

    #[inline(always)]
    pub const fn has_other(self) -> bool {
        self.0 & OTHER != 0
    }

    pub const fn has_third(self) -> bool {
        self.0 & THIRD != 0
    }

    pub const fn has_fourth(self) -> bool {
        self.0 & FOURTH != 0
    }

    /// How many, or how deep.
    #[inline(always)]
    pub const fn count(self) -> usize {
        (self.0 >> 8 & 0xFF_FFFF) as usize
    }

    /// The number of a name or of a hart.
    #[inline(always)]
    pub const fn number(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// How execution left what came before.
    pub const fn departure(self, return_address: Address) -> Departure {
        match self.0 >> 8 & 7 {
            0 => Departure::Sequence,
            1 => Departure::Jump { is_indirect: false },
            2 => Departure::Jump { is_indirect: true },
            3 => Departure::Call { return_address },
            4 => Departure::Return,
            5 => Departure::ExceptionReturn,
            6 => Departure::Exception { return_address },
            _ => Departure::ExceptionSomewhere,
        }
    }
}

impl<'r> Records<'r> {
    pub fn new(bytes: &'r [u8]) -> Self {
        Self { words: bytes.as_chunks().0 }
    }

    /// The next record, unless it is of one of these kinds.
    #[inline(always)]
    pub fn next_but(&mut self, but: &[Kind]) -> Option<(Kind, Head)> {
        let (first, rest) = self.words.split_first()?;
        let head = u64::from_le_bytes(*first);
        let kind = *KINDS.get((head & 15) as usize)?;
        if but.contains(&kind) {
            return None;
        }
        self.words = rest;
        Some((kind, Head(head)))
    }

    /// A word of a record. Who wrote it wrote all of it.
    #[inline(always)]
    pub fn word(&mut self) -> u64 {
        let Some((first, rest)) = self.words.split_first() else { return 0 };
        self.words = rest;
        u64::from_le_bytes(*first)
    }

    pub fn address(&mut self) -> Address {
        Address(self.word())
    }

    pub fn space(&mut self) -> AddressSpace {
        let word = self.word();
        AddressSpace::from_view(word as u8).in_process((word >> 8) as u32)
    }

    pub fn clock(&mut self) -> Clock {
        let first = self.word();
        let cycles = (first & 1 != 0).then(|| self.word());
        let time = (first & 2 != 0).then(|| self.word());
        Clock { instructions: first >> 2, cycles, time }
    }

    /// Lines.
    pub fn lines(&mut self) -> &'r [u8] {
        let length = self.word() as usize;
        let (lines, rest) = self.words.split_at(length.div_ceil(8).min(self.words.len()));
        self.words = rest;
        lines.as_flattened().get(..length).unwrap_or_default()
    }
}
