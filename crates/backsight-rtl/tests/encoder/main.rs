//! The encoder as hardware beside the software: the same blocks or commit cycles in, the same bytes out.
//!
//! `BACKSIGHT_RTL_LONG=1` simulates every configuration with long streams and all programs (`tests/rtl/run`); without it
//! short streams.

mod configurations;
mod habits;
mod mutations;
mod output;
#[path = "../support/simulator.rs"]
mod simulator;
mod software;
mod stimulus;

use std::process::Command;

use backsight_core::{Execution, Located};
use backsight_riscv::encap::Framing;
use backsight_riscv::etrace::{Config, Content, Decoder, ImplicitReturn, Message};
use backsight_riscv::ingress::Block;
use backsight_rtl::SourceFile;
use backsight_rtl::etrace::{Comparators, Options, Unsupported, design};
use backsight_testing::{Random, repository};
use backsight_unit::cva6::{Check, Filter as Cva6Filter};
use backsight_unit::etrace::{Unit, UnitConfig};
use backsight_unit::riscv::filter::{Filter, Standard};
use backsight_unit::riscv::{Resync, ResyncMode};

use configurations::{configuration, configurations, lossless, rv64};
use output::Output;
use simulator::{Simulation, Simulator, Testbench, is_installed, run, sources, write};
use software::Input;

/// What is simulated.
const TESTBENCH: Testbench = Testbench { top: "tb_te", input: "cycles" };

/// Every test takes minutes then.
fn is_long() -> bool {
    std::env::var_os("BACKSIGHT_RTL_LONG").is_some()
}

/// Verilator for long streams; Icarus Verilog needs no building.
fn usual_simulator() -> Simulator {
    if is_long() { Simulator::Verilator } else { Simulator::Icarus }
}

fn files(options: &Options) -> Vec<SourceFile> {
    design(options).unwrap_or_else(|error| panic!("{error}"))
}

/// Patterns of a bus that is always, often, seldom ready.
const PATTERNS: [u32; 3] = [u32::MAX, 0xF5F7_3D9B, 0x0100_8010];

fn assert_same(found: &[u8], expected: &[u8], name: &str) {
    let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
    let at = differs.unwrap_or(found.len().min(expected.len()));
    let around =
        |bytes: &[u8]| bytes[at.saturating_sub(12).min(bytes.len())..(at + 12).min(bytes.len())].to_vec();
    assert!(
        found == expected,
        "{name}: byte {at} of {} and {}: {:02x?} and {:02x?}",
        found.len(),
        expected.len(),
        around(found),
        around(expected)
    );
}

#[test]
fn random_blocks_make_the_bytes_of_the_software_with_every_option() {
    let simulator = usual_simulator();
    if !simulator.is_there() {
        return;
    }
    let (rounds, count) = if is_long() { (12, 20_000) } else { (3, 500) };
    for (name, options) in configurations() {
        let simulation =
            Simulation::build(simulator, &format!("blocks-{name}"), &["BLOCKS"], &files(&options));
        let mut total = 0;
        for round in 0..rounds {
            let inputs = stimulus::random_blocks(&mut Random(round), &options.unit.params, count);
            let pattern = PATTERNS[round as usize % 3];
            let lines = format!("R {pattern:x}\n{}", stimulus::block_lines(&inputs));
            let output = Output::of(&simulation.run(&lines));
            assert_same(&output.bytes, &software::bytes(&options.unit, &inputs), name);
            total += output.bytes.len();
        }
        println!("{name}: {} blocks, {total} bytes equal", rounds as usize * count);
    }
}

#[test]
fn a_full_buffer_loses_packets_and_says_so_as_the_software_does() {
    let simulator = usual_simulator();
    if !simulator.is_there() {
        return;
    }
    let (rounds, count) = if is_long() { (10, 20_000) } else { (2, 1500) };
    for name in ["usual", "tables"] {
        let mut unit = configuration(name).unit;
        // The quick ways of the software ask for room at other times than the flow chart; where cycles are counted it
        // does not take them.
        unit.options.resync_disabled = false;
        unit.settings.resync = Resync { mode: ResyncMode::Cycles, limit: 1000 };
        let options = Options { lossless: false, filter: Comparators::default(), ..Options::new(unit) };
        let simulation =
            Simulation::build(simulator, &format!("losses-{name}"), &["BLOCKS"], &files(&options));
        let mut lost = 0;
        for round in 0..rounds {
            let inputs = stimulus::random_blocks(&mut Random(100 + round), &options.unit.params, count);
            let lines = format!(
                "R {:x}\n{}",
                [0x0100_8010, 0x1111_1111][round as usize % 2],
                stimulus::block_lines(&inputs)
            );
            let output = Output::of(&simulation.run(&lines));
            let expected = software::bytes_with_losses(&options.unit, &inputs, &output.answers);
            assert_same(&output.bytes, &expected, name);
            lost += output.lost();
        }
        println!("{name}: {} blocks, packets lost at {lost} times", rounds as usize * count);
        assert!(lost > 5, "{lost}");
    }
}

