//! What trace tells without the code.

use crate::corpus;
use crate::corpus::Source;
use crate::scene;
use crate::scene::{address, atoms, context, etm4, exception, source, trace_info};
use backsight_arm::etm4::{Config, CycleCount, CycleCountFormat, Packet};
use backsight_core::{Address, Located};
use backsight_flow::Event;
use backsight_flow::etm4::{Branches, Gap, Options, Record, Step};

fn records(config: &Config, packets: &[Packet]) -> Vec<Record> {
    let mut records = Vec::new();
    let mut branches = Branches::new(config);
    for &value in packets {
        branches.push(Located { offset: 0, length: 1, value }, &mut |record| records.push(record.value));
    }
    branches.finish(&mut |record| records.push(record.value));
    records
}

fn branch(target: u64) -> Step {
    Step::Branch { target: Address(target), source: None }
}

fn cycles(count: u32) -> Packet {
    Packet::CycleCount(CycleCount { format: CycleCountFormat::F3, commit: 0, cycles: Some(count) })
}

#[test]
fn broadcast_branches_and_events_come_with_the_cycle() {
    let packets = [
        Packet::Async,
        trace_info(),
        context(),
        address(0xFF_0000),
        atoms("E"),
        address(0xFF_0040),
        cycles(4),
        atoms("N"),
        Packet::Event(0b0101),
        cycles(12),
        atoms("E"),
        address(0xFF_0080),
        atoms("E"),
    ];
    let record = |cycle, step, not_taken| Record { cycle, step, taken: 0, not_taken };
    assert_eq!(
        records(&etm4(&[("TRCCONFIGR", 0x19)]), &packets),
        [
            record(0, branch(0xFF_0000), 0),
            record(4, branch(0xFF_0040), 0),
            record(16, Step::Event(0), 1),
            record(16, Step::Event(2), 0),
            record(16, branch(0xFF_0080), 0),
        ]
    );
}

#[test]
fn an_address_that_restates_the_position_is_no_branch() {
    let begin = [Packet::Async, trace_info(), context(), address(0x1000)];
    let packets =
        [&begin[..], &[atoms("N"), Packet::Async, trace_info(), address(0x1004), atoms("N")]].concat();
    assert_eq!(records(&etm4(&[]), &packets).len(), 1);
}

#[test]
fn direct_branches_without_broadcast_are_counted() {
    let begin = [Packet::Async, trace_info(), context(), address(0x1000)];
    let packets = [&begin[..], &[atoms("ENENE"), address(0x2000), atoms("E")]].concat();
    let records = records(&etm4(&[]), &packets);
    assert_eq!(records[1], Record { cycle: 0, step: branch(0x2000), taken: 2, not_taken: 2 });
}

#[test]
fn exceptions_sources_and_gaps_are_listed() {
    let begin = [Packet::Async, trace_info(), Packet::TraceOn, context(), address(0x1000)];
    let rest = [
        source(0x1008),
        address(0x2000),
        exception(0xE),
        address(0x2004),
        address(0x3000),
        atoms("E"),
        Packet::Overflow,
    ];
    let steps: Vec<_> =
        records(&scene::ete(&[]), &[&begin[..], &rest].concat()).iter().map(|record| record.step).collect();
    assert_eq!(
        steps,
        [
            Step::Gap(Gap::TraceOff),
            branch(0x1000),
            Step::Branch { target: Address(0x2000), source: Some(Address(0x1008)) },
            Step::Exception { number: 0xE, return_address: Some(Address(0x2004)) },
            branch(0x3000),
            Step::Gap(Gap::NoSync(backsight_flow::NoSync::Overflow)),
        ]
    );
}

/// With branch broadcast the list of targets is the same as the one that the code gives.
#[test]
fn broadcast_targets_are_those_of_the_flow() {
    let Some(buffers) = corpus::buffers(None) else { return };
    let mut targets = 0;
    for buffer in buffers {
        for unit in buffer.sources.iter().filter(|unit| unit.config.branch_broadcast()) {
            let listed: Vec<_> = records(
                &unit.config,
                &Source::packets(&unit.config, &unit.streams[0])
                    .iter()
                    .map(|packet| packet.value)
                    .collect::<Vec<_>>(),
            );
            let listed = listed.iter().filter_map(|record| match record.step {
                Step::Branch { target, .. } => Some(target),
                _ => None,
            });
            let listed: Vec<_> = listed.collect();
            let events = unit.events(Options::default());
            let mut flow = Vec::new();
            let mut arrives = true;
            for event in events {
                match event.value {
                    Event::Range(range) => {
                        if arrives {
                            flow.push(range.start);
                        }
                        // This unit broadcasts the address behind a barrier too.
                        arrives = range.executed;
                    }
                    Event::Exception { .. } | Event::TraceOn(_) | Event::NoMemory { .. } => arrives = true,
                    _ => {}
                }
            }
            let common = listed.iter().zip(&flow).take_while(|(listed, flow)| listed == flow).count();
            assert!(common > 100, "{}: {common} of {} targets", buffer.name, listed.len());
            targets += common;
        }
    }
    println!("{targets} targets compared");
}
