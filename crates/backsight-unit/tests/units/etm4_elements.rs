//! What comes with the instructions: exceptions, contexts, cycles, time, events, transactions, Q elements; and where a
//! decoder can begin.

use crate::support::decode::{addresses, assert_same, decode, follow_unknown_paths, trace, truth};
use crate::support::{Flavour, Program, Walk, Walker};
use backsight_arm::etm4::{Config, CycleCountFormat, Packet};
use backsight_core::{Address, Context, Execution, Trap};
use backsight_flow::{Event, Transaction};
use backsight_testing::Random;
use backsight_unit::etm4::{FrontEnd, Unit, UnitConfig};

const FLAVOURS: [Flavour; 2] = [Flavour::A64, Flavour::AArch32];

fn with(configr: u32) -> UnitConfig {
    let mut options = UnitConfig::default();
    options.config.registers.configr |= configr;
    options
}

fn ete() -> UnitConfig {
    let mut config = Config::ete_default();
    config.registers.devarch = 0x4773_5A13;
    config.registers.idr0 |= 0xC0 << 16;
    UnitConfig::new(config)
}

#[test]
fn every_exception_is_told_with_its_number_and_return_address() {
    let mut at_targets = 0;
    for (seed, flavour) in (0..8).zip(FLAVOURS.into_iter().cycle()) {
        let program = Program::random(seed, flavour, false);
        let items = Walker::run(&program, Walk { seed, interrupts: 5, ..Walk::default() });
        let decoded = trace(&with(1 << 12), &program, &items);
        let told: Vec<_> = decoded
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Exception { cause, return_address, .. } => {
                    Some((cause.number(), return_address.expect("told")))
                }
                _ => None,
            })
            .collect();
        // Tracing begins with the first instruction.
        let begun = items.iter().skip_while(|item| !matches!(item, Execution::Instruction(_)));
        let mut taken: Vec<_> = begun
            .filter_map(|item| match item {
                Execution::Trap(Trap { cause, return_address, .. }) => Some((*cause, *return_address)),
                _ => None,
            })
            .collect();
        let halted = told.len() - taken.len();
        taken.extend(told.iter().skip(taken.len()));
        assert_eq!(told, taken, "seed {seed}");
        assert!(halted <= 1 && (halted == 0 || told.last().is_some_and(|told| told.0 == 1)));
        let at_target = |event: &&Event| matches!(event, Event::Exception { is_branch_target: true, .. });
        at_targets += decoded.events.iter().filter(at_target).count();
    }
    assert!(at_targets > 10, "{at_targets}");
}

#[test]
fn an_exception_that_nothing_is_seen_to_handle_is_followed_by_a_restart() {
    let program = Program::random(2, Flavour::A64, false);
    let items = Walker::run(&program, Walk { interrupts: 30, handlers: false, ..Walk::default() });
    let decoded = trace(&with(0), &program, &items);
    for pair in decoded.events.windows(2) {
        if let [Event::Exception { cause, .. }, next] = pair {
            let restart = matches!(next, Event::TraceOn(_));
            assert!(restart || matches!(next, Event::EndOfTrace { .. }), "{cause} then {next:x?}");
        }
    }
    assert_same(&addresses(&program, &decoded.events), &truth(&items), || "user mode".into());
}

#[test]
fn every_range_is_told_in_its_context() {
    for (seed, flavour) in (0..6).zip(FLAVOURS.into_iter().cycle()) {
        let program = Program::random(seed, flavour, false);
        let items = Walker::run(&program, Walk { seed, interrupts: 40, ..Walk::default() });
        let decoded = trace(&with(0), &program, &items);
        let mut context = Context::default();
        let mut executed = Vec::new();
        for item in &items {
            match item {
                Execution::Context(now) => context = *now,
                Execution::Instruction(_) => {
                    executed.push((context.level(), context.vmid, context.context_id))
                }
                _ => {}
            }
        }
        let mut told = Vec::new();
        for event in &decoded.events {
            match event {
                Event::Context(now, _) => context = *now,
                Event::Range(range) => {
                    let now = (context.level(), context.vmid, context.context_id);
                    told.extend((0..range.instructions).map(|_| now));
                }
                _ => {}
            }
        }
        assert!(told == executed, "seed {seed}");
    }
}

