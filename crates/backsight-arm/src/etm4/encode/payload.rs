//! Packets with a payload, field by field.

use backsight_core::Address;

use crate::etm4::Context;

use super::super::decode::timestamp_bits;
use super::super::history::merge;
use super::super::{
    AddressForm, AddressHistory, AddressPacket, ConditionalResult, CycleCount, CycleCountFormat, Exception,
    Is, Packet, Q, Timestamp, TraceInfo,
};
use super::{EncodeError, Encoder};

/// Bits of the longest cycle count field.
const COUNT_BITS: u32 = 21;

/// The headers of one family of packets with an address. IS1 is one more, except for exact matches.
#[derive(Clone, Copy)]
pub(super) struct Headers {
    exact: u8,
    short: u8,
    long32: u8,
    long64: Option<u8>,
}

pub(super) const ADDRESS: Headers = Headers { exact: 0x90, short: 0x95, long32: 0x9A, long64: Some(0x9D) };
pub(super) const SOURCE: Headers = Headers { exact: 0xB0, short: 0xB4, long32: 0xB6, long64: Some(0xB8) };
const Q_ADDRESS: Headers = Headers { exact: 0xA0, short: 0xA5, long32: 0xAA, long64: None };

impl Headers {
    #[inline]
    fn of(self, packet: &AddressPacket) -> Result<u8, EncodeError> {
        let is1 = u8::from(packet.is == Is::Is1);
        Ok(match packet.form {
            AddressForm::Exact(index) => self.exact | within(index, 2)?,
            AddressForm::Short1 | AddressForm::Short2 => self.short + is1,
            AddressForm::Long32 => self.long32 + is1,
            AddressForm::Long64 => self.long64.ok_or(EncodeError::Address)? + is1,
        })
    }
}

/// A value that may be at most `maximum`.
#[inline]
pub(super) const fn within(value: u8, maximum: u8) -> Result<u8, EncodeError> {
    if value <= maximum { Ok(value) } else { Err(EncodeError::OutOfRange) }
}

impl Encoder {
    pub(super) fn with(&mut self, header: u8, payload: &[u8]) -> Result<(), EncodeError> {
        self.header(header)?;
        self.out.bytes(payload);
        Ok(())
    }

    pub(super) fn continued(&mut self, header: u8, value: u32) -> Result<(), EncodeError> {
        self.header(header)?;
        self.out.continued(value);
        Ok(())
    }

    #[inline]
    fn check(&self, packet: &AddressPacket) -> Result<(), EncodeError> {
        if self.history.expresses(packet, self.wide) { Ok(()) } else { Err(EncodeError::Address) }
    }

    #[inline]
    pub(super) fn address(&mut self, packet: &AddressPacket, headers: Headers) -> Result<(), EncodeError> {
        self.check(packet)?;
        self.header(headers.of(packet)?)?;
        self.out.address(packet.address.0, packet.is, packet.form);
        self.history.push(packet.address, packet.is);
        Ok(())
    }

    /// The address is compressed before the context changes.
    pub(super) fn address_context(
        &mut self,
        packet: &AddressPacket,
        context: &Context,
    ) -> Result<(), EncodeError> {
        self.check(packet)?;
        let header = match packet.form {
            AddressForm::Long32 => 0x82,
            AddressForm::Long64 => 0x85,
            _ => return Err(EncodeError::Address),
        };
        self.header(header + u8::from(packet.is == Is::Is1))?;
        self.out.address(packet.address.0, packet.is, packet.form);
        self.out.context(context, &self.config)?;
        self.history.push(packet.address, packet.is);
        self.wide = context.wide;
        Ok(())
    }

    pub(super) fn context(&mut self, context: &Context) -> Result<(), EncodeError> {
        self.header(0x81)?;
        self.out.context(context, &self.config)?;
        self.wide = context.wide;
        Ok(())
    }

    pub(super) fn q(&mut self, q: &Q) -> Result<(), EncodeError> {
        match (&q.address, q.count) {
            (Some(address), Some(_)) => self.address(address, Q_ADDRESS)?,
            (None, Some(_)) => self.header(0xAC)?,
            (None, None) => self.header(0xAF)?,
            (Some(_), None) => return Err(EncodeError::OutOfRange),
        }
        if let Some(count) = q.count {
            self.out.continued(count);
        }
        Ok(())
    }

    /// Every Trace Info begins the compression of addresses and timestamps anew. A section that is absent is 0.
    pub(super) fn trace_info(&mut self, info: &TraceInfo) -> Result<(), EncodeError> {
        self.header(0x01)?;
        self.out.byte(within(info.sections, 0x1F)?);
        let values = [info.info, info.key, info.speculation, info.threshold, info.window];
        for (index, value) in values.into_iter().enumerate() {
            if info.sections >> index & 1 == 1 {
                self.out.continued(value);
            } else if value != 0 {
                return Err(EncodeError::OutOfRange);
            }
        }
        self.history = AddressHistory::EMPTY;
        self.timestamp = 0;
        self.threshold = info.threshold;
        Ok(())
    }

