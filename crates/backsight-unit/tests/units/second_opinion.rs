//! Another decoder reads our traces: OpenCSD's `trc_pkt_lister`, where it is installed.

use crate::support::decode::{decode, truth};
use crate::support::snapshot::{self, Source};
use crate::support::{Flavour, Program, Walk, Walker};
use backsight_arm::etm4::Config;
use backsight_arm::frame::{FormatterConfig, Framing};
use backsight_core::{Address, Execution};
use backsight_flow::Event;
use backsight_testing::Random;
use backsight_unit::etm4::{FrontEnd, UnitConfig};
use backsight_unit::{System, etm4::Unit};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A range of instructions: first address, address behind the last, how many.
type Range = (u64, u64, u32);

/// A folder of its own, empty.
fn folder(name: &str) -> PathBuf {
    let folder = std::env::temp_dir().join(format!("backsight-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("temporary folder");
    folder
}

/// What OpenCSD makes of a snapshot, by trace ID; `None` where it is not installed.
fn opinion(folder: &Path) -> Option<String> {
    let mut lister = Command::new("trc_pkt_lister");
    // It writes a log into the folder it runs in, whatever it is told.
    lister.current_dir(folder).arg("-ss_dir").arg(".").args(["-decode", "-logstdout"]);
    let Ok(output) = lister.output() else {
        backsight_testing::skipped("trc_pkt_lister is not installed");
        return None;
    };
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The ranges in a listing. Nothing in it may look wrong.
fn listed_ranges(listing: &str, id: u8) -> Vec<Range> {
    let of_source = format!("ID:{id:x};");
    let mut ranges = Vec::new();
    for line in listing.lines().filter(|line| line.contains(&of_source)) {
        for wrong in ["BAD_SEQUENCE", "RESERVED", "ADDR_NACC", "bad-packet", "I_INCOMPLETE"] {
            assert!(!line.contains(wrong), "{line}");
        }
        let Some((_, rest)) = line.split_once("exec range=0x") else { continue };
        let (first, rest) = rest.split_once(":[0x").expect("a range");
        let (behind, rest) = rest.split_once(']').expect("its end");
        let (_, rest) = rest.split_once("num_i(").expect("its length");
        let (count, _) = rest.split_once(')').expect("its length");
        let hex = |text: &str| u64::from_str_radix(text, 16).expect("hexadecimal");
        ranges.push((hex(first), hex(behind), count.parse().expect("decimal")));
    }
    ranges
}

fn ranges(events: &[Event]) -> Vec<Range> {
    let range = |event: &Event| match event {
        Event::Range(range) => Some((range.start.0, range.end.0, range.instructions)),
        _ => None,
    };
    events.iter().filter_map(range).collect()
}

fn assert_same(listed: &[Range], ours: &[Range], what: &str) {
    let same = listed.iter().zip(ours).take_while(|(a, b)| a == b).count();
    assert_eq!(
        listed.get(same),
        ours.get(same),
        "{what}: range {same} of {} and {}",
        listed.len(),
        ours.len()
    );
}

/// A unit of a kind that OpenCSD decodes right: it takes a wrong turn where a return stack meets exceptions, source
/// addresses, Q elements or speculation, counts T32 instructions before a source address wrongly, knows no loads and
/// stores as P0, and does not commit what cycle counts commit.
fn unit_without_known_defects(random: &mut Random, flavour: Flavour) -> UnitConfig {
    let ete = random.below(2) == 0;
    let mut config = if ete { Config::ete_default() } else { Config::etm4_default() };
    config.registers.traceidr = 0x10;
    config.registers.configr |= (random.next() as u32) & 0x1818;
    if random.below(2) == 0 {
        config.registers.idr0 &= !(1 << 29);
    }
    if ete && random.below(2) == 0 {
        config.registers.devarch = 0x4773_5A13;
        config.registers.idr0 |= 1 << 23;
    }
    config.registers.ccctlr = [0, 4, 40][random.below(3) as usize];
    let mut options = UnitConfig::new(config);
    if ete && flavour == Flavour::A64 && !options.config.return_stack() && random.below(2) == 0 {
        options.source_addresses = Some(random.below(2) as u32);
    }
    let commits_by_counts = options.config.cycle_counting() && !options.config.commit_mode1();
    if !commits_by_counts && !options.config.return_stack() && random.below(2) == 0 {
        options.config.registers.idr8 = 4 + random.below(20) as u32;
        options.front_end = Some(FrontEnd { seed: random.next(), ..FrontEnd::default() });
    }
    options.controls.syncpr = 8;
    options.timestamps.period = 200;
    options.events = Some((500, 5));
    options
}

#[test]
fn opencsd_sees_the_same_ranges() {
    let folder = folder("ranges");
    for seed in 0..24 {
        let random = &mut Random(seed);
        let flavour = if seed % 2 == 0 { Flavour::A64 } else { Flavour::AArch32 };
        let options = unit_without_known_defects(random, flavour);
        let interrupts = if options.config.return_stack() { 0 } else { 50 };
        let program = Program::random(seed, flavour, false);
        let handlers = interrupts != 0 && random.below(2) == 0;
        let items =
            Walker::run(&program, Walk { seed, interrupts, handlers, contexts: 100, ..Walk::default() });
        let mut unit = Unit::new(options.clone()).expect("a unit that can be");
        let mut bytes = Vec::new();
        unit.push_all(&items, &mut bytes);
        unit.finish(&mut bytes);
        let source = Source { config: &options.config, name: "UNIT_0" };
        snapshot::write(&folder, &program, &[source], &bytes, false);
        let Some(listing) = opinion(&folder) else { return };
        let (_, events) = decode(&options.config, &program, &bytes);
        let ours = ranges(&events);
        assert_eq!(ours.iter().map(|range| range.2 as usize).sum::<usize>(), truth(&items).len());
        assert_same(&listed_ranges(&listing, 0x10), &ours, &format!("seed {seed} {options:x?}"));
    }
    std::fs::remove_dir_all(&folder).expect("temporary folder");
}

#[test]
fn opencsd_takes_the_frames_of_several_threads_apart() {
    let folder = folder("threads");
    let program = Program::random(6, Flavour::A64, false);
    let mut options = UnitConfig::default();
    options.config.registers.traceidr = 0x20;
    let threads: Vec<Vec<Execution>> = (0..4)
        .map(|seed| Walker::run(&program, Walk { seed, handlers: false, steps: 1000, ..Walk::default() }))
        .collect();
    let mut system = System::new(options, FormatterConfig::new(Framing::Coresight)).expect("a system");
    let mut frames = Vec::new();
    let mut sink = |bytes: &[u8]| frames.extend_from_slice(bytes);
    let longest = threads.iter().map(Vec::len).max().unwrap_or(0);
    for from in (0..longest).step_by(37) {
        for (thread, items) in (7u32..).zip(&threads) {
            system.push(Execution::Thread(thread), &mut sink).expect("few threads");
            for &item in items.iter().skip(from).take(37) {
                system.push(item, &mut sink).expect("few threads");
            }
        }
    }
    system.finish(&mut sink).expect("good trace IDs");
    let configs: Vec<Config> = system.threads().map(|(_, config, _)| config).collect();
    let names = ["A", "B", "C", "D"].map(|letter| format!("UNIT_{letter}"));
    let sources: Vec<_> = configs.iter().zip(&names).map(|(config, name)| Source { config, name }).collect();
    snapshot::write(&folder, &program, &sources, &frames, true);
    let Some(listing) = opinion(&folder) else { return };
    for (id, items) in (0x20..).zip(&threads) {
        let executed = listed_ranges(&listing, id);
        let addresses: Vec<Address> =
            executed.iter().flat_map(|&(first, behind, _)| (first..behind).step_by(4).map(Address)).collect();
        assert!(addresses == truth(items), "thread with trace ID {id:#x}");
    }
    std::fs::remove_dir_all(&folder).expect("temporary folder");
}
