//! What was executed comes back from its trace: random programs, every combination of options.

use backsight_core::{Address, Context, Execution, Located};
use backsight_flow::Event;
use backsight_flow::etrace::{Follower, Settings};
use backsight_riscv::etrace::{self, ImplicitReturn, Options, Packet, Params, SupportLayout};
use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress, Itype};
use backsight_testing::Random;
use backsight_unit::etrace::{Settings as TracerSettings, Tracer};
use backsight_unit::riscv::{Resync, ResyncMode};

use crate::random::{Code, Wildness, execute};
use crate::reference::addresses;

/// What both sides must agree on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fact {
    Retired(u64),
    Context(u8, Option<u64>),
    Trap { cause: u64, interrupt: bool, value: u64, at: Option<u64> },
}

#[derive(Clone, Copy, Debug)]
pub struct Case {
    pub params: Params,
    pub options: Options,
    pub settings: TracerSettings,
    pub wild: Wildness,
    ctype: Ctype,
    longest_block: u32,
    filtered: bool,
}

pub fn case(random: &mut Random) -> Case {
    let mut coin = || random.below(2) == 0;
    let itype_width = if coin() { 3 } else { 4 };
    let options = Options {
        implicit_return: itype_width == 4 && coin(),
        implicit_exception: coin() && coin(),
        full_address: coin() && coin(),
        jump_target_cache: coin(),
        branch_prediction: coin(),
        sijump: coin(),
        resync_disabled: coin() && coin(),
    };
    let standard = coin();
    let (counter, both) = (coin() && coin(), coin());
    let mode = [ResyncMode::Off, ResyncMode::Packets, ResyncMode::Cycles, ResyncMode::HalfWords];
    let params = Params {
        itype_width,
        iaddress_width: [39, 64][random.below(2) as usize],
        iaddress_lsb: random.below(2) as u8,
        bpred_size: 1 + random.below(5) as u8,
        cache_size: 1 + random.below(5) as u8,
        f0s_width: 1,
        return_stack_size: if counter { 0 } else { 1 + random.below(4) as u8 },
        call_counter_size: if counter || both { 1 + random.below(4) as u8 } else { 0 },
        implicit_return: ImplicitReturn::Returns,
        context_width: 20,
        nocontext: 0,
        time_width: 16,
        notime: random.below(2) as u8,
        ecause_width: 5,
        layout: if standard { SupportLayout::Standard } else { SupportLayout::Reference },
        ..Params::default()
    };
    let resync =
        Resync { mode: mode[random.below(4) as usize], limit: [1, 3, 16, 60][random.below(4) as usize] };
    Case {
        params,
        options,
        settings: TracerSettings { resync, ..TracerSettings::default() },
        wild: Wildness {
            returns: !counter,
            traps: [0, 10, 80][random.below(3) as usize],
            contexts: [0, 10, 80][random.below(3) as usize],
            taken: [10, 50, 90, 99][random.below(4) as usize],
        },
        ctype: [Ctype::Precise, Ctype::AsynchronousDiscontinuity, Ctype::Imprecise][random.below(3) as usize],
        longest_block: [1 << 16, 6, 1][random.below(3) as usize],
        filtered: random.below(3) == 0,
    }
}

/// Blocks, each with whether it is traced.
pub fn blocks(case: &Case, executed: &[Execution], random: &mut Random) -> Vec<(Ingress, bool)> {
    let mut builder = Builder::new(case.params.itype_width, case.ctype).longest_block(case.longest_block);
    let (mut blocks, mut traced) = (Vec::new(), true);
    let mut sink = |mut ingress: Ingress| {
        if case.filtered && random.below(20) == 0 {
            traced = !traced;
        }
        if let Ingress::Block(block) = &mut ingress {
            block.notify = random.below(50) == 0;
        }
        blocks.push((ingress, traced));
    };
    for execution in executed {
        builder.push(execution, &mut sink);
    }
    builder.finish(&mut sink);
    blocks
}

/// What a trace of these blocks must tell.
fn expected(case: &Case, blocks: &[(Ingress, bool)], code: &Code) -> Vec<Fact> {
    let (mut facts, mut context) = (Vec::new(), None);
    for (ingress, traced) in blocks {
        let (Ingress::Block(block), true) = (ingress, traced) else { continue };
        if block.iretire > 0 {
            let id = (case.ctype != Ctype::Imprecise).then_some(block.context);
            if context != Some((block.privilege, id)) {
                context = Some((block.privilege, id));
                facts.push(Fact::Context(block.privilege, id));
            }
            let mut at = block.iaddr;
            while at != block.end() {
                facts.push(Fact::Retired(at));
                let bytes = backsight_image::Code::bytes_at(
                    &code.program,
                    backsight_core::AddressSpace::ANY,
                    Address(at),
                );
                at += u64::from(backsight_isa::rv::size(u16::from(bytes.unwrap()[0])));
            }
        }
        if block.itype.is_trap() {
            facts.push(Fact::Trap {
                cause: block.cause,
                interrupt: block.itype == Itype::Interrupt,
                value: block.tval & (u64::MAX >> (64 - case.params.iaddress_width)),
                at: Some(block.end()),
            });
        }
    }
    facts
}

