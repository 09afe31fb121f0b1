//! Packets that have a payload or need the address history.
//!
//! A packet is read to its end before it changes any state, so that one whose end has not been fed can be read
//! again from its beginning.

use backsight_core::Address;

use super::super::history::merge;
use super::super::{
    AddressForm, AddressHistory, AddressPacket, Bad, ConditionalResult, CycleCount, CycleCountFormat,
    Exception, Is, Kind, Packet, Q, Timestamp, TraceInfo,
};
use super::fields::{Fields, Low, Stop};
use super::reader::Reader;
use super::{COUNT, FIELD};

type Read = Result<(Packet, usize), Stop>;

impl Reader {
    /// Reads a packet that is more than a constant; `bytes` begins with its header.
    #[inline]
    pub(super) fn payload(&mut self, kind: Kind, bytes: &[u8]) -> Read {
        let mut fields = Fields::new(bytes);
        let header = bytes.first().copied().unwrap_or_default();
        let packet = match kind {
            Kind::AddressExact => Packet::Address(self.exact(header & 3)),
            Kind::AddressShortIs0 => Packet::Address(self.address(fields.short(Is::Is0)?, Is::Is0)),
            Kind::AddressShortIs1 => Packet::Address(self.address(fields.short(Is::Is1)?, Is::Is1)),
            Kind::Address32Is0 => Packet::Address(self.address(fields.long32(Is::Is0)?, Is::Is0)),
            Kind::Address32Is1 => Packet::Address(self.address(fields.long32(Is::Is1)?, Is::Is1)),
            Kind::Address64Is0 => Packet::Address(self.address(fields.long64(Is::Is0)?, Is::Is0)),
            Kind::Address64Is1 => Packet::Address(self.address(fields.long64(Is::Is1)?, Is::Is1)),
            Kind::SourceExact => Packet::SourceAddress(self.exact(header & 3)),
            Kind::SourceShortIs0 => Packet::SourceAddress(self.address(fields.short(Is::Is0)?, Is::Is0)),
            Kind::SourceShortIs1 => Packet::SourceAddress(self.address(fields.short(Is::Is1)?, Is::Is1)),
            Kind::Source32Is0 => Packet::SourceAddress(self.address(fields.long32(Is::Is0)?, Is::Is0)),
            Kind::Source32Is1 => Packet::SourceAddress(self.address(fields.long32(Is::Is1)?, Is::Is1)),
            Kind::Source64Is0 => Packet::SourceAddress(self.address(fields.long64(Is::Is0)?, Is::Is0)),
            Kind::Source64Is1 => Packet::SourceAddress(self.address(fields.long64(Is::Is1)?, Is::Is1)),
            Kind::AddressContext32Is0 => {
                self.address_context(fields.long32(Is::Is0)?, Is::Is0, &mut fields)?
            }
            Kind::AddressContext32Is1 => {
                self.address_context(fields.long32(Is::Is1)?, Is::Is1, &mut fields)?
            }
            Kind::AddressContext64Is0 => {
                self.address_context(fields.long64(Is::Is0)?, Is::Is0, &mut fields)?
            }
            Kind::AddressContext64Is1 => {
                self.address_context(fields.long64(Is::Is1)?, Is::Is1, &mut fields)?
            }
            Kind::Timestamp => self.timestamp(fields.timestamp()?, None),
            Kind::TimestampCycles => self.timestamp_cycles(&mut fields)?,
            Kind::CycleCountF1 => self.cycle_count_f1(header, &mut fields)?,
            Kind::CycleCountF2 => self.cycle_count_f2(header, fields.byte()?),
            Kind::Context => self.context(&mut fields)?,
            Kind::Extension => return extension(bytes),
            Kind::TraceInfo => self.trace_info(&mut fields)?,
            Kind::Exception => self.exception(&mut fields)?,
            Kind::Instrumentation => {
                let level = fields.byte()? & 3;
                Packet::Instrumentation { level, value: u64::from_le_bytes(fields.array()?) }
            }
            Kind::Commit => Packet::Commit { count: fields.continued(FIELD)? },
            Kind::CancelF1 => Packet::CancelF1 { count: fields.continued(FIELD)?, mispredict: false },
            Kind::CancelF1Mispredict => {
                Packet::CancelF1 { count: fields.continued(FIELD)?, mispredict: true }
            }
            Kind::ConditionalInstructionF1 => {
                Packet::ConditionalInstructionF1 { key: fields.continued(FIELD)? }
            }
            Kind::ConditionalInstructionF3 => {
                let byte = fields.byte()?;
                Packet::ConditionalInstructionF3 { count: byte >> 1 & 0x3F, repeat: byte & 1 == 1 }
            }
            Kind::ConditionalResultF1 => conditional_result(header, &mut fields)?,
            Kind::ConditionalResultF3 => {
                Packet::ConditionalResultF3(u16::from(header & 0xF) << 8 | u16::from(fields.byte()?))
            }
            Kind::Q => self.q(header, &mut fields)?,
            _ => Packet::Bad(Bad::Reserved),
        };
        Ok((packet, fields.length()))
    }

