//! An index in a file.
//!
//! ```text
//! 8 bytes   "bsindex" and the version of the format
//! 16 bytes  the identity of the capture and its code
//! …         sources, each with contexts, calls, points and sums: numbers in groups of seven bits, differences to the point before
//! 4 bytes   CRC-32 of all that comes before
//! ```
//!
//! A file is read whole or not at all: what is not one of this version, of this capture, or not as it was written, is refused with a
//! word. The file is an input like any other: sizes in it are believed only as far as there are bytes, and points have to be in order.

use std::fmt;
use std::sync::Arc;

use backsight_core::{Context, Isa, Mode, Privilege, Security, TraceId, leb128};

use super::file_calls::LastCalls;
use super::identity::Identity;
use super::index::{Index, Point, SourceIndex};
use super::place::{Contexts, Place};
use crate::decode::{Cut, Seek};

const MAGIC: [u8; 8] = *b"bsindex\x04";

/// Why a file is no index of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IndexProblem {
    /// It is something else, or of another version.
    Foreign,
    /// It is not as it was written.
    Damaged,
    /// It belongs to another capture, or to what this one was before.
    Stale,
}

impl fmt::Display for IndexProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Foreign => "no index, or one of another version of this program",
            Self::Damaged => "a damaged index",
            Self::Stale => "an index of another capture, or of this one with other trace, settings or code",
        })
    }
}

impl std::error::Error for IndexProblem {}

impl Index {
    /// The bytes of a file.
    pub fn to_bytes(&self, identity: Identity) -> Vec<u8> {
        let mut out = Written(Vec::new());
        out.0.extend_from_slice(&MAGIC);
        out.0.extend_from_slice(&identity.0);
        out.number(self.sources.len() as u64);
        self.sources.iter().for_each(|source| out.source(source));
        let sum = checksum(&out.0);
        out.0.extend_from_slice(&sum);
        out.0
    }

    /// Reads the bytes of a file.
    ///
    /// # Errors
    /// If they are no index of this capture.
    pub fn from_bytes(bytes: &[u8], identity: Identity) -> Result<Self, IndexProblem> {
        let rest = bytes.strip_prefix(&MAGIC).ok_or(IndexProblem::Foreign)?;
        let (whole, sum) = bytes.split_last_chunk::<4>().ok_or(IndexProblem::Damaged)?;
        if checksum(whole) != *sum {
            return Err(IndexProblem::Damaged);
        }
        let (of, rest) = rest.split_first_chunk::<16>().ok_or(IndexProblem::Damaged)?;
        if *of != identity.0 {
            return Err(IndexProblem::Stale);
        }
        let mut read = Read(rest.get(..rest.len().saturating_sub(4)).unwrap_or_default());
        let index = read.index().ok_or(IndexProblem::Damaged)?;
        if read.0.is_empty() { Ok(index) } else { Err(IndexProblem::Damaged) }
    }
}

fn checksum(bytes: &[u8]) -> [u8; 4] {
    let mut sum = flate2::Crc::new();
    sum.update(bytes);
    sum.sum().to_le_bytes()
}

/// More instructions were never traced, nor cycles.
pub(super) const MOST_INSTRUCTIONS: u64 = 1 << 60;

pub(super) struct Written(Vec<u8>);

impl Written {
    pub fn byte(&mut self, byte: u8) {
        self.0.push(byte);
    }

    pub fn number(&mut self, number: u64) {
        leb128::write(number, |byte| self.0.push(byte));
    }

    /// A number that there may be.
    pub fn optional(&mut self, number: Option<u64>) {
        match number {
            None => self.0.push(0),
            Some(number) => {
                self.0.push(1);
                self.number(number);
            }
        }
    }

