//! The hardware beside the software: the same bytes in, the same packets and records out.
//!
//! `BACKSIGHT_RTL_LONG=1` simulates every configuration and every width with long streams (`tests/rtl/run`); without it
//! a choice of them.

mod formal;
mod hardware;
#[path = "../support/simulator.rs"]
mod simulator;
mod software;
mod streams;

use std::process::Command;

use backsight_arm::etm4::Config;
use backsight_rtl::SourceFile;
use backsight_rtl::etm4::{Form, Options, design};
use backsight_testing::{Random, corpus};

use hardware::Item;
use simulator::{Simulation, Simulator, Testbench, is_installed, run, sources, write};

/// What is simulated.
const TESTBENCH: Testbench = Testbench { top: "tb_etm4", input: "words" };

/// Every test takes minutes then.
fn is_long() -> bool {
    std::env::var_os("BACKSIGHT_RTL_LONG").is_some()
}

fn configured(settings: &[(&str, &str)]) -> Config {
    let mut config = Config::etm4_default();
    for (name, value) in settings {
        config.set(name, value).unwrap();
    }
    config
}

/// All packets that an ETMv4 can send: commit mode 0, Q, conditional instructions, data trace, 32-bit VMIDs.
fn full() -> Config {
    configured(&[
        ("version", "ETM4.6"),
        ("vmid", "32"),
        ("profile", "M"),
        ("commopt", "0"),
        ("q_elements", "1"),
        ("conditional", "all"),
        ("data_trace", "1"),
        ("max_spec", "20"),
    ])
}

/// All packets that an ETE can send.
fn ete() -> Config {
    configured(&[("version", "ETE1.3"), ("q_elements", "1"), ("vmid", "16"), ("timestamp_marker", "1")])
}

fn files(form: Form, lanes: u8, config: Config) -> Vec<SourceFile> {
    design(&Options { lanes, form, config }).unwrap()
}

