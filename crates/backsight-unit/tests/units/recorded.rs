//! Real Arm programs, recorded under QEMU, traced and decoded: what is decoded is what was executed, in every
//! configuration of the unit. Needs QEMU and the plugin (`tools/qemu-plugin`, built); without them it says so.

use backsight_arm::etm4::{Config, Decoder};
use backsight_core::{Address, AddressSpace, Execution};
use backsight_flow::Event;
use backsight_flow::etm4::Follower;
use backsight_image::Code;
use backsight_isa::classify;
use backsight_run::qemu::{EmulationOptions, run};
use backsight_run::{Observation, Stop};
use backsight_testing::repository;
use backsight_unit::etm4::{FrontEnd, Unit, UnitConfig};
use std::collections::HashMap;

/// Instructions of each program that are looked at.
const MOST: usize = 300_000;
const PAGE: u64 = 4096;

/// The code that was seen, by page.
#[derive(Default)]
struct Pages(HashMap<u64, Vec<u8>>);

impl Pages {
    fn put(&mut self, address: Address, bytes: &[u8]) {
        for (at, byte) in (address.0..).zip(bytes) {
            let page = self.0.entry(at / PAGE).or_insert_with(|| vec![0; PAGE as usize]);
            page[(at % PAGE) as usize] = *byte;
        }
    }
}

impl Code for Pages {
    fn bytes_at(&self, _: AddressSpace, address: Address) -> Option<&[u8]> {
        self.0.get(&(address.0 / PAGE))?.get((address.0 % PAGE) as usize..)
    }
}

/// What the first thread of a program executes, and its code.
fn recorded(program: &str) -> Option<(Vec<Execution>, Pages)> {
    let options = EmulationOptions {
        program: repository().join("testdata/programs").join(program),
        environment: Some(Vec::new()),
        silent: true,
        plugin: backsight_testing::qemu_plugin(),
        ..EmulationOptions::default()
    };
    let mut items = Vec::new();
    let mut pages = Pages::default();
    let mut thread = 0;
    let stop = Stop::new();
    let outcome = run(&options, &stop, &mut |item| match item {
        Observation::Execution(Execution::Thread(number)) => thread = number,
        Observation::Execution(item) if thread == 0 && items.len() < MOST => items.push(item),
        Observation::Code { address, bytes } => pages.put(address, bytes),
        _ => {}
    });
    match outcome {
        Ok(_) => Some((items, pages)),
        Err(failure) => {
            backsight_testing::skipped(format_args!("{failure}"));
            None
        }
    }
}

fn decoded(config: &Config, pages: &Pages, bytes: &[u8]) -> Vec<Address> {
    let mut told = Vec::new();
    let mut follower = Follower::new(config, pages);
    let mut decoder = Decoder::new(config);
    let mut events = |event: backsight_core::Located<Event>| {
        let Event::Range(range) = event.value else { return };
        let mut at = range.start;
        while at != range.end {
            told.push(at);
            let bytes = pages.bytes_at(AddressSpace::ANY, at).expect("code");
            at = at.plus(classify(range.isa, bytes, at).expect("whole").size.into());
        }
    };
    decoder.feed(bytes, &mut |packet| follower.push(packet, &mut events));
    decoder.finish(&mut |packet| follower.push(packet, &mut events));
    follower.finish(&mut events);
    told
}

fn configurations() -> Vec<(&'static str, UnitConfig)> {
    let with = |config: Config, configr: u32| {
        let mut options = UnitConfig::new(config);
        options.config.registers.configr |= configr;
        options
    };
    let etm = Config::etm4_default();
    let mut deep = with(etm, 1 << 12);
    deep.config.registers.idr8 = 16;
    deep.front_end = Some(FrontEnd::default());
    let mut sources = with(Config::ete_default(), 1 << 12);
    sources.source_addresses = Some(2);
    vec![
        ("nothing special", with(etm, 0)),
        ("return stack", with(etm, 1 << 12)),
        ("branch broadcast", with(etm, 1 << 3)),
        ("cycle counts and timestamps", with(etm, 1 << 4 | 1 << 11)),
        ("a front end that guesses", deep),
        ("ETE with source addresses", sources),
    ]
}

#[test]
fn recorded_programs_decode_to_what_was_executed() {
    for program in
        ["aarch64/sort", "aarch64/calls", "aarch64/vm", "aarch64/pack", "arm/interwork", "arm/calls"]
    {
        let Some((items, pages)) = recorded(program) else { return };
        let executed: Vec<Address> = items
            .iter()
            .filter_map(|item| match item {
                Execution::Instruction(retired) => Some(retired.address),
                _ => None,
            })
            .collect();
        assert!(executed.len() > 1000, "{program}: {} instructions", executed.len());
        for (name, options) in configurations() {
            let mut unit = Unit::new(options.clone()).expect("a unit that can be");
            let mut bytes = Vec::new();
            unit.push_all(&items, &mut bytes);
            unit.finish(&mut bytes);
            let told = decoded(&options.config, &pages, &bytes);
            let same = told.iter().zip(&executed).take_while(|(a, b)| a == b).count();
            assert_eq!(told.get(same), executed.get(same), "{program}, {name}: from instruction {same} on");
            assert_eq!(unit.statistics().traced, executed.len() as u64, "{program}, {name}");
        }
    }
}