    fn source(&mut self, source: &SourceIndex) {
        let SourceIndex { buffer, id, points, end, is_tail, is_absent, calls, sums } = source;
        self.number(buffer.len() as u64);
        self.0.extend_from_slice(buffer.as_bytes());
        self.0.push(id.get());
        self.0.push(u8::from(*is_tail));
        self.0.push(u8::from(*is_absent));
        self.number(end.instructions);
        self.optional(end.time);
        self.optional(end.first_time);
        let mut contexts: Vec<&Contexts> = Vec::new();
        let numbers: Vec<usize> = points
            .iter()
            .map(|point| {
                // Most points are in the context of the one before, or of one a little earlier.
                let known = contexts.iter().rposition(|known| **known == point.contexts);
                known.unwrap_or_else(|| {
                    contexts.push(&point.contexts);
                    contexts.len() - 1
                })
            })
            .collect();
        self.number(contexts.len() as u64);
        contexts.iter().for_each(|contexts| self.contexts(contexts));
        self.calls(calls);
        self.number(points.len() as u64);
        let (mut last, mut last_calls) = (Last::default(), LastCalls::default());
        for (point, number) in points.iter().zip(numbers) {
            let Point { cut: Cut { sync, offset, seek }, place, .. } = point;
            self.number(sync - last.sync);
            self.number(offset - sync);
            self.number(place.instructions - last.instructions);
            let time = place.time.map(|time| time - last.time);
            self.optional(time);
            self.optional(seek.map(|seek| seek.position - last.position));
            if let Some(seek) = seek {
                self.number(seek.offset - last.offset);
                self.0.push(seek.id.map_or(0x80, TraceId::get));
            }
            self.number(number as u64);
            self.harts(point.calls.as_deref(), &mut last_calls);
            last = Last::at(point, last);
        }
        self.sums(sums);
    }

    fn contexts(&mut self, contexts: &Contexts) {
        self.number(contexts.iter().count() as u64);
        for &(hart, Context { privilege, wide, vmid, context_id }, isa) in contexts.iter() {
            self.number(hart.into());
            let security = |security| match security {
                Security::Secure => 0,
                Security::NonSecure => 1,
                Security::Root => 2,
                Security::Realm => 3,
            };
            let privilege = match privilege {
                Privilege::Unknown => [0, 0, 0],
                Privilege::Arm { level, security: state } => [1, level, security(state)],
                Privilege::Armv7 { security: state, hyp } => [2, u8::from(hyp), security(state)],
                Privilege::Riscv(Mode(mode)) => [3, mode, 0],
            };
            self.0.extend(privilege);
            self.0.push(u8::from(wide));
            self.optional(vmid.map(u64::from));
            self.optional(context_id);
            self.0.push(isa as u8);
        }
    }
}

/// What the differences of a point are to.
#[derive(Clone, Copy, Default)]
struct Last {
    sync: u64,
    instructions: u64,
    time: u64,
    position: u64,
    offset: u64,
}

impl Last {
    fn at(point: &Point, before: Self) -> Self {
        let Point { cut, place, .. } = point;
        Self {
            sync: cut.sync,
            instructions: place.instructions,
            time: place.time.unwrap_or(before.time),
            position: cut.seek.map_or(before.position, |seek| seek.position),
            offset: cut.seek.map_or(before.offset, |seek| seek.offset),
        }
    }
}

pub(super) struct Read<'b>(&'b [u8]);