#[test]
fn the_sum_of_cycle_counts_is_the_time_between_the_first_and_the_last() {
    for (seed, flavour) in (0..24).zip(FLAVOURS.into_iter().cycle()) {
        let mut options = with(1 << 4);
        options.config.registers.ccctlr = [0, 5, 60][seed as usize % 3];
        if seed % 4 < 2 {
            options.config.registers.idr0 &= !(1 << 29);
        }
        if seed % 8 < 4 {
            options.config.registers.idr8 = 25;
            options.front_end = Some(FrontEnd { seed, ..FrontEnd::default() });
        }
        options.controls.syncpr = 9;
        let program = Program::random(seed, flavour, false);
        let items = Walker::run(&program, Walk { seed, interrupts: 0, handlers: true, ..Walk::default() });
        let decoded = trace(&options, &program, &items);
        let mut counts = decoded.events.iter().filter_map(|event| match event {
            Event::CycleCount(count) => Some(*count),
            _ => None,
        });
        assert_eq!(counts.next(), Some(None), "the first is not known");
        let sum: u64 = counts.map(|count| u64::from(count.expect("all others are"))).sum();
        let cycles: Vec<u64> = items
            .iter()
            .filter_map(|item| match item {
                Execution::Instruction(retired) => Some(retired.cycle),
                _ => None,
            })
            .collect();
        let elapsed = cycles.last().unwrap() - cycles[0];
        let slack = u64::from(options.config.registers.ccctlr) + 400;
        assert!(sum <= elapsed && sum + slack >= elapsed, "seed {seed}: {sum} of {elapsed} cycles");
    }
}

#[test]
fn timestamps_rise_and_come_when_they_are_due() {
    for markers in [false, true] {
        let mut options = if markers { ete() } else { with(0) };
        options.config.registers.configr |= 1 << 11 | 1 << 4;
        options.timestamps.first = 0x00FF_FFFF_FFFF_F000;
        options.timestamps.period = 100;
        let program = Program::random(8, Flavour::A64, false);
        let items = Walker::run(&program, Walk { steps: 5000, ..Walk::default() });
        let decoded = trace(&options, &program, &items);
        let times: Vec<u64> = decoded
            .events
            .iter()
            .filter_map(|event| match event {
                Event::Timestamp { value, .. } => Some(*value),
                _ => None,
            })
            .collect();
        assert!(times.is_sorted(), "{times:x?}");
        assert!(times.windows(2).all(|pair| pair[1] - pair[0] < 300), "{times:?}");
        assert!(times.len() > 50 && times[0] >= options.timestamps.first);
        let marked = decoded.packets.contains(&Packet::TimestampMarker);
        assert_eq!(marked, markers);
    }
}

#[test]
fn transactions_begin_commit_and_fail_where_the_program_says() {
    let program = Program::random(12, Flavour::A64, true);
    let mut items = Walker::run(&program, Walk { seed: 12, interrupts: 0, steps: 4000, ..Walk::default() });
    // The second transaction fails: execution goes back to behind its start.
    let starts: Vec<usize> = (0..items.len())
        .filter(|&at| matches!(&items[at], Execution::Instruction(retired) if retired.opcode == 0xD523_3060))
        .collect();
    let start = starts[starts.len() / 2];
    let Execution::Instruction(started) = items[start] else { unreachable!() };
    let back = started.end();
    items.truncate(start + 1);
    let trap = Trap {
        kind: backsight_core::TrapKind::Exception,
        cause: 0x18,
        value: 0,
        return_address: back,
        handler: back,
        cycle: 0,
    };
    items.push(Execution::Trap(trap));
    let decoded = trace(&ete(), &program, &items);
    let mut expected = Vec::new();
    let mut inside = false;
    for item in &items {
        match item {
            Execution::Instruction(retired) if retired.opcode == 0xD523_3060 && !inside => {
                inside = true;
                expected.push(Transaction::Start);
            }
            Execution::Instruction(retired) if retired.opcode == 0xD503_307F && inside => {
                inside = false;
                expected.push(Transaction::Commit);
            }
            Execution::Trap(Trap { cause: 0x18, .. }) => expected.push(Transaction::Failure),
            _ => {}
        }
    }
    let told: Vec<_> = decoded
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Transaction(transaction) => Some(*transaction),
            _ => None,
        })
        .collect();
    assert!(expected.len() > 10);
    assert_eq!(told, expected);
    assert_same(&addresses(&program, &decoded.events), &truth(&items), || "transactions".into());
}

#[test]
fn a_q_element_tells_how_many_instructions_and_where_they_end() {
    let mut unknown = 0;
    for (seed, flavour) in (0..40).zip(FLAVOURS.into_iter().cycle()) {
        let random = &mut Random(seed);
        let mut options = with(1 << 12 | 1 << 13);
        options.config.registers.idr0 |= 3 << 15;
        options.controls.set_range(2, 0x40_0000, 0x40_7FFF);
        options.controls.qctlr = [0x104, 0x004][seed as usize % 2];
        options.controls.syncpr = 8;
        options.longest_q = 1 + random.below(60) as u32;
        let program = Program::random(seed, flavour, false);
        let items = Walker::run(&program, Walk { seed, contexts: 60, ..Walk::default() });
        let decoded = trace(&options, &program, &items);
        let truth = truth(&items);
        unknown += follow_unknown_paths(&program, &decoded.events, &truth, || format!("seed {seed}"));
        assert_eq!(decoded.statistics.traced, truth.len() as u64);
    }
    assert!(unknown > 500, "{unknown} paths");
}

