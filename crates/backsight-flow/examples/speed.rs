//! Instructions per second of one thread, frames and packets included: `speed CAPTURE_OF_THE_CORPUS [SECONDS]`.
//!
//! First with a look at each range, then counted by paths: a path that was walked before is one addition.

#[path = "../tests/arm/corpus/mod.rs"]
mod corpus;

use std::time::Instant;

use backsight_arm::etm4::Decoder;
use backsight_arm::frame::{Batch, Demultiplexer};
use backsight_core::{Located, TraceId};
use backsight_flow::etm4::Follower;
use backsight_flow::{Event, PathId, PathRanges, Sink};

/// Bytes that are decoded at a time.
const PIECE: usize = 1 << 16;

/// Adds up instructions.
trait Count: Sink + Default {
    /// What it is called.
    const NAME: &str;

    /// How many there were since the last time.
    fn take_count(&mut self) -> u64;
}

/// Looks at each range.
#[derive(Default)]
struct Ranges(u64);

impl Sink for Ranges {
    #[inline(always)]
    fn take(&mut self, event: Located<Event>) {
        self.0 += instructions(&event.value);
    }

    #[inline(always)]
    fn take_path(&mut self, _: PathId, ranges: PathRanges<'_>) {
        self.0 += ranges.map(|range| u64::from(range.value.instructions)).sum::<u64>();
    }
}

impl Count for Ranges {
    const NAME: &str = "each range";

    fn take_count(&mut self) -> u64 {
        std::mem::take(&mut self.0)
    }
}

/// Looks at the ranges of a path once.
#[derive(Default)]
struct Paths {
    others: u64,
    generation: u64,
    /// Of each path: its instructions, and how often it was gone along.
    paths: Vec<(u64, u64)>,
}

impl Sink for Paths {
    #[inline(always)]
    fn take(&mut self, event: Located<Event>) {
        self.others += instructions(&event.value);
    }

    #[inline(always)]
    fn take_path(&mut self, path: PathId, ranges: PathRanges<'_>) {
        let number = path.number as usize;
        match self.paths.get_mut(number).filter(|_| self.generation == path.generation) {
            Some((1.., times)) => *times += 1,
            _ => self.first(path, ranges.map(|range| u64::from(range.value.instructions)).sum()),
        }
    }
}

impl Paths {
    #[cold]
    #[inline(never)]
    fn first(&mut self, path: PathId, instructions: u64) {
        if self.generation != path.generation {
            self.others = self.take_count();
            self.paths.clear();
            self.generation = path.generation;
        }
        let number = path.number as usize;
        self.paths.resize(self.paths.len().max(number + 1), (0, 0));
        self.paths[number] = (instructions, 1);
    }
}

impl Count for Paths {
    const NAME: &str = "counted by paths";

    fn take_count(&mut self) -> u64 {
        let sum = |(instructions, times): &mut (u64, u64)| *instructions * std::mem::take(times);
        std::mem::take(&mut self.others) + self.paths.iter_mut().map(sum).sum::<u64>()
    }
}

fn instructions(event: &Event) -> u64 {
    if let Event::Range(range) = event { range.instructions.into() } else { 0 }
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "cc1-head".to_owned());
    let seconds: f64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    for buffer in corpus::buffers(Some(&name)).unwrap_or_default() {
        measure::<Ranges>(&buffer, seconds);
        measure::<Paths>(&buffer, seconds);
    }
}

fn measure<C: Count>(buffer: &corpus::Buffer, seconds: f64) {
    let mut sink = C::default();
    let mut sources: Vec<_> = buffer
        .sources
        .iter()
        .map(|source| {
            let follower = Follower::new(&source.config, &source.memory);
            (source, Vec::new(), Decoder::new(&source.config), follower)
        })
        .collect();
    let begin = Instant::now();
    // The best round counts: others use the machine, too.
    let (mut rounds, mut instructions, mut best) = (0_u32, 0, f64::INFINITY);
    while begin.elapsed().as_secs_f64() < seconds {
        let round = Instant::now();
        let mut frames = Demultiplexer::new(buffer.framing);
        // Bytes of a source are gathered: a frame has no more than fifteen.
        for (_, gathered, ..) in &mut sources {
            gathered.clear();
        }
        let mut batch = |batch: Batch| {
            if let Batch::Data { id, bytes, .. } = batch {
                for (source, gathered, ..) in &mut sources {
                    if id == TraceId::NULL || id.get() == source.config.trace_id() {
                        gathered.extend_from_slice(bytes);
                    }
                }
            }
        };
        frames.feed(&buffer.bytes, &mut batch);
        frames.finish(&mut batch);
        for (_, gathered, decoder, follower) in &mut sources {
            for piece in gathered.chunks(PIECE) {
                decoder.feed_batches(piece, &mut |batch| batch.give_to(&mut follower.input(&mut sink)));
            }
            decoder.finish(&mut |packet| follower.push(packet, &mut sink));
            follower.finish(&mut sink);
        }
        instructions = sink.take_count();
        best = best.min(round.elapsed().as_secs_f64());
        rounds += 1;
    }
    println!(
        "{}, {}: {} bytes, {instructions} instructions, {rounds} rounds, {:.0} M instructions/s, {:.0} MB/s",
        buffer.name,
        C::NAME,
        buffer.bytes.len(),
        instructions as f64 / best / 1e6,
        buffer.bytes.len() as f64 / best / 1e6,
    );
}
