//! Exceptions, and the two of ETE that have no address of their own.
//!
//! ```text
//!           7   6    5:1         0          7:6   5   4:0
//! byte 0    C   E1   TYPE[4:0]   E0         byte 1, if C:   0   P   TYPE[9:5]
//!
//! ETE: PE Reset is 0x01 0x70, Transaction Failure 0x31 0x70: TYPE 0 or 0x18 without C, and a byte in any case
//! ```

use backsight_core::{Address, Field, Text, Value};

use super::address::Is;
use crate::etm4::decode::{PayloadReader, Stop};
use crate::etm4::state::StreamState;
use crate::etm4::{Config, EncodeError, Encoder, Kind, Packet};

/// An exception.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exception {
    /// TYPE, 10 bits.
    pub number: u16,
    /// E1:E0 as written: 0b01 the return address follows, 0b10 it is also the target of the element before; others are reserved.
    pub address: u8,
    /// M profile: a fault is pending.
    pub fault_pending: bool,
}

const RESET: u8 = 0x00;
const TRANSACTION_FAILURE: u8 = 0x18;
/// The last byte of those two.
const LAST: u8 = 0x70;
/// P of the second byte.
const FAULT_PENDING: u8 = 0x20;

/// Has an exception of this type no address, on a unit of this configuration, if it is written in one byte?
const fn has_no_address(kind: u8, config: &Config) -> bool {
    config.is_ete() && matches!(kind, RESET | TRANSACTION_FAILURE)
}

/// Reads an Exception, a PE Reset or a Transaction Failure.
pub(super) fn read(
    payload: &mut PayloadReader<'_>,
    config: &Config,
    state: &mut StreamState,
) -> Result<Packet, Stop> {
    let first = payload.byte()?;
    let kind = first >> 1 & 0x1F;
    let continues = first & 0x80 != 0;
    if !continues && has_no_address(kind, config) {
        payload.byte()?;
        state.history.push(Address(0), Is::Is0);
        return Ok(if kind == RESET { Packet::PeReset } else { Packet::TransactionFailure });
    }
    let second = if continues { payload.byte()? } else { 0 };
    Ok(Packet::Exception(Exception {
        number: u16::from(second & 0x1F) << 5 | u16::from(kind),
        address: first >> 5 & 2 | first & 1,
        fault_pending: second & FAULT_PENDING != 0,
    }))
}

/// Writes a PE Reset.
pub(super) fn write_reset(encoder: &mut Encoder) -> Result<(), EncodeError> {
    write_without_address(RESET, encoder)
}

/// Writes a Transaction Failure.
pub(super) fn write_transaction_failure(encoder: &mut Encoder) -> Result<(), EncodeError> {
    write_without_address(TRANSACTION_FAILURE, encoder)
}

/// No address belongs to these two, but they put one into the history.
fn write_without_address(kind: u8, encoder: &mut Encoder) -> Result<(), EncodeError> {
    if !has_no_address(kind, &encoder.config) {
        return Err(EncodeError::NotConfigured);
    }
    encoder.begin(Kind::Exception, 0)?;
    encoder.out.bytes(&[kind << 1 | 1, LAST]);
    encoder.state.history.push(Address(0), Is::Is0);
    Ok(())
}

impl Exception {
    /// The address that follows is also where the last branch went.
    pub const fn address_is_branch_target(&self) -> bool {
        self.address == 0b10
    }

    pub(super) fn write(&self, encoder: &mut Encoder) -> Result<(), EncodeError> {
        let &Self { number, address, fault_pending } = self;
        if number > 0x3FF || address > 3 {
            return Err(EncodeError::OutOfRange);
        }
        let kind = number as u8 & 0x1F;
        let second = (number >> 5) as u8 | if fault_pending { FAULT_PENDING } else { 0 };
        let first = kind << 1 | address & 1 | (address & 2) << 5;
        encoder.begin(Kind::Exception, 0)?;
        if second == 0 && !has_no_address(kind, &encoder.config) {
            encoder.out.byte(first);
        } else {
            encoder.out.bytes(&[first | 0x80, second]);
        }
        Ok(())
    }

    pub(super) fn fields(&self, each: &mut dyn FnMut(Field)) {
        each(Field::new("number", Value::Hexadecimal(self.number.into())));
        let (target, other) = match self.address {
            0b01 | 0b10 => ("return address follows and is the branch target", "return address follows"),
            _ => ("reserved address form", "reserved address form"),
        };
        let branch_target = Value::Flag(self.address_is_branch_target());
        each(Field::new("branch_target", branch_target).text(Text::Either(target, other)).comma());
        each(
            Field::new("fault_pending", Value::Flag(self.fault_pending))
                .text(Text::Words("fault pending"))
                .comma(),
        );
    }
}
