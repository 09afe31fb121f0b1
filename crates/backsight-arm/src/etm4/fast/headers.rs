//! What the fast engine looks up by header byte.

use super::batch::{CYCLE_COUNT, Descriptor, HEADER_ONLY, Packed};
use super::lengths::is_run;
use super::shapes::SHAPES;
use crate::etm4::decode::ClearReader;
use crate::etm4::{Config, CycleCountFormat, Kind, Packet};

/// How to go on after a header. Each class is a bit: one test after the other, the commonest first, is predicted
/// better than the jump table that comparing numbers would become.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Class(u8);

impl Class {
    /// A packet that is a header alone, of those that come in runs.
    pub const RUN: Self = Self(1);
    /// Another packet that is a header alone.
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
    /// A timestamp, with a cycle count after it or without.
    pub const TIMESTAMP: Self = Self(32);
    /// Ask the clear reader.
    pub const RARE: Self = Self(64);

    #[inline(always)]
    pub const fn is(self, class: Self) -> bool {
        self.0 & class.0 != 0
    }
}

/// What a header introduces.
#[derive(Clone, Copy, Debug)]
#[repr(align(4))]
pub(super) struct Header {
    pub class: Class,
    /// Addresses: the shape, see [`super::shapes`], and 1 if bit 7 of the first byte means the next one.
    pub shape: u8,
    pub continues: u8,
}

impl Header {
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
            Kind::AddressExact => Self::address(kind.field(header), 0),
            Kind::AddressShortIs0 => Self::address(3, 1),
            Kind::AddressShortIs1 => Self::address(5, 1),
            Kind::Address32Is0 => Self::address(7, 0),
            Kind::Address32Is1 => Self::address(8, 0),
            Kind::Address64Is0 => Self::address(9, 0),
            Kind::Address64Is1 => Self::address(10, 0),
            Kind::SourceExact => Self::source(kind.field(header), 0),
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

/// What headers introduce, in one of two ways of going through a stream.
#[derive(Clone, Debug)]
pub(super) struct Headers {
    pub headers: [Header; 256],
    /// The packets that are a header alone. Of cycle counts, the format, and as the value a mask of what counts.
    pub templates: [Packed; 256],
}

impl Headers {
    /// `dense`: most packets are a header alone. Then runs of them are taken together, cycle counts of format 3 among
    /// them. Otherwise each packet is taken by itself, and all cycle counts alike. The reader is at the beginning of
    /// a stream: its threshold is 0.
    pub fn new(reader: &ClearReader, dense: bool) -> Self {
        let none = Packed { value: 0, descriptor: Descriptor::new(HEADER_ONLY, 1, 0) };
        let mut all = Self { headers: [Header::of(Class::RARE); 256], templates: [none; 256] };
        let alike = !dense && has_times(&reader.config) && reader.config.commit_mode1();
        let count =
            |format: CycleCountFormat, count| Descriptor::new(CYCLE_COUNT, 0, format as u8).with_count(count);
        for byte in 0..=255u8 {
            let index = usize::from(byte);
            let (header, template) = (&mut all.headers[index], &mut all.templates[index]);
            let Ok(kind) = reader.kinds[index] else { continue };
            match reader.header_only[index] {
                Some(Packet::CycleCount(sent)) if alike && kind == Kind::CycleCountF3 => {
                    *header = Header::of(Class::CYCLE_COUNT);
                    template.descriptor = count(sent.format, sent.cycles.unwrap_or_default());
                }
                Some(_) => {
                    let run = dense && is_run(byte);
                    *header = Header::of(if run { Class::RUN } else { Class::SINGLE });
                    template.descriptor = Descriptor::new(HEADER_ONLY, 1, byte);
                }
                None => {
                    *header = Header::new(kind, byte, &reader.config);
                    if kind == Kind::CycleCountF1 {
                        *template = Packed { value: !0, descriptor: count(CycleCountFormat::F1, 0) };
                    } else if kind == Kind::CycleCountF2 {
                        let format = CycleCountFormat::f2(kind.field(byte));
                        *template = Packed { value: 0xF, descriptor: count(format, 0) };
                    }
                }
            }
        }
        all
    }
}
