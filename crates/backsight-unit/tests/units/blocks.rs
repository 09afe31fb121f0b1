//! Units write the same bytes whether they take blocks, many of them at once, or single instructions.

use crate::support::blocks::{Codes, Step};
use crate::support::{Flavour, Program, Walk, Walker};
use backsight_core::{Address, Context, Execution, Isa, Retired};
use backsight_riscv::etrace::{ImplicitReturn, Options, Params, Payload};
use backsight_riscv::ingress::{Builder, Ctype, Ingress};
use backsight_run::UnitKind;
use backsight_sim::{Simulator, Streams};
use backsight_testing::{Random, repository};
use backsight_unit::etrace::{Payloads, Settings, Tracer};
use backsight_unit::riscv::{Resync, ResyncMode};

/// Programs the same unit three times; gives the bytes by single instructions, by blocks, and by many blocks at once.
fn traced(kind: &str, isa: Isa, settings: &[String], items: &[Execution], seed: u64) -> [Vec<u8>; 3] {
    let pairs: Vec<(String, String)> = settings
        .iter()
        .map(|setting| {
            let (key, value) = setting.split_once('=').expect("KEY=VALUE");
            (key.to_owned(), value.to_owned())
        })
        .collect();
    let kind = UnitKind::named(kind).expect("a unit");
    let template = kind.program(isa, &pairs).unwrap_or_else(|error| panic!("{settings:?}: {error}"));
    let build = || template.build(template.first_id()).expect("a unit");
    let (mut single, mut by_blocks, mut by_many) = (build(), build(), build());
    let (mut expected, mut bytes, mut bytes_of_many) = (Vec::new(), Vec::new(), Vec::new());
    single.push(items, &mut expected);
    single.finish(&mut expected);
    let mut codes = Codes::default();
    let steps = codes.cut(items, &mut Random(seed));
    for step in &steps {
        match step {
            Step::Item(item) => by_blocks.push(&[*item], &mut bytes),
            Step::Block { number, last } => by_blocks.push_block(&codes.block(*number, last), &mut bytes),
        }
    }
    by_blocks.finish(&mut bytes);
    // With numbers far apart, blocks share what units remember of them.
    let together = codes.together(if seed.is_multiple_of(2) { 1 } else { 64 });
    let most = 1 + Random(seed).below(300) as usize;
    for alike in steps.chunk_by(|a, b| matches!((a, b), (Step::Block { .. }, Step::Block { .. }))) {
        let mut many = Vec::new();
        for step in alike {
            match step {
                Step::Item(item) => by_many.push(&[*item], &mut bytes_of_many),
                Step::Block { number, last } => many.push(together.step(*number, last)),
            }
        }
        for steps in many.chunks(most) {
            by_many.push_blocks(&together.blocks(steps), &mut bytes_of_many);
        }
    }
    by_many.finish(&mut bytes_of_many);
    [expected, bytes, bytes_of_many]
}

/// Gives the number of bytes.
fn assert_same(kind: &str, isa: Isa, settings: &[String], items: &[Execution], seed: u64) -> usize {
    let [expected, bytes, bytes_of_many] = traced(kind, isa, settings, items, seed);
    for (bytes, how) in [(bytes, "blocks"), (bytes_of_many, "many blocks")] {
        let differs = expected.iter().zip(&bytes).position(|(a, b)| a != b);
        assert!(
            expected == bytes,
            "{kind} {settings:?}, seed {seed}, {how}: other bytes from {differs:?} on"
        );
    }
    expected.len()
}

/// Some of these settings, or all of one entry that is a list with spaces.
fn some(random: &mut Random, settings: &[&str], one_of: u64) -> Vec<String> {
    let chosen = settings.iter().filter(|_| random.below(one_of) == 0);
    chosen.flat_map(|settings| settings.split(' ')).map(str::to_owned).collect()
}

fn simulated(name: &str, instructions: u64) -> Vec<Execution> {
    let path = repository().join("testdata/programs/riscv64").join(name);
    let file = std::fs::read(&path).expect("a bundled program");
    let streams = Streams::none();
    let options = backsight_sim::Options { streams, host_files: false, instructions, ..Default::default() };
    let mut items = Vec::new();
    Simulator::load(&file, options).expect("a static program").run(&mut |item| items.push(item));
    // One unit watches one thread.
    items.retain(|item| !matches!(item, Execution::Thread(_)));
    items
}

