//! Packets to bytes.

use backsight_core::{Address, Isa};

use super::decode::ENCODING;
use super::packet::{Atoms, Branch, ISync, Information, Packet, Timestamp, WaypointUpdate};
use super::{Config, Kind, cycles};
use crate::etm::{
    self, AddressBase, EncodeError, InstructionAddress, TimestampState, context_id_fits, isa_of,
};

/// Writes the stream of one PTM.
pub type Encoder = etm::Encoder<Config>;

impl Encoder {
    pub(super) fn write(&mut self, packet: &Packet) -> Result<(), EncodeError> {
        match packet {
            Packet::Async => self.out.a_sync(),
            Packet::ISync(sync) => self.i_sync(sync)?,
            Packet::Atoms(atoms) => self.atoms(atoms)?,
            Packet::Branch(branch) => self.branch(branch)?,
            Packet::WaypointUpdate(update) => self.waypoint_update(update)?,
            Packet::ContextId(id) => {
                context_id_fits(Some(*id), self.config.context_id_bytes())?;
                self.out.byte(Kind::ContextId.header());
                self.out.little_endian(*id, self.config.context_id_bytes());
            }
            Packet::Vmid(id) => {
                if self.config.minor() == 0 {
                    return Err(EncodeError::Configuration);
                }
                self.out.byte(Kind::Vmid.header());
                self.out.byte(*id);
            }
            Packet::Timestamp(timestamp) => self.write_timestamp(timestamp)?,
            Packet::Trigger => self.out.byte(Kind::Trigger.header()),
            Packet::ExceptionReturn => self.out.byte(Kind::ExceptionReturn.header()),
            Packet::Ignore => self.out.byte(Kind::Ignore.header()),
            Packet::Bad(_) | Packet::Unsynchronised => return Err(EncodeError::NotAPacket),
        }
        Ok(())
    }

    /// A branch in as few bytes as it takes.
    pub fn branch_to(
        &self,
        address: Address,
        isa: Isa,
        information: Option<Information>,
        cycles: Option<u32>,
    ) -> Branch {
        let bytes = self.base.fewest(address.0 as u32, isa, information.is_some(), ENCODING);
        Branch { address, is_complete: true, isa, bytes, information, cycles }
    }

    /// A waypoint update in as few bytes as it takes.
    pub fn waypoint_update_at(&self, address: Address, isa: Isa) -> WaypointUpdate {
        let alt_isa = isa == Isa::ThumbEe;
        let thumb = matches!(isa, Isa::T32 | Isa::ThumbEe);
        let alt_isa = (thumb && alt_isa != self.base.alt_isa).then_some(alt_isa);
        let bytes = match alt_isa {
            Some(_) => 5,
            None => self.base.fewest(address.0 as u32, isa, false, ENCODING),
        };
        WaypointUpdate { address, is_complete: true, isa, bytes, alt_isa }
    }

    /// A timestamp in as few bytes as it takes.
    pub fn timestamp(&self, value: u64, cycles: Option<u32>) -> Timestamp {
        let bytes = self.timestamp.fewest(value, self.config.timestamp_code());
        Timestamp { value, bytes, clock_changed: false, cycles }
    }

    /// A timestamp in full, so that decoders can begin with it.
    pub const fn full_timestamp(&self, value: u64, cycles: Option<u32>) -> Timestamp {
        let bytes = TimestampState::full(self.config.timestamp_code());
        Timestamp { value, bytes, clock_changed: false, cycles }
    }

    /// Cycle counts are there in cycle-accurate mode, and only then.
    fn cycles_fit(&self, cycles: Option<u32>) -> Result<(), EncodeError> {
        if cycles.is_some() == self.config.cycle_accurate() {
            Ok(())
        } else {
            Err(EncodeError::Configuration)
        }
    }