#[test]
fn random_commit_cycles_make_the_blocks_and_bytes_of_the_software() {
    let simulator = usual_simulator();
    if !simulator.is_there() {
        return;
    }
    let (rounds, count) = if is_long() { (8, 20_000) } else { (1, 600) };
    for (name, options) in configurations() {
        let params = options.unit.params;
        let ports = usize::from(options.ports);
        let simulation = Simulation::build(simulator, &format!("cycles-{name}"), &[], &files(&options));
        for round in 0..rounds {
            let cycles = stimulus::random_cycles(&mut Random(round), &params, ports, count);
            let lines = stimulus::cycle_lines(&cycles, ports, params.iaddress_width);
            let by_cycles = options.unit.settings.resync.mode == ResyncMode::Cycles;
            // Where the hart waits, cycles pass that the software does not know of.
            let pattern = if by_cycles { u32::MAX } else { PATTERNS[round as usize % 2] };
            let output = Output::of(&simulation.run(&format!("R {pattern:x}\n{lines}")));
            if by_cycles && output.stalls > 0 {
                println!("{name}: the hart waited");
                continue;
            }
            assert!(output.missed.is_empty());
            let blocks = stimulus::blocks_of(&cycles, params.itype_width).into_iter().flatten();
            let inputs: Vec<Input> = blocks.map(Input::Block).chain([Input::End]).collect();
            assert_same(&output.bytes, &software::bytes(&options.unit, &inputs), name);
            println!(
                "{name}: {} cycles, {} bytes equal, {} stalls",
                cycles.len(),
                output.bytes.len(),
                output.stalls
            );
        }
    }
}

/// A core without a jump for longer than a block can be: where blocks are cut, resynchronisation by half-words shows.
#[test]
#[ignore = "minutes: tests/rtl/run"]
fn blocks_that_are_too_long_are_cut_where_the_software_cuts_them() {
    if !Simulator::Verilator.is_there() {
        return;
    }
    let mut unit = rv64();
    unit.settings.resync = Resync { mode: ResyncMode::HalfWords, limit: 1000 };
    for ports in [2, 4] {
        let options = Options { ports, ..lossless(unit) };
        let name = format!("long-blocks-{ports}");
        let simulation = Simulation::build(Simulator::Verilator, &name, &[], &files(&options));
        for seed in 0..4 {
            let cycles = stimulus::plain_cycles(&mut Random(seed), ports.into(), 100_000);
            let blocks: Vec<_> = stimulus::blocks_of(&cycles, 4).into_iter().flatten().collect();
            assert!(blocks.len() > 3, "{} blocks", blocks.len());
            let inputs: Vec<Input> = blocks.into_iter().map(Input::Block).chain([Input::End]).collect();
            let lines = stimulus::cycle_lines(&cycles, ports.into(), 64);
            let output = Output::of(&simulation.run(&format!("R ffff\n{lines}")));
            assert_same(&output.bytes, &software::bytes(&options.unit, &inputs), &name);
            println!("{name}: {} cycles, {} bytes equal", cycles.len(), output.bytes.len());
        }
    }
}

#[test]
fn blocks_that_a_core_does_not_wait_for_become_gaps() {
    let simulator = usual_simulator();
    if !simulator.is_there() {
        return;
    }
    let options = lossless(rv64());
    let simulation = Simulation::build(simulator, "deaf", &["DEAF"], &files(&options));
    let cycles = stimulus::random_cycles(
        &mut Random(5),
        &options.unit.params,
        2,
        if is_long() { 20_000 } else { 1200 },
    );
    let lines = format!("R 1111\n{}", stimulus::cycle_lines(&cycles, 2, 64));
    let output = Output::of(&simulation.run(&lines));
    let mut inputs = Vec::new();
    let mut gap = false;
    for (index, blocks) in stimulus::blocks_of(&cycles, 4).into_iter().enumerate() {
        // Lines are counted from 1.
        if output.missed.contains(&(index + 1)) {
            gap = true;
        } else if !blocks.is_empty() {
            if std::mem::take(&mut gap) {
                inputs.push(Input::Gap);
            }
            inputs.extend(blocks.into_iter().map(Input::Block));
        }
    }
    if gap {
        inputs.push(Input::Gap);
    }
    inputs.push(Input::End);
    assert!(output.missed.len() > 5, "{:?}", output.missed);
    assert_same(&output.bytes, &software::bytes(&options.unit, &inputs), "gaps");
}

