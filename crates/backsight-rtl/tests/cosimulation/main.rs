//! The hardware beside the software: the same bytes in, the same packets and records out.
//!
//! `BACKSIGHT_RTL_LONG=1` simulates every configuration and every width with long streams (`tests/rtl/run`); without it
//! a choice of them.

mod hardware;
mod simulator;
mod software;
mod streams;

use std::process::Command;

use backsight_arm::etm4::Config;
use backsight_rtl::SourceFile;
use backsight_rtl::etm4::{Form, Options, design};
use backsight_testing::{Random, corpus};

use hardware::Item;
use simulator::{Simulation, Simulator, is_installed, run, sources, write};

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

/// Simulates streams one after the other; checks that hardware and software say the same; gives the number of packets.
fn check(
    simulation: &Simulation,
    lanes: u8,
    config: &Config,
    pieces: &[Vec<u8>],
    holes: Option<&mut Random>,
) -> usize {
    let expected = software::items(pieces, config);
    let output = simulation.run(&streams::words(pieces, lanes.into(), holes));
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
    let simulation = Simulation::build(simulator, name, "tb_etm4", &files(form, lanes, *config));
    let mut random = Random(u64::from(lanes) + length as u64);
    let stream = streams::random(&mut random, length);
    let pieces = streams::cut(&mut random, &stream, 1 + length as u64 / 1000);
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
fn every_width_and_configuration_decodes_random_streams() {
    if !is_long() {
        return;
    }
    for lanes in [1, 2, 3, 5, 6, 8, 16] {
        for (name, config) in [("full", full()), ("ete", ete()), ("a53", Config::etm4_default())] {
            check_random(
                Simulator::Verilator,
                Form::Chain,
                lanes,
                &config,
                400_000,
                &format!("chain{lanes}-{name}"),
            );
        }
    }
}

/// The sources of captures: folder, file of the trace source, file of the frames.
const CAPTURES: [(&str, &str, &str); 3] = [
    ("juno_r1_1", "device_6.ini", "cstrace.bin"),
    ("juno_r1_1", "device_7.ini", "cstrace.bin"),
    ("juno_r1_1", "device_8.ini", "cstrace.bin"),
];

#[test]
fn the_chain_decodes_real_captures() {
    let Some(corpus) = corpus() else { return };
    if !Simulator::Verilator.is_there() {
        return;
    }
    let lanes = 4;
    let mut built: Option<(Config, Simulation)> = None;
    let (mut bytes, mut packets) = (0, 0);
    for (folder, device, frames) in CAPTURES {
        let folder = corpus.join("opencsd").join(folder).join("capture");
        let config = streams::config(&folder.join(device));
        let mut same = config;
        same.registers.traceidr = 0;
        let simulation = match built.take() {
            Some((config, simulation)) if config == same => simulation,
            _ => Simulation::build(
                Simulator::Verilator,
                "chain4-capture",
                "tb_etm4",
                &files(Form::Chain, lanes, config),
            ),
        };
        let pieces = streams::source(&folder.join(frames), config.trace_id());
        bytes += pieces.iter().map(Vec::len).sum::<usize>();
        packets += check(&simulation, lanes, &config, &pieces, None);
        built = Some((same, simulation));
    }
    println!("captures: {bytes} bytes, {packets} packets equal");
    assert!(packets > 10_000);
}

#[test]
fn the_linter_has_nothing_to_say() {
    if !is_installed("verilator") {
        return;
    }
    for (name, config) in [("full", full()), ("ete", ete()), ("a53", Config::etm4_default())] {
        for lanes in [1, 4] {
            let files = files(Form::Chain, lanes, config);
            let folder = write(&format!("lint-{name}-{lanes}"), &files);
            let sources = sources(&folder, &files);
            let designs = sources.iter().filter(|source| !source.ends_with("tb_etm4.sv"));
            // Constants of packages and bits of bytes that a configuration does not use are no faults.
            let text = run(Command::new("verilator")
                .args([
                    "--lint-only",
                    "-Wall",
                    "-Wno-UNUSEDPARAM",
                    "-Wno-UNUSEDSIGNAL",
                    "--top-module",
                    "etm4_decoder",
                ])
                .arg(format!("-GLANES={lanes}"))
                .args(designs));
            assert_eq!(text, "", "{name}");
        }
    }
}
