//! The independent crate `riscv-etrace` agrees, in both directions, on what it supports: delta and full addresses,
//! sequentially inferable jumps, traps and privilege changes.

use backsight_core::{Execution, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_riscv::etrace::{self, Decoder, Encoder, Options, Packet, Params};
use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress};
use backsight_testing::Random;
use riscv_etrace::binary::{self, Adaptable};
use riscv_etrace::instruction::base::Set;

use crate::independent_step::{Step, generate, parameters, trace};
use crate::random::{Code, Wildness, execute};
use crate::reference::addresses;

fn params() -> Params {
    Params {
        iaddress_width: 64,
        context_width: 32,
        nocontext: 0,
        ecause_width: 6,
        sijump: 1,
        ..Params::default()
    }
}

fn blocks(executed: &[Execution], longest: u32) -> Vec<Block> {
    let mut builder = Builder::new(4, Ctype::Precise).longest_block(longest);
    let mut blocks = Vec::new();
    let mut sink = |ingress: Ingress| {
        if let Ingress::Block(block) = ingress {
            blocks.push(block);
        }
    };
    executed.iter().for_each(|item| builder.push(item, &mut sink));
    builder.finish(&mut sink);
    blocks
}

fn retired(executed: &[Execution]) -> Vec<u64> {
    let address = |item: &Execution| match item {
        Execution::Instruction(retired) => Some(retired.address.0),
        _ => None,
    };
    executed.iter().filter_map(address).collect()
}

fn same(seed: u64, told: &[u64], executed: &[u64]) {
    let same = told.iter().zip(executed).take_while(|(told, executed)| told == executed).count();
    let part = |list: &[u64]| {
        list[same.saturating_sub(4).min(list.len())..].iter().take(8).copied().collect::<Vec<_>>()
    };
    assert!(
        told == executed,
        "seed {seed}, from {same} of {} ({} told): told {:x?}, executed {:x?}",
        executed.len(),
        told.len(),
        part(told),
        part(executed)
    );
}

fn run(random: &mut Random) -> (Code, Vec<Execution>) {
    let code = Code::new(random, 60);
    let wild = Wildness { returns: true, traps: 0, contexts: 0, taken: 60 };
    let executed = execute(&code, random, 300, wild);
    (code, executed)
}

#[test]
fn its_tracer_follows_what_our_encoder_sends() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let (code, mut executed) = run(&mut random);
        // That tracer does not stop right behind a sequentially inferable jump, where a trace may well end.
        let is_jump = |item: &Execution| matches!(item, Execution::Instruction(retired) if retired.opcode & 0x7F == 0x67);
        while executed.iter().rev().nth(1).is_some_and(is_jump) {
            executed.pop();
        }
        let options = Options { full_address: random.below(2) == 1, sijump: true, ..Options::default() };
        let mut encoder = Encoder::new(params(), options, Default::default()).unwrap();
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        let mut sink = |packet: Packet| payloads.push(etrace::encode(&packet, &params(), &options).to_vec());
        blocks(&executed, 1 << 16).iter().for_each(|block| encoder.push(block, &mut sink));
        encoder.finish(&mut sink);
        let (start, bytes) = &code.program.0[0];
        let binary = binary::from_segment(bytes, Set::Rv64I).with_offset(*start);
        let mut told = Vec::new();
        // At the closing packet that tracer walks on behind a branch, although nothing says that more retired.
        payloads.pop();
        trace(binary, payloads.iter().map(Vec::as_slice), &parameters(&params()), |pc| told.push(pc));
        same(seed, &told, &retired(&executed));
    }
}

#[test]
fn our_follower_follows_what_its_generator_sends() {
    for seed in 0..300 {
        let mut random = Random(seed);
        let (code, executed) = run(&mut random);
        // Of longer blocks that generator counts the branch at the end too early.
        let steps: Vec<Step> = blocks(&executed, 1).into_iter().map(Step).collect();
        let options = Options { sijump: true, ..Options::default() };
        let mut decoder = Decoder::new(params(), options);
        let mut follower = Follower::new(Settings::new(params(), options), &code.program);
        let mut told = Vec::new();
        let mut sink = |event: Located<Event>| told.extend(addresses(&code.program, &[event.value]));
        generate(&steps, &parameters(&params()), |payload| {
            let value = decoder.decode(payload).unwrap();
            follower.push(Located { offset: 0, length: 1, value }, &mut sink);
        });
        follower.finish(&mut sink);
        same(seed, &told, &retired(&executed));
    }
}
