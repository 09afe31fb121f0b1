//! How fast logs are read: `cargo run --release -p backsight-tarmac --example speed LOG`.

use std::hint::black_box;
use std::time::Instant;

use backsight_tarmac::{Config, Decoder, Machine};

/// Bytes that are read, the log again and again.
const BYTES: usize = 1 << 28;

fn main() {
    let Some(path) = std::env::args().nth(1) else { return eprintln!("usage: speed LOG") };
    let log = std::fs::read(&path).expect("a log");
    let turns = BYTES / log.len().max(1) + 1;
    let measure = |what: &str, turn: &mut dyn FnMut()| {
        let start = Instant::now();
        (0..turns).for_each(|_| turn());
        let seconds = start.elapsed().as_secs_f64();
        println!("{what}: {:.0} MB/s", (turns * log.len()) as f64 / seconds / 1e6);
    };
    measure("lines to packets", &mut || {
        let mut packets = 0_u64;
        let mut decoder = Decoder::new(&Config::default());
        decoder.feed(&log, &mut |packet| packets += u64::from(black_box(packet).length));
        black_box(packets);
    });
    measure("and registers and memory", &mut || {
        let mut machine = Machine::new(1 << 28);
        Decoder::new(&Config::default()).feed(&log, &mut |packet| machine.push(&packet));
        black_box(&machine);
    });
}
