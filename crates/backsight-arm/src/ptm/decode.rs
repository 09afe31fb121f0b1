//! Bytes to packets.

use backsight_core::Address;

use super::packet::{Atoms, Branch, ISync, Information, Packet, Timestamp, WaypointUpdate};
use super::table::{Kind, lookup};
use super::{Config, cycles};
use crate::etm::{
    self, AddressBase, AddressEncoding, AddressField, Bad, InstructionAddress, PacketReader, PayloadReader,
    Reason, SHORT, State, Stop, TimestampState, isa_of,
};

/// PTM has always had the encoding that is an alternative in ETMv3.
pub(super) const ENCODING: AddressEncoding = AddressEncoding::Alternative;

/// Decodes the stream of one PTM.
pub type Decoder = etm::Decoder<Config>;

/// What is known between two packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Reader {
    config: Config,
    cycle_accurate: bool,
    /// The atoms of headers that nothing follows.
    atoms: [Option<Atoms>; 256],
    base: AddressBase,
    timestamp: TimestampState,
}

/// The atoms of a header, of which a cycle count may follow.
#[inline]
fn atoms(header: u8, cycle_accurate: bool, payload: &mut PayloadReader<'_>) -> Result<Atoms, Stop> {
    if cycle_accurate {
        let cycles = Some(cycles::read_after(header, payload)?);
        return Ok(Atoms { bits: u8::from(header & 2 == 0), count: 1, cycles });
    }
    // The highest 1 below bit 7 ends the atoms, of which the newest is bit 1. Without it there is one atom.
    let marker = u8::BITS - (header & 0x7C | 4).leading_zeros() - 1;
    let count = marker as u8 - 1;
    let newest_first = !header >> 1 & ((1 << count) - 1);
    Ok(Atoms { bits: newest_first.reverse_bits() >> (8 - count), count, cycles: None })
}

impl Reader {
    #[inline]
    fn cycles(&self, payload: &mut PayloadReader<'_>) -> Result<Option<u32>, Stop> {
        if self.cycle_accurate { cycles::read(payload).map(Some) } else { Ok(None) }
    }

    fn i_sync(&mut self, payload: &mut PayloadReader<'_>) -> Result<ISync, Stop> {
        let value = payload.little_endian(4)?;
        let information = payload.byte()?;
        if information & 0x81 != 1 {
            return Err(payload.bad(Bad::Malformed));
        }
        let state = State {
            alt_isa: information & 4 != 0,
            non_secure: information & 8 != 0,
            hyp: information & 2 != 0,
        };
        let reason = Reason::from_bits(information >> 5);
        let isa = isa_of(information & 0x10 != 0, value & 1 == 1, state.alt_isa);
        let cycles = if reason == Reason::Periodic { None } else { self.cycles(payload)? };
        let bytes = self.config.context_id_bytes();
        let context_id = if bytes > 0 { Some(payload.little_endian(bytes)?) } else { None };
        let address = value & !1;
        self.base = AddressBase { address, is_complete: true, isa, alt_isa: state.alt_isa };
        Ok(ISync { address: Address(address.into()), isa, reason, state, context_id, cycles })
    }

    #[inline]
    fn branch(&mut self, payload: &mut PayloadReader<'_>) -> Result<Branch, Stop> {
        let field = AddressField::read(payload, ENCODING)?;
        let information = if field.has_information { Some(self.information(payload)?) } else { None };
        let cycles = self.cycles(payload)?;
        Ok(self.branch_of(&field, information, cycles))
    }

    /// The branch whose fields these are.
    #[inline]
    fn branch_of(
        &mut self,
        field: &AddressField,
        information: Option<Information>,
        cycles: Option<u32>,
    ) -> Branch {
        let alt_isa = information.map(|information| information.state.alt_isa);
        let InstructionAddress { address, is_complete, isa } = self.take(field, alt_isa);
        let address = Address(address.into());
        Branch { address, is_complete, isa, bytes: field.bytes, information, cycles }
    }

    fn information(&self, payload: &mut PayloadReader<'_>) -> Result<Information, Stop> {
        let first = payload.byte()?;
        if first & 0x20 != 0 {
            return Err(payload.bad(Bad::Malformed));
        }
        let is_long = first & 0x80 != 0;
        let second = if is_long { payload.byte()? } else { 0 };
        if second & 0xC0 != 0 {
            return Err(payload.bad(Bad::Malformed));
        }
        let state = State { alt_isa: first & 0x40 != 0, non_secure: first & 1 != 0, hyp: second & 0x20 != 0 };
        let exception = u16::from(first >> 1 & 0xF) | u16::from(second & 0x1F) << 4;
        Ok(Information { state, exception, is_long })
    }

    fn waypoint_update(&mut self, payload: &mut PayloadReader<'_>) -> Result<WaypointUpdate, Stop> {
        let field = AddressField::read(payload, ENCODING)?;
        let alt_isa = match (field.has_information, field.bytes) {
            (true, 5) => Some(payload.byte()? & 0x40 != 0),
            // Only the fifth byte has the flag here.
            _ => None,
        };
        let address = self.take(&field, alt_isa);
        Ok(WaypointUpdate {
            address: Address(address.address.into()),
            is_complete: address.is_complete,
            isa: address.isa,
            bytes: field.bytes,
            alt_isa,
        })
    }