#[test]
fn a_filter_traces_what_the_software_traces() {
    let simulator = usual_simulator();
    if !simulator.is_there() {
        return;
    }
    let mut unit = rv64();
    let options = Options { filter: Comparators::ALL, ..lossless(unit) };
    let simulation = Simulation::build(simulator, "filter", &["BLOCKS"], &files(&options));
    let off = Cva6Filter::default();
    let filters = [
        (Cva6Filter { trace: false, ..off }, "0 0"),
        (Cva6Filter { iaddr: Check::Range(0x1010, 0x1060), ..off }, "1 1"),
        (Cva6Filter { privilege: Check::Match(0), ..off }, "1 2"),
        (Cva6Filter { cause: Check::Range(0, 9), ..off }, "1 4"),
        (Cva6Filter { tval: Check::Range(0, 0xFFFF), ..off }, "1 8"),
        (Cva6Filter { tvec: Check::Range(0, 0x1040), ..off }, "1 10"),
    ];
    let mut sizes = Vec::new();
    for (filter, word) in filters {
        let inputs =
            stimulus::random_blocks(&mut Random(3), &unit.params, if is_long() { 20_000 } else { 500 });
        let bounds = "1010 1060 0 0 0 9 0 ffff 0 1040";
        let lines = format!("F {word} {bounds}\n{}", stimulus::block_lines(&inputs));
        unit.filter = Some(Filter { standard: Standard::new(1), cva6: filter });
        let output = Output::of(&simulation.run(&lines));
        assert_same(&output.bytes, &software::bytes(&unit, &inputs), word);
        sizes.push(output.bytes.len());
    }
    assert!(sizes[0] == 0 && sizes[1..].iter().all(|&size| size > 100), "{sizes:?}");
}

/// What a program of the test data does, at most `most` instructions.
fn execution(name: &str, most: u64) -> Vec<Execution> {
    let file = std::fs::read(repository().join("testdata/programs/riscv64").join(name)).expect("a program");
    let options = backsight_sim::Options {
        streams: backsight_sim::Streams::none(),
        host_files: false,
        instructions: most,
        ..backsight_sim::Options::default()
    };
    let mut simulator = backsight_sim::Simulator::load(&file, options).expect("a static RV64 program");
    let mut items = Vec::new();
    let _ = simulator.run(&mut |item| items.push(item));
    items.retain(|item| {
        matches!(item, Execution::Instruction(_) | Execution::Trap(_) | Execution::Context(_))
    });
    items
}

#[test]
fn recorded_programs_make_the_bytes_of_the_software_unit_and_decode() {
    let simulator = Simulator::Verilator;
    if !simulator.is_there() {
        return;
    }
    let (programs, most): (&[&str], _) = match is_long() {
        true => (&["calls", "isa", "sort", "vm", "pack", "signals"], 150_000),
        false => (&["calls", "vm"], 40_000),
    };
    let mut unit = rv64();
    unit.settings.resync.limit = 1000;
    unit.params.implicit_return = ImplicitReturn::Returns;
    let mut tables = unit;
    tables.options.implicit_return = true;
    tables.options.branch_prediction = true;
    tables.options.jump_target_cache = true;
    (tables.params.bpred_size, tables.params.cache_size, tables.params.f0s_width) = (6, 5, 1);
    tables.params.return_stack_size = 4;
    for (form, options, programs) in
        [("plain", lossless(unit), programs), ("tables", lossless(tables), &programs[1..])]
    {
        let simulation = Simulation::build(simulator, &format!("programs-{form}"), &[], &files(&options));
        for name in programs {
            let items = execution(name, most);
            let mut stage = stimulus::CommitStage::new(options.ports.into());
            items.iter().for_each(|item| stage.push(item));
            stage.close();
            let lines = stimulus::cycle_lines(&stage.cycles, options.ports.into(), 64);
            let output = Output::of(&simulation.run(&format!("R F5F73D9B\n{lines}")));
            let (mut software, mut expected) = (Unit::new(options.unit).unwrap(), Vec::new());
            software.push_all(&items, &mut expected);
            software.finish(&mut expected);
            assert_same(&output.bytes, &expected, name);
            let packets = decoded(&options.unit, &output.bytes);
            println!(
                "{form}: {name}: {} instructions, {} bytes, {packets} packets equal",
                items.len(),
                expected.len()
            );
            assert!(packets > 100);
        }
    }
}

/// The number of packets, all of which must be good.
fn decoded(unit: &UnitConfig, bytes: &[u8]) -> usize {
    let UnitConfig { params, options, framing, .. } = *unit;
    let mut decoder = Decoder::new(&Config { params, options, framing });
    let mut packets = 0;
    let mut sink = |message: Located<Message>| match message.value.content {
        Content::Instruction(_) => packets += 1,
        Content::Null => {}
        bad => panic!("{bad:?}"),
    };
    decoder.feed(bytes, &mut sink);
    decoder.finish(&mut sink);
    packets
}

