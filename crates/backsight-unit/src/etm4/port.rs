//! The way out of the unit: packets become bytes, pass a buffer of limited size, and are counted.

use backsight_arm::etm4::{Atoms, Config, Encoder, Packet};

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
    pub(super) encoder: Encoder,
    since_sync: u64,
    fill: Option<Fill>,
}

impl Port {
    pub(super) fn new(config: &Config) -> Self {
        Self { encoder: Encoder::new(config), since_sync: 0, fill: None }
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

    /// Writes a packet of atoms: one byte, which nothing before it changes.
    #[inline]
    pub(super) fn write_atoms(&mut self, atoms: Atoms, out: &mut impl Output) {
        match atoms.header() {
            Some(header) => {
                self.count(1);
                out.packet(&Packet::Atoms(atoms), &[header]);
            }
            None => self.write(Packet::Atoms(atoms), out),
        }
    }

    /// So many bytes are written.
    #[inline]
    fn count(&mut self, bytes: u64) {
        self.since_sync += bytes;
        if let Some(fill) = &mut self.fill {
            fill.level += bytes * 1024;
        }
    }

    /// Writes a packet.
    #[inline]
    pub(super) fn write(&mut self, packet: Packet, out: &mut impl Output) {
        let encoded = self.encoder.encode(&packet);
        debug_assert!(encoded.is_ok(), "{packet:?}: {encoded:?}");
        let Ok(bytes) = encoded else { return };
        let length = bytes.len() as u64;
        out.packet(&packet, bytes);
        self.count(length);
    }
}
