//! A buffer of limited size between a tracer and its transport.
//!
//! Packets come in bursts; the transport takes bytes at a steady rate. A packet that does not fit into the buffer is
//! lost. The tracer then sends nothing until the buffer is half empty, says that trace was lost, and begins again.
//! Lossless hardware stalls the hart instead, for as long as it takes to make room.

use backsight_riscv::etrace::{Options, Packet, Params, encode};
use backsight_riscv::ingress::Block;

use super::{Sink, Tracer, UnitError};
use crate::riscv::block_tracer;

/// Size and speed of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fifo {
    /// Bytes of payload that it holds.
    pub capacity: u32,
    /// Bytes that leave it in 1024 cycles.
    pub drain: u32,
    /// The hart waits for room; else what does not fit is lost.
    pub lossless: bool,
}

impl Fifo {
    /// Bytes that a buffer must hold: its half has room for the packets that begin again.
    pub const LEAST: u32 = 64;

    fn check(&self) -> Result<(), UnitError> {
        if self.capacity < Self::LEAST {
            return Err(UnitError::Missing { option: "a buffer", needs: "room for 64 bytes" });
        }
        if self.lossless && self.drain == 0 {
            return Err(UnitError::Missing { option: "lossless trace", needs: "a buffer that drains" });
        }
        Ok(())
    }
}

block_tracer!(BufferedTracer, Packet);

/// What a small buffer cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Losses {
    /// Times that trace was lost.
    pub gaps: u64,
    /// Cycles that the hart waited.
    pub stalls: u64,
    /// Most bytes in the buffer.
    pub fullest: u64,
}

/// Parts of a byte that are counted: the buffer drains slower than a byte a cycle.
const PARTS: u64 = 1024;

#[derive(Clone, Debug)]
struct Buffer {
    fifo: Fifo,
    /// In parts of a byte.
    level: u64,
    /// The hart retires no more: there is time for everything to leave.
    ending: bool,
    losses: Losses,
}

impl Buffer {
    fn capacity(&self) -> u64 {
        u64::from(self.fifo.capacity) * PARTS
    }

    fn drain(&mut self, cycles: u64) {
        self.level = self.level.saturating_sub(cycles.saturating_mul(self.fifo.drain.into()));
    }

    /// Puts a packet into the buffer; false if it is lost.
    fn put(&mut self, bytes: usize) -> bool {
        let parts = bytes as u64 * PARTS;
        if self.ending {
            return true;
        }
        let missing = (self.level + parts).saturating_sub(self.capacity());
        if missing > 0 {
            if !self.fifo.lossless {
                self.losses.gaps += 1;
                return false;
            }
            let cycles = missing.div_ceil(self.fifo.drain.max(1).into());
            self.losses.stalls += cycles;
            self.drain(cycles);
        }
        self.level += parts;
        self.losses.fullest = self.losses.fullest.max(self.level.div_ceil(PARTS));
        true
    }
}

/// The buffer with what its packets go to.
struct BufferedSink<'a, F> {
    buffer: &'a mut Buffer,
    sink: &'a mut F,
}

impl<F: FnMut(Packet)> Sink for BufferedSink<'_, F> {
    fn packet(&mut self, packet: &Packet, params: &Params, options: &Options) -> bool {
        let taken = self.buffer.put(encode(packet, params, options).len());
        if taken {
            (self.sink)(*packet);
        }
        taken
    }

    fn has_room(&self) -> bool {
        self.buffer.ending || self.buffer.level <= self.buffer.capacity() / 2
    }
}

/// A tracer with a buffer after it.
#[derive(Clone, Debug)]
pub struct BufferedTracer {
    tracer: Tracer,
    buffer: Buffer,
}

impl BufferedTracer {
    /// A tracer whose buffer is empty.
    ///
    /// # Errors
    /// If the buffer is too small, or lossless and never drains.
    pub fn new(tracer: Tracer, fifo: Fifo) -> Result<Self, UnitError> {
        fifo.check()?;
        let buffer = Buffer { fifo, level: 0, ending: false, losses: Losses::default() };
        Ok(Self { tracer, buffer })
    }

    /// What the buffer cost so far.
    pub const fn losses(&self) -> Losses {
        self.buffer.losses
    }

    /// Takes a block that is to be traced. Its cycles pass first; where cycles are not known, half-words count.
    pub fn push(&mut self, block: &Block, sink: &mut impl FnMut(Packet)) {
        let Self { tracer, buffer } = self;
        let cycles = if block.cycles > 0 { block.cycles } else { block.iretire };
        buffer.drain(cycles.into());
        tracer.push(block, &mut BufferedSink { buffer, sink });
    }

    /// What comes next is not traced.
    pub fn unqualified(&mut self, sink: &mut impl FnMut(Packet)) {
        let Self { tracer, buffer } = self;
        tracer.unqualified(&mut BufferedSink { buffer, sink });
    }

    /// Tracing ends. Nothing more retires, so that the last packets have time to leave.
    pub fn finish(&mut self, sink: &mut impl FnMut(Packet)) {
        let Self { tracer, buffer } = self;
        buffer.ending = true;
        tracer.finish(&mut BufferedSink { buffer, sink });
        buffer.ending = false;
        buffer.level = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffer(lossless: bool) -> Buffer {
        let fifo = Fifo { capacity: 64, drain: 512, lossless };
        Buffer { fifo, level: 0, ending: false, losses: Losses::default() }
    }

    #[test]
    fn what_does_not_fit_is_lost_until_enough_has_left() {
        let mut buffer = buffer(false);
        assert!(buffer.put(40) && buffer.put(24));
        assert!(!buffer.put(1));
        buffer.drain(1);
        assert!(!buffer.put(1));
        buffer.drain(1);
        assert!(buffer.put(1));
        assert_eq!(buffer.losses, Losses { gaps: 2, stalls: 0, fullest: 64 });
    }

    #[test]
    fn lossless_hardware_waits_as_long_as_it_must() {
        let mut buffer = buffer(true);
        assert!(buffer.put(60) && buffer.put(7));
        assert_eq!(buffer.losses, Losses { gaps: 0, stalls: 6, fullest: 64 });
    }

    #[test]
    fn a_buffer_without_a_chance_is_refused() {
        let tracer = || Tracer::new(Params::default(), Options::default(), Default::default()).unwrap();
        let small = Fifo { capacity: 63, drain: 1024, lossless: false };
        assert!(BufferedTracer::new(tracer(), small).unwrap_err().to_string().contains("64 bytes"));
        let stuck = Fifo { capacity: 64, drain: 0, lossless: true };
        assert!(BufferedTracer::new(tracer(), stuck).unwrap_err().to_string().contains("drains"));
        assert!(BufferedTracer::new(tracer(), Fifo { lossless: false, ..stuck }).is_ok());
    }
}
