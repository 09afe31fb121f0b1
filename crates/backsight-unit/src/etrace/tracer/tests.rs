//! The quick ways send what the flow chart sends.

use backsight_core::Describe;
use backsight_testing::Random;

use backsight_riscv::etrace::{ImplicitReturn, Message, Options, Packet, Params, Payload, encode};
use backsight_riscv::ingress::{Block, Ctype, Itype};

use super::{Payloads, Settings, Tracer};
use crate::riscv::{Resync, ResyncMode};

fn options(random: &mut Random) -> Options {
    let mut some = || random.below(3) == 0;
    Options {
        implicit_return: some(),
        full_address: some(),
        jump_target_cache: some(),
        branch_prediction: some(),
        sijump: some(),
        resync_disabled: some(),
        ..Options::default()
    }
}

fn params(random: &mut Random) -> Params {
    Params {
        iaddress_width: [32, 64][random.below(2) as usize],
        iaddress_lsb: random.below(2) as u8,
        bpred_size: 3,
        cache_size: 3,
        f0s_width: 1,
        return_stack_size: random.below(3) as u8,
        call_counter_size: 2,
        implicit_return: ImplicitReturn::Returns,
        nocontext: 0,
        context_width: 8,
        ..Params::default()
    }
}

/// A block that may follow any other: no code is needed for it.
fn block(random: &mut Random, before: &Block) -> Block {
    let often = [Itype::None, Itype::Taken, Itype::NotTaken, Itype::InferableCall, Itype::Return];
    let itype = match random.below(4) {
        0 => Itype::from_code(random.below(16) as u8).unwrap_or_default(),
        _ => often[random.below(5) as usize],
    };
    let rarely = random.below(60) == 0;
    let iretire = if itype.is_trap() { random.below(3) as u32 } else { 1 + random.below(6) as u32 };
    Block {
        iaddr: if random.below(3) == 0 { before.end() } else { 0x1000 + 2 * random.below(32) },
        iretire,
        ilastsize: u8::from(iretire > 1 && random.below(2) == 0),
        itype,
        cause: random.below(16),
        context: if rarely { random.below(4) } else { before.context },
        ctype: if rarely {
            [Ctype::Precise, Ctype::Imprecise][random.below(2) as usize]
        } else {
            Ctype::default()
        },
        privilege: if random.below(60) == 0 { random.below(4) as u8 } else { before.privilege },
        sijump: random.below(8) == 0,
        notify: random.below(60) == 0,
        cycles: random.below(3) as u32,
        time: before.time + 1,
        ..Block::default()
    }
}

#[test]
fn the_quick_ways_send_what_the_flow_chart_sends() {
    let (mut packets, mut quick_packets) = (0, 0);
    for seed in 0..600 {
        let mut random = Random(seed);
        let (params, options) = (params(&mut random), options(&mut random));
        let mode = [ResyncMode::Off, ResyncMode::Off, ResyncMode::Packets][random.below(3) as usize];
        let settings = Settings { resync: Resync { mode, limit: 20 }, ..Settings::default() };
        let mut quick = Tracer::new(params, options, settings).unwrap();
        let mut clear = quick.clone();
        let (mut given, mut payloads, mut expected) = (Vec::new(), Vec::new(), Vec::new());
        let mut bytes = quick.clone();
        let mut before = Block::default();
        for _ in 0..300 {
            let mut values = |packet: Packet| given.push(packet);
            let mut sink = Payloads(|payload: &Payload| payloads.push(*payload));
            let mut reference = |packet: Packet| expected.push(packet);
            if random.below(100) == 0 {
                quick.unqualified(&mut values);
                bytes.unqualified(&mut sink);
                clear.unqualified(&mut reference);
                continue;
            }
            let block = block(&mut random, &before);
            quick.push(&block, &mut values);
            bytes.push(&block, &mut sink);
            clear.push_any(&block, &mut reference);
            before = block;
        }
        quick.finish(&mut |packet: Packet| given.push(packet));
        bytes.finish(&mut Payloads(|payload: &Payload| payloads.push(*payload)));
        clear.finish(&mut |packet: Packet| expected.push(packet));
        assert_eq!(given, expected, "seed {seed}: {options:?} {settings:?}");
        let encoded: Vec<_> = expected.iter().map(|packet| encode(packet, &params, &options)).collect();
        assert_eq!(payloads, encoded, "seed {seed}: {params:?} {options:?}");
        packets += expected.len();
        quick_packets += given.iter().filter(|packet| !packet.is_sync()).count();
    }
    assert!(packets > 20_000 && quick_packets > 10_000, "{packets}, {quick_packets}");
}

fn packets(options: Options, settings: Settings, params: Params, blocks: &[Block]) -> Vec<Packet> {
    let mut encoder = Tracer::new(params, options, settings).unwrap();
    let mut packets = Vec::new();
    let mut sink = |packet: Packet| packets.push(packet);
    blocks.iter().for_each(|block| encoder.push(block, &mut sink));
    encoder.finish(&mut sink);
    packets
}

fn single(iaddr: u64, itype: Itype) -> Block {
    Block { iaddr, iretire: 2, ilastsize: 1, itype, ..Block::default() }
}

#[test]
fn a_target_in_the_cache_is_named_by_its_address_where_that_is_shorter() {
    let params = Params { iaddress_width: 64, cache_size: 6, ..Params::default() };
    let options = Options { jump_target_cache: true, ..Options::default() };
    let ways = [0x1078, 0x107C, 0x8000_0010, 0x1078, 0x107C, 0x8000_0010, 0x107C];
    let blocks = ways.map(|address| single(address, Itype::UninferableJump));
    let sent = packets(options, Settings::default(), params, &blocks);
    let kinds: Vec<_> = sent.iter().map(|packet| Message::from(*packet).name()).collect();
    let (new, near, far) = ("F2_address", "F2_address", "F0.1_cache");
    assert_eq!(kinds, ["F3.3_support", "F3.0_start", new, new, new, near, far, far, "F3.3_support"]);
    let length = |packet: &Packet| encode(packet, &params, &options).len();
    assert_eq!((length(&sent[5]), length(&sent[6]), length(&sent[7])), (1, 1, 2));
}

/// Branches, and between them a change of context that is reported when there is time.
fn branches_around_a_context(context: u64) -> [Block; 6] {
    let mut blocks = [0x1000, 0x1004, 0x1008, 0x100C, 0x1010, 0x1014].map(|at| single(at, Itype::NotTaken));
    for block in &mut blocks[3..] {
        block.context = context;
    }
    blocks[3].ctype = Ctype::Imprecise;
    blocks
}

#[test]
fn a_shallow_map_is_forgotten_by_every_packet() {
    let params = Params { nocontext: 0, context_width: 8, ..Params::default() };
    let sent = |shallow, context| {
        let settings = Settings { shallow, ..Settings::default() };
        packets(Options::default(), settings, params, &branches_around_a_context(context))
    };
    assert_eq!(sent(true, 0), sent(false, 0));
    let maps = |packets: &[Packet]| -> Vec<u8> {
        let count = |packet: &Packet| match packet {
            Packet::Branches { map, .. } => Some(map.count),
            _ => None,
        };
        packets.iter().filter_map(count).collect()
    };
    // The first branch is in the start packet; those up to the context packet get lost.
    assert_eq!((maps(&sent(false, 1)), maps(&sent(true, 1))), (std::vec![5], std::vec![2]));
}