#[test]
fn a_q_element_without_a_number_still_tells_where_execution_goes_on() {
    let mut options = with(1 << 14);
    options.config.registers.idr0 |= 3 << 15;
    options.controls.set_range(0, 0x40_0000, 0x40_7FFF);
    options.controls.qctlr = 0x101;
    options.longest_q = u32::MAX;
    let inside = |address: &Address| (0x40_0000..0x40_8000).contains(&address.0);
    let program = Program::random(5, Flavour::A64, false);
    let items = Walker::run(&program, Walk { seed: 5, interrupts: 0, handlers: false, ..Walk::default() });
    let decoded = trace(&options, &program, &items);
    let truth = truth(&items);
    let mut unknown = 0;
    for event in &decoded.events {
        if let Event::PathUnknown { start: Some(start), next, instructions: 0 } = event {
            assert!(inside(start) && truth.contains(next), "{event:x?}");
            unknown += 1;
        }
    }
    assert!(unknown > 10);
    let outside =
        |list: &[Address]| list.iter().copied().filter(|address| !inside(address)).collect::<Vec<_>>();
    let ranges: Vec<Event> =
        decoded.events.iter().copied().filter(|event| matches!(event, Event::Range(_))).collect();
    assert_same(&outside(&addresses(&program, &ranges)), &outside(&truth), || "outside of the region".into());
}

#[test]
fn a_decoder_can_begin_at_every_synchronisation() {
    for (seed, flavour) in (0..12).zip(FLAVOURS.into_iter().cycle()) {
        let mut options = with(1 << 12 | u32::from(seed % 3 == 0) << 4 | 1 << 11);
        options.controls.syncpr = 7;
        if seed % 4 == 1 {
            options.config.registers.idr8 = 9;
            options.front_end = Some(FrontEnd { seed, ..FrontEnd::default() });
        }
        let program = Program::random(seed, flavour, false);
        let items = Walker::run(&program, Walk { seed, contexts: 50, ..Walk::default() });
        let decoded = trace(&options, &program, &items);
        let truth = truth(&items);
        let sync = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];
        let places = decoded.bytes.windows(12).enumerate().filter(|(_, bytes)| *bytes == sync);
        let mut begun = 0;
        let mut before = usize::MAX;
        for (place, _) in places {
            let (_, events) = decode(&options.config, &program, &decoded.bytes[place..]);
            let told = addresses(&program, &events);
            assert!(truth.ends_with(&told), "seed {seed}: byte {place}, {} instructions", told.len());
            assert!(told.len() < before, "seed {seed}: each begins later");
            before = told.len();
            begun += 1;
        }
        assert_eq!(begun, decoded.statistics.synchronisations, "seed {seed}");
        assert!(begun > 3, "seed {seed}");
    }
}

#[test]
fn events_and_instrumentation_are_told_between_elements() {
    let program = Program::random(1, Flavour::A64, false);
    let items = Walker::run(&program, Walk::default());
    let options = ete();
    let mut unit = Unit::new(options.clone()).unwrap();
    let mut bytes = Vec::new();
    unit.event(1, &mut bytes);
    assert!(bytes.is_empty(), "nothing is traced yet");
    unit.push_all(&items[..1000], &mut bytes);
    unit.event(0b1010, &mut bytes);
    unit.instrumentation(0x1234_5678_9ABC_DEF0, &mut bytes);
    unit.push_all(&items[1000..], &mut bytes);
    unit.finish(&mut bytes);
    let (_, events) = decode(&options.config, &program, &bytes);
    assert!(events.contains(&Event::UnitEvents(0b1010)));
    let written =
        |event: &Event| matches!(event, Event::Software(message) if message.value == 0x1234_5678_9ABC_DEF0);
    assert!(events.iter().any(written));
    assert_same(&addresses(&program, &events), &truth(&items), || "events".into());
}

