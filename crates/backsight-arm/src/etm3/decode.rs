//! Bytes to packets.

use backsight_core::{Address, Isa, Located};

use super::data::{DataAddress, DataBase, DataValue};
use super::packet::{Branch, EarlyException, ISync, Information, NextInstruction, Packet, Timestamp};
use super::table::{Kind, kinds};
use super::{Config, PHeaders};
use crate::etm::{
    self, AddressBase, AddressField, Bad, PacketReader, PacketSink, PayloadReader, Reason, SHORT, State,
    Stop, TimestampState, isa_of,
};

/// Decodes the stream of one ETMv3.
pub type Decoder = etm::Decoder<Config>;

impl Decoder {
    /// As [`Decoder::feed`], with P-headers in runs: a follower of a run knows of all but its end what comes next.
    #[inline]
    pub fn feed_runs(&mut self, bytes: &[u8], sink: &mut impl FnMut(Decoded<'_>)) {
        self.feed_to(bytes, &mut Runs(sink));
    }
}

/// What [`Decoder::feed_runs`] gives.
#[derive(Clone, Copy, Debug)]
pub enum Decoded<'a> {
    /// A packet.
    Packet(Located<Packet>),
    /// P-headers of one byte each, one after the other; all are in [`PHeaders`].
    PHeaders {
        /// The offset of the first.
        offset: u64,
        /// Their bytes.
        headers: &'a [u8],
    },
}

/// Most P-headers of a run: what they stand for is bounded.
const LONGEST_RUN: usize = 64;

/// Takes P-headers in runs.
struct Runs<F>(F);

impl<F: FnMut(Decoded<'_>)> PacketSink<Reader> for Runs<F> {
    #[inline]
    fn take(&mut self, packet: Located<Packet>) {
        (self.0)(Decoded::Packet(packet));
    }

    #[inline]
    fn take_common(&mut self, reader: &mut Reader, offset: u64, bytes: &[u8]) -> usize {
        let mut used = 0;
        loop {
            let rest = bytes.get(used..).unwrap_or_default();
            let most = rest.get(..LONGEST_RUN).unwrap_or(rest);
            let is_other = |&header: &u8| reader.p_headers.get(header).is_none();
            let (headers, _) = most.split_at(most.iter().position(is_other).unwrap_or(most.len()));
            let offset = offset + used as u64;
            if !headers.is_empty() {
                (self.0)(Decoded::PHeaders { offset, headers });
                used += headers.len();
                continue;
            }
            let short = rest.first_chunk().and_then(|bytes| reader.short_packet(bytes));
            let Some((value, length)) = short else { return used };
            (self.0)(Decoded::Packet(Located { offset, length: length as u32, value }));
            used += length;
        }
    }
}

/// What is known between two packets.
#[derive(Clone, Debug, PartialEq)]
pub struct Reader {
    config: Config,
    /// What each header introduces in this version.
    kinds: [Kind; 256],
    /// The P-headers of this version and mode.
    p_headers: PHeaders,
    base: AddressBase,
    data: DataBase,
    timestamp: TimestampState,
}

impl Reader {
    fn i_sync(&mut self, has_cycles: bool, payload: &mut PayloadReader<'_>) -> Result<ISync, Stop> {
        let cycles = if has_cycles { Some(payload.number()?) } else { None };
        let bytes = self.config.context_id_bytes();
        let context_id = if bytes > 0 { Some(payload.little_endian(bytes)?) } else { None };
        let information = payload.byte()?;
        if information & 1 == 0 {
            return Err(payload.bad(Bad::Malformed));
        }
        let state = State {
            alt_isa: information & 4 != 0,
            non_secure: information & 8 != 0,
            hyp: information & 2 != 0,
        };
        let reason = Reason::from_bits(information >> 5);
        let jazelle = information & 0x10 != 0;
        if self.config.data_only() {
            // Nothing says what is executed.
            if information & 0x90 != 0 {
                return Err(payload.bad(Bad::Malformed));
            }
            let isa = Isa::A32;
            return Ok(ISync { address: None, isa, reason, state, context_id, cycles, next: None });
        }
        let value = payload.little_endian(4)?;
        let isa = isa_of(jazelle, value & 1 == 1, state.alt_isa);
        let address = value & !1;
        let mut base = AddressBase { address, is_complete: true, isa, alt_isa: state.alt_isa };
        let next = if information & 0x80 != 0 { Some(self.next(&mut base, payload)?) } else { None };
        self.base = base;
        let address = Some(Address(address.into()));
        Ok(ISync { address, isa, reason, state, context_id, cycles, next })
    }