    /// Exact matches push too: index 0 makes the newest address the second newest as well.
    #[inline]
    fn exact(&mut self, index: u8) -> AddressPacket {
        let (address, is) = self.state.history.entry(index);
        self.state.history.push(address, is);
        AddressPacket { address, is, form: AddressForm::Exact(index) }
    }

    #[inline]
    fn address(&mut self, low: Low, is: Is) -> AddressPacket {
        let address = match low.form {
            AddressForm::Long32 if !self.state.wide => Address(low.value),
            _ => self.state.history.merge(low.value, low.bits),
        };
        self.state.history.push(address, is);
        AddressPacket { address, is, form: low.form }
    }

    /// The address was compressed before the context changed.
    fn address_context(&mut self, low: Low, is: Is, fields: &mut Fields<'_>) -> Result<Packet, Stop> {
        let context = fields.context(self.config.vmid_bytes(), self.config.context_id_bytes())?;
        let address = self.address(low, is);
        self.state.wide = context.wide;
        Ok(Packet::AddressContext(address, context))
    }

    fn context(&mut self, fields: &mut Fields<'_>) -> Result<Packet, Stop> {
        let context = fields.context(self.config.vmid_bytes(), self.config.context_id_bytes())?;
        self.state.wide = context.wide;
        Ok(Packet::Context(Some(context)))
    }

    /// The upper bits that a timestamp leaves out are those of the one before.
    #[inline]
    fn timestamp(&mut self, (low, bytes): (u64, u8), cycles: Option<u32>) -> Packet {
        self.state.timestamp = merge(self.state.timestamp, low, timestamp_bits(bytes));
        Packet::Timestamp(Timestamp { value: self.state.timestamp, bytes, cycles })
    }

    /// The threshold is not part of the count beside a timestamp.
    #[inline]
    fn timestamp_cycles(&mut self, fields: &mut Fields<'_>) -> Result<Packet, Stop> {
        let timestamp = fields.timestamp()?;
        let cycles = fields.continued(COUNT)? & self.cycle_mask;
        Ok(self.timestamp(timestamp, Some(cycles)))
    }

    fn cycle_count_f1(&self, header: u8, fields: &mut Fields<'_>) -> Result<Packet, Stop> {
        let commit = if self.config.commit_mode1() { 0 } else { fields.continued(FIELD)? };
        let unknown = header & 1 == 1;
        let cycles =
            if unknown { None } else { Some(self.state.threshold.wrapping_add(fields.continued(COUNT)?)) };
        Ok(Packet::CycleCount(CycleCount { format: CycleCountFormat::F1, commit, cycles }))
    }

    fn cycle_count_f2(&self, header: u8, byte: u8) -> Packet {
        let field = u32::from(byte >> 4);
        let format = f2(header);
        let commit = match format {
            _ if self.config.commit_mode1() => 0,
            // 15 stands for the maximum depth, 14 for one less …; never less than none.
            CycleCountFormat::F2FromMaximum => self.config.max_speculation().saturating_sub(15 - field),
            _ => field + 1,
        };
        let cycles = Some(self.state.threshold.wrapping_add(u32::from(byte & 0xF)));
        Packet::CycleCount(CycleCount { format, commit, cycles })
    }