/// The stream that the specification's reference flow gives for this sequence.
#[test]
fn the_reference_stream_comes_out_byte_for_byte() {
    if !Simulator::Icarus.is_there() {
        return;
    }
    let mut unit = rv64();
    (unit.params.nocontext, unit.params.context_width) = (0, 32);
    unit.framing = Framing::REFERENCE;
    unit.settings.resync = Resync::default();
    let simulation = Simulation::build(Simulator::Icarus, "reference", &["BLOCKS"], &files(&lossless(unit)));
    let block = |iaddr: u64, iretire: u32, ilastsize: u8, itype: u8| {
        let itype = backsight_riscv::ingress::Itype::from_code(itype).unwrap();
        let cause = if itype.is_trap() { 2 } else { 0 };
        Input::Block(Block { iaddr, iretire, ilastsize, itype, cause, privilege: 3, ..Block::default() })
    };
    let inputs = [
        block(0x1000, 10, 1, 10),
        block(0x8000_0000, 11, 1, 11),
        block(0x8000_0056, 2, 1, 9),
        block(0x8000_006A, 2, 0, 13),
        block(0x8000_005A, 1, 0, 4),
        block(0x8000_005C, 0, 0, 1),
        block(0x8000_0038, 13, 1, 11),
        block(0x8000_0018, 14, 1, 0),
        Input::End,
    ];
    let output = Output::of(&simulation.run(&stimulus::block_lines(&inputs)));
    let expected: [&[u8]; 7] = [
        &[0x41, 0x1F],
        &[0x47, 0x73, 0, 0, 0, 0, 0, 4],
        &[0x45, 0x02, 0xE0, 0xFF, 0xFF, 0],
        &[0x4A, 0x85, 0x2D, 0, 0, 0, 0, 0, 0, 0, 0xFF],
        &[0x4A, 0x77, 0, 0, 0, 0, 0x21, 7, 0, 0, 0x10],
        &[0x41, 0xF2],
        &[0x41, 0x4F],
    ];
    assert_same(&output.bytes, &expected.concat(), "reference");
}

#[test]
fn the_linter_has_nothing_to_say() {
    if !is_installed("verilator") {
        return;
    }
    for (name, options) in configurations() {
        let files = files(&options);
        let folder = write(&format!("te-lint-{name}"), &files);
        let sources = sources(&folder, &files);
        let designs = sources.iter().filter(|source| !source.ends_with("tb_te.sv"));
        // Constants of the package and inputs that a configuration does not use are no faults.
        let text = run(Command::new("verilator")
            .args("--lint-only -Wall -Wno-UNUSEDPARAM -Wno-UNUSEDSIGNAL --top-module te_top".split(' '))
            .args(designs));
        assert_eq!(text, "", "{name}");
    }
}

#[test]
fn synthesis_finds_no_latch_loop_or_second_driver() {
    if !is_installed("yosys") {
        return;
    }
    for (name, options) in configurations() {
        if !is_long() && !matches!(name, "usual" | "cva6") {
            continue;
        }
        let files = files(&options);
        let folder = write(&format!("te-check-{name}"), &files);
        let sources: Vec<String> = sources(&folder, &files)
            .iter()
            .filter(|source| !source.ends_with("tb_te.sv"))
            .map(|source| source.display().to_string())
            .collect();
        let script = format!(
            "read_verilog -sv {}; hierarchy -check -top te_top; proc; flatten; opt; select -assert-none t:$dlatch; check -assert",
            sources.join(" ")
        );
        run(Command::new("yosys").args(["-q", "-p", &script]));
    }
}

#[test]
fn what_the_hardware_does_not_have_is_refused() {
    let refused = |change: &dyn Fn(&mut Options)| {
        let mut options = Options::new(rv64());
        change(&mut options);
        design(&options).unwrap_err()
    };
    assert_eq!(refused(&|o| o.ports = 5).to_string(), "commit ports: 1 to 4 is expected");
    assert!(matches!(refused(&|o| o.packets = 12), Unsupported::Range { name: "packets", .. }));
    assert!(matches!(refused(&|o| o.unit.params.iaddress_width = 70), Unsupported::Unit(_)));
    let tables = refused(&|o| o.unit.params.bpred_size = 11);
    assert_eq!(tables.to_string(), "bpred_size: 0 to 10 is expected");
    let framing = refused(&|o| o.unit.framing = Framing::Pulp);
    assert!(framing.to_string().contains("framing"), "{framing}");
}