/// The same with what a program does not do by itself: changes of context and of privilege, cycles that are known for a
/// while, instructions that nobody saw, with a notice and without, and branches that led elsewhere.
fn disturbed(items: &[Execution], random: &mut Random) -> Vec<Execution> {
    let has_riscv = |item: &Execution| matches!(item, Execution::Instruction(it) if it.isa == Isa::Rv64);
    let is_riscv = items.iter().any(has_riscv);
    let (mut disturbed, mut unseen, mut cycles) = (Vec::new(), 0, 0);
    for (number, item) in (1..).zip(items) {
        if unseen > 0 {
            unseen -= 1;
            continue;
        }
        match random.below(400) {
            0 if is_riscv => {
                let context = Context::riscv(random.below(2) as u8 * 3, true);
                let context_id = [None, Some(5), Some(6)][random.below(3) as usize];
                disturbed.push(Execution::Context(Context { context_id, ..context }));
            }
            1 => disturbed.push(Execution::Gap),
            2 => unseen = random.below(20),
            3 => cycles = random.below(30),
            _ => {}
        }
        disturbed.push(match item {
            Execution::Instruction(retired) if cycles > 0 => {
                cycles -= 1;
                Execution::Instruction(Retired { cycle: number, ..*retired })
            }
            Execution::Instruction(retired) if random.below(200) == 0 && retired.next != retired.end() => {
                Execution::Instruction(Retired { next: Address(retired.next.0 ^ 0x40), ..*retired })
            }
            item => *item,
        });
    }
    disturbed
}

const RISCV_PROGRAMS: [&str; 8] = ["calls", "isa", "jit", "pack", "signals", "sort", "threads", "vm"];

#[test]
fn etrace_is_the_same_with_every_option() {
    let settings = [
        "branch_prediction=1",
        "implicit_return=1",
        "jump_target_cache=1",
        "sijump_enable=1",
        "full_address=1",
        "itype_width=3 implicit_return=0 sijump_enable=0",
        "resync=16",
        "resync=200:halfwords",
        "resync=100:cycles",
        "shallow=1",
        "framing=siemens",
        "framing=reference",
        "fifo=64:40",
        "algorithm=reference",
        "retire=blocks:2",
        "range=0x10000..0x11000",
        "notify=0x10400",
    ];
    for (number, name) in RISCV_PROGRAMS.into_iter().enumerate() {
        let items = simulated(name, 30_000);
        assert!(assert_same("etrace", Isa::Rv64, &[], &items, 1) > 100, "{name}: hardly a byte");
        for seed in 0..12 {
            let random = &mut Random(seed * 100 + number as u64);
            let settings = some(random, &settings, 6);
            assert_same("etrace", Isa::Rv64, &settings, &items, seed);
            assert_same("etrace", Isa::Rv64, &settings, &disturbed(&items, random), seed);
        }
        assert_same("etrace", Isa::Rv64, &[], &disturbed(&items, &mut Random(number as u64)), 3);
        assert_same("etrace", Isa::Rv64, &["algorithm=cva6".to_owned()], &items, 2);
    }
}

/// A loop of two jumps, each with the instruction before it that says where it goes; before one of them is a branch.
fn jumps_that_follow_from_the_instruction_before() -> Vec<Execution> {
    // auipc t1, 1; jr 0(t1) at 0x1000; beq zero, ra, .+8; auipc t1, -1; jr -4(t1) at 0x2000.
    let code: [(u64, u32, u64); 5] = [
        (0x1000, 0x0000_1317, 0x1004),
        (0x1004, 0x0003_0067, 0x2000),
        (0x2000, 0x0010_0463, 0x2004),
        (0x2004, 0xFFFF_F317, 0x2008),
        (0x2008, 0xFFC3_0067, 0x1000),
    ];
    let instruction = |(address, opcode, next)| {
        let (taken, isa) = (address != 0x2000, Isa::Rv64);
        let (address, next) = (Address(address), Address(next));
        Execution::Instruction(Retired { address, next, cycle: 0, opcode, size: 4, isa, taken })
    };
    code.map(instruction).into_iter().cycle().take(2000).collect()
}