/// All configurations, by their names.
fn configurations() -> [(&'static str, Config); 3] {
    [("full", full()), ("ete", ete()), ("a53", Config::etm4_default())]
}

/// Simulates streams one after the other; checks that hardware and software say the same; gives the number of packets.
fn check(
    simulation: &Simulation,
    lanes: u8,
    config: &Config,
    pieces: &[Vec<u8>],
    holes: Option<&mut Random>,
) -> usize {
    compare(simulation, &streams::words(pieces, lanes.into(), holes), pieces, config)
}

/// Simulates words; checks that the hardware says what the software says of these pieces of a stream.
fn compare(simulation: &Simulation, words: &str, pieces: &[Vec<u8>], config: &Config) -> usize {
    let expected = software::items(pieces, config);
    let output = simulation.run(words);
    let found = hardware::items(&output, config);
    for (index, (found, expected)) in found.iter().zip(&expected).enumerate() {
        assert_eq!(found, expected, "item {index}");
    }
    assert_eq!(found.len(), expected.len());
    let records = software::records(&expected);
    for (index, (found, expected)) in hardware::records(&output).iter().zip(&records).enumerate() {
        assert_eq!(found, expected, "record {index}");
    }
    assert_eq!(hardware::records(&output).len(), records.len());
    expected.iter().filter(|item| matches!(item, Item::Packet(..))).count()
}

/// Random and damaged streams through one design.
fn check_random(simulator: Simulator, form: Form, lanes: u8, config: &Config, length: usize, name: &str) {
    if !simulator.is_there() {
        return;
    }
    let simulation = Simulation::build(simulator, name, &[], &files(form, lanes, *config));
    let mut random = Random(u64::from(lanes) + length as u64);
    let stream = streams::random(&mut random, length);
    let pieces = streams::cut(&mut random, &stream, 3 + length as u64 / 1000);
    let packets = check(&simulation, lanes, config, &pieces, Some(&mut random));
    println!("{name}: {length} bytes, {} gaps, {packets} packets equal", pieces.len() - 1);
    assert!(packets > length / 20);
}

#[test]
fn the_chain_decodes_random_and_damaged_streams_with_every_packet_of_etmv4() {
    check_random(Simulator::Verilator, Form::Chain, 4, &full(), 200_000, "chain4-full");
}

#[test]
fn a_second_simulator_agrees_on_ete() {
    check_random(Simulator::Icarus, Form::Chain, 3, &ete(), 8_000, "icarus-chain3-ete");
}

#[test]
fn the_chain_of_one_byte_decodes_in_a_second_simulator() {
    check_random(Simulator::Icarus, Form::Chain, 1, &full(), 4_000, "icarus-chain1-full");
}

#[test]
fn the_parallel_prefix_form_decodes_random_and_damaged_streams() {
    check_random(Simulator::Icarus, Form::Prefix, 8, &full(), 800, "icarus-prefix8-full");
}

#[test]
fn the_parallel_prefix_form_of_sixteen_bytes_decodes_them_too() {
    check_random(Simulator::Icarus, Form::Prefix, 16, &ete(), 800, "icarus-prefix16-ete");
}

#[test]
#[ignore = "minutes: tests/rtl/run"]
fn every_width_and_configuration_decodes_random_streams() {
    for (name, config) in configurations() {
        for lanes in [1, 2, 3, 5, 6, 8, 16] {
            let design = format!("chain{lanes}-{name}");
            check_random(Simulator::Verilator, Form::Chain, lanes, &config, 400_000, &design);
        }
        for lanes in [8, 16] {
            let design = format!("prefix{lanes}-{name}");
            check_random(Simulator::Verilator, Form::Prefix, lanes, &config, 400_000, &design);
        }
    }
}

#[test]
fn a_form_says_which_widths_it_has() {
    let widths = |form| -> Vec<u8> {
        let options = |lanes| Options { lanes, form, config: Config::etm4_default() };
        (0..=20).filter(|&lanes| design(&options(lanes)).is_ok()).collect()
    };
    assert_eq!(widths(Form::Chain), (1..=16).collect::<Vec<u8>>());
    assert_eq!(widths(Form::Prefix), [8, 16]);
}

/// Trace sources of a real capture: their files. All are of the same kind, as far as packets are concerned.
const SOURCES: [&str; 6] =
    ["device_6.ini", "device_7.ini", "device_8.ini", "device_9.ini", "device_10.ini", "device_11.ini"];

#[test]
fn frames_of_a_real_capture_are_taken_apart_and_decoded_damaged_or_not() {
    check_frames(Form::Chain, 4);
}

#[test]
fn the_parallel_prefix_form_decodes_frames_of_a_real_capture() {
    if is_long() {
        check_frames(Form::Prefix, 8);
        check_frames(Form::Prefix, 16);
    }
}

fn check_frames(form: Form, lanes: u8) {
    let Some(corpus) = corpus() else { return };
    // A short part needs no simulator that is built first.
    let (simulator, frames) =
        if is_long() { (Simulator::Verilator, usize::MAX) } else { (Simulator::Icarus, 500) };
    if !simulator.is_there() {
        return;
    }
    let files = files(form, lanes, Config::etm4_default());
    let simulation = Simulation::build(simulator, &format!("frames-{form:?}{lanes}"), &["FRAMES"], &files);
    let folder = corpus.join("opencsd/juno_r1_1/capture");
    let mut whole = std::fs::read(folder.join("cstrace.bin")).unwrap();
    whole.truncate(frames.saturating_mul(16));
    let mut broken = whole.clone();
    streams::damage_frames(&mut Random(7), &mut broken);
    let (mut packets, mut after_damage) = (0, 0);
    for source in SOURCES.into_iter().take(if is_long() { SOURCES.len() } else { 2 }) {
        let config = streams::config(&folder.join(source));
        let id = config.trace_id();
        for (buffer, count) in [(&whole, &mut packets), (&broken, &mut after_damage)] {
            let pieces = streams::source(buffer, id);
            *count += compare(&simulation, &streams::frames(buffer, id), &pieces, &config);
        }
    }
    println!("{} frames: {packets} packets equal, {after_damage} with damage", whole.len() / 16);
    assert!(packets > 100 && after_damage > 10, "too little to compare");
}

/// What is changed where: a file, a text in it, another text.
type Mutation = (&'static str, &'static str, &'static str);

/// Tables that both forms go by.
const MUTATIONS: [Mutation; 2] = [
    ("etm4_header.sv", "PART_SHORT_ADDRESS, THEN_NOTHING", "PART_BYTES1, THEN_NOTHING"),
    (
        "etm4_meaning.sv",
        "etm4_pkg::PUSH | etm4_pkg::EXACT | etm4_pkg::EXACT1",
        "etm4_pkg::PUSH | etm4_pkg::EXACT",
    ),
];

/// The comparison can fail: a change in each emitted table is noticed.
#[test]
fn a_mutation_of_each_emitted_table_is_noticed() {
    let of_chain = [
        ("etm4_header.sv", "12'h100, 1'b1, 1'b0", "12'h080, 1'b1, 1'b0"),
        ("etm4_pkg.sv", "LEFT_COUNT = 12'h004", "LEFT_COUNT = 12'h008"),
    ];
    check_mutations(Form::Chain, 2, 6_000, &[MUTATIONS, of_chain].concat());
}

#[test]
#[ignore = "minutes: tests/rtl/run"]
fn a_mutation_of_each_table_of_the_parallel_prefix_form_is_noticed() {
    let of_prefix = [
        ("etm4_header.sv", "12'h001, 1'b0", "12'h002, 1'b0"),
        ("etm4_pkg.sv", "CID_BYTES = 4", "CID_BYTES = 3"),
    ];
    check_mutations(Form::Prefix, 8, 4_000, &[MUTATIONS, of_prefix].concat());
}

fn check_mutations(form: Form, lanes: u8, length: usize, mutations: &[Mutation]) {
    if !Simulator::Icarus.is_there() {
        return;
    }
    let config = Config::etm4_default();
    let pieces = vec![streams::random(&mut Random(11), length)];
    let words = streams::words(&pieces, lanes.into(), None);
    let expected = software::items(&pieces, &config);
    for (index, (name, from, to)) in mutations.iter().enumerate() {
        let mut files = files(form, lanes, config);
        let file = files.iter_mut().find(|file| file.name == *name).unwrap();
        assert!(file.text.contains(from), "{name}: {from}");
        file.text = file.text.replacen(from, to, 1);
        let simulation =
            Simulation::build(Simulator::Icarus, &format!("mutation-{form:?}{index}"), &[], &files);
        assert_ne!(hardware::items(&simulation.run(&words), &config), expected, "{to}");
    }
}

#[test]
fn the_linter_has_nothing_to_say() {
    if !is_installed("verilator") {
        return;
    }
    for (name, config) in configurations() {
        for (form, lanes) in [(Form::Chain, 1), (Form::Chain, 4), (Form::Prefix, 8), (Form::Prefix, 16)] {
            if lanes == 16 && !is_long() {
                continue;
            }
            let files = files(form, lanes, config);
            let folder = write(&format!("lint-{name}-{form:?}{lanes}"), &files);
            let sources = sources(&folder, &files);
            let designs = sources
                .iter()
                .filter(|source| !source.ends_with("tb_etm4.sv") && !source.ends_with("frame_port.sv"));
            // Constants of packages and bits of bytes that a configuration does not use are no faults.
            let text = run(Command::new("verilator")
                .args([
                    "--lint-only",
                    "-Wall",
                    "-Wno-UNUSEDPARAM",
                    "-Wno-UNUSEDSIGNAL",
                    "--top-module",
                    "coresight_etm4",
                ])
                .arg(format!("-GLANES={lanes}"))
                .args(designs));
            assert_eq!(text, "", "{name}");
        }
    }
}
