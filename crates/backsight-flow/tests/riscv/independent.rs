//! The independent crate `riscv-etrace` agrees, in both directions, on what it supports: delta and full addresses, both
//! widths of itype, sequentially inferable jumps, traps, contexts, time; and, where code is well-behaved, returns that
//! are left out. It knows neither the jump target cache nor branch prediction nor implicit exceptions. What it gets wrong
//! is left out below, by name.

use backsight_core::{Execution, Located, Retired};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_riscv::etrace::{self, ImplicitReturn, Options, Packet, Params, PayloadDecoder, Reported};
use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress};
use backsight_testing::Random;
use backsight_unit::etrace::Tracer;
use riscv_etrace::binary::{self, Adaptable};
use riscv_etrace::instruction::base::Set;

use crate::independent_step::{Step, generate, parameters, trace};
use crate::random::{Code, Wildness, execute};
use crate::reference::addresses;

/// One of the ways to build an encoder, and to switch it, that the crate knows.
fn setting(random: &mut Random, wild: Wildness) -> Setting {
    let mut coin = || random.below(2) == 0;
    // That tracer does not stop right behind a sequentially inferable jump, where a trap or context change may be.
    let sijump = coin() && wild.traps + wild.contexts == 0;
    let params = Params {
        iaddress_width: if coin() { 64 } else { 39 },
        itype_width: if coin() { 3 } else { 4 },
        context_width: 32,
        nocontext: u8::from(coin() && wild.contexts == 0),
        time_width: 16,
        notime: u8::from(coin()),
        ecause_width: 6,
        privilege_width: if coin() { 2 } else { 3 },
        sijump: sijump.into(),
        ..Params::default()
    };
    Setting { params, options: Options { full_address: coin(), sijump, ..Options::default() } }
}

#[derive(Clone, Copy, Debug)]
struct Setting {
    params: Params,
    options: Options,
}

