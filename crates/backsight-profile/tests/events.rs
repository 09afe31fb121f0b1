//! Events and cycles are attributed to what caused them: measured against a model of the core whose truth is known.

mod support;

use std::collections::BTreeMap;
use std::io::BufReader;
use std::path::Path;

use backsight::Capture;
use backsight::core::{Access, Execution, Retired};
use backsight::isa::Class;
use backsight_profile::{CountOptions, EventChoice, EventProfile, EventShare, Profile, count};
use backsight_run::qemu::EmulationOptions;
use backsight_run::retired::RetiredReader;
use backsight_run::{EVENT_CAUSES, Recording, TRUTH, UnitKind};
use backsight_unit::model::{CoreModel, MODEL_EVENTS, ModelConfig};
use support::{Scratch, emulated, program};

/// Small caches, so that small programs miss.
const SMALL: &str = "l1d=1K:2:64,l1i=1K:2:64,predictor=6";

fn record(capture: &Path, name: &str, model: &str, settings: &[(&str, &str)]) -> bool {
    let settings: Vec<_> = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let unit = UnitKind::named("etm4").expect("a unit").program(backsight::core::Isa::A64, &settings);
    let unit = unit.expect("settings").modelled(model.parse().expect("a model")).expect("a unit with events");
    let options =
        EmulationOptions { program: program("aarch64", name), memory: true, ..EmulationOptions::default() };
    let Some(mut source) = emulated(options) else { return false };
    let recording = Recording::new(unit).truth(true).limit(400_000).replace(true);
    recording.record(&mut source, capture, &mut |_| {}).expect("a recording");
    true
}

fn profile_of(capture: &Path, skid: (u32, u32)) -> Profile {
    let capture = Capture::open(capture).expect("a capture");
    let events = MODEL_EVENTS.iter().zip(0..);
    let events = events.map(|(name, number)| EventChoice { number, name: (*name).to_owned() }).collect();
    let options = CountOptions { events, skid, ..CountOptions::default() };
    let (profile, summary) = count(&capture, capture.execution(), &options).expect("a profile");
    assert!(!summary.is_damaged(), "{summary}");
    profile
}

/// What the model says of the instructions that were executed: events and cycles by address.
#[derive(Default)]
struct ModelTruth {
    events: [BTreeMap<u64, u64>; 4],
    cycles: BTreeMap<u64, u64>,
    causes: Vec<String>,
}

impl ModelTruth {
    fn of(capture: &Path, model: &str) -> Self {
        let config: ModelConfig = model.parse().expect("a model");
        let mut core = CoreModel::new(config).expect("a core");
        let mut truth = Self::default();
        let (mut last, mut accesses, mut number): (Option<Retired>, Vec<Access>, u64) = (None, Vec::new(), 0);
        let file = std::fs::File::open(capture.join(TRUTH)).expect("the truth");
        let mut retire = |last: &mut Option<Retired>, accesses: &mut Vec<Access>| {
            let Some(retired) = last.take() else { return };
            let before = core.cycle();
            let outcome = core.retire(&retired, accesses);
            accesses.clear();
            let address = retired.address.0;
            *truth.cycles.entry(address).or_default() += outcome.cycle - before;
            for (event, counts) in truth.events.iter_mut().enumerate() {
                if outcome.events >> event & 1 == 1 {
                    *counts.entry(address).or_default() += 1;
                    let (cycle, name) = (outcome.cycle, MODEL_EVENTS[event]);
                    truth.causes.push(format!("0,{number},{address:#x},{cycle},{event},{name}"));
                }
            }
            number += 1;
        };
        for item in RetiredReader::new(BufReader::new(file)).expect("the truth") {
            match item.expect("an item") {
                Execution::Instruction(retired) => {
                    retire(&mut last, &mut accesses);
                    last = Some(retired);
                }
                Execution::Access(access) if last.is_some() => accesses.push(access),
                _ => {}
            }
        }
        retire(&mut last, &mut accesses);
        truth
    }
}

/// The end of the block that an address is in: blocks that begin at different addresses end at the same branch. Where
/// recording ended, a block may end before its branch.
fn block_end(profile: &Profile, address: u64) -> u64 {
    let around = || profile.blocks.iter().filter(|block| block.start <= address && address < block.end);
    let to_branch = around().filter(|block| block.class != Class::Other).map(|block| block.end).min();
    to_branch.or_else(|| around().map(|block| block.end).min()).unwrap_or(0)
}

fn by_block_end(profile: &Profile, sums: &BTreeMap<u64, u64>) -> BTreeMap<u64, f64> {
    let mut by_end: BTreeMap<u64, f64> = BTreeMap::new();
    for (&address, &count) in sums {
        *by_end.entry(block_end(profile, address)).or_default() += count as f64;
    }
    by_end
}

/// The part that is attributed to something else than the truth says, 0 to 1.
fn wrong_part(found: &BTreeMap<u64, f64>, truth: &BTreeMap<u64, f64>) -> f64 {
    let total: f64 = truth.values().sum();
    let keys: std::collections::BTreeSet<_> = found.keys().chain(truth.keys()).collect();
    let at = |map: &BTreeMap<u64, f64>, key: &u64| map.get(key).copied().unwrap_or(0.0);
    keys.iter().map(|key| (at(found, key) - at(truth, key)).abs()).sum::<f64>() / 2.0 / total.max(1.0)
}

