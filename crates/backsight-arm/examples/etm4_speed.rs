//! How fast ETMv4 packets are decoded, single thread:
//! `cargo run --release -p backsight-arm --example etm4_speed -- [FILE.bin [FILE.regs]]`
//!
//! Without a file: the worst cases, made in memory. With one: a raw single-source stream, and the registers of
//! its trace unit, `NAME=VALUE` a line. Prints one JSON object a line: megabytes a second in batches, packet by packet,
//! and back to bytes; the best of many rounds counts.

use std::error::Error;
use std::fs;
use std::hint::black_box;
use std::time::Instant;

use backsight_arm::etm4::synthetic::WorstCase;
use backsight_arm::etm4::{Config, Decoder, Encoder, Packet};

/// Rounds are short and many: on a busy machine some of them are not interrupted.
const ROUNDS: usize = 4000;
const ROUND: usize = 100_000;
/// Bytes that are fed at a time.
const PIECE: usize = 1 << 16;

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
    let mut decoder = Decoder::new(config);
    let mut packets = 0u64;
    let decode = rate(bytes, || {
        packets = 0;
        for piece in bytes.chunks(PIECE) {
            decoder.feed_batches(piece, &mut |batch| packets += black_box(batch).len() as u64);
        }
        decoder.finish(&mut |_| packets += 1);
    });
    let single = rate(bytes, || {
        for piece in bytes.chunks(PIECE) {
            decoder.feed(piece, &mut |packet| {
                black_box(&packet);
            });
        }
        decoder.finish(&mut |packet| {
            black_box(&packet);
        });
    });
    println!(
        "{{\"stream\":\"{name}\",\"bytes\":{},\"packets\":{packets},\"megabytes_per_second\":{decode:.0},\"one_by_one\":{single:.0},\"encode\":{:.0}}}",
        bytes.len(),
        encode(config, bytes)
    );
}

/// Megabytes a second, the best of many rounds.
fn rate(bytes: &[u8], mut work: impl FnMut()) -> f64 {
    let rounds = (ROUNDS * ROUND / bytes.len().max(1)).max(3);
    let best = (0..rounds).map(|_| {
        let start = Instant::now();
        work();
        start.elapsed().as_secs_f64()
    });
    bytes.len() as f64 / best.fold(f64::INFINITY, f64::min) / 1e6
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
