//! How fast E-Trace is encoded and followed on this machine, beside an independent implementation:
//! `cargo run --release --example etrace_speed`. Needs the corpus: the program is Dhrystone.

#[path = "../tests/etrace/independent_step.rs"]
mod independent_step;
#[path = "../tests/etrace/program.rs"]
mod program;

use std::time::{Duration, Instant};

use backsight_core::{Located, MemorySpace};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_image::Code;
use backsight_riscv::etrace::{Decoder, Encoder, Options, Packet, Params, encode};
use backsight_riscv::ingress::{Block, Itype, csv};
use backsight_testing::{corpus, gunzip};
use independent_step::Step;
use program::Program;
use riscv_etrace::binary::{self, Adaptable};

const ROUNDS: u64 = 50;

/// Time that this thread ran, so that a busy machine does not matter; where the system does not tell, wall time.
fn now(origin: Instant) -> Duration {
    let told = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = told.and_then(|text| text.split(' ').next()?.parse().ok());
    nanoseconds.map_or_else(|| origin.elapsed(), Duration::from_nanos)
}

fn best(mut work: impl FnMut()) -> Duration {
    let origin = Instant::now();
    (0..5)
        .map(|_| {
            let start = now(origin);
            work();
            now(origin).saturating_sub(start)
        })
        .min()
        .unwrap_or_default()
}

/// Joins single instructions into blocks, with four-bit types from the code.
fn join(singles: &[Block], code: &Program) -> Vec<Block> {
    let (mut blocks, mut open): (Vec<Block>, Option<Block>) = (Vec::new(), None);
    for (n, single) in singles.iter().enumerate() {
        let bytes = code.bytes_at(MemorySpace::ANY, backsight_core::Address(single.iaddr));
        let opcode = bytes.and_then(backsight_isa::rv::opcode).unwrap_or(1);
        let address = backsight_core::Address(single.iaddr);
        let decoded = backsight_isa::rv::decode(backsight_isa::rv::Set::RV64, opcode, address);
        let taken = singles.get(n + 1).is_some_and(|next| next.iaddr != single.end());
        let mut block = open.take().unwrap_or(Block { iretire: 0, ..*single });
        block.iretire += single.iretire;
        block.ilastsize = single.ilastsize;
        block.itype = Itype::of(&decoded, taken);
        if block.itype == Itype::None && n + 1 < singles.len() {
            open = Some(block);
        } else {
            blocks.push(block);
        }
    }
    blocks
}

fn encode_all(blocks: &[Block], params: Params, options: Options, bytes: &mut Vec<(u8, [u8; 31])>) {
    let Ok(mut encoder) = Encoder::new(params, options, Default::default()) else { return };
    let mut sink = |packet: Packet| {
        let payload = encode(&packet, &params, &options);
        let mut buffer = [0; 31];
        buffer[..payload.len()].copy_from_slice(&payload);
        bytes.push((payload.len() as u8, buffer));
    };
    blocks.iter().for_each(|block| encoder.push(block, &mut sink));
    encoder.finish(&mut sink);
}

fn main() {
    let Some(corpus) = corpus() else { return };
    let root = corpus.join("etrace/refflow");
    let name = std::env::args().nth(1).unwrap_or("dhrystone".to_string());
    let text = std::fs::read_to_string(root.join("itype4/hardware_64.scf")).expect("parameters");
    let (params, _) = Params::parse(&text).expect("parameters");
    let code =
        Program::with_boot_rom(&root.join(format!("elf/{name}.riscv")), &root.join("elf/bootrom64.bin"));
    let ingress = gunzip(&root.join(format!("itype3/{name}.encoder_input.gz")));
    let singles = csv::parse(std::str::from_utf8(&ingress).expect("text")).expect("ingress");
    let blocks = join(&singles, &code);
    let instructions = singles.len() as u64;
    println!("{name}: {instructions} instructions, {} blocks", blocks.len());
    let everything = Options {
        implicit_return: true,
        jump_target_cache: true,
        branch_prediction: true,
        sijump: true,
        ..Options::default()
    };
    let tables = Params {
        bpred_size: 8,
        cache_size: 6,
        return_stack_size: 4,
        f0s_width: 1,
        implicit_return: backsight_riscv::etrace::ImplicitReturn::Returns,
        ..params
    };
    for (label, params, options) in
        [("delta address", params, Options::default()), ("all options", tables, everything)]
    {
        let mut payloads = Vec::new();
        let time = best(|| {
            for _ in 0..ROUNDS {
                payloads.clear();
                encode_all(&blocks, params, options, &mut payloads);
            }
        });
        let rate = |time: Duration| (instructions * ROUNDS) as f64 / time.as_secs_f64() / 1e6;
        let size: usize = payloads.iter().map(|(length, _)| usize::from(*length)).sum();
        println!("encode, {label}: {:.0} M instructions/s, {size} bytes", rate(time));
        let mut told = 0;
        let mut follower = Follower::new(Settings::new(params, options), &code);
        let time = best(|| {
            told = 0;
            for _ in 0..ROUNDS {
                let mut decoder = Decoder::new(params, options);
                let mut sink = |event: Located<Event>| {
                    if let Event::Range(range) = event.value {
                        told += u64::from(range.instructions);
                    }
                };
                for (length, payload) in &payloads {
                    if let Ok(value) = decoder.decode(&payload[..usize::from(*length)]) {
                        follower.push(Located { offset: 0, length: 1, value }, &mut sink);
                    }
                }
                follower.finish(&mut sink);
            }
        });
        assert_eq!(told, instructions * ROUNDS);
        println!("decode, {label}: {:.0} M instructions/s", rate(time));
        if label == "delta address" {
            independent(&code, &blocks, &payloads, &params, instructions);
        }
    }
}

fn independent(
    code: &Program,
    blocks: &[Block],
    payloads: &[(u8, [u8; 31])],
    params: &Params,
    instructions: u64,
) {
    let theirs = independent_step::parameters(params);
    let steps: Vec<Step> = blocks.iter().map(|block| Step(*block)).collect();
    let rounds = 5;
    let rate = |time: Duration| (instructions * rounds) as f64 / time.as_secs_f64() / 1e6;
    let time = best(|| {
        for _ in 0..rounds {
            independent_step::generate(&steps, &theirs, |_| {});
        }
    });
    println!("encode, riscv-etrace: {:.0} M instructions/s", rate(time));
    let time = best(|| {
        for _ in 0..rounds {
            let segments: Vec<_> = code
                .0
                .iter()
                .map(|(start, bytes)| {
                    binary::from_segment(bytes, riscv_etrace::instruction::base::Set::Rv64I)
                        .with_offset(*start)
                        .boxed()
                })
                .collect();
            let mut count = 0u64;
            let payloads = payloads.iter().map(|(length, payload)| &payload[..usize::from(*length)]);
            independent_step::trace(binary::Multi::from(segments), payloads, &theirs, |_| count += 1);
            assert!(count >= instructions);
        }
    });
    println!("decode, riscv-etrace: {:.0} M instructions/s", rate(time));
}