impl Read<'_> {
    pub fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    pub fn number(&mut self) -> Option<u64> {
        leb128::read(|| self.byte().ok_or(())).ok().flatten()
    }

    pub fn flag(&mut self) -> Option<bool> {
        match self.byte()? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }

    pub fn optional(&mut self) -> Option<Option<u64>> {
        Some(if self.flag()? { Some(self.number()?) } else { None })
    }

    /// A number of things, each of which has at least one byte.
    pub fn count(&mut self) -> Option<usize> {
        usize::try_from(self.number()?).ok().filter(|&count| count <= self.0.len())
    }

    /// One more than such a number, or 0 for none.
    pub fn optional_count(&mut self) -> Option<Option<usize>> {
        let count = usize::try_from(self.number()?).ok()?.checked_sub(1);
        count.is_none_or(|count| count <= self.0.len()).then_some(count)
    }

    fn index(&mut self) -> Option<Index> {
        let count = self.count()?;
        let sources = (0..count).map(|_| self.source()).collect::<Option<_>>()?;
        Some(Index { sources })
    }

    fn source(&mut self) -> Option<SourceIndex> {
        let length = self.count()?;
        let (name, rest) = self.0.split_at_checked(length)?;
        let buffer = std::str::from_utf8(name).ok()?.to_owned();
        self.0 = rest;
        let id = TraceId::new(self.byte().filter(|id| id & 0x80 == 0)?);
        let (is_tail, is_absent) = (self.flag()?, self.flag()?);
        let instructions = self.number().filter(|&instructions| instructions <= MOST_INSTRUCTIONS)?;
        let (time, first_time) = (self.optional()?, self.optional()?);
        let end = Place { instructions, time, first_time, position: None };
        let count = self.count()?;
        let contexts: Vec<Contexts> = (0..count).map(|_| self.contexts()).collect::<Option<_>>()?;
        let calls = self.calls()?;
        let count = self.count()?;
        let (mut points, mut last, mut last_calls) = (Vec::new(), Last::default(), LastCalls::default());
        for _ in 0..count {
            let sync = last.sync.checked_add(self.number()?)?;
            let offset = sync.checked_add(self.number()?)?;
            let instructions = last.instructions.checked_add(self.number()?)?;
            let time = match self.optional()? {
                None => None,
                Some(more) => Some(last.time.checked_add(more)?),
            };
            let seek = match self.optional()? {
                None => None,
                Some(more) => Some(Seek {
                    position: last.position.checked_add(more)?,
                    offset: last.offset.checked_add(self.number()?)?,
                    id: match self.byte()? {
                        0x80 => None,
                        id if id < 0x80 => Some(TraceId::new(id)),
                        _ => return None,
                    },
                }),
            };
            let contexts = contexts.get(usize::try_from(self.number()?).ok()?)?.clone();
            let harts = self.harts(instructions, &calls, &mut last_calls)?;
            let first_time = first_time.filter(|_| time.is_some());
            let place = Place { instructions, time, first_time, position: None };
            let is_in_order = instructions <= end.instructions && seek.is_none_or(|seek| seek.offset <= sync);
            if !is_in_order {
                return None;
            }
            let point = Point { cut: Cut { sync, offset, seek }, place, contexts, calls: harts };
            last = Last::at(&point, last);
            points.push(point);
        }
        let sums = self.sums(end.instructions)?.into();
        Some(SourceIndex { buffer, id, points, end, is_tail, is_absent, calls: calls.into(), sums })
    }

    fn contexts(&mut self) -> Option<Contexts> {
        let count = self.count()?;
        let all = (0..count).map(|_| self.context()).collect::<Option<Vec<_>>>()?;
        all.is_sorted_by(|one, other| one.0 < other.0).then(|| Contexts(Arc::new(all)))
    }

    fn context(&mut self) -> Option<(u16, Context, Isa)> {
        let hart = u16::try_from(self.number()?).ok()?;
        let [kind, value, state] = [self.byte()?, self.byte()?, self.byte()?];
        let security = || {
            Some(match state {
                0 => Security::Secure,
                1 => Security::NonSecure,
                2 => Security::Root,
                3 => Security::Realm,
                _ => return None,
            })
        };
        let privilege = match kind {
            0 => Privilege::Unknown,
            1 if value < 4 => Privilege::Arm { level: value, security: security()? },
            2 if value < 2 => Privilege::Armv7 { security: security()?, hyp: value == 1 },
            3 => Privilege::Riscv(Mode(value)),
            _ => return None,
        };
        let wide = self.flag()?;
        let vmid = match self.optional()? {
            None => None,
            Some(vmid) => Some(u32::try_from(vmid).ok()?),
        };
        let context_id = self.optional()?;
        let isas = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64, Isa::ThumbEe, Isa::Jazelle];
        let isa = *isas.get(usize::from(self.byte()?))?;
        Some((hart, Context { privilege, wide, vmid, context_id }, isa))
    }
}

#[cfg(test)]
mod tests {
    use backsight_core::{Address, AddressSpace};

    use super::*;
    use crate::calls::saved::{CallSite, HartCalls, NONE, SavedCall, SavedCalls, SavedStack};
    use crate::calls::{Clock, Departure};
    use crate::moments::sums::{Counts, FunctionCounts, Part, Sums};