    /// Every Trace Info, the first or a later one, begins the compression of addresses and timestamps anew.
    fn trace_info(&mut self, fields: &mut Fields<'_>) -> Result<Packet, Stop> {
        let sections = fields.control(FIELD)? & 0x1F;
        let mut section =
            |index: u8| if sections >> index & 1 == 1 { fields.continued(FIELD) } else { Ok(0) };
        let info = TraceInfo {
            sections,
            info: section(0)?,
            key: section(1)?,
            speculation: section(2)?,
            threshold: section(3)?,
            window: section(4)?,
        };
        self.state.history = AddressHistory::EMPTY;
        self.state.timestamp = 0;
        self.set_threshold(info.threshold);
        Ok(Packet::TraceInfo(info))
    }

    fn exception(&mut self, fields: &mut Fields<'_>) -> Result<Packet, Stop> {
        let first = fields.byte()?;
        let kind = first >> 1 & 0x1F;
        let continues = first & 0x80 != 0;
        if self.config.is_ete() && !continues && matches!(kind, 0x00 | 0x18) {
            fields.byte()?;
            // No address belongs to these two, but they push one.
            self.state.history.push(Address(0), Is::Is0);
            return Ok(if kind == 0 { Packet::PeReset } else { Packet::TransactionFailure });
        }
        let second = if continues { fields.byte()? } else { 0 };
        Ok(Packet::Exception(Exception {
            number: u16::from(second & 0x1F) << 5 | u16::from(kind),
            address: first >> 5 & 2 | first & 1,
            fault_pending: second & 0x20 != 0,
        }))
    }

    /// The address comes before the count.
    fn q(&mut self, header: u8, fields: &mut Fields<'_>) -> Result<Packet, Stop> {
        let embedded = match header & 0xF {
            5 => Some((fields.short(Is::Is0)?, Is::Is0)),
            6 => Some((fields.short(Is::Is1)?, Is::Is1)),
            0xA => Some((fields.long32(Is::Is0)?, Is::Is0)),
            0xB => Some((fields.long32(Is::Is1)?, Is::Is1)),
            _ => None,
        };
        let count = Some(fields.continued(FIELD)?);
        let address = match (header & 0xF, embedded) {
            (index @ 0..=2, _) => Some(self.exact(index)),
            (_, Some((low, is))) => Some(self.address(low, is)),
            _ => None,
        };
        Ok(Packet::Q(Q { count, address }))
    }
}

/// Which way a cycle count of format 2 counts.
const fn f2(header: u8) -> CycleCountFormat {
    if header & 1 == 0 { CycleCountFormat::F2 } else { CycleCountFormat::F2FromMaximum }
}

/// Bits of a timestamp of so many bytes.
#[inline]
pub(in super::super) const fn timestamp_bits(bytes: u8) -> u32 {
    if bytes >= 9 { 64 } else { bytes as u32 * 7 }
}

/// 0x00, then 0x03 Discard, 0x05 Overflow, or ten more zeros and 0x80.
fn extension(bytes: &[u8]) -> Read {
    let zeros = bytes.iter().take(12).take_while(|&&byte| byte == 0).count();
    if zeros == 12 {
        return Ok((Packet::Bad(Bad::AsyncLength), 12));
    }
    let end = *bytes.get(zeros).ok_or(Stop::Incomplete)?;
    let packet = match (zeros, end) {
        (11, 0x80) => Packet::Async,
        (1, 0x03) => Packet::Discard,
        (1, 0x05) => Packet::Overflow,
        (1, _) => Packet::Bad(Bad::Extension),
        _ => Packet::Bad(Bad::AsyncLength),
    };
    Ok((packet, zeros + 1))
}

fn conditional_result(header: u8, fields: &mut Fields<'_>) -> Result<Packet, Stop> {
    let two = header < 0x6C;
    let mut set = |implied| -> Result<ConditionalResult, Stop> {
        let first = fields.byte()?;
        let low = u32::from(first >> 4 & 7);
        let high = if first & 0x80 != 0 { fields.continued(FIELD)? } else { 0 };
        Ok(ConditionalResult { key: high << 3 | low, result: first & 0xF, implied })
    };
    let first = set(header & 1 != 0)?;
    let second = if two { Some(set(header & 2 != 0)?) } else { None };
    Ok(Packet::ConditionalResultF1 { first, second })
}
