//! Cycle counts.
//!
//! A trace unit counts cycles from one count to the next, and sends a count once it has reached the threshold of the
//! last Trace Info; the threshold itself is left out. In commit mode 0 a count also commits elements; in commit mode 1
//! the fields for that mean nothing, or are not there.
//!
//! ```text
//! format 1   header: U         [COMMIT, continued] [COUNT, continued, if U = 0]     U = 1: the count is not known
//! format 2   header: F         AAAABBBB       COUNT = B;  commit A + 1, or A - 15 + the maximum depth if F = 1
//! format 3   header: AABB                     COUNT = B;  commit A + 1
//! ```

use backsight_core::{Field, Text, Value};

use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::encode::within;
use crate::etm4::state::StreamState;
use crate::etm4::table::COUNT_BYTES;
use crate::etm4::{Config, EncodeError, Encoder, Kind};

/// A cycle count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CycleCount {
    /// How it was written.
    pub format: CycleCountFormat,
    /// P0 elements to commit first; 0 in commit mode 1.
    pub commit: u32,
    /// Cycles, threshold included; `None` if unknown.
    pub cycles: Option<u32>,
}

/// The three cycle count formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CycleCountFormat {
    /// Fields of any length.
    F1,
    /// One byte; the commit count is counted from 1.
    F2,
    /// One byte; the commit count is counted back from the maximum speculation depth.
    F2FromMaximum,
    /// In the header.
    F3,
}

impl CycleCountFormat {
    /// Format 2 by F.
    pub(in crate::etm4) const fn f2(field: u8) -> Self {
        if field == 0 { Self::F2 } else { Self::F2FromMaximum }
    }

    const fn kind(self) -> Kind {
        match self {
            Self::F1 => Kind::CycleCountF1,
            Self::F2 | Self::F2FromMaximum => Kind::CycleCountF2,
            Self::F3 => Kind::CycleCountF3,
        }
    }
}

/// Bits of the longest count.
pub(super) const COUNT_BITS: u32 = 7 * COUNT_BYTES as u32;
/// What the commit field of format 2 says for the maximum depth.
const MAXIMUM: u8 = 15;

impl CycleCount {
    pub(super) const fn kind(&self) -> Kind {
        self.format.kind()
    }

    pub(super) fn read(
        kind: Kind,
        field: u8,
        payload: &mut PayloadReader<'_>,
        config: &Config,
        state: &StreamState,
    ) -> Result<Self, Stop> {
        let mode1 = config.commit_mode1();
        let (format, commit, count) = match kind {
            Kind::CycleCountF1 => {
                let is_known = field == 0;
                let commit = if mode1 { 0 } else { payload.number()? };
                (CycleCountFormat::F1, commit, if is_known { Some(payload.count()?) } else { None })
            }
            Kind::CycleCountF2 => {
                let byte = payload.byte()?;
                let (format, a) = (CycleCountFormat::f2(field), byte >> 4);
                let commit = match format {
                    // Never less than none.
                    CycleCountFormat::F2FromMaximum => {
                        config.max_speculation().saturating_sub((MAXIMUM - a).into())
                    }
                    _ => u32::from(a) + 1,
                };
                (format, commit, Some((byte & 0xF).into()))
            }
            _ => (CycleCountFormat::F3, u32::from(field >> 2) + 1, Some((field & 3).into())),
        };
        let cycles = count.map(|count| state.threshold.wrapping_add(count));
        Ok(Self { format, commit: if mode1 { 0 } else { commit }, cycles })
    }

    pub(super) fn write(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        let &Self { format, commit, cycles } = self;
        let mode1 = encoder.config.commit_mode1();
        if mode1 && commit != 0 {
            return Err(EncodeError::OutOfRange);
        }
        let count = cycles.map(|cycles| cycles.wrapping_sub(encoder.state.threshold));
        if format == CycleCountFormat::F1 {
            return write_f1((!mode1).then_some(commit), count, encoder);
        }
        let count = count.and_then(|count| u8::try_from(count).ok()).ok_or(EncodeError::OutOfRange)?;
        let from_1 = if mode1 { Some(0) } else { commit.checked_sub(1) };
        match format {
            CycleCountFormat::F3 => {
                encoder.begin(Kind::CycleCountF3, field(from_1, 3)? << 2 | within(count, 3)?)
            }
            _ => {
                let (f, a) = match format {
                    CycleCountFormat::F2 => (0, field(from_1, 15)?),
                    // A trace unit in commit mode 1 writes the maximum.
                    _ if mode1 => (1, MAXIMUM),
                    _ => {
                        let below = encoder.config.max_speculation().checked_sub(commit);
                        (1, MAXIMUM - field(below, MAXIMUM)?)
                    }
                };
                encoder.begin(Kind::CycleCountF2, f)?;
                encoder.out.byte(a << 4 | within(count, 15)?);
                Ok(())
            }
        }
    }

    pub(super) fn fields(&self, each: &mut dyn FnMut(Field)) {
        each(match self.cycles {
            Some(cycles) => Field::new("cycles", Value::Decimal(cycles.into())),
            None => Field::new("cycles", Value::Absent).text(Text::Words("cycles unknown")),
        });
        let text = if self.commit > 0 { Text::Labelled("commit") } else { Text::Hidden };
        each(Field::new("commit", Value::Decimal(self.commit.into())).text(text));
    }
}

fn write_f1(commit: Option<u32>, count: Option<u32>, encoder: &mut Encoder) -> Result<(), EncodeError> {
    encoder.begin(Kind::CycleCountF1, u8::from(count.is_none()))?;
    if let Some(commit) = commit {
        encoder.out.continued(commit);
    }
    if let Some(count) = count {
        if count >> COUNT_BITS != 0 {
            return Err(EncodeError::OutOfRange);
        }
        encoder.out.continued(count);
    }
    Ok(())
}

/// A value that must exist and may be at most `maximum`.
#[inline]
fn field(value: Option<u32>, maximum: u8) -> Result<u8, EncodeError> {
    match value {
        Some(value) if value <= u32::from(maximum) => Ok(value as u8),
        _ => Err(EncodeError::OutOfRange),
    }
}

impl Encoder {
    /// The shortest cycle count. In commit mode 1 `commit` is left out; `None` means that the count is not known.
    /// `None` comes back for fewer cycles than the threshold: such a count is not sent.
    #[inline]
    pub fn cycle_count(&self, commit: u32, cycles: Option<u32>) -> Option<CycleCount> {
        let mode1 = self.config.commit_mode1();
        let commit = if mode1 { 0 } else { commit };
        let unknown = CycleCount { format: CycleCountFormat::F1, commit, cycles };
        let Some(cycles) = cycles else { return Some(unknown) };
        let count = cycles.checked_sub(self.state.threshold)?;
        let below_maximum = self.config.max_speculation().checked_sub(commit);
        let format = match (count, commit) {
            (0..=3, _) if mode1 => CycleCountFormat::F3,
            (0..=15, _) if mode1 => CycleCountFormat::F2,
            (0..=3, 1..=4) => CycleCountFormat::F3,
            (0..=15, 1..=16) => CycleCountFormat::F2,
            (0..=15, _) if below_maximum.is_some_and(|below| below <= 15) => CycleCountFormat::F2FromMaximum,
            _ => CycleCountFormat::F1,
        };
        Some(CycleCount { format, commit, cycles: Some(cycles) })
    }
}