    fn index() -> Index {
        let point = |number: u64| {
            let seek =
                Seek { position: number * 16_384, id: Some(TraceId::new(0x10)), offset: number * 15_000 };
            let cut = Cut { sync: number * 16_000, offset: number * 16_000 + 64, seek: Some(seek) };
            let time = (number > 2).then_some(7_000 + number);
            let first_time = time.and(Some(7_003));
            let mut contexts = Contexts::default();
            contexts.set(
                0,
                Context { context_id: Some(number / 3), ..Context::arm(1, Security::NonSecure, true) },
                Isa::A64,
            );
            contexts.set(4, Context::riscv(3, false), Isa::Rv32);
            let place = Place { instructions: number * 130_000, time, first_time, position: None };
            let stack = SavedStack {
                top: if number.is_multiple_of(2) { 1 } else { NONE },
                frames: if number.is_multiple_of(2) { 2 } else { 0 },
                forgotten: number,
                departure: Departure::Exception { return_address: Address(0x1234) },
                is_lost: number == 3,
            };
            let hart = |hart| HartCalls {
                hart,
                thread: Some(number),
                clock: Clock { instructions: number * 100, cycles: Some(number), time },
                began: Clock { instructions: number * 90, cycles: Some(number / 2), time },
                running: stack,
                paused: Arc::new(vec![(1, stack), (7, stack)]),
            };
            Point { cut, place, contexts, calls: (number > 1).then(|| [hart(0), hart(4)].into()) }
        };
        let end =
            Place { instructions: 1_400_000, time: Some(7_020), first_time: Some(7_003), position: None };
        let points = (1..10).map(point).collect();
        let site = |address| CallSite {
            space: AddressSpace::EL1N.in_process(3),
            address: Address(address),
            return_address: Some(Address(address + 0x44)),
            is_handler: address == 0x1000,
            is_beginning_known: true,
        };
        let call = |caller, site, instructions| SavedCall {
            caller,
            site,
            was_visited: site == 0,
            entered: Clock { instructions, cycles: None, time: Some(7) },
            elsewhere: 5,
        };
        let sites = vec![site(0x1000), site(0xFFFF_FFFF_8000_0000)];
        let calls = SavedCalls { sites, calls: vec![call(NONE, 0, 3), call(0, 1, 50)] };
        let counted = |function: u32, number: u64| FunctionCounts {
            function,
            entered: number - 1,
            instructions: number * 1_000,
        };
        let counts = |number: u64| Counts {
            exceptions: number % 3,
            gaps: number / 2,
            breaks: number,
            messages: 7 * number,
            contexts: vec![(3, number), (0x1_0000_0000, 1)],
            functions: (0..number as u32 % 3).map(|function| counted(function, number)).collect(),
        };
        let part = |number: u64| Part {
            end: number * 350_000,
            time: (number != 2).then_some(7_000 - number),
            depths: (number, number * 3),
            counts: counts(number),
        };
        let parts = (1..5).map(part).collect();
        let sums = Sums { functions: vec![0x5000, 0x4000, 0xFFFF_FFFF_8000_0000], parts };
        let one = SourceIndex {
            buffer: "ETB_0".to_owned(),
            id: TraceId::new(0x10),
            points,
            end,
            is_tail: false,
            is_absent: false,
            calls: calls.into(),
            sums: sums.into(),
        };
        let other = SourceIndex { buffer: "é".to_owned(), is_absent: true, ..SourceIndex::default() };
        Index { sources: vec![one, other] }
    }

    #[test]
    fn what_is_written_is_read() {
        let identity = Identity([7; 16]);
        let bytes = index().to_bytes(identity);
        assert_eq!(Index::from_bytes(&bytes, identity), Ok(index()));
        assert!(bytes.len() < 1_400, "{}", bytes.len());
        assert_eq!(Index::from_bytes(&bytes, Identity([8; 16])), Err(IndexProblem::Stale));
    }

    #[test]
    fn what_is_not_as_it_was_written_is_refused() {
        let identity = Identity([7; 16]);
        let bytes = index().to_bytes(identity);
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 0x41;
            let expected = if at < 8 { IndexProblem::Foreign } else { IndexProblem::Damaged };
            assert_eq!(Index::from_bytes(&other, identity), Err(expected), "{at}");
            assert!(Index::from_bytes(&bytes[..at], identity).is_err(), "{at}");
        }
    }

    #[test]
    fn no_bytes_with_a_good_sum_make_it_stumble() {
        let identity = Identity([7; 16]);
        let bytes = index().to_bytes(identity);
        let body = bytes.len() - 4;
        for at in 24..body {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut other = bytes[..body].to_vec();
                other[at] = value;
                let sum = checksum(&other);
                other.extend(sum);
                // Whatever comes of it: it is written as it was read.
                if let Ok(read) = Index::from_bytes(&other, identity) {
                    assert_eq!(Index::from_bytes(&read.to_bytes(identity), identity), Ok(read), "{at}");
                }
            }
        }
    }
}