fn blocks(executed: &[Execution], itype_width: u8, longest: u32) -> Vec<Block> {
    let mut builder = Builder::new(itype_width, Ctype::Precise).longest_block(longest);
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

fn run(random: &mut Random, wild: Wildness) -> (Code, Vec<Execution>) {
    let code = Code::new(random, 60);
    let executed = execute(&code, random, 300, wild);
    (code, executed)
}

fn instruction(item: &Execution) -> Option<Retired> {
    match item {
        Execution::Instruction(retired) => Some(*retired),
        _ => None,
    }
}

/// The instructions before a place, the latest first.
fn before(executed: &[Execution], place: usize) -> impl Iterator<Item = Retired> {
    executed[..place].iter().rev().filter_map(instruction)
}

/// Ends the execution before what the crate gets wrong.
fn cut(executed: &mut Vec<Execution>, is_wrong: impl Fn(&[Execution], usize) -> bool) {
    let end = (0..executed.len()).find(|&place| is_wrong(executed, place));
    executed.truncate(end.unwrap_or(executed.len()));
}

const BRANCH: u32 = 0x63;
const JUMP_REGISTER: u32 = 0x67;
const MRET: u32 = 0x3020_0073;

/// What its tracer gets right.
fn for_its_tracer(executed: &mut Vec<Execution>, wild: Wildness) {
    // It cannot begin with a trap.
    let first = executed.iter().position(|item| instruction(item).is_some()).unwrap_or(0);
    let mut place = 0;
    executed.retain(|item| {
        place += 1;
        place > first || !matches!(item, Execution::Trap(_))
    });
    cut(executed, |executed, place| match executed[place] {
        // It keeps the outcome of a branch that a trap comes right behind.
        Execution::Trap(_) => before(executed, place).next().is_some_and(|last| last.opcode & 0x7F == BRANCH),
        // It does not look at the privilege: a trap return to where execution just was is not seen.
        Execution::Instruction(retired) if wild.traps > 0 && retired.opcode == MRET => {
            before(executed, place).take(16).any(|earlier| earlier.address == retired.next)
        }
        _ => false,
    });
    // It does not stop right behind a sequentially inferable jump, where a trace may well end.
    let is_jump =
        |item: &Execution| instruction(item).is_some_and(|last| last.opcode & 0x7F == JUMP_REGISTER);
    while executed.iter().rev().nth(1).is_some_and(is_jump) {
        executed.pop();
    }
}

/// What its generator gets right.
fn for_its_generator(executed: &mut Vec<Execution>, wild: Wildness) {
    if wild.traps + wild.contexts == 0 {
        return;
    }
    cut(executed, |executed, place| {
        let item = &executed[place];
        if instruction(item).is_some() {
            return false;
        }
        // It takes a trap before which nothing retired since another one, or since its return, for an instruction.
        let latest = executed[..place].iter().rev().find(|item| !matches!(item, Execution::Context(_)));
        let retired = latest.and_then(instruction).is_some_and(|last| last.opcode != MRET);
        if matches!(item, Execution::Trap(_)) && !retired {
            return true;
        }
        // Before a synchronisation it does not tell which visit of an instruction it means.
        let next = executed[place..].iter().find_map(instruction);
        let mut addresses: Vec<_> =
            next.into_iter().chain(before(executed, place).take(8)).map(|i| i.address).collect();
        let count = addresses.len();
        addresses.sort();
        addresses.dedup();
        addresses.len() < count
    });
    // It names the instruction behind a trap that ends the trace.
    while executed.last().is_some_and(|item| instruction(item).is_none()) {
        executed.pop();
    }
}

const WILD: [Wildness; 3] = [
    Wildness { returns: true, traps: 0, contexts: 0, taken: 60 },
    Wildness { returns: true, traps: 20, contexts: 0, taken: 60 },
    Wildness { returns: true, traps: 0, contexts: 20, taken: 60 },
];

#[test]
fn its_tracer_follows_what_our_encoder_sends() {
    for seed in 0..600 {
        let mut random = Random(seed);
        let wild = WILD[random.below(3) as usize];
        let (code, mut executed) = run(&mut random, wild);
        let Setting { params, options } = setting(&mut random, wild);
        for_its_tracer(&mut executed, wild);
        let mut encoder = Tracer::new(params, options, Default::default()).unwrap();
        let mut payloads: Vec<Vec<u8>> = Vec::new();
        let mut sink = |packet: Packet| payloads.push(etrace::encode(&packet, &params, &options).to_vec());
        blocks(&executed, params.itype_width, 1 << 16)
            .iter()
            .for_each(|block| encoder.push(block, &mut sink));
        encoder.finish(&mut sink);
        let (start, bytes) = &code.program.0[0];
        let binary = binary::from_segment(bytes, Set::Rv64I).with_offset(*start);
        let mut told = Vec::new();
        // At the closing packet that tracer walks on behind a branch, although nothing says that more retired.
        payloads.pop();
        trace(binary, payloads.iter().map(Vec::as_slice), &parameters(&params), |pc| told.push(pc));
        same(seed, &told, &retired(&executed));
    }
}

#[test]
fn our_follower_follows_what_its_generator_sends() {
    for seed in 0..600 {
        let mut random = Random(seed);
        let wild = WILD[random.below(3) as usize];
        let (code, mut executed) = run(&mut random, wild);
        let Setting { params, options } = setting(&mut random, wild);
        for_its_generator(&mut executed, wild);
        // Of longer blocks that generator counts the branch at the end too early.
        let steps: Vec<Step> = blocks(&executed, params.itype_width, 1).into_iter().map(Step).collect();
        let mut decoder = PayloadDecoder::new(params, options);
        let mut follower = Follower::new(Settings::new(params, options), &code.program);
        let mut told = Vec::new();
        let mut sink = |event: Located<Event>| told.extend(addresses(&code.program, &[event.value]));
        generate(&steps, &parameters(&params), options.full_address, |payload| {
            let value = decoder.decode(payload).unwrap();
            follower.push(Located { offset: 0, length: 1, value }, &mut sink);
        });
        follower.finish(&mut sink);
        same(seed, &told, &retired(&executed));
    }
}

/// Under the ratified scheme a return that goes where its call came from is told by nothing. This is the part of it that
/// works; our encoder's packets, which count returns, are the same as long as they have nothing to count.
#[test]
fn returns_that_well_behaved_code_leaves_out_are_followed_alike() {
    let (mut followed, mut left_out) = (0, 0);
    for seed in 0..300 {
        let mut random = Random(seed);
        let wild = Wildness { returns: false, traps: 0, contexts: 0, taken: 60 };
        let (code, executed) = run(&mut random, wild);
        let (stack, counter) = [(3, 0), (0, 3)][random.below(2) as usize];
        let ratified = Params {
            iaddress_width: 64,
            return_stack_size: stack,
            call_counter_size: counter,
            ..Params::default()
        };
        let draft = Params { implicit_return: ImplicitReturn::Returns, ..ratified };
        let options = Options { implicit_return: true, ..Options::default() };
        let mut encoder = Tracer::new(draft, options, Default::default()).unwrap();
        let mut packets = Vec::new();
        let steps = blocks(&executed, 4, 1 << 16);
        steps.iter().for_each(|block| encoder.push(block, &mut |packet| packets.push(packet)));
        encoder.finish(&mut |packet| packets.push(packet));
        // Without the end of the trace, whose place takes a count.
        packets.truncate(packets.len() - 2);
        let counts = |packet: &Packet| {
            matches!(packet, Packet::Branches { address: Some(Reported { irreport: Some(_), .. }), .. })
        };
        if packets.iter().any(counts) {
            continue;
        }
        let payloads: Vec<Vec<u8>> =
            packets.iter().map(|packet| etrace::encode(packet, &ratified, &options).to_vec()).collect();
        let (start, bytes) = &code.program.0[0];
        let binary = binary::from_segment(bytes, Set::Rv64I).with_offset(*start);
        let mut theirs = Vec::new();
        trace(binary, payloads.iter().map(Vec::as_slice), &parameters(&ratified), |pc| theirs.push(pc));
        let mut follower = Follower::new(Settings::new(ratified, options), &code.program);
        let mut ours = Vec::new();
        let mut sink = |event: Located<Event>| ours.extend(addresses(&code.program, &[event.value]));
        for value in packets.iter().copied() {
            follower.push(Located { offset: 0, length: 1, value }, &mut sink);
        }
        follower.finish(&mut sink);
        assert!(follower.is_unreliable());
        same(seed, &theirs, &ours);
        let executed = retired(&executed);
        same(seed, &ours, &executed[..ours.len()]);
        followed += ours.len();
        let mut plain = Tracer::new(draft, Options::default(), Default::default()).unwrap();
        steps.iter().for_each(|block| plain.push(block, &mut |_| left_out += 1));
        left_out -= packets.len();
    }
    assert!(followed > 10_000 && left_out > 500, "{followed} instructions, {left_out} packets left out");
}
