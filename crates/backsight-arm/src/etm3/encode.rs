//! Packets to bytes.

use backsight_core::{Address, Isa};

use super::data::{DataAddress, DataValue};
use super::packet::{Branch, ISync, Information, NextInstruction, Packet, Timestamp};
use super::{Config, Kind};
use crate::etm::{
    self, AddressBase, AddressEncoding, EncodeError, InstructionAddress, TimestampState, context_id_fits,
    isa_of,
};

/// Writes the stream of one ETMv3.
pub type Encoder = etm::Encoder<Config>;

impl Encoder {
    pub(super) fn write(&mut self, packet: &Packet) -> Result<(), EncodeError> {
        match packet {
            Packet::Async => self.out.a_sync(),
            Packet::ISync(sync) => self.i_sync(sync)?,
            Packet::PHeader(header) => header.write(&self.config, &mut self.out)?,
            Packet::Branch(branch) => self.branch(branch)?,
            Packet::CycleCount(cycles) => {
                self.out.byte(Kind::CycleCount.header());
                self.out.number(*cycles);
            }
            Packet::ContextId(id) => {
                context_id_fits(Some(*id), self.config.context_id_bytes())?;
                self.out.byte(Kind::ContextId.header());
                self.out.little_endian(*id, self.config.context_id_bytes());
            }
            Packet::Vmid(id) => {
                self.header_only(Kind::Vmid)?;
                self.out.byte(*id);
            }
            Packet::Timestamp(timestamp) => self.write_timestamp(timestamp)?,
            Packet::Trigger => self.header_only(Kind::Trigger)?,
            Packet::Ignore => self.header_only(Kind::Ignore)?,
            Packet::ExceptionExit => self.header_only(Kind::ExceptionExit)?,
            Packet::ExceptionEntry => self.header_only(Kind::ExceptionEntry)?,
            Packet::Bad(_) | Packet::Unsynchronised => return Err(EncodeError::NotAPacket),
            data => self.data(data)?,
        }
        Ok(())
    }

    /// A branch in as few bytes as it takes.
    pub fn branch_to(&self, address: Address, isa: Isa, information: Option<Information>) -> Branch {
        let encoding = self.config.address_encoding();
        let bytes = self.base.fewest(address.0 as u32, isa, information.is_some(), encoding);
        Branch { address, is_complete: true, isa, bytes, information, early: None }
    }

    /// The address after a load or store in progress, in as few bytes as it takes. `first` is the I-sync.
    pub fn next_instruction(&self, first: &ISync, address: Address) -> NextInstruction {
        let base = i_sync_base(first).unwrap_or(AddressBase::UNKNOWN);
        let bytes = base.fewest(address.0 as u32, first.isa, false, self.config.address_encoding());
        NextInstruction { address, isa: first.isa, bytes }
    }

    /// A data address in as few bytes as it takes.
    pub fn data_address(&self, address: u32, is_big_endian: bool) -> DataAddress {
        self.written.shortest(address, is_big_endian)
    }

    /// A timestamp in as few bytes as it takes.
    pub fn timestamp(&self, value: u64) -> Timestamp {
        let bytes = self.timestamp.fewest(value, self.config.timestamp_code());
        Timestamp { value, bytes, clock_changed: false }
    }

    /// A timestamp in full, so that decoders can begin with it.
    pub const fn full_timestamp(&self, value: u64) -> Timestamp {
        let bytes = TimestampState::full(self.config.timestamp_code());
        Timestamp { value, bytes, clock_changed: false }
    }

    fn header_only(&mut self, kind: Kind) -> Result<(), EncodeError> {
        if self.config.minor() < kind.since() {
            return Err(EncodeError::Configuration);
        }
        self.out.byte(kind.header());
        Ok(())
    }

    fn i_sync(&mut self, sync: &ISync) -> Result<(), EncodeError> {
        let ISync { address, isa, reason, state, context_id, cycles, next } = *sync;
        context_id_fits(context_id, self.config.context_id_bytes())?;
        if address.is_none() != self.config.data_only() || address.is_none() && next.is_some() {
            return Err(EncodeError::Configuration);
        }
        let thumb = matches!(isa, Isa::T32 | Isa::ThumbEe);
        self.out.byte(if cycles.is_some() { Kind::ISyncCycleCount } else { Kind::ISync }.header());
        if let Some(cycles) = cycles {
            self.out.number(cycles);
        }
        self.out.little_endian(context_id.unwrap_or(0), self.config.context_id_bytes());
        self.out.byte(
            1 | u8::from(state.hyp) << 1
                | u8::from(state.alt_isa) << 2
                | u8::from(state.non_secure) << 3
                | u8::from(isa == Isa::Jazelle) << 4
                | (reason as u8) << 5
                | u8::from(next.is_some()) << 7,
        );
        if address.is_none() {
            return if isa == Isa::A32 { Ok(()) } else { Err(EncodeError::OutOfRange) };
        }
        if isa_of(isa == Isa::Jazelle, thumb, state.alt_isa) != isa {
            return Err(EncodeError::OutOfRange);
        }
        let mut base = i_sync_base(sync)?;
        self.out.little_endian(base.address | u32::from(thumb), 4);
        if let Some(NextInstruction { address, isa, bytes }) = next {
            let address = InstructionAddress::new(address, true, isa)?;
            base.write(&address, bytes, None, self.config.address_encoding(), &mut self.out)?;
            base.set(&address, None);
        }
        self.base = base;
        Ok(())
    }

