//! Instructions per second of one thread, frames and packets included: `speed CAPTURE_OF_THE_CORPUS [SECONDS]`.

#[path = "../tests/arm/corpus/mod.rs"]
mod corpus;

use std::time::Instant;

use backsight_arm::etm4::Decoder;
use backsight_arm::frame::{Batch, Demultiplexer};
use backsight_core::{Located, TraceId};
use backsight_flow::Event;
use backsight_flow::etm4::Follower;

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
                (source, Decoder::new(&source.config), Follower::new(&source.config, &source.memory))
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
            let mut batch = |batch: Batch| {
                if let Batch::Data { id, bytes, .. } = batch {
                    for (source, decoder, follower) in &mut sources {
                        if id == TraceId::NULL || id.get() == source.config.trace_id() {
                            decoder.feed(bytes, &mut |packet| follower.push(packet, &mut sink));
                        }
                    }
                }
            };
            frames.feed(&buffer.bytes, &mut batch);
            frames.finish(&mut batch);
            for (_, decoder, follower) in &mut sources {
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