/// What a tracer sends, if its builder may say of blocks only what is new, and if it may not.
fn payloads(items: &[Execution], params: Params, options: Options) -> [Vec<Vec<u8>>; 2] {
    let resync = Resync { mode: ResyncMode::Packets, limit: 20 };
    let new = || {
        let settings = Settings { resync, ..Settings::default() };
        let tracer = Tracer::new(params, options, settings).expect("options that fit");
        (tracer, Builder::new(params.itype_width, Ctype::Precise), Vec::new())
    };
    let (mut tracer, mut builder, mut continued) = new();
    let mut sink = Payloads(|payload: &Payload| continued.push(payload.to_vec()));
    items.iter().for_each(|item| builder.push(item, &mut tracer.port(&mut sink)));
    builder.finish(&mut tracer.port(&mut sink));
    tracer.finish(&mut sink);
    let (mut tracer, mut builder, mut whole) = new();
    let mut sink = Payloads(|payload: &Payload| whole.push(payload.to_vec()));
    let mut take = |ingress: Ingress| match ingress {
        Ingress::Block(block) => tracer.push(&block, &mut sink),
        Ingress::Gap => tracer.unqualified(&mut sink),
    };
    items.iter().for_each(|item| builder.push(item, &mut take));
    builder.finish(&mut take);
    tracer.finish(&mut sink);
    [continued, whole]
}

#[test]
fn etrace_needs_of_most_blocks_only_what_is_new() {
    let params = Params {
        iaddress_width: 64,
        itype_width: 4,
        nocontext: 0,
        context_width: 8,
        notime: 0,
        time_width: 16,
        bpred_size: 8,
        cache_size: 6,
        return_stack_size: 4,
        f0s_width: 1,
        sijump: 1,
        implicit_return: ImplicitReturn::Returns,
        ..Params::default()
    };
    let none = Options::default();
    let all = [
        none,
        Options { implicit_return: true, ..none },
        Options { jump_target_cache: true, ..none },
        Options { branch_prediction: true, ..none },
        Options { sijump: true, ..none },
    ];
    let mut programs: Vec<_> = RISCV_PROGRAMS.iter().map(|name| simulated(name, 20_000)).collect();
    programs.push(jumps_that_follow_from_the_instruction_before());
    for (number, items) in (1..).zip(programs) {
        for options in all {
            for items in [&items, &disturbed(&items, &mut Random(number))] {
                let [continued, whole] = payloads(items, params, options);
                assert!(continued == whole, "program {number}, {options:?}");
            }
        }
        assert_same("etrace", Isa::Rv64, &["sijump_enable=1".to_owned()], &items, number);
    }
}

#[test]
fn ntrace_is_the_same_with_every_option() {
    let settings =
        ["mode=branch", "history_bits=3", "return_stack=8", "resync=32", "timestamps=all", "count_limit=64"];
    for (number, name) in RISCV_PROGRAMS.into_iter().enumerate() {
        let items = simulated(name, 20_000);
        for seed in 0..6 {
            let random = &mut Random(seed * 100 + number as u64);
            let bytes = assert_same("ntrace", Isa::Rv64, &some(random, &settings, 3), &items, seed);
            assert!(bytes > 0, "{name}: not a byte");
        }
    }
}

#[test]
fn arm_units_are_the_same_with_every_option() {
    let etm4 = [
        "timestamps=200",
        "return_stack=1",
        "branch_broadcast=1",
        "cyclecount=1",
        "sync_period=256",
        "events=150",
        "range=0x10000..0x12000",
        "exclude=0x400000..0x403000",
        "broadcast_range=0x10000..0x14000",
        "fifo=64:30",
        "speculation=40",
        "context_id=32",
    ];
    for seed in 0..60 {
        let random = &mut Random(seed);
        let flavour = [Flavour::A64, Flavour::AArch32][seed as usize % 2];
        let program = Program::with_blocks(seed, flavour, false, [0, 3, 9][random.below(3) as usize]);
        let walk = Walk {
            seed,
            steps: 3000,
            handlers: random.below(3) != 0,
            interrupts: [0, 5, 50, 200][random.below(4) as usize],
            contexts: [0, 20, 100][random.below(3) as usize],
            gaps: [0, 0, 100][random.below(3) as usize],
            cycles: random.below(8) == 0,
        };
        let items = Walker::run(&program, walk);
        let isa = if flavour == Flavour::A64 { Isa::A64 } else { Isa::A32 };
        assert_same("etm4", isa, &some(random, &etm4, 5), &items, seed);
        assert_same("etm4", isa, &["return_stack=1".to_owned()], &items, seed);
        assert_same("etm4", isa, &some(random, &etm4, 5), &disturbed(&items, random), seed);
        assert_same("etm4", isa, &[], &disturbed(&items, random), seed);
        assert!(assert_same("etm4", isa, &[], &items, seed) > 100, "seed {seed}: hardly a byte");
        assert_same("ete", isa, &some(random, &etm4[..7], 5), &items, seed);
        if flavour == Flavour::AArch32 {
            assert_same("ptm", isa, &[], &items, seed);
        }
    }
}