/// A number of each block's share, summed up by where blocks end.
fn by_end_of(
    profile: &Profile,
    events: &EventProfile,
    number: impl Fn(&EventShare) -> f64,
) -> BTreeMap<u64, f64> {
    let mut by_end: BTreeMap<u64, f64> = BTreeMap::new();
    for share in &events.blocks {
        let start = profile.blocks[share.of as usize].start;
        *by_end.entry(block_end(profile, start)).or_default() += number(share);
    }
    by_end
}

/// Every block caused at least the events that it caused for certain, and at most those that it can have caused. The
/// packets of the last events may not be in the trace any more.
fn check_bounds(profile: &Profile, events: &EventProfile, truth: &BTreeMap<u64, f64>, lost: f64, what: &str) {
    let certain = by_end_of(profile, events, |share| share.certain as f64);
    let possible = by_end_of(profile, events, |share| share.possible as f64);
    let at = |map: &BTreeMap<u64, f64>, key: u64| map.get(&key).copied().unwrap_or(0.0);
    for &end in certain.keys().chain(truth.keys()) {
        let (least, caused, most) = (at(&certain, end), at(truth, end), at(&possible, end));
        assert!(least <= caused && caused <= most + lost, "{what}, {end:#x}: {least} <= {caused} <= {most}");
    }
}

#[test]
fn events_are_attributed_to_the_blocks_that_caused_them() {
    let scratch = Scratch::new("events");
    let capture = scratch.path("capture");
    println!("program delay event                     total  window  uncertain      wrong");
    for (name, delay) in [("sort", 0), ("vm", 0), ("pack", 0), ("sort", 4), ("vm", 4), ("pack", 16)] {
        let model = format!("{SMALL},delay={delay}");
        if !record(&capture, name, &model, &[]) {
            return;
        }
        let truth = ModelTruth::of(&capture, &model);
        let kept = std::fs::read_to_string(capture.join(EVENT_CAUSES)).expect("the causes");
        assert!(kept.lines().skip(1).eq(truth.causes.iter().map(String::as_str)), "{name}: other causes");
        // An instruction takes at least a cycle: so many are executed at most before an event arrives.
        let profile = profile_of(&capture, if delay == 0 { (0, 0) } else { (1, delay + 1) });
        for (events, caused) in profile.events.iter().zip(&truth.events) {
            let total: u64 = caused.values().sum();
            assert!(events.total <= total && events.total + 8 > total, "{name}: {} of {total}", events.total);
            let caused = by_block_end(&profile, caused);
            let what = format!("{name}, delay {delay}, {}", events.choice.name);
            check_bounds(&profile, events, &caused, (total - events.attributed()) as f64, &what);
            let wrong = wrong_part(&by_end_of(&profile, events, |share| share.expected), &caused);
            let uncertain = EventProfile::uncertainty(&events.blocks, events.attributed());
            println!(
                "{name:7} {delay:5} {:24} {total:7} {:7.2} {:9.1}% {:9.2}%",
                events.choice.name,
                events.mean_window(),
                100.0 * uncertain,
                100.0 * wrong
            );
            let lost = (total - events.attributed()) as f64 / total.max(1) as f64;
            assert!(wrong <= uncertain + lost, "{what}: {wrong} is more than uncertain");
            // Few instructions access memory: which one it was can nearly always be known. How many of them miss depends on
            // where the stack is, and so on the environment.
            let is_of_data = events.choice.name.starts_with("L1D") && total > 100;
            let most_wrong = if is_of_data && delay > 0 { uncertain / 4.0 } else { uncertain };
            assert!(wrong <= most_wrong + lost, "{what}: {wrong}");
            let shares: f64 = events.blocks.iter().map(|share| share.expected).sum();
            assert!((shares - events.attributed() as f64).abs() < 1e-3 * shares.max(1.0));
            for share in &events.blocks {
                let (certain, possible) = (share.certain as f64, share.possible as f64);
                assert!(certain <= share.expected + 1e-6 && share.expected <= possible + 1e-6, "{share:?}");
            }
        }
    }
}

#[test]
fn cycles_are_attributed_to_the_blocks_that_spent_them() {
    let scratch = Scratch::new("cycles");
    let capture = scratch.path("capture");
    println!("program threshold      cycles  uncertain      wrong");
    for (name, threshold, most_wrong) in [("sort", "1", 0.0001), ("vm", "1", 0.0001), ("sort", "64", 0.2)] {
        let settings = [("cyclecount", "1"), ("cycle_threshold", threshold)];
        if !record(&capture, name, SMALL, &settings) {
            return;
        }
        let truth = ModelTruth::of(&capture, SMALL);
        let profile = profile_of(&capture, (0, 0));
        let mut found: BTreeMap<u64, f64> = BTreeMap::new();
        for block in &profile.blocks {
            *found.entry(block_end(&profile, block.start)).or_default() += block.cycles as f64;
        }
        let wrong = wrong_part(&found, &by_block_end(&profile, &truth.cycles));
        let certain: u64 = profile.blocks.iter().map(|block| block.certain_cycles).sum();
        let total: u64 = truth.cycles.values().sum();
        let uncertain = 1.0 - certain as f64 / total as f64;
        println!("{name:7} {threshold:9} {total:11} {:9.1}% {:9.2}%", 100.0 * uncertain, 100.0 * wrong);
        assert!(wrong <= most_wrong, "{name}, threshold {threshold}: {wrong}");
        assert!(wrong <= uncertain + 0.0001, "{name}: {wrong} is more than uncertain");
    }
}
