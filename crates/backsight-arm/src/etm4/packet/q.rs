//! Q elements: so many instructions, path unknown.
//!
//! ```text
//! header: TYPE        payload
//! 0, 1, 2             COUNT                       the address is that entry of the history
//! 5 IS0, 6 IS1        short address, COUNT
//! A IS0, B IS1        32-bit address, COUNT
//! C                   COUNT                       an address packet follows
//! F                   –                           an address packet follows, and nobody knows how many
//! ```

use backsight_core::{Field, Text, Value};

use super::address::{AddressForm, AddressPacket, Is, SentBits, exact};
use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::state::StreamState;
use crate::etm4::{EncodeError, Encoder, Kind};

/// A Q element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Q {
    /// How many instructions; `None` if unknown.
    pub count: Option<u32>,
    /// Where execution continues; `None` if an address packet follows with it.
    pub address: Option<AddressPacket>,
}

// TYPE; that of IS1 is one more.
const SHORT: u8 = 0x5;
const LONG: u8 = 0xA;
const NO_ADDRESS: u8 = 0xC;
const NO_COUNT: u8 = 0xF;

impl Q {
    /// `field` is TYPE.
    pub(super) fn read(
        field: u8,
        payload: &mut PayloadReader<'_>,
        state: &mut StreamState,
    ) -> Result<Self, Stop> {
        const SHORT_IS1: u8 = SHORT + 1;
        const LONG_IS1: u8 = LONG + 1;
        let sent = match field {
            NO_COUNT => return Ok(Self { count: None, address: None }),
            SHORT => Some(SentBits::short(payload, Is::Is0)?),
            SHORT_IS1 => Some(SentBits::short(payload, Is::Is1)?),
            LONG => Some(SentBits::long32(payload, Is::Is0)?),
            LONG_IS1 => Some(SentBits::long32(payload, Is::Is1)?),
            _ => None,
        };
        let count = Some(payload.number()?);
        let address = match sent {
            Some(sent) => Some(sent.complete(state)),
            None if field == NO_ADDRESS => None,
            None => Some(exact(field, state)),
        };
        Ok(Self { count, address })
    }

    pub(super) fn write(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        let field = match (&self.address, self.count) {
            (None, None) => NO_COUNT,
            (None, Some(_)) => NO_ADDRESS,
            (Some(_), None) => return Err(EncodeError::OutOfRange),
            (Some(address), Some(_)) => {
                address.check(encoder)?;
                match address.form {
                    AddressForm::Exact(index) => index,
                    AddressForm::Short1 | AddressForm::Short2 => SHORT + address.is as u8,
                    AddressForm::Long32 => LONG + address.is as u8,
                    AddressForm::Long64 => return Err(EncodeError::Address),
                }
            }
        };
        encoder.begin(Kind::Q, field)?;
        if let Some(address) = &self.address {
            address.write_bits(&mut encoder.out);
            encoder.state.history.push(address.address, address.is);
        }
        if let Some(count) = self.count {
            encoder.out.continued(count);
        }
        Ok(())
    }

    pub(super) fn fields(&self, each: &mut dyn FnMut(Field)) {
        each(match self.count {
            Some(count) => Field::new("count", Value::Decimal(count.into())),
            None => Field::new("count", Value::Absent).text(Text::Words("count unknown")),
        });
        match &self.address {
            Some(address) => address.fields(each),
            None => each(Field::new("address", Value::Absent).text(Text::Words("address follows")).comma()),
        }
    }
}