    /// The address after a load or store in progress, compressed against that of the load or store.
    fn next(&self, base: &mut AddressBase, payload: &mut PayloadReader<'_>) -> Result<NextInstruction, Stop> {
        let at = payload.length();
        let field = AddressField::read(payload, self.config.address_encoding())?;
        let begins_well = payload.at(at) & 1 == 1;
        if !begins_well || field.has_information || field.exception.is_some() {
            return Err(payload.bad(Bad::Malformed));
        }
        let address = base.complete(&field, None);
        base.set(&address, None);
        Ok(NextInstruction { address: Address(address.address.into()), isa: address.isa, bytes: field.bytes })
    }

    #[inline]
    fn branch(&mut self, payload: &mut PayloadReader<'_>) -> Result<Branch, Stop> {
        let field = AddressField::read(payload, self.config.address_encoding())?;
        let information = if field.has_information { Some(Self::information(payload)?) } else { None };
        Ok(self.branch_of(&field, information))
    }

    /// The branch whose fields these are.
    #[inline]
    fn branch_of(&mut self, field: &AddressField, information: Option<Information>) -> Branch {
        let alt_isa = information.map(|information| information.state.alt_isa);
        let address = self.base.complete(field, alt_isa);
        self.base.set(&address, alt_isa);
        Branch {
            address: Address(address.address.into()),
            is_complete: address.is_complete,
            isa: address.isa,
            bytes: field.bytes,
            information,
            early: field.exception.map(|(code, cancels)| EarlyException { code, cancels }),
        }
    }

    fn information(payload: &mut PayloadReader<'_>) -> Result<Information, Stop> {
        let first = payload.byte()?;
        let mut information = Information {
            state: State { alt_isa: first & 0x40 != 0, non_secure: first & 1 != 0, hyp: false },
            exception: u16::from(first >> 1 & 0xF),
            cancels: first & 0x20 != 0,
            is_long: false,
            resume: None,
        };
        let mut more = first & 0x80 != 0;
        while more {
            let byte = payload.byte()?;
            if byte & 0x40 == 0 && !information.is_long {
                information.is_long = true;
                information.state.hyp = byte & 0x20 != 0;
                information.exception |= u16::from(byte & 0x1F) << 4;
                more = byte & 0x80 != 0;
            } else if byte & 0xF0 == 0x40 {
                information.resume = Some(byte & 0xF);
                more = false;
            } else {
                return Err(payload.bad(Bad::Malformed));
            }
        }
        Ok(information)
    }

    /// An address follows if the header says so and addresses are traced.
    fn data_address(
        &self,
        begins: bool,
        payload: &mut PayloadReader<'_>,
    ) -> Result<Option<DataAddress>, Stop> {
        if begins && self.config.data_addresses() { self.data.read(payload).map(Some) } else { Ok(None) }
    }

    fn keep(&mut self, address: Option<DataAddress>) {
        if let Some(address) = address {
            self.data.set(&address);
        }
    }

    fn data(&mut self, kind: Kind, header: u8, payload: &mut PayloadReader<'_>) -> Result<Packet, Stop> {
        let is_on = match kind {
            Kind::OutOfOrderData | Kind::OutOfOrderPlaceholder | Kind::StoreFailed => {
                self.config.data_values() || self.config.coprocessor_transfers()
            }
            _ => self.config.data_trace(),
        };
        if !is_on {
            return Err(payload.bad(Bad::WrongMode));
        }
        let size = header >> 2 & 3;
        Ok(match kind {
            Kind::NormalData => {
                let begins = header & 0x20 != 0;
                let address = self.data_address(begins, payload)?;
                let value = DataValue::read(size, payload)?;
                let has_value = self.config.data_values() || value.bytes > 0;
                self.keep(address);
                Packet::NormalData { begins, address, value: has_value.then_some(value) }
            }
            Kind::OutOfOrderPlaceholder => {
                let begins = header & 0x20 != 0;
                let address = self.data_address(begins, payload)?;
                self.keep(address);
                Packet::OutOfOrderPlaceholder { tag: size, begins, address }
            }
            Kind::OutOfOrderData => {
                Packet::OutOfOrderData { tag: header >> 5 & 3, value: DataValue::read(size, payload)? }
            }
            Kind::ValueNotTraced => {
                let begins = header & 0x10 != 0;
                let address = self.data_address(begins, payload)?;
                self.keep(address);
                Packet::ValueNotTraced { begins, address }
            }
            Kind::StoreFailed => Packet::StoreFailed,
            _ => Packet::DataSuppressed,
        })
    }

