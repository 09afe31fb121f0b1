//! What the fast engine looks up by header.

use super::super::{AddressForm, Config, Is, Kind, Packet};
use super::batch::{ADDRESS, CYCLE_COUNT, Meaning, Packed, SOURCE_ADDRESS, Tag, WHOLE, form_index};
use super::lengths::is_run;
use super::reader::{Next, Reader};

/// How to go on after a header. Each class is a bit: one test after the other, the commonest first, is predicted
/// better than the jump table that comparing numbers would become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u8);

impl Class {
    /// A packet of its header alone, of those that come in runs.
    pub const RUN: Self = Self(1);
    /// Another packet of its header alone.
    pub const SINGLE: Self = Self(2);
    /// Either.
    pub const HEADER: Self = Self(1 | 2);
    /// An address.
    pub const ADDRESS: Self = Self(4);
    /// A source address.
    pub const SOURCE_ADDRESS: Self = Self(8);
    /// Either.
    pub const ANY_ADDRESS: Self = Self(4 | 8);
    /// A cycle count in commit mode 1.
    pub const CYCLE_COUNT: Self = Self(16);
    /// A timestamp, with a cycle count behind it or without.
    pub const TIMESTAMP: Self = Self(32);
    /// Ask the clear reader.
    pub const RARE: Self = Self(64);

    #[inline(always)]
    pub const fn is(self, class: Self) -> bool {
        self.0 & class.0 != 0
    }
}

/// What a header says.
#[derive(Clone, Copy, Debug)]
#[repr(align(4))]
pub(super) struct Row {
    pub class: Class,
    /// Addresses: the shape, see [`shapes`], and 1 if bit 7 of the first byte means the next one.
    pub shape: u8,
    pub continues: u8,
}

impl Row {
    const fn of(class: Class) -> Self {
        Self { class, shape: 0, continues: 0 }
    }

    const fn address(shape: u8, continues: u8) -> Self {
        Self { class: Class::ADDRESS, shape, continues }
    }

    const fn source(shape: u8, continues: u8) -> Self {
        Self { class: Class::SOURCE_ADDRESS, shape: SHAPES / 2 + shape, continues }
    }

    fn new(kind: Kind, header: u8, config: &Config) -> Self {
        let timed = has_times(config);
        match kind {
            Kind::AddressExact => Self::address(header & 3, 0),
            Kind::AddressShortIs0 => Self::address(3, 1),
            Kind::AddressShortIs1 => Self::address(5, 1),
            Kind::Address32Is0 => Self::address(7, 0),
            Kind::Address32Is1 => Self::address(8, 0),
            Kind::Address64Is0 => Self::address(9, 0),
            Kind::Address64Is1 => Self::address(10, 0),
            Kind::SourceExact => Self::source(header & 3, 0),
            Kind::SourceShortIs0 => Self::source(3, 1),
            Kind::SourceShortIs1 => Self::source(5, 1),
            Kind::Source32Is0 => Self::source(7, 0),
            Kind::Source32Is1 => Self::source(8, 0),
            Kind::Source64Is0 => Self::source(9, 0),
            Kind::Source64Is1 => Self::source(10, 0),
            Kind::CycleCountF1 | Kind::CycleCountF2 if timed && config.commit_mode1() => {
                Self::of(Class::CYCLE_COUNT)
            }
            Kind::Timestamp | Kind::TimestampCycles if timed => Self::of(Class::TIMESTAMP),
            _ => Self::of(Class::RARE),
        }
    }
}

/// Are the lengths of timestamps and cycle counts worth working out?
pub(super) const fn has_times(config: &Config) -> bool {
    config.timestamps() || config.cycle_counting()
}

/// What headers say, in one of two ways of going through a stream.
#[derive(Clone, Debug)]
pub(super) struct Rows {
    pub rows: [Row; 256],
    /// The packets that are all in their header. Of cycle counts, the format, and as the value a mask of what counts.
    pub templates: [Packed; 256],
}

impl Rows {
    /// `dense`: most packets are a header alone. Then runs of them are taken together, cycle counts of format 3 among
    /// them. Otherwise each packet is taken by itself, and all cycle counts alike.
    pub fn new(reader: &Reader, dense: bool) -> Self {
        let none = Packed { value: 0, meaning: Meaning::new(WHOLE, 1, 0) };
        let mut rows = Self { rows: [Row::of(Class::RARE); 256], templates: [none; 256] };
        for header in 0..=255u8 {
            let index = usize::from(header);
            let (row, template) = (&mut rows.rows[index], &mut rows.templates[index]);
            let Next::Payload(kind) = reader.next[index] else { continue };
            let packet = reader.whole[index];
            let alike = !dense && has_times(&reader.config) && reader.config.commit_mode1();
            let meaning = |format| Meaning::new(CYCLE_COUNT, 0, format).with_count(0);
            match packet {
                Some(Packet::CycleCount(count)) if alike && kind == Kind::CycleCountF3 => {
                    *row = Row::of(Class::CYCLE_COUNT);
                    let above = u64::from(header & 3);
                    *template = Packed { value: 0, meaning: Meaning(meaning(count.format as u8).0 + above) };
                }
                Some(_) => {
                    let run = dense && is_run(header);
                    *row = Row::of(if run { Class::RUN } else { Class::SINGLE });
                    template.meaning = Meaning::new(WHOLE, 1, header);
                }
                None => {
                    *row = Row::new(kind, header, &reader.config);
                    if kind == Kind::CycleCountF1 {
                        *template = Packed { value: !0, meaning: meaning(0) };
                    } else if kind == Kind::CycleCountF2 {
                        *template = Packed { value: 0xF, meaning: meaning(1 + (header & 1)) };
                    }
                }
            }
        }
        rows
    }
}

