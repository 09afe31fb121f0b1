//! How fast N-Trace is encoded, decoded and followed on one thread of this machine:
//! `cargo run --release -p backsight-flow --example ntrace_speed -- [PROGRAM…]`.
//!
//! The first two million instructions of bundled programs, or of static RV64 programs that are named, are encoded from
//! blocks to bytes, decoded to messages and followed through their code to ranges of instructions, with histories and
//! with a message for each taken branch. Best of several; `REPEATS` says of how many.

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use backsight_core::{AddressSpace, Execution, Located};
use backsight_flow::Event;
use backsight_flow::ntrace::Follower;
use backsight_image::Image;
use backsight_isa::rv::Set;
use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress};
use backsight_riscv::ntrace::{Config, Decoder, Mode, Packet, encode};
use backsight_sim::{Options, Simulator, Streams};
use backsight_testing::repository;
use backsight_unit::ntrace::{Settings, Tracer};

const INSTRUCTIONS: u64 = 2_000_000;

/// Seconds of the fastest of several rounds.
fn best(mut work: impl FnMut()) -> f64 {
    let repeats = std::env::var("REPEATS").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    let lap = |work: &mut dyn FnMut()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let fastest = (0..repeats).map(|_| lap(&mut work)).min();
    fastest.unwrap_or(Duration::ZERO).as_secs_f64().max(1e-9)
}

fn blocks(path: &Path) -> (u64, Vec<Block>) {
    let file = std::fs::read(path).expect("a program");
    let options = Options {
        streams: Streams::none(),
        host_files: false,
        instructions: INSTRUCTIONS,
        ..Options::default()
    };
    let mut simulator = Simulator::load(&file, options).expect("a static RV64 program");
    let (mut builder, mut blocks, mut instructions) = (Builder::new(4, Ctype::Unreported), Vec::new(), 0);
    let mut each = |ingress: Ingress| {
        if let Ingress::Block(block) = ingress {
            blocks.push(block);
        }
    };
    simulator.run(&mut |item| {
        instructions += u64::from(matches!(item, Execution::Instruction(_)));
        builder.push(&item, &mut each);
    });
    builder.finish(&mut each);
    (instructions, blocks)
}

fn encoded(blocks: &[Block], settings: Settings, bytes: &mut Vec<u8>) {
    bytes.clear();
    let (config, mut encoder) = (Config::default(), Tracer::new(settings));
    let mut send = |packet: Packet| {
        encode(&config, &packet, bytes);
    };
    blocks.iter().for_each(|block| encoder.push(block, &mut send));
    encoder.finish(&mut send);
}

fn followed(bytes: &[u8], image: &Image) -> u64 {
    let mut decoder = Decoder::new(&Config::default());
    let mut follower = Follower::new(Set::RV64, image);
    let mut instructions = 0;
    let mut sink = |event: Located<Event>| {
        if let Event::Range(range) = event.value {
            instructions += u64::from(range.instructions);
        }
    };
    decoder.feed(bytes, &mut |packet| follower.push(packet, &mut sink));
    decoder.finish(&mut |packet| follower.push(packet, &mut sink));
    follower.finish(&mut sink);
    instructions
}

fn measure(path: &Path) {
    let (instructions, blocks) = blocks(path);
    let mut image = Image::new();
    image.add_elf(path, None, AddressSpace::ANY).expect("an ELF file");
    println!("{}: {instructions} instructions, {} blocks", path.display(), blocks.len());
    let modes = [("histories", Mode::History, false), ("every taken branch", Mode::Branch, true)];
    for (name, mode, repeat_branch) in modes {
        let settings = Settings { mode, repeat_branch, ..Settings::default() };
        let mut bytes = Vec::new();
        let encode = best(|| encoded(&blocks, settings, &mut bytes));
        let decode = best(|| {
            let mut decoder = Decoder::new(&Config::default());
            decoder.feed(black_box(&bytes), &mut |packet| {
                black_box(packet);
            });
        });
        let follow = best(|| assert_eq!(followed(black_box(&bytes), &image), instructions));
        let (megabytes, millions) = (bytes.len() as f64 / 1e6, instructions as f64 / 1e6);
        let bits = bytes.len() as f64 * 8.0 / instructions as f64;
        println!("  {name}: {} bytes, {bits:.3} bits an instruction", bytes.len());
        println!("    encode from blocks   {:6.0} M instructions/s", millions / encode);
        println!("    decode to messages   {:6.0} MB/s", megabytes / decode);
        println!(
            "    follow to execution  {:6.0} M instructions/s, {:.1} MB/s",
            millions / follow,
            megabytes / follow
        );
    }
}

fn main() {
    let mut programs: Vec<PathBuf> = std::env::args_os().skip(1).map(PathBuf::from).collect();
    if programs.is_empty() {
        let folder = repository().join("testdata/programs/riscv64");
        programs = ["calls", "pack", "sort", "vm"].iter().map(|name| folder.join(name)).collect();
    }
    programs.iter().for_each(|path| measure(path));
}