    fn timestamp(&mut self, header: u8, payload: &mut PayloadReader<'_>) -> Result<Timestamp, Stop> {
        let (value, bytes, state) = self.timestamp.read(payload, self.config.timestamp_code())?;
        self.timestamp = state;
        Ok(Timestamp { value, bytes, clock_changed: header & 4 != 0 })
    }
}

impl PacketReader for Reader {
    type Config = Config;
    type Packet = Packet;

    fn new(config: &Config) -> Self {
        Self {
            config: *config,
            kinds: kinds(config.minor()),
            p_headers: PHeaders::new(config),
            base: AddressBase::UNKNOWN,
            data: DataBase::default(),
            timestamp: TimestampState::default(),
        }
    }

    fn forget(&mut self) {
        self.base = AddressBase::UNKNOWN;
        self.data = DataBase::default();
        self.timestamp = TimestampState::default();
    }

    #[inline]
    fn one_byte(&self, header: u8) -> Option<Packet> {
        self.p_headers.get(header).map(Packet::PHeader)
    }

    #[inline]
    fn short_packet(&mut self, bytes: &[u8; SHORT]) -> Option<(Packet, usize)> {
        if self.kinds[usize::from(bytes[0])] != Kind::BranchAddress {
            return None;
        }
        let field = AddressField::short(u64::from_le_bytes(*bytes), self.config.address_encoding())?;
        Some((Packet::Branch(self.branch_of(&field, None)), field.bytes.into()))
    }

    #[inline]
    fn read(&mut self, bytes: &[u8]) -> Result<(Packet, usize), Stop> {
        let header = *bytes.first().ok_or(Stop::Incomplete)?;
        let payload = &mut PayloadReader::new(bytes, 1);
        let packet = match self.kinds[usize::from(header)] {
            Kind::PHeader => match self.one_byte(header) {
                Some(packet) => packet,
                None => return Err(payload.bad(Bad::Reserved)),
            },
            Kind::BranchAddress => {
                *payload = PayloadReader::new(bytes, 0);
                Packet::Branch(self.branch(payload)?)
            }
            Kind::Async => return Err(Stop::Zeros),
            Kind::ISync => Packet::ISync(self.i_sync(false, payload)?),
            Kind::ISyncCycleCount => Packet::ISync(self.i_sync(true, payload)?),
            Kind::CycleCount => Packet::CycleCount(payload.number()?),
            Kind::Timestamp => Packet::Timestamp(self.timestamp(header, payload)?),
            Kind::ContextId if self.config.context_id_bytes() > 0 => {
                Packet::ContextId(payload.little_endian(self.config.context_id_bytes())?)
            }
            Kind::Vmid => Packet::Vmid(payload.byte()?),
            Kind::Trigger => Packet::Trigger,
            Kind::Ignore => Packet::Ignore,
            Kind::ExceptionExit => Packet::ExceptionExit,
            Kind::ExceptionEntry => Packet::ExceptionEntry,
            Kind::ContextId | Kind::Reserved => return Err(payload.bad(Bad::Reserved)),
            kind => self.data(kind, header, payload)?,
        };
        Ok((packet, payload.length()))
    }
}

#[cfg(test)]
mod tests {
    use super::super::PHeader;
    use super::*;

    #[test]
    fn a_p_header_alone_is_what_the_manual_says_and_what_reading_it_gives() {
        for (cr, minor) in [(0, 0), (0, 5), (1 << 12, 2), (1 << 12, 3)] {
            let mut config = Config::default();
            config.registers.cr = cr;
            config.registers.set_minor(minor);
            let mut reader = Reader::new(&config);
            let mut alone = 0;
            for header in 0..=255 {
                let is_p_header = header & 0x81 == 0x80;
                let expected = PHeader::read(header, &config).filter(|_| is_p_header).map(Packet::PHeader);
                assert_eq!(reader.one_byte(header), expected, "{header:#04x}");
                if is_p_header {
                    let read = expected.map_or(Err(Stop::Bad(Bad::Reserved, 1)), |packet| Ok((packet, 1)));
                    assert_eq!(reader.read(&[header]), read, "{header:#04x}");
                    alone += usize::from(read.is_ok());
                }
            }
            assert_eq!(alone, if cr != 0 && minor >= 3 { 38 } else { 36 });
        }
    }

    #[test]
    fn a_packet_in_one_word_is_what_reading_it_gives() {
        for idr in [0, 1 << 20] {
            let mut config = Config::default();
            config.registers.idr = idr;
            config.registers.set_minor(5);
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
