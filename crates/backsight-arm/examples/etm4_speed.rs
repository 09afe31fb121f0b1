//! How fast ETMv4 packets are decoded, single thread:
//! `cargo run --release -p backsight-arm --example etm4_speed -- [FILE.bin [FILE.regs]]`
//!
//! Without a file: the worst cases, made in memory. With one: a raw single-source stream, and the registers of
//! its trace unit, `NAME=VALUE` a line. Prints one JSON object a line; the best of several rounds counts.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use backsight_arm::etm4::synthetic::WorstCase;
use backsight_arm::etm4::{Config, Decoder, Encoder, Packet};

/// Rounds are short and many: on a busy machine some of them are not interrupted.
const ROUNDS: usize = 200;
const ROUND: usize = 500_000;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let Some(file) = arguments.next() else {
        for case in WorstCase::ALL {
            let mut bytes = Vec::new();
            case.write(ROUND as u64, 1, &mut |packet| bytes.extend_from_slice(packet));
            measure(case.name(), &case.config(), &bytes);
        }
        return Ok(());
    };
    let mut config = Config::etm4_default();
    if let Some(registers) = arguments.next() {
        for line in fs::read_to_string(&registers)?.lines() {
            let (name, value) = line.split_once('=').ok_or_else(|| format!("{registers}: {line}: no '='"))?;
            config.set(name.trim(), value).map_err(|error| format!("{registers}: {line}: {error}"))?;
        }
    }
    measure(&file, &config, &fs::read(&file)?);
    Ok(())
}

fn measure(name: &str, config: &Config, bytes: &[u8]) {
    let (mut packets, mut seconds) = (0u64, f64::INFINITY);
    // A short stream is fed several times over, so that a round is long enough to measure.
    let turns = ROUND / bytes.len().max(1) + 1;
    for _ in 0..ROUNDS {
        packets = 0;
        let mut decoder = Decoder::new(config);
        let start = Instant::now();
        for _ in 0..turns {
            for piece in bytes.chunks(1 << 16) {
                decoder.feed(piece, &mut |packet| {
                    packets += 1;
                    black_box(&packet);
                });
            }
            decoder.finish(&mut |_| packets += 1);
        }
        seconds = seconds.min(start.elapsed().as_secs_f64() / turns as f64);
    }
    packets /= turns as u64;
    let rate = bytes.len() as f64 / seconds / 1e6;
    println!(
        "{{\"stream\":\"{name}\",\"bytes\":{},\"packets\":{packets},\"seconds\":{seconds:.6},\"megabytes_per_second\":{rate:.0},\"encode_megabytes_per_second\":{:.0}}}",
        bytes.len(),
        encode(config, bytes)
    );
}

/// Megabytes a second of the way back.
fn encode(config: &Config, bytes: &[u8]) -> f64 {
    let packets: Vec<Packet> = backsight_arm::etm4::packets(config, &bytes[..bytes.len().min(ROUND / 8)])
        .map(|packet| packet.value)
        .collect();
    let mut best = 0f64;
    for _ in 0..ROUNDS {
        let mut encoder = Encoder::new(config);
        let mut written = 0;
        let start = Instant::now();
        for packet in &packets {
            if let Ok(encoded) = encoder.encode(packet) {
                written += black_box(encoded).len();
            }
        }
        best = best.max(written as f64 / start.elapsed().as_secs_f64() / 1e6);
    }
    best
}