/// How a trace of the case is followed.
pub fn following(case: &Case, code: &Code) -> Settings {
    let mut settings = Settings::new(case.params, case.options);
    if case.options.implicit_exception {
        for cause in 0..16 {
            for interrupt in [false, true] {
                settings.handlers.single.insert((cause, interrupt), code.handler(cause, interrupt));
            }
        }
    }
    settings
}

fn told(case: &Case, code: &Code, packets: &[Packet]) -> (Vec<Fact>, u64) {
    let mut follower = Follower::new(following(case, code), &code.program);
    let mut facts = Vec::new();
    let mut context = None;
    let mut sink = |event: Located<Event>| match event.value {
        Event::Range(_) => {
            facts.extend(addresses(&code.program, &[event.value]).into_iter().map(Fact::Retired));
        }
        Event::Context(Context { privilege, context_id, .. }, _) => {
            let level = privilege.level();
            let id = context_id.filter(|_| case.ctype != Ctype::Imprecise);
            if context != Some((level, id)) {
                context = Some((level, id));
                facts.push(Fact::Context(level, id));
            }
        }
        Event::Exception { cause, return_address, value, .. } => facts.push(Fact::Trap {
            cause: cause.number().into(),
            interrupt: cause.is_interrupt(),
            value,
            at: return_address.map(|address| address.0),
        }),
        _ => {}
    };
    for (n, packet) in packets.iter().enumerate() {
        follower.push(Located { offset: n as u64, length: 1, value: *packet }, &mut sink);
    }
    follower.finish(&mut sink);
    (facts, follower.faults().total())
}

/// The same, where the trace says where a trap happened.
fn agree(expected: &Fact, told: &Fact) -> bool {
    match (*expected, *told) {
        (Fact::Trap { cause, interrupt, value, .. }, Fact::Trap { at: None, .. }) => {
            *told == Fact::Trap { cause, interrupt, value, at: None }
        }
        _ => expected == told,
    }
}

/// Payloads of the packets that the blocks make.
fn encoded(case: &Case, blocks: &[(Ingress, bool)]) -> Vec<Vec<u8>> {
    let mut encoder = Tracer::new(case.params, case.options, case.settings).unwrap();
    let mut payloads = Vec::new();
    let mut sink =
        |packet: Packet| payloads.push(etrace::encode(&packet, &case.params, &case.options).to_vec());
    for (ingress, traced) in blocks {
        match ingress {
            Ingress::Block(block) if *traced => encoder.push(block, &mut sink),
            _ => encoder.unqualified(&mut sink),
        }
    }
    encoder.finish(&mut sink);
    payloads
}

/// A trace of some execution.
pub fn payloads(case: &Case, code: &Code, random: &mut Random) -> Vec<Vec<u8>> {
    let executed = execute(code, random, 400, case.wild);
    encoded(case, &blocks(case, &executed, random))
}

fn run(seed: u64) -> Result<(), String> {
    let mut random = Random(seed);
    let case = case(&mut random);
    let code = Code::new(&mut random, 60);
    let executed = execute(&code, &mut random, 400, case.wild);
    let blocks = blocks(&case, &executed, &mut random);
    let mut decoder = etrace::PayloadDecoder::new(case.params, case.options);
    let decode = |payload: Vec<u8>| {
        decoder.decode(&payload).unwrap_or_else(|bad| panic!("seed {seed}: {bad} {payload:x?}"))
    };
    let packets: Vec<Packet> = encoded(&case, &blocks).into_iter().map(decode).collect();
    let expected = expected(&case, &blocks, &code);
    let (told, faults) = told(&case, &code, &packets);
    let same = expected.iter().zip(&told).take_while(|(e, t)| agree(e, t)).count();
    if same == expected.len() && same == told.len() && faults == 0 {
        return Ok(());
    }
    if std::env::var_os("SHOW").is_some() {
        show(&blocks, &packets);
    }
    let part = |facts: &[Fact]| -> String {
        facts.iter().skip(same.saturating_sub(8)).take(16).map(|fact| format!("{fact:x?}\n")).collect()
    };
    let (expected_part, told_part) = (part(&expected), part(&told));
    Err(format!(
        "seed {seed}: {same} of {} facts agree, {} told, {faults} faults\n{:?} {:?}\n\
         expected:\n{expected_part}told:\n{told_part}",
        expected.len(),
        told.len(),
        case.options,
        case.settings,
    ))
}

fn show(blocks: &[(Ingress, bool)], packets: &[Packet]) {
    for (ingress, traced) in blocks {
        if let Ingress::Block(Block { iaddr, iretire, itype, privilege, context, notify, .. }) = ingress {
            eprintln!("{traced} {iaddr:x}+{iretire} {itype:?} p{privilege} c{context:x} n{notify}");
        }
    }
    for packet in packets {
        eprintln!("{packet:x?}");
    }
}

#[test]
fn what_was_executed_comes_back_with_every_combination_of_options() {
    let seeds = match std::env::var("SEED").ok().and_then(|seed| seed.parse().ok()) {
        Some(seed) => seed..seed + 1,
        None => 0..2500,
    };
    let failures: Vec<String> = seeds.filter_map(|seed| run(seed).err()).collect();
    assert!(failures.is_empty(), "{} seeds fail, the first:\n{}", failures.len(), failures[0]);
}