#[test]
fn every_packet_that_a_unit_can_write_is_written() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..60 {
        let mut options = if seed % 2 == 0 { ete() } else { with(0) };
        let registers = &mut options.config.registers;
        registers.configr |= [0x18, 0x1818, 0x2008, 0x4000][seed as usize / 2 % 4];
        registers.idr0 |= 3 << 15;
        registers.idr8 = 20;
        registers.ccctlr = [0, 200][seed as usize / 3 % 2];
        registers.idr0 ^= u32::from(seed % 3 == 0) << 29;
        options.front_end = Some(FrontEnd { seed, wrong: 60, longest_path: 10 });
        options.source_addresses = (seed % 10 == 0).then_some(0);
        options.controls.set_range(0, 0x40_0000, 0x40_3FFF);
        options.controls.qctlr = 0x101;
        options.controls.syncpr = 9;
        options.events = Some((100, 3));
        let flavour = FLAVOURS[seed as usize / 4 % 2];
        let program = Program::random(seed, flavour, true);
        let items =
            Walker::run(&program, Walk { seed, contexts: 50, handlers: seed % 3 != 0, ..Walk::default() });
        let decoded = trace(&options, &program, &items);
        seen.extend(decoded.packets.iter().map(form));
    }
    let expected = "Address Exact Is0|Address Exact Is1|Address Long32 Is0|Address Long32 Is1|Address Long64 Is0|\
        Address Short1 Is0|Address Short1 Is1|Address Short2 Is0|Address Short2 Is1|\
        AddressContext Long32 Is0|AddressContext Long32 Is1|AddressContext Long64 Is0|Async|\
        Atoms 1|Atoms 2|Atoms 3|Atoms 4|Atoms 5|Atoms 6+|CancelF1|CancelF2|CancelF3|Commit|Context|Context unchanged|\
        CycleCount F1|CycleCount F2|CycleCount F2FromMaximum|CycleCount F3|Event|Exception 1|Exception 2|ExceptionReturn|\
        Mispredict|Q|Q address|SourceAddress Exact Is0|SourceAddress Long32 Is0|SourceAddress Short1 Is0|\
        SourceAddress Short2 Is0|Timestamp|TimestampMarker|TraceInfo|TraceOn|TransactionCommit|TransactionStart";
    for form in expected.split('|') {
        assert!(seen.contains(form), "{form} is missing in {seen:?}");
    }
}

/// A packet's name and form.
fn form(packet: &Packet) -> String {
    let debug = format!("{packet:?}");
    let name: String = debug.chars().take_while(char::is_ascii_alphanumeric).collect();
    match packet {
        Packet::Address(address) | Packet::AddressContext(address, _) | Packet::SourceAddress(address) => {
            let form: String =
                format!("{:?}", address.form).chars().take_while(char::is_ascii_alphanumeric).collect();
            format!("{name} {form} {:?}", address.is)
        }
        Packet::Atoms(atoms) if atoms.count > 5 => format!("{name} 6+"),
        Packet::Atoms(atoms) => format!("{name} {}", atoms.count),
        Packet::Context(None) => format!("{name} unchanged"),
        Packet::CycleCount(count) => {
            let format: CycleCountFormat = count.format;
            format!("{name} {format:?}")
        }
        Packet::Exception(exception) => format!("{name} {}", exception.address),
        Packet::Q(q) if q.address.is_some() => format!("{name} address"),
        _ => name,
    }
}

#[test]
fn the_return_stack_leaves_out_the_targets_of_returns() {
    let program = Program::random(20, Flavour::A64, false);
    let items = Walker::run(&program, Walk { seed: 20, interrupts: 0, ..Walk::default() });
    let size = |configr| {
        let decoded = trace(&with(configr), &program, &items);
        decoded.packets.iter().filter(|packet| matches!(packet, Packet::Address(_))).count()
    };
    let (with_stack, without, broadcast): (usize, usize, usize) = (size(1 << 12), size(0), size(1 << 3));
    assert!(with_stack < without && without < broadcast, "{with_stack}, {without}, {broadcast}");
}

#[test]
fn a_stream_that_makes_no_sense_is_traced_as_gaps() {
    let random = &mut Random(77);
    let program = Program::random(1, Flavour::A64, false);
    let items = Walker::run(&program, Walk::default());
    for _ in 0..50 {
        let mut unit = Unit::new(with(1 << 12 | 1 << 3 | 1 << 11)).unwrap();
        let mut bytes = Vec::new();
        for _ in 0..200 {
            let mut item = items[random.below(items.len() as u64) as usize];
            if let Execution::Instruction(retired) = &mut item {
                retired.next = Address(random.next() >> random.below(64));
                retired.cycle = random.next() >> random.below(64);
                retired.taken = random.below(2) == 0;
            }
            unit.push(item, &mut bytes);
        }
        unit.finish(&mut bytes);
        let (packets, _) = decode(&Config::etm4_default(), &program, &bytes);
        assert!(packets.len() > 100);
    }
}
