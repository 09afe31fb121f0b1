//! Several trace units, one sink.
//!
//! The bytes of all units meet in a funnel, which takes a few from one source, then a few from the next, and a
//! formatter packs them into frames. A packet of one source may so be torn apart by bytes of the others anywhere.

use backsight_arm::frame::{Formatter, FormatterConfig, NotASource};
use backsight_core::TraceId;

/// Bytes that wait in the funnel before it begins to pass them on.
const WAITING: usize = 256;

/// Bytes of a source that were passed on and are kept until they are forgotten together.
const FORGET: usize = 1 << 12;

/// A funnel with a formatter after it.
pub struct Funnel {
    formatter: Formatter,
    sources: Vec<FunnelInput>,
    /// Most bytes taken from one source before the next has its turn.
    hold: usize,
    turn: usize,
    waiting: usize,
}

struct FunnelInput {
    id: TraceId,
    bytes: Vec<u8>,
    taken: usize,
}

impl Funnel {
    /// A funnel that takes `hold` bytes (at least 1) from a source at a time. Hardware takes 1 to 15.
    pub fn new(config: FormatterConfig, hold: usize) -> Self {
        Self {
            formatter: Formatter::new(config),
            sources: Vec::new(),
            hold: hold.max(1),
            turn: 0,
            waiting: 0,
        }
    }

    /// Bytes of a source. Where several have some waiting, they take turns.
    ///
    /// # Errors
    /// If `id` is not the number of a trace source.
    pub fn push(
        &mut self,
        id: TraceId,
        bytes: &[u8],
        sink: &mut impl FnMut(&[u8]),
    ) -> Result<(), NotASource> {
        if !id.is_source() {
            return Err(NotASource(id));
        }
        match self.sources.iter_mut().find(|source| source.id == id) {
            Some(source) => source.bytes.extend_from_slice(bytes),
            None => self.sources.push(FunnelInput { id, bytes: bytes.to_vec(), taken: 0 }),
        }
        self.waiting += bytes.len();
        while self.waiting > WAITING {
            self.turn(sink)?;
        }
        Ok(())
    }

    /// Passes on what waits, and fills the last frame.
    ///
    /// # Errors
    /// Never: every source was checked when it came.
    pub fn finish(&mut self, sink: &mut impl FnMut(&[u8])) -> Result<(), NotASource> {
        while self.waiting > 0 {
            self.turn(sink)?;
        }
        self.formatter.finish(sink);
        Ok(())
    }

    fn turn(&mut self, sink: &mut impl FnMut(&[u8])) -> Result<(), NotASource> {
        let count = self.sources.len().max(1);
        self.turn = (self.turn + 1) % count;
        // A source that is alone has all turns until few enough bytes wait.
        let turns =
            if count == 1 { self.waiting.saturating_sub(WAITING).div_ceil(self.hold).max(1) } else { 1 };
        let Some(source) = self.sources.get_mut(self.turn) else { return Ok(()) };
        let rest = source.bytes.get(source.taken..).unwrap_or_default();
        let now = rest.get(..self.hold.saturating_mul(turns)).unwrap_or(rest);
        self.formatter.push(source.id, now, sink)?;
        self.waiting -= now.len();
        source.taken += now.len();
        if source.taken == source.bytes.len() || source.taken >= FORGET {
            source.bytes.drain(..source.taken);
            source.taken = 0;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_arm::frame::{Chunk, Deframer, Framing};

    #[test]
    fn every_source_gets_its_own_bytes_back() {
        let mut funnel = Funnel::new(FormatterConfig::new(Framing::Coresight), 5);
        let mut frames = Vec::new();
        let ids = [0x10, 0x11, 0x12].map(TraceId::new);
        let mut sent: [Vec<u8>; 3] = Default::default();
        for round in 0..200usize {
            let which = round % 7 % 3;
            let bytes: Vec<u8> = (0..round % 23).map(|n| (n * 7 + round) as u8).collect();
            sent[which].extend(&bytes);
            funnel.push(ids[which], &bytes, &mut |bytes| frames.extend_from_slice(bytes)).unwrap();
        }
        funnel.finish(&mut |bytes| frames.extend_from_slice(bytes)).unwrap();
        let mut received: [Vec<u8>; 3] = Default::default();
        let mut turns = 0;
        let mut deframer = Deframer::new(Framing::Coresight);
        deframer.feed(&frames, &mut |chunk| {
            if let Chunk::Data { id, bytes, .. } = chunk
                && let Some(which) = ids.iter().position(|&other| other == id)
            {
                received[which].extend_from_slice(bytes);
                turns += 1;
            }
        });
        assert_eq!(received, sent);
        assert!(turns > 100, "sources alternate");
    }

    #[test]
    fn a_number_that_names_no_source_is_refused() {
        let mut funnel = Funnel::new(FormatterConfig::new(Framing::Coresight), 5);
        assert!(funnel.push(TraceId::TRIGGER, &[1], &mut |_| {}).is_err());
    }
}
