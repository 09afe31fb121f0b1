//! Instructions per second of one thread, frames and packets included: `speed CAPTURE_OF_THE_CORPUS [SECONDS]`.

#[path = "../tests/arm/corpus/mod.rs"]
mod corpus;

use std::time::Instant;

use backsight_arm::etm4::Decoder;
use backsight_arm::frame::{Batch, Demultiplexer};
use backsight_core::{Located, TraceId};
use backsight_flow::Event;
use backsight_flow::etm4::Follower;

/// Bytes that are decoded at a time.
const PIECE: usize = 1 << 16;

/// Seconds that this thread has run: a busy machine does not count. Where the system does not tell: seconds.
fn time(begin: Instant) -> f64 {
    let spent = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let spent = spent.and_then(|text| text.split_whitespace().next()?.parse::<f64>().ok());
    spent.map_or_else(|| begin.elapsed().as_secs_f64(), |nanoseconds| nanoseconds / 1e9)
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "cc1-head".to_owned());
    let seconds: f64 = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(2.0);
    for buffer in corpus::buffers(Some(&name)) {
        let mut sources: Vec<_> = buffer
            .sources
            .iter()
            .map(|source| {
                let follower = Follower::new(&source.config, &source.memory);
                (source, Vec::new(), Decoder::new(&source.config), follower)
            })
            .collect();
        let begin = Instant::now();
        let spent = time(begin);
        let mut rounds = 0_u32;
        let mut instructions = 0;
        while begin.elapsed().as_secs_f64() < seconds {
            instructions = 0;
            let mut frames = Demultiplexer::new(buffer.framing);
            let mut sink = |event: Located<Event>| {
                if let Event::Range(range) = event.value {
                    instructions += u64::from(range.instructions);
                }
            };
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
            rounds += 1;
        }
        // The clock of a thread ticks slowly: only the sum over all rounds means something.
        let each = (time(begin) - spent) / f64::from(rounds.max(1));
        println!(
            "{}: {} bytes, {instructions} instructions, {rounds} rounds, {:.0} M instructions/s, {:.0} MB/s",
            buffer.name,
            buffer.bytes.len(),
            instructions as f64 / each / 1e6,
            buffer.bytes.len() as f64 / each / 1e6,
        );
    }
}
