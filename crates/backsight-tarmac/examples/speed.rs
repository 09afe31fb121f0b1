//! How fast logs are read: `cargo run --release -p backsight-tarmac --example speed LOG`.

use std::hint::black_box;

use backsight_tarmac::{Config, Decoder, Machine};

/// Bytes that are read, the log again and again.
const BYTES: usize = 1 << 28;

/// Seconds of processor time of this thread: others may use the machine, too.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/schedstat").expect("a machine with Linux");
    let nanoseconds: f64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    nanoseconds / 1e9
}

fn main() {
    let Some(path) = std::env::args().nth(1) else { return eprintln!("usage: speed LOG") };
    let log = std::fs::read(&path).expect("a log");
    let turns = BYTES / log.len().max(1) + 1;
    let measure = |what: &str, turn: &mut dyn FnMut()| {
        let start = processor_time();
        (0..turns).for_each(|_| turn());
        let seconds = processor_time() - start;
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