    /// The address of a packet, which becomes that of the packet before.
    #[inline]
    fn take(&mut self, field: &AddressField, alt_isa: Option<bool>) -> InstructionAddress {
        let address = self.base.complete(field, alt_isa);
        self.base.set(&address, alt_isa);
        address
    }

    fn timestamp(&mut self, header: u8, payload: &mut PayloadReader<'_>) -> Result<Timestamp, Stop> {
        let (value, bytes, state) = self.timestamp.read(payload, self.config.timestamp_code())?;
        let cycles = self.cycles(payload)?;
        self.timestamp = state;
        Ok(Timestamp { value, bytes, clock_changed: header & 4 != 0, cycles })
    }
}

impl PacketReader for Reader {
    type Config = Config;
    type Packet = Packet;

    fn new(config: &Config) -> Self {
        let cycle_accurate = config.cycle_accurate();
        let alone = |header: usize| match lookup(header as u8) {
            Kind::Atom => atoms(header as u8, cycle_accurate, &mut PayloadReader::new(&[], 0)).ok(),
            _ => None,
        };
        Self {
            config: *config,
            cycle_accurate,
            atoms: core::array::from_fn(alone),
            base: AddressBase::UNKNOWN,
            timestamp: TimestampState::default(),
        }
    }

    fn forget(&mut self) {
        self.base = AddressBase::UNKNOWN;
        self.timestamp = TimestampState::default();
    }

    #[inline]
    fn one_byte(&self, header: u8) -> Option<Packet> {
        self.atoms[usize::from(header)].map(Packet::Atoms)
    }

    #[inline]
    fn short_packet(&mut self, bytes: &[u8; SHORT]) -> Option<(Packet, usize)> {
        let word = u64::from_le_bytes(*bytes);
        match lookup(bytes[0]) {
            Kind::BranchAddress => {
                let field = AddressField::short(word, ENCODING)?;
                let (cycles, after) = match self.cycle_accurate {
                    true => {
                        cycles::short(word >> (8 * field.bytes)).map(|(count, bytes)| (Some(count), bytes))?
                    }
                    false => (None, 0),
                };
                let branch = self.branch_of(&field, None, cycles);
                Some((Packet::Branch(branch), usize::from(field.bytes) + after))
            }
            Kind::Atom if self.cycle_accurate => {
                let (count, bytes) = cycles::short(word)?;
                let bits = u8::from(word & 2 == 0);
                Some((Packet::Atoms(Atoms { bits, count: 1, cycles: Some(count) }), bytes))
            }
            _ => None,
        }
    }

    #[inline]
    fn read(&mut self, bytes: &[u8]) -> Result<(Packet, usize), Stop> {
        let header = *bytes.first().ok_or(Stop::Incomplete)?;
        let payload = &mut PayloadReader::new(bytes, 1);
        let packet = match lookup(header) {
            Kind::Atom => Packet::Atoms(atoms(header, self.cycle_accurate, payload)?),
            Kind::BranchAddress => {
                *payload = PayloadReader::new(bytes, 0);
                Packet::Branch(self.branch(payload)?)
            }
            Kind::Async => return Err(Stop::Zeros),
            Kind::ISync => Packet::ISync(self.i_sync(payload)?),
            Kind::Timestamp => Packet::Timestamp(self.timestamp(header, payload)?),
            Kind::WaypointUpdate => Packet::WaypointUpdate(self.waypoint_update(payload)?),
            Kind::ContextId if self.config.context_id_bytes() > 0 => {
                Packet::ContextId(payload.little_endian(self.config.context_id_bytes())?)
            }
            Kind::Vmid if self.config.minor() >= 1 => Packet::Vmid(payload.byte()?),
            Kind::Trigger => Packet::Trigger,
            Kind::ExceptionReturn => Packet::ExceptionReturn,
            Kind::Ignore => Packet::Ignore,
            Kind::ContextId | Kind::Vmid | Kind::Reserved => return Err(payload.bad(Bad::Reserved)),
        };
        Ok((packet, payload.length()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_alone_is_what_reading_it_gives() {
        for (cr, expected) in [(0, 64), (1 << 12, 32)] {
            let mut config = Config::default();
            config.registers.cr = cr;
            let mut reader = Reader::new(&config);
            let mut alone = 0;
            for header in 0..=255 {
                let is_atom = lookup(header) == Kind::Atom;
                let read = reader.read(&[header]).ok().filter(|_| is_atom);
                assert_eq!(reader.one_byte(header).map(|packet| (packet, 1)), read, "{header:#04x}");
                alone += usize::from(read.is_some());
            }
            assert_eq!(alone, expected);
        }
    }

    #[test]
    fn a_packet_in_one_word_is_what_reading_it_gives() {
        for cr in [0, 1 << 12] {
            let mut config = Config::default();
            config.registers.cr = cr;
            let (mut short, mut clear) = (Reader::new(&config), Reader::new(&config));
            etm::testing::words(|bytes| match short.short_packet(bytes) {
                None => false,
                Some(found) => {
                    assert_eq!(clear.read(bytes), Ok(found), "{bytes:02x?}");
                    assert_eq!(short.base, clear.base, "{bytes:02x?}");
                    true
                }
            });
        }
    }
}