    fn i_sync(&mut self, sync: &ISync) -> Result<(), EncodeError> {
        let ISync { address, isa, reason, state, context_id, cycles } = *sync;
        let is_periodic = reason as u8 == 0;
        if is_periodic {
            if cycles.is_some() {
                return Err(EncodeError::Configuration);
            }
        } else {
            self.cycles_fit(cycles)?;
        }
        context_id_fits(context_id, self.config.context_id_bytes())?;
        let thumb = matches!(isa, Isa::T32 | Isa::ThumbEe);
        let word = u32::try_from(address.0).map_err(|_| EncodeError::OutOfRange)?;
        if isa_of(isa == Isa::Jazelle, thumb, state.alt_isa) != isa || word & 1 != 0 {
            return Err(EncodeError::OutOfRange);
        }
        self.out.byte(Kind::ISync.header());
        self.out.little_endian(word | u32::from(thumb), 4);
        self.out.byte(
            1 | u8::from(state.hyp) << 1
                | u8::from(state.alt_isa) << 2
                | u8::from(state.non_secure) << 3
                | u8::from(isa == Isa::Jazelle) << 4
                | (reason as u8) << 5,
        );
        if let Some(count) = cycles {
            cycles::write(count, 0x80, &mut self.out);
        }
        self.out.little_endian(context_id.unwrap_or(0), self.config.context_id_bytes());
        self.base = AddressBase { address: word, is_complete: true, isa, alt_isa: state.alt_isa };
        Ok(())
    }

    fn atoms(&mut self, atoms: &Atoms) -> Result<(), EncodeError> {
        self.cycles_fit(atoms.cycles)?;
        if !(1..=5).contains(&atoms.count) || atoms.bits >> atoms.count != 0 {
            return Err(EncodeError::OutOfRange);
        }
        let failed = !atoms.bits & ((1 << atoms.count) - 1);
        match atoms.cycles {
            Some(_) if atoms.count > 1 => return Err(EncodeError::OutOfRange),
            Some(count) => cycles::write(count, 0x80 | failed << 1, &mut self.out),
            None => {
                let newest_first = failed.reverse_bits() >> (8 - atoms.count);
                self.out.byte(0x80 | 1 << (atoms.count + 1) | newest_first << 1);
            }
        }
        Ok(())
    }

    fn branch(&mut self, branch: &Branch) -> Result<(), EncodeError> {
        let Branch { address, is_complete, isa, bytes, information, cycles } = *branch;
        self.cycles_fit(cycles)?;
        let alt_isa = information.map(|information| information.state.alt_isa);
        let address = InstructionAddress::new(address, is_complete, isa)?;
        if let Some(information) = information {
            let fits = information.is_long || !information.state.hyp && information.exception < 16;
            if !fits || information.exception >= 1 << 9 {
                return Err(EncodeError::OutOfRange);
            }
        }
        self.base.write(&address, bytes, alt_isa, ENCODING, &mut self.out)?;
        if let Some(Information { state, exception, is_long }) = information {
            let number = (exception as u8 & 0xF) << 1;
            let flags = u8::from(is_long) << 7 | u8::from(state.alt_isa) << 6 | u8::from(state.non_secure);
            self.out.byte(number | flags);
            if is_long {
                self.out.byte(u8::from(state.hyp) << 5 | (exception >> 4) as u8);
            }
        }
        if let Some(count) = cycles {
            cycles::write(count, 0, &mut self.out);
        }
        self.base.set(&address, alt_isa);
        Ok(())
    }

    fn waypoint_update(&mut self, update: &WaypointUpdate) -> Result<(), EncodeError> {
        let WaypointUpdate { address, is_complete, isa, bytes, alt_isa } = *update;
        if alt_isa.is_some() && bytes != 5 {
            return Err(EncodeError::OutOfRange);
        }
        let address = InstructionAddress::new(address, is_complete, isa)?;
        self.out.byte(Kind::WaypointUpdate.header());
        self.base.write(&address, bytes, alt_isa, ENCODING, &mut self.out)?;
        if let Some(alt_isa) = alt_isa {
            self.out.byte(u8::from(alt_isa) << 6);
        }
        self.base.set(&address, alt_isa);
        Ok(())
    }

    fn write_timestamp(&mut self, timestamp: &Timestamp) -> Result<(), EncodeError> {
        self.cycles_fit(timestamp.cycles)?;
        self.out.byte(Kind::Timestamp.header() | u8::from(timestamp.clock_changed) << 2);
        let code = self.config.timestamp_code();
        let after = self.timestamp.write(timestamp.value, timestamp.bytes, code, &mut self.out)?;
        if let Some(count) = timestamp.cycles {
            cycles::write(count, 0, &mut self.out);
        }
        self.timestamp = after;
        Ok(())
    }
}
