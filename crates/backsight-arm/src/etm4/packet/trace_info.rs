//! Trace Info: what a decoder needs to begin.
//!
//! ```text
//! PLCTL, continued: the first byte says which sections follow; more of them say nothing, but may be there
//!
//!    7   6 5   4      3      2      1     0
//!    C   0 0   WNDW   CYCT   SPEC   KEY   INFO        then the sections, from INFO on, each continued
//! ```
//!
//! Every Trace Info, the first or a later one, begins the compression of addresses and timestamps again.

use backsight_core::{Field, Text, Value};

use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::encode::within;
use crate::etm4::state::StreamState;
use crate::etm4::table::{NUMBER_BYTES, SECTIONS};
use crate::etm4::{EncodeError, Encoder, Kind};

/// What a decoder needs to begin. A section that is absent has the value 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TraceInfo {
    /// Which sections are present: bit 0 INFO, 1 KEY, 2 SPEC, 3 CYCT, 4 WNDW.
    pub sections: u8,
    /// INFO: bit 0 cycle counting, bits 3:1 conditional tracing, 4 loads are P0, 5 stores are P0, 6 inside a transaction.
    pub info: u32,
    /// KEY: P0 key of the next P0 element.
    pub key: u32,
    /// SPEC: speculation depth.
    pub speculation: u32,
    /// CYCT: cycle count threshold.
    pub threshold: u32,
    /// WNDW: commit window.
    pub window: u32,
}

const ALL_SECTIONS: u8 = (1 << SECTIONS) - 1;

impl TraceInfo {
    pub(super) fn read(payload: &mut PayloadReader<'_>, state: &mut StreamState) -> Result<Self, Stop> {
        let sections = read_control(payload)? & ALL_SECTIONS;
        let mut values = [0; SECTIONS as usize];
        for (index, value) in values.iter_mut().enumerate() {
            if sections >> index & 1 == 1 {
                *value = payload.number()?;
            }
        }
        let [info, key, speculation, threshold, window] = values;
        *state = StreamState { threshold, wide: state.wide, ..StreamState::START };
        Ok(Self { sections, info, key, speculation, threshold, window })
    }

    pub(super) fn write(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        encoder.begin(Kind::TraceInfo, 0)?;
        encoder.out.byte(within(self.sections, ALL_SECTIONS)?);
        let values = [self.info, self.key, self.speculation, self.threshold, self.window];
        for (index, value) in values.into_iter().enumerate() {
            if self.sections >> index & 1 == 1 {
                encoder.out.continued(value);
            } else if value != 0 {
                return Err(EncodeError::OutOfRange);
            }
        }
        let wide = encoder.state.wide;
        encoder.state = StreamState { threshold: self.threshold, wide, ..StreamState::START };
        Ok(())
    }

    pub(super) fn fields(&self, each: &mut dyn FnMut(Field)) {
        let labelled = |name, label, value| Field::new(name, value).text(Text::Labelled(label));
        each(labelled("info", "INFO", Value::Hexadecimal(self.info.into())));
        each(labelled("key", "KEY", Value::Hexadecimal(self.key.into())));
        each(labelled("speculation", "SPEC", Value::Decimal(self.speculation.into())));
        each(labelled("threshold", "CYCT", Value::Hexadecimal(self.threshold.into())));
        each(labelled("window", "WNDW", Value::Hexadecimal(self.window.into())));
    }
}

/// PLCTL: its first byte. The others are passed over.
fn read_control(payload: &mut PayloadReader<'_>) -> Result<u8, Stop> {
    let first = payload.byte()?;
    let mut last = first;
    for _ in 1..NUMBER_BYTES {
        if last & 0x80 == 0 {
            break;
        }
        last = payload.byte()?;
    }
    if last & 0x80 == 0 { Ok(first) } else { Err(payload.too_long()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_control_bytes_are_passed_over_as_long_as_there_are_not_too_many() {
        let read = |bytes: &[u8]| read_control(&mut PayloadReader::new(bytes));
        assert_eq!(read(&[1, 0x89, 0x01]), Ok(0x89));
        assert_eq!(read(&[1, 0x89, 0x80, 0x80, 0x80, 0x01]), Ok(0x89));
        assert_eq!(read(&[1, 0x89, 0x80, 0x80, 0x80, 0x81]), Err(Stop::TooLong(6)));
        assert_eq!(read(&[1, 0x89]), Err(Stop::Incomplete));
    }
}