    pub(super) fn write_timestamp(&mut self, timestamp: &Timestamp) -> Result<(), EncodeError> {
        let &Timestamp { value, bytes, cycles } = timestamp;
        let bits = timestamp_bits(bytes);
        let low = if bits >= 64 { value } else { value & ((1 << bits) - 1) };
        let cycle_bits = u32::from(self.config.cycle_counter_bits()).min(COUNT_BITS);
        if !(1..=9).contains(&bytes)
            || merge(self.timestamp, low, bits) != value
            || cycles.is_some_and(|cycles| cycles >> cycle_bits != 0)
        {
            return Err(EncodeError::OutOfRange);
        }
        self.header(0x02 | u8::from(cycles.is_some()))?;
        self.out.timestamp(value, bytes);
        if let Some(cycles) = cycles {
            self.out.continued(cycles);
        }
        self.timestamp = value;
        Ok(())
    }

    pub(super) fn write_cycle_count(&mut self, count: &CycleCount) -> Result<(), EncodeError> {
        let &CycleCount { format, commit, cycles } = count;
        let mode1 = self.config.commit_mode1();
        if mode1 && commit != 0 {
            return Err(EncodeError::OutOfRange);
        }
        let above = cycles.map(|cycles| cycles.wrapping_sub(self.threshold));
        if format == CycleCountFormat::F1 {
            self.header(0x0E | u8::from(above.is_none()))?;
            if !mode1 {
                self.out.continued(commit);
            }
            if let Some(above) = above {
                if above >> COUNT_BITS != 0 {
                    return Err(EncodeError::OutOfRange);
                }
                self.out.continued(above);
            }
            return Ok(());
        }
        let above = above.and_then(|above| u8::try_from(above).ok()).ok_or(EncodeError::OutOfRange)?;
        let from_1 = if mode1 { Some(0) } else { commit.checked_sub(1) };
        match format {
            CycleCountFormat::F3 => self.header(0x10 | field(from_1, 3)? << 2 | within(above, 3)?),
            CycleCountFormat::F2 => self.with(0x0C, &[field(from_1, 15)? << 4 | within(above, 15)?]),
            _ => {
                // Below the maximum, counted down from 15. A trace unit in commit mode 1 writes 15.
                let below = if mode1 { Some(0) } else { self.config.max_speculation().checked_sub(commit) };
                self.with(0x0D, &[(15 - field(below, 15)?) << 4 | within(above, 15)?])
            }
        }
    }

    pub(super) fn instrumentation(&mut self, level: u8, value: u64) -> Result<(), EncodeError> {
        self.header(0x09)?;
        self.out.byte(within(level, 3)?);
        self.out.bytes(&value.to_le_bytes());
        Ok(())
    }

    /// PE Reset and Transaction Failure: ETE only, with no address of their own, but they push one.
    pub(super) fn without_address(&mut self, payload: &[u8]) -> Result<(), EncodeError> {
        if !self.config.is_ete() {
            return Err(EncodeError::NotConfigured);
        }
        self.history.push(Address(0), Is::Is0);
        self.with(0x06, payload)
    }

    pub(super) fn exception(&mut self, exception: &Exception) -> Result<(), EncodeError> {
        let &Exception { number, address, fault_pending } = exception;
        if number > 0x3FF || address > 3 {
            return Err(EncodeError::OutOfRange);
        }
        let kind = number as u8 & 0x1F;
        // The one-byte forms of these two numbers mean something else on ETE.
        let taken = self.config.is_ete() && matches!(kind, 0x00 | 0x18);
        let second = (number >> 5) as u8 | if fault_pending { 0x20 } else { 0 };
        let first = kind << 1 | address & 1 | (address & 2) << 5;
        if second == 0 && !taken {
            self.with(0x06, &[first])
        } else {
            self.with(0x06, &[first | 0x80, second])
        }
    }

    pub(super) fn conditional(&mut self, packet: &Packet) -> Result<(), EncodeError> {
        match *packet {
            Packet::ConditionalInstructionF1 { key } => self.continued(0x6C, key),
            Packet::ConditionalInstructionF2(ci) => self.header(0x40 | within(ci, 2)?),
            Packet::ConditionalInstructionF3 { count, repeat } => {
                self.with(0x6D, &[within(count, 0x3F)? << 1 | u8::from(repeat)])
            }
            Packet::ConditionalFlush => self.header(0x43),
            Packet::ConditionalResultF1 { first, second } => self.conditional_result(&first, second.as_ref()),
            Packet::ConditionalResultF2 { skip, token } => {
                self.header(0x48 | u8::from(skip) << 2 | within(token, 2)?)
            }
            Packet::ConditionalResultF3(tokens) if tokens <= 0xFFF => {
                self.with(0x50 | (tokens >> 8) as u8, &[tokens as u8])
            }
            Packet::ConditionalResultF4(token) => self.header(0x44 | within(token, 2)?),
            _ => Err(EncodeError::OutOfRange),
        }
    }

    fn conditional_result(
        &mut self,
        first: &ConditionalResult,
        second: Option<&ConditionalResult>,
    ) -> Result<(), EncodeError> {
        let header = match second {
            Some(second) => 0x68 | u8::from(second.implied) << 1,
            None => 0x6E,
        };
        self.header(header | u8::from(first.implied))?;
        for set in [Some(first), second].into_iter().flatten() {
            let continues = set.key > 7;
            self.out.byte(within(set.result, 15)? | (set.key as u8 & 7) << 4 | u8::from(continues) << 7);
            if continues {
                self.out.continued(set.key >> 3);
            }
        }
        Ok(())
    }
}

/// A value that must exist and may be at most `maximum`.
#[inline]
fn field(value: Option<u32>, maximum: u8) -> Result<u8, EncodeError> {
    match value {
        Some(value) if value <= u32::from(maximum) => Ok(value as u8),
        _ => Err(EncodeError::OutOfRange),
    }
}
