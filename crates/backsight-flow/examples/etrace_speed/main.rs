//! How fast E-Trace is encoded and followed on one thread of this machine, beside the crate `riscv-etrace`:
//! `cargo run --release -p backsight-flow --example etrace_speed -- [PROGRAM…]`.
//!
//! Both encoders get the same input and leave the same result: payload bytes, with the length of each before it. Both
//! decoders get the same payloads; ours leaves ranges of instructions, the peer single ones: that is what each gives its
//! users. The input of an encoder is what a hart tells it, one retired instruction at a time
//! (as that crate's own example has it) or a block at a time, or executed instructions with their opcodes, whose type
//! is still to be found. Programs: Dhrystone as the reference flow traced it, if the corpus is here, and the first two
//! million instructions of bundled programs.

#[path = "../../tests/riscv/independent_step.rs"]
#[allow(dead_code)]
mod independent_step;
mod peer;
#[path = "../../tests/riscv/program.rs"]
mod program;
mod workload;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::path::Path;
use std::time::{Duration, Instant};

use backsight_core::{Execution, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_riscv::encap::{Encapsulated, Framer, Framing, Kind};
use backsight_riscv::etrace::{Config, Decoder, ImplicitReturn, Options, Params, Payload, PayloadDecoder};
use backsight_riscv::ingress::{Block, Builder, Ctype};
use backsight_testing::corpus;
use backsight_unit::etrace::{Payloads, Tracer};
use workload::{Steps, Workload};

const INSTRUCTIONS: u64 = 2_000_000;

/// A number from the environment.
fn setting(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Something that is measured, in laps of a length that a clock can tell.
struct Lap<F> {
    work: F,
    rounds: u32,
    best: Duration,
}

impl<F: FnMut()> Lap<F> {
    fn new(work: F) -> Self {
        let mut lap = Self { work, rounds: 1, best: Duration::MAX };
        while lap.run() < Duration::from_millis(setting("MILLISECONDS", 100)) {
            lap.rounds *= 2;
        }
        lap.best = Duration::MAX;
        lap
    }

    fn run(&mut self) -> Duration {
        let start = Instant::now();
        (0..self.rounds).for_each(|_| (self.work)());
        let took = start.elapsed();
        self.best = self.best.min(took);
        took
    }

    /// Millions of instructions a second in the best lap.
    fn rate(&self, instructions: usize) -> f64 {
        instructions as f64 * f64::from(self.rounds) / self.best.as_secs_f64() / 1e6
    }
}

/// Laps of each. The best counts: on a machine that is shared with others, some are not disturbed.
fn repeats() -> u64 {
    setting("REPEATS", 10)
}

/// Millions of instructions a second.
fn rate(instructions: usize, work: impl FnMut()) -> f64 {
    let mut lap = Lap::new(work);
    (0..repeats()).for_each(|_| _ = lap.run());
    lap.rate(instructions)
}

/// Millions of instructions a second, ours and the peer's: laps of the same length, in turns.
fn rates(instructions: usize, ours: impl FnMut(), theirs: impl FnMut()) -> (f64, f64) {
    let (mut ours, mut theirs) = (Lap::new(ours), Lap::new(theirs));
    for _ in 0..repeats() {
        ours.run();
        theirs.run();
    }
    (ours.rate(instructions), theirs.rate(instructions))
}

/// What was measured beside the peer, over all programs: the sums of the times that an instruction takes.
#[derive(Default)]
struct Board(BTreeMap<&'static str, (f64, f64)>);

impl Board {
    fn compare(&mut self, what: &'static str, (ours, theirs): (f64, f64)) {
        println!("  {what:44} {ours:6.0} {theirs:6.0} {:6.1}", ours / theirs);
        let sums = self.0.entry(what).or_default();
        *sums = (sums.0 + 1.0 / ours, sums.1 + 1.0 / theirs);
    }

    fn total(&self) {
        println!("all programs, as many instructions of each");
        for (what, (ours, theirs)) in &self.0 {
            println!("  {what:44} {:20.1}", theirs / ours);
        }
    }
}

fn report(what: &str, ours: f64) {
    println!("  {what:44} {ours:6.0}");
}

/// A payload with its length before it.
#[inline]
fn append(payload: &Payload, bytes: &mut Vec<u8>) {
    bytes.push(payload.len() as u8);
    payload.append_to(bytes);
}

fn encode_blocks(blocks: &Steps<Block>, params: Params, options: Options, bytes: &mut Vec<u8>) {
    let mut encoder = Tracer::new(params, options, Default::default()).expect("options");
    let mut sink = Payloads(|payload: &Payload| append(payload, bytes));
    blocks.iter().for_each(|block| encoder.push(block, &mut sink));
    encoder.finish(&mut sink);
}

fn encode_executed(
    steps: &Steps<Execution>,
    context: &Execution,
    params: Params,
    options: Options,
    bytes: &mut Vec<u8>,
) {
    let mut encoder = Tracer::new(params, options, Default::default()).expect("options");
    let mut builder = Builder::new(params.itype_width, Ctype::Unreported);
    let mut packets = Payloads(|payload: &Payload| append(payload, bytes));
    let mut port = encoder.port(&mut packets);
    builder.push(context, &mut port);
    steps.iter().for_each(|step| builder.push(step, &mut port));
    builder.finish(&mut port);
    encoder.finish(&mut packets);
}

/// The payloads in bytes as the encoders above leave them.
fn payloads(mut bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
    std::iter::from_fn(move || {
        let (&length, rest) = bytes.split_first()?;
        let (payload, rest) = rest.split_at_checked(length.into())?;
        bytes = rest;
        Some(payload)
    })
}

/// The same as a stream.
fn framed(bytes: &[u8]) -> Vec<u8> {
    let (mut framer, mut framed) = (Framer::new(Framing::REFERENCE), Vec::new());
    for payload in payloads(bytes) {
        let packet = Encapsulated { source: 0, kind: Kind::Instruction, flow: 0, time: None, payload };
        framer.frame(&packet, &mut framed).expect("a short payload");
    }
    framed
}

fn measure(name: &str, work: &Workload, board: &mut Board) {
    let (executed, singles, blocks) = (work.executed(), work.ingress(1), work.ingress(1 << 16));
    let instructions = singles.len();
    println!("{name}: {instructions} instructions, {} blocks; million instructions a second", blocks.len());
    println!("  {:44} {:>6} {:>6} {:>6}", "", "ours", "peer", "times");
    let (params, options) = (work.params, Options::default());
    let (mut bytes, mut theirs) = (Vec::new(), Vec::new());
    for (what, steps) in [("encode single instructions", &singles), ("encode blocks", &blocks)] {
        let ready = steps.map(peer::ready);
        let ours = || {
            bytes.clear();
            encode_blocks(steps, params, options, &mut bytes);
        };
        let peers = || {
            theirs.clear();
            peer::encode_ready(&ready, &params, &mut theirs);
        };
        board.compare(what, rates(instructions, ours, peers));
    }
    let level = if let Execution::Context(context) = work.context() { context.level() } else { 0 };
    let ours = || {
        bytes.clear();
        encode_executed(&executed, &work.context(), params, options, &mut bytes);
    };
    let peers = || {
        theirs.clear();
        peer::encode_executed(&executed, level, &params, &mut theirs);
    };
    board.compare("encode executed instructions", rates(instructions, ours, peers));
    decode(work, params, options, &bytes, instructions, Some(board));

    let (params, options) = everything(work.params);
    let ours = rate(instructions, || {
        bytes.clear();
        encode_blocks(&singles, params, options, &mut bytes);
    });
    report("all options: encode single instructions", ours);
    decode(work, params, options, &bytes, instructions, None);
}

fn decode(
    work: &Workload,
    params: Params,
    options: Options,
    bytes: &[u8],
    instructions: usize,
    board: Option<&mut Board>,
) {
    let label = if board.is_some() { "" } else { "all options: " };
    let config = Config { params, options, framing: Framing::REFERENCE };
    let framed = framed(bytes);
    let mut follower = Follower::new(Settings::from(&config), &work.code);
    let ours = || {
        let (mut decoder, mut count) = (PayloadDecoder::new(params, options), 0);
        let mut sink = |event| count += instructions_of(event);
        payloads(bytes).for_each(|payload| {
            decoder.feed(place(payload), &mut |message| follower.push(message, &mut sink))
        });
        follower.finish(&mut sink);
        assert_eq!(count, instructions);
    };
    if let Some(board) = board {
        let mut count = 0;
        let (ours, theirs) = rates(instructions, ours, || {
            count = 0;
            peer::decode(&work.code, payloads(bytes), &params, |pc| {
                black_box(pc);
                count += 1;
            });
        });
        if count != instructions {
            println!("  (the peer gives up after {count} instructions)");
        }
        let theirs = theirs * count as f64 / instructions as f64;
        board.compare("decode to ranges (peer: instructions)", (ours, theirs));
    } else {
        report("all options: decode to ranges", rate(instructions, ours));
    }

    let streamed = rate(instructions, || {
        let (mut decoder, mut count) = (Decoder::new(&config), 0);
        let mut sink = |event| count += instructions_of(event);
        decoder.feed(&framed, &mut |message| follower.push(message, &mut sink));
        follower.finish(&mut sink);
        assert_eq!(count, instructions);
    });
    report(&format!("{label}stream to ranges"), streamed);

    let decoder = PayloadDecoder::new(params, options);
    let packets = rate(instructions, || {
        let mut decoder = decoder;
        payloads(bytes).for_each(|payload| _ = black_box(decoder.decode(payload)));
    });
    let total: usize = payloads(bytes).map(<[u8]>::len).sum();
    let megabytes = packets * total as f64 / instructions as f64;
    report(&format!("{label}payloads to packets ({megabytes:.0} MB/s)"), packets);
    let mut decoder = decoder;
    let packets: Vec<_> = payloads(bytes).map(|payload| decoder.decode(payload).expect("packet")).collect();
    let followed = rate(instructions, || {
        let mut count = 0;
        let mut sink = |event| count += instructions_of(event);
        packets.iter().for_each(|&packet| follower.push(place(packet), &mut sink));
        follower.finish(&mut sink);
        assert_eq!(count, instructions);
    });
    report(&format!("{label}packets to ranges"), followed);
}

/// Where something is does not matter here.
fn place<T>(value: T) -> Located<T> {
    Located { offset: 0, length: 1, value }
}

/// Instructions of a range. Every range is looked at: it is put into memory, as the peer's addresses are. (Whole events
/// would be put together there byte by byte, and wait for each other's bytes longer than the follower takes.)
fn instructions_of(event: Located<Event>) -> usize {
    match event.value {
        Event::Range(range) => black_box(range).instructions as usize,
        _ => 0,
    }
}

fn everything(params: Params) -> (Params, Options) {
    let options = Options {
        implicit_return: true,
        jump_target_cache: true,
        branch_prediction: true,
        sijump: true,
        ..Options::default()
    };
    let params = Params {
        bpred_size: 8,
        cache_size: 6,
        return_stack_size: 4,
        f0s_width: 1,
        implicit_return: ImplicitReturn::Returns,
        ..params
    };
    (params, options)
}

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let mut board = Board::default();
    let wants = |name: &str| wanted.is_empty() || wanted.iter().any(|wanted| wanted == name);
    if let Some(root) = corpus().map(|corpus| corpus.join("etrace/refflow"))
        && wants("dhrystone")
    {
        measure("dhrystone", &Workload::reference(&root, "dhrystone"), &mut board);
    }
    let params = Params { iaddress_width: 64, itype_width: 4, ..Params::default() };
    let programs = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/programs/riscv64");
    for name in ["sort", "vm", "calls"].into_iter().filter(|name| wants(name)) {
        measure(
            name,
            &Workload::simulated(&programs.join(name), params, setting("INSTRUCTIONS", INSTRUCTIONS)),
            &mut board,
        );
    }
    board.total();
}