    fn branch(&mut self, branch: &Branch) -> Result<(), EncodeError> {
        let Branch { address, is_complete, isa, bytes, information, early } = *branch;
        let encoding = self.config.address_encoding();
        let alt_isa = information.map(|information| information.state.alt_isa);
        let address = InstructionAddress::new(address, is_complete, isa)?;
        if let Some(information) = information {
            let fits = information.is_long || !information.state.hyp && information.exception < 16;
            if !fits
                || information.exception >= 1 << 9
                || information.resume.is_some_and(|resume| resume > 15)
            {
                return Err(EncodeError::OutOfRange);
            }
        }
        self.base.write(&address, bytes, alt_isa, encoding, &mut self.out)?;
        if let Some(early) = early {
            let fits = bytes == 5 && isa == Isa::A32 && information.is_none() && early.code < 8;
            if !fits || encoding != AddressEncoding::Original {
                return Err(EncodeError::OutOfRange);
            }
            let top = (address.address >> 29) as u8;
            self.out.replace_last(0x80 | u8::from(early.cancels) << 6 | early.code << 3 | top);
        }
        if let Some(information) = information {
            self.information(&information);
        }
        self.base.set(&address, alt_isa);
        Ok(())
    }

    fn information(&mut self, information: &Information) {
        let Information { state, exception, cancels, is_long, resume } = *information;
        let more = |more: bool| u8::from(more) << 7;
        self.out.byte(
            more(is_long || resume.is_some())
                | u8::from(state.alt_isa) << 6
                | u8::from(cancels) << 5
                | (exception as u8 & 0xF) << 1
                | u8::from(state.non_secure),
        );
        if is_long {
            self.out.byte(more(resume.is_some()) | u8::from(state.hyp) << 5 | (exception >> 4) as u8);
        }
        if let Some(resume) = resume {
            self.out.byte(0x40 | resume);
        }
    }

    fn data(&mut self, packet: &Packet) -> Result<(), EncodeError> {
        let (addresses, values) = (self.config.data_addresses(), self.config.data_values());
        let has_values = values || self.config.coprocessor_transfers();
        let fits = match packet {
            Packet::NormalData { value, .. } => {
                self.config.data_trace()
                    && if values { value.is_some() } else { value.is_none_or(|value| value.bytes > 0) }
            }
            Packet::OutOfOrderPlaceholder { tag, .. } | Packet::OutOfOrderData { tag, .. } => {
                has_values && (1..=3).contains(tag)
            }
            Packet::StoreFailed => has_values,
            _ => self.config.data_trace(),
        };
        let address_fits =
            |begins: bool, address: Option<DataAddress>| address.is_some() == (begins && addresses);
        let (header, address, value) = match *packet {
            Packet::NormalData { begins, address, value } if address_fits(begins, address) => {
                let size = value.map_or(Ok(0), DataValue::size)?;
                (0x02 | u8::from(begins) << 5 | size << 2, address, value)
            }
            Packet::OutOfOrderPlaceholder { tag, begins, address } if address_fits(begins, address) => {
                (0x50 | u8::from(begins) << 5 | tag << 2, address, None)
            }
            Packet::OutOfOrderData { tag, value } => (tag << 5 | value.size()? << 2, None, Some(value)),
            Packet::ValueNotTraced { begins, address } if address_fits(begins, address) => {
                (0x6A | u8::from(begins) << 4, address, None)
            }
            Packet::StoreFailed => (Kind::StoreFailed.header(), None, None),
            Packet::DataSuppressed => (Kind::DataSuppressed.header(), None, None),
            _ => return Err(EncodeError::Configuration),
        };
        if !fits {
            return Err(EncodeError::Configuration);
        }
        self.out.byte(header);
        if let Some(address) = address {
            self.written.write(&address, &mut self.out)?;
            self.written.set(&address);
        }
        if let Some(value) = value {
            value.write(&mut self.out);
        }
        Ok(())
    }

    fn write_timestamp(&mut self, timestamp: &Timestamp) -> Result<(), EncodeError> {
        if self.config.minor() < Kind::Timestamp.since() {
            return Err(EncodeError::Configuration);
        }
        self.out.byte(Kind::Timestamp.header() | u8::from(timestamp.clock_changed) << 2);
        let code = self.config.timestamp_code();
        self.timestamp = self.timestamp.write(timestamp.value, timestamp.bytes, code, &mut self.out)?;
        Ok(())
    }
}

/// What addresses after an I-sync are compressed against.
fn i_sync_base(sync: &ISync) -> Result<AddressBase, EncodeError> {
    let address = sync.address.and_then(|address| u32::try_from(address.0).ok());
    let address = address.filter(|address| address & 1 == 0).ok_or(EncodeError::OutOfRange)?;
    Ok(AddressBase { address, is_complete: true, isa: sync.isa, alt_isa: sync.state.alt_isa })
}
