//! Instructions a second of each scheme, both ways, single thread:
//!
//! ```text
//! cargo run --release -p backsight-squeeze --example squeeze_speed -- PROGRAM [INSTRUCTIONS] [SCHEME …]
//! ```
//! The run is simulated first and kept in memory; then each scheme packs and unpacks it, the best of five times. Where the
//! system says how long a thread had a processor (Linux), that is the time: other programs do not count.

use backsight_core::{Execution, Isa};
use backsight_sim::{Elf, Options, Simulator, Streams};
use backsight_squeeze::{Chunk, Code, DataScheme, PRESETS, Packer, Section, Unpacker};
use std::time::{Duration, Instant};

/// The time that this thread had a processor.
fn now(begin: Instant) -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = text.as_deref().and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| begin.elapsed(), Duration::from_nanos)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let start = Instant::now();
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().ok_or("name a static RV64 program")?;
    let most = arguments.next().map_or(Ok(5_000_000), |text| text.parse())?;
    let wanted: Vec<_> = arguments.collect();
    let file = std::fs::read(&name)?;
    let options = Options { streams: Streams::none(), instructions: most, ..Options::default() };
    let mut items = Vec::new();
    Simulator::load(&file, options)?.run(&mut |item| items.push(item));
    let elf = Elf::parse(&file)?;
    let sections = elf.segments.iter().filter(|segment| segment.flags & 1 != 0);
    let sections =
        sections.map(|segment| Section { address: segment.address, bytes: segment.bytes.to_vec() });
    let code = Code::new(Isa::Rv64, sections.collect());
    let count = items.iter().filter(|item| matches!(item, Execution::Instruction(_))).count() as f64;
    println!("{name}: {count} instructions");
    println!("{:10} {:>12} {:>14} {:>14}", "scheme", "bits/ins", "pack M/s", "unpack M/s");
    for (scheme_name, scheme) in PRESETS {
        if !wanted.is_empty() && !wanted.iter().any(|wanted| wanted == scheme_name) {
            continue;
        }
        let scheme = scheme.with_address_bits(32);
        let (mut pack, mut unpack, mut bits) = (Duration::MAX, Duration::MAX, 0);
        for _ in 0..5 {
            let begin = now(start);
            let mut packer = Packer::new(&scheme, DataScheme::default(), code.clone());
            let mut chunks: Vec<Chunk> = Vec::new();
            for item in &items {
                chunks.extend(packer.push(item)?.map(|chunk| *chunk));
            }
            chunks.push(packer.flush());
            pack = pack.min(now(start) - begin);
            bits = chunks.iter().map(|chunk| chunk.records.bits).sum();
            let begin = now(start);
            let mut unpacker = Unpacker::new(&scheme, DataScheme::default(), code.clone());
            let mut sum = 0u64;
            for chunk in &chunks {
                unpacker.unpack(chunk, &mut |item| {
                    if let Execution::Instruction(retired) = item {
                        sum = sum.wrapping_add(retired.next.0);
                    }
                })?;
            }
            unpack = unpack.min(now(start) - begin);
            std::hint::black_box(sum);
        }
        let rate = |time: Duration| count / time.as_secs_f64() / 1e6;
        println!(
            "{scheme_name:10} {:>12.5} {:>14.1} {:>14.1}",
            bits as f64 / count,
            rate(pack),
            rate(unpack)
        );
    }
    Ok(())
}
