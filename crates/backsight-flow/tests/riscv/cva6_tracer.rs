//! The encoder of the thesis: what it sends is what the hardware sent, and can be followed.

use backsight_core::{Address, AddressSpace, Execution, Isa, Located, Retired};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_image::Code as _;
use backsight_isa::rv;
use backsight_riscv::encap::{Encapsulated, Framer, Framing, Kind};
use backsight_riscv::etrace::{self, Options, Packet};
use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress, Itype};
use backsight_testing::Random;
use backsight_unit::cva6;
use backsight_unit::cva6::Fidelity;
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::pulp::{self, Followed, Path};
use crate::random::{Code, Wildness, execute};
use crate::reference::addresses;

/// More cycles than any test lets pass by itself.
const LIMIT: u32 = 1000;

/// The path as a core would have reported it, with the place of each block's last instruction.
fn blocks(followed: &Followed, path: &Path) -> Vec<(Block, usize)> {
    let mut builder = Builder::new(4, Ctype::Unreported);
    let mut blocks: Vec<(Block, usize)> = Vec::new();
    for (place, &pc) in path.pcs.iter().enumerate() {
        let decoded = pulp::decode(&followed.image, pc);
        let end = pc + u64::from(decoded.instruction.size);
        let next = path.pcs.get(place + 1).copied().unwrap_or(end);
        let (bytes, _) = followed.image.opcode_at(AddressSpace::ANY, Address(pc));
        let retired = Retired {
            address: Address(pc),
            next: Address(next),
            cycle: 0,
            opcode: rv::opcode(&bytes).expect("code"),
            size: decoded.instruction.size,
            isa: Isa::Rv64,
            taken: next == decoded.instruction.target.0,
        };
        builder.push(&Execution::Instruction(retired), &mut |ingress| match ingress {
            Ingress::Block(block) => blocks.push((Block { privilege: 3, ..block }, place)),
            Ingress::Gap => panic!("there is none"),
        });
    }
    blocks
}

/// Lets the time of a resync come where the capture has one: captures tell no cycles.
fn time_resyncs(blocks: &mut Vec<(Block, usize)>, packets: &[Packet], places: &[usize]) {
    let starts = (2..packets.len()).filter(|&n| matches!(packets[n], Packet::Start(_)));
    let (mut during, last) = (starts.map(|n| places[n]).collect::<Vec<_>>(), path_end(blocks));
    let idle = during.split_off(during.partition_point(|&place| place < last));
    for place in during {
        blocks.iter_mut().find(|(_, at)| *at == place).expect("a block that ends there").0.cycles = LIMIT;
    }
    // At its end the program jumps to where it is, again and again. The first resync there flushes the map and takes a
    // block more.
    let (stay, _) = *blocks.last().expect("blocks");
    blocks.last_mut().expect("blocks").0.cycles = LIMIT;
    blocks.push((stay, last));
    blocks.extend((1..idle.len()).map(|_| (Block { cycles: LIMIT, ..stay }, last)));
    blocks.push((stay, last));
}

fn path_end(blocks: &[(Block, usize)]) -> usize {
    blocks.last().expect("blocks").1
}

/// Every byte of the three captures, resyncs included, comes from the path that was followed.
#[test]
fn what_the_hardware_sent_is_sent_again() {
    for (capture, program) in pulp::CAPTURES {
        let Some(followed) = pulp::follow(capture, program, Framing::Pulp) else { return };
        let path = pulp::path(&followed);
        let places = pulp::assert_told_by(&path, &followed.packets);
        let mut blocks = blocks(&followed, &path);
        time_resyncs(&mut blocks, &followed.packets, &places);
        let resync = Resync { mode: ResyncMode::Cycles, limit: LIMIT.into() };
        let settings = cva6::Settings { fidelity: Fidelity::Rtl, resync, ..cva6::Settings::default() };
        let (params, options) = (backsight_riscv::cva6::params(), Options::default());
        let mut encoder = cva6::Tracer::new(params, options, settings).unwrap();
        let (mut sent, mut bytes) = (Vec::new(), Vec::new());
        let mut framer = Framer::new(Framing::Pulp);
        let mut send = |packet: Packet| {
            let payload = etrace::encode(&packet, &params, &options);
            let kind = Kind::Instruction;
            let message = Encapsulated { source: 0, kind, flow: 0, time: None, payload: &payload };
            framer.frame(&message, &mut bytes).unwrap();
            sent.push(packet);
        };
        blocks.iter().for_each(|(block, _)| encoder.push(block, &mut send));
        assert_eq!(sent, followed.packets, "{capture}");
        let folder = pulp::folder().unwrap();
        assert!(bytes == std::fs::read(folder.join(format!("{capture}.packets.bin"))).unwrap(), "{capture}");
    }
}

/// What a trace tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Retired(u64),
    Trap { cause: u64, interrupt: bool, value: u64 },
}

