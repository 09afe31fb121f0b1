//! The way out of the unit: packets become bytes, pass a buffer of limited size, and are counted.

use super::packer::Place;
use backsight_arm::etm4::{AddressForm, AddressPacket, Config, Is, Packet};
use backsight_core::Address;

/// Whatever takes the packets of a unit.
pub(super) trait Output {
    /// One packet and its bytes.
    fn packet(&mut self, packet: &Packet, bytes: &[u8]);
}

impl Output for Vec<u8> {
    #[inline]
    fn packet(&mut self, _: &Packet, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

/// Packets for a closure.
pub(super) struct Packets<'a, F>(pub &'a mut F);

impl<F: FnMut(Packet)> Output for Packets<'_, F> {
    #[inline]
    fn packet(&mut self, packet: &Packet, _: &[u8]) {
        (self.0)(*packet);
    }
}

/// The buffer between the trace unit and the trace bus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fifo {
    /// Bytes that it holds. What is one packet group more fits: the unit notices after the fact.
    pub capacity: u32,
    /// Bytes that leave it in 1024 cycles (instructions, where no cycles are known).
    pub drain: u32,
}

/// How full the buffer is.
pub(super) struct Fill {
    fifo: Fifo,
    /// In 1024ths of a byte.
    level: u64,
    then: u64,
}

impl Fill {
    pub(super) fn new(fifo: Fifo) -> Self {
        Self { fifo, level: 0, then: 0 }
    }

    fn bytes_at(&mut self, now: u64) -> u64 {
        let drained = now.saturating_sub(self.then).saturating_mul(self.fifo.drain.into());
        self.level = self.level.saturating_sub(drained);
        self.then = now;
        self.level.div_ceil(1024)
    }
}

pub(super) struct Port {
    history: [(Address, Is); 3],
    wide: bool,
    narrow_unit: bool,
    since_sync: u64,
    fill: Option<Fill>,
}

impl Port {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            history: [(Address(0), Is::Is0); 3],
            wide: true,
            narrow_unit: config.address_bits() == 32,
            since_sync: 0,
            fill: None,
        }
    }

    /// Limits what can be written.
    pub(super) fn limit(&mut self, fifo: Fifo) {
        self.fill = Some(Fill::new(fifo));
    }

    /// Bytes since the last synchronisation.
    #[inline]
    pub(super) fn since_sync(&self) -> u64 {
        self.since_sync
    }

    pub(super) fn synchronised(&mut self) {
        self.since_sync = 0;
    }

    /// Has more been written than the buffer holds?
    pub(super) fn overflows(&mut self, now: u64) -> bool {
        self.fill.as_mut().is_some_and(|fill| fill.bytes_at(now) > u64::from(fill.fifo.capacity))
    }

    /// Is there room again? From half full on.
    pub(super) fn recovered(&mut self, now: u64) -> bool {
        self.fill.as_mut().is_none_or(|fill| fill.bytes_at(now) <= u64::from(fill.fifo.capacity / 2))
    }

    /// The shortest way to write an address.
    pub(super) fn compress(&self, place: Place) -> AddressPacket {
        let (address, is) = (place.address, place.is());
        let form = match self.history.iter().position(|&entry| entry == (address, is)) {
            Some(index) => AddressForm::Exact(index as u8),
            None => self.relative_form(address, is),
        };
        AddressPacket { address, is, form }
    }

    fn relative_form(&self, address: Address, is: Is) -> AddressForm {
        let changed = address.0 ^ self.history[0].0.0;
        let (one, two) = if is == Is::Is0 { (9, 17) } else { (8, 16) };
        match () {
            () if changed >> one == 0 => AddressForm::Short1,
            () if changed >> two == 0 => AddressForm::Short2,
            () if self.narrow_unit => AddressForm::Long32,
            () if self.wide && changed >> 32 == 0 => AddressForm::Long32,
            () if !self.wide && address.0 >> 32 == 0 => AddressForm::Long32,
            () => AddressForm::Long64,
        }
    }

    /// The shortest way to write an address with a context. Where upper address bits and register width change
    /// together, all bits are written: which width a 32-bit address is read with would be a matter of order.
    pub(super) fn compress_long(&self, place: Place, wide: bool) -> AddressPacket {
        let before = self.history[0].0.0;
        let no_upper_bits = place.address.0 >> 32 == 0 && before >> 32 == 0;
        let same_upper_bits = wide && self.wide && place.address.0 >> 32 == before >> 32;
        let form = if self.narrow_unit || no_upper_bits || same_upper_bits {
            AddressForm::Long32
        } else {
            AddressForm::Long64
        };
        AddressPacket { address: place.address, is: place.is(), form }
    }

    /// Writes a packet.
    pub(super) fn write(&mut self, packet: Packet, out: &mut impl Output) {
        match packet {
            Packet::TraceInfo(_) => self.history = [(Address(0), Is::Is0); 3],
            Packet::Context(Some(context)) => self.wide = context.wide,
            Packet::Address(address) | Packet::SourceAddress(address) => self.remember(address),
            Packet::AddressContext(address, context) => {
                self.remember(address);
                self.wide = context.wide;
            }
            Packet::Q(q) => q.address.into_iter().for_each(|address| self.remember(address)),
            _ => {}
        }
        let length = 1;
        self.since_sync += length;
        if let Some(fill) = &mut self.fill {
            fill.level += length * 1024;
        }
        out.packet(&packet, &[]);
    }

    fn remember(&mut self, packet: AddressPacket) {
        self.history = [(packet.address, packet.is), self.history[0], self.history[1]];
    }
}