/// How to make an address out of payload bytes and the history.
///
/// The forms of addresses follow one another at random: a branch for each would be mispredicted all the time. So each
/// form is a row of masks, and all are read by the same arithmetic on the eight bytes that follow the header.
///
/// ```text
///              byte 0        byte 1        bytes 2 …
/// short IS0    C, A[8:2]     A[16:9]
/// short IS1    C, A[7:1]     A[15:8]
/// long  IS0    0, A[8:2]     0, A[15:9]    A[23:16] …
/// long  IS1    0, A[7:1]     A[15:8]       A[23:16] …
/// ```
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Address bits from the first two bytes, as they are for IS1, and those of them that IS0 has one place higher.
    low: u64,
    higher: u64,
    /// Address bits from the bytes after them.
    rest: u64,
    /// Address bits from each entry of the history, the newest first.
    keep: [u64; 3],
    /// The instruction set flag, in bit 0; an exact match keeps that of its entry.
    flag: u64,
    pub meaning: Meaning,
}

impl Shape {
    /// The address that the payload says, with the flag in bit 0. The newest entry, on which everything waits, comes in
    /// last.
    #[inline(always)]
    pub const fn address(&self, payload: u64, [newest, second, third]: [u64; 3]) -> u64 {
        let [keep_newest, keep_second, keep_third] = self.keep;
        let low = ((payload & 0x7F) << 1 | payload & 0xFF00) & self.low;
        let told = (low + (low & self.higher)) | payload & self.rest;
        let known = told | self.flag | second & keep_second | third & keep_third;
        known | newest & keep_newest
    }

    const fn new(is: Is, form: AddressForm, wide: bool, tag: Tag) -> Self {
        let is0 = matches!(is, Is::Is0);
        // Bit 7 of the second byte is no address bit in a long address of IS0.
        let long = if is0 { 0x7FFF } else { 0xFFFF };
        let (length, low, rest, keep) = match form {
            AddressForm::Exact(_) => (1, 0, 0, !0),
            AddressForm::Short1 => (2, 0xFF, 0, if is0 { !0x1FF } else { !0xFF }),
            AddressForm::Short2 => (3, 0xFFFF, 0, if is0 { !0x1_FFFF } else { !0xFFFF }),
            // In AArch32 state addresses have no upper half.
            AddressForm::Long32 => (5, long, 0xFFFF_0000, if wide { !0 << 32 } else { 0 }),
            AddressForm::Long64 => (9, long, !0xFFFF, 0),
        };
        let keep = match form {
            AddressForm::Exact(1) => [0, keep, 0],
            AddressForm::Exact(2) => [0, 0, keep],
            _ => [keep, 0, 0],
        };
        Self {
            low,
            higher: if is0 { low } else { 0 },
            rest,
            keep,
            flag: is as u64,
            meaning: Meaning::new(tag, length, form_index(form)),
        }
    }
}

/// Shapes in a table: those of addresses, then those of source addresses. There are fewer, but a power of two can be
/// looked up without a check.
pub(super) const SHAPES: u8 = 32;

/// The shapes of one processor state. A short address of two bytes comes behind the one of one byte.
const fn shapes(wide: bool) -> [Shape; SHAPES as usize] {
    let mut shapes = [Shape::new(Is::Is0, AddressForm::Exact(0), wide, ADDRESS); SHAPES as usize];
    let mut tag = ADDRESS;
    let mut first = 0;
    while first < shapes.len() {
        shapes[first] = Shape::new(Is::Is0, AddressForm::Exact(0), wide, tag);
        shapes[first + 1] = Shape::new(Is::Is0, AddressForm::Exact(1), wide, tag);
        shapes[first + 2] = Shape::new(Is::Is0, AddressForm::Exact(2), wide, tag);
        shapes[first + 3] = Shape::new(Is::Is0, AddressForm::Short1, wide, tag);
        shapes[first + 4] = Shape::new(Is::Is0, AddressForm::Short2, wide, tag);
        shapes[first + 5] = Shape::new(Is::Is1, AddressForm::Short1, wide, tag);
        shapes[first + 6] = Shape::new(Is::Is1, AddressForm::Short2, wide, tag);
        shapes[first + 7] = Shape::new(Is::Is0, AddressForm::Long32, wide, tag);
        shapes[first + 8] = Shape::new(Is::Is1, AddressForm::Long32, wide, tag);
        shapes[first + 9] = Shape::new(Is::Is0, AddressForm::Long64, wide, tag);
        shapes[first + 10] = Shape::new(Is::Is1, AddressForm::Long64, wide, tag);
        first += shapes.len() / 2;
        tag = SOURCE_ADDRESS;
    }
    shapes
}

/// The shapes in AArch32 and in AArch64 state.
pub(super) static SHAPES_OF: [[Shape; SHAPES as usize]; 2] = [shapes(false), shapes(true)];