fn instructions(code: &Code, block: &Block) -> Vec<u64> {
    let mut at = block.iaddr;
    let mut all = Vec::new();
    while at != block.end() {
        all.push(at);
        let bytes = code.program.bytes_at(AddressSpace::ANY, Address(at)).unwrap();
        at += u64::from(rv::size(u16::from(bytes[0])));
    }
    all
}

/// How many of the facts are those of the blocks, in order, and how many blocks there are behind them. Where it is not
/// known how execution came to a block, its plain instructions may be missing.
fn agree(code: &Code, blocks: &[(Ingress, bool)], facts: &[Fact]) -> Result<usize, String> {
    let (mut at, mut hidden, mut before) = (0, 0, None::<Block>);
    for (ingress, traced) in blocks {
        let (Ingress::Block(block), true) = (ingress, traced) else {
            before = None;
            continue;
        };
        let all: Vec<_> = instructions(code, block).into_iter().map(Fact::Retired).collect();
        let rest = &facts[at..];
        let unknown = before.is_none_or(|before| before.itype.is_uninferable() || before.itype.is_trap());
        if rest.starts_with(&all) {
            at += all.len();
        } else if unknown && all.last() == rest.first() {
            at += 1;
            hidden += all.len() - 1;
        } else {
            let told = &rest[..rest.len().min(4)];
            return Err(format!("{block:x?}\nbehind {before:x?}\nfact {at}: {told:x?}, expected {all:x?}"));
        }
        if block.itype.is_trap() {
            let interrupt = block.itype == Itype::Interrupt;
            let trap = Fact::Trap { cause: block.cause, interrupt, value: block.tval };
            if facts.get(at) != Some(&trap) {
                return Err(format!("fact {at}: {:x?}, expected {trap:x?}", facts.get(at)));
            }
            at += 1;
        }
        before = Some(*block);
    }
    if at == facts.len() { Ok(hidden) } else { Err(format!("{} facts too many", facts.len() - at)) }
}

fn followed(code: &Code, packets: &[Packet]) -> (Vec<Fact>, u64) {
    let mut follower =
        Follower::new(Settings::new(backsight_riscv::cva6::params(), Options::default()), &code.program);
    let mut facts = Vec::new();
    let mut sink = |event: Located<Event>| match event.value {
        Event::Range(_) => {
            facts.extend(addresses(&code.program, &[event.value]).into_iter().map(Fact::Retired));
        }
        Event::Exception { cause, value, .. } => {
            facts.push(Fact::Trap { cause: cause.number().into(), interrupt: cause.is_interrupt(), value });
        }
        _ => {}
    };
    for &value in packets {
        follower.push(Located { offset: 0, length: 1, value }, &mut sink);
    }
    follower.finish(&mut sink);
    (facts, follower.faults().total())
}

fn run(seed: u64) -> usize {
    let mut random = Random(seed);
    let code = Code::new(&mut random, 60);
    let wild = Wildness {
        // A return that strays into the block it was expected in cannot be told from one that does not.
        returns: false,
        traps: [0, 10, 80][random.below(3) as usize],
        contexts: 0,
        taken: [10, 50, 90, 99][random.below(4) as usize],
    };
    let executed = execute(&code, &mut random, 600, wild);
    let filtered = random.below(3) == 0;
    let (mut blocks, mut traced) = (Vec::new(), true);
    let mut builder = Builder::new(4, Ctype::Unreported);
    let mut each = |ingress| {
        traced ^= filtered && random.below(20) == 0;
        blocks.push((ingress, traced));
    };
    executed.iter().for_each(|execution| builder.push(execution, &mut each));
    builder.finish(&mut each);
    let mode = [ResyncMode::Off, ResyncMode::Packets, ResyncMode::Cycles, ResyncMode::HalfWords];
    let resync =
        Resync { mode: mode[random.below(4) as usize], limit: [1, 3, 16, 60][random.below(4) as usize] };
    let settings = cva6::Settings { resync, ..cva6::Settings::default() };
    let options = Options { full_address: random.below(4) == 0, ..Options::default() };
    let mut encoder = cva6::Tracer::new(backsight_riscv::cva6::params(), options, settings).unwrap();
    let mut decoder = etrace::PayloadDecoder::new(backsight_riscv::cva6::params(), Options::default());
    let mut packets = Vec::new();
    let mut send = |packet: Packet| {
        packets.push(
            decoder.decode(&etrace::encode(&packet, &backsight_riscv::cva6::params(), &options)).unwrap(),
        );
    };
    for (ingress, traced) in &blocks {
        match ingress {
            Ingress::Block(block) if *traced => encoder.push(block, &mut send),
            _ => encoder.unqualified(&mut send),
        }
    }
    encoder.finish(&mut send);
    let (facts, faults) = followed(&code, &packets);
    assert_eq!(faults, 0, "seed {seed}, {settings:?}");
    agree(&code, &blocks, &facts).unwrap_or_else(|why| panic!("seed {seed}, {settings:?}: {why}"))
}

#[test]
fn random_ways_are_followed_up_to_what_the_dialect_hides() {
    let hidden: usize = (0..2000).map(run).sum();
    assert!(hidden > 0, "jumps that are no returns hide instructions");
}
