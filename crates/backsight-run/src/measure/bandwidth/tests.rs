use std::fs::File;

use backsight_testing::repository;

use super::*;
use crate::RetiredFile;

fn conditions(limit: u64) -> Conditions {
    Conditions {
        unit: UnitKind::named("etm4").unwrap(),
        instructions_per_kilocycle: 1000,
        windows: vec![64, 4096],
        drains: vec![Drain { bytes: 1000, cycles: 1300 }, Drain { bytes: 10, cycles: 1300 }],
        limit,
    }
}

fn recorded(name: &str) -> RetiredFile<'static> {
    let path = repository().join("testdata/retired").join(name);
    RetiredFile::open(name, || File::open(&path).map_err(|error| Error::file(&path, error))).unwrap()
}

/// The bytes of a unit that sees the same instructions, at one instruction a cycle.
fn written(configuration: &Configuration, limit: u64) -> Vec<u8> {
    let template = conditions(limit).unit.program(Isa::A64, &configuration.settings).unwrap();
    let mut unit = template.build(template.first_id()).unwrap();
    let (mut bytes, mut cycle) = (Vec::new(), 0);
    let mut source = recorded("sort.retired");
    source
        .run(&mut |seen| {
            let Observation::Execution(mut execution) = seen else { return };
            if let Execution::Instruction(retired) = &mut execution {
                cycle += 1;
                retired.cycle = cycle;
            }
            if cycle <= limit {
                unit.push(&[execution], &mut bytes);
            }
        })
        .unwrap();
    unit.finish(&mut bytes);
    bytes
}

#[test]
fn bytes_are_those_that_the_unit_writes_and_shares_are_all_of_them() {
    const LIMIT: u64 = 20_000;
    let configurations = configurations(&[]);
    let measured =
        bandwidth("sort", &mut recorded("sort.retired"), &configurations, &conditions(LIMIT)).unwrap();
    assert_eq!((measured.instructions, measured.cycles, measured.ended), (LIMIT, LIMIT, Ended::Limit));
    for (configuration, sent) in configurations.iter().zip(&measured.sent) {
        let sent = sent.as_ref().unwrap();
        let name = &configuration.name;
        assert_eq!(sent.bytes, written(configuration, LIMIT).len() as u64, "{name}");
        assert_eq!(sent.kinds.shares().iter().map(|share| share.bytes).sum::<u64>(), sent.bytes, "{name}");
        let by_family: u64 = Family::ALL.iter().map(|&family| sent.kinds.bytes_of(family)).sum();
        assert_eq!((by_family, sent.kinds.bytes_of(Family::Other)), (sent.bytes, 0), "{name}");
        assert!(sent.peaks[0] <= sent.peaks[1] && sent.peaks[1] <= sent.bytes, "{name}");
        assert!(sent.buffers[0] < sent.buffers[1], "{name}");
    }
}

#[test]
fn what_is_switched_on_costs_and_the_return_stack_saves() {
    let configurations = configurations(&[]);
    let measured =
        bandwidth("calls", &mut recorded("calls.retired"), &configurations, &conditions(40_000)).unwrap();
    let bytes = |name: &str| {
        let index = configurations.iter().position(|configuration| configuration.name == name).unwrap();
        measured.sent[index].as_ref().unwrap().bytes
    };
    let plain = bytes("atoms and addresses");
    assert!(bytes("return stack") < plain);
    for dearer in
        ["branch broadcast", "cycle counts from 1024 on", "timestamp every 1000", "event every 1000"]
    {
        assert!(bytes(dearer) > plain, "{dearer}");
    }
    assert!(bytes("cycle counts from 4 on") > bytes("cycle counts from 64 on"));
    assert!(bytes("everything") > bytes("broadcast, cycles, events"));
}

#[test]
fn the_simple_loop_sends_far_more_a_cycle_than_the_complex_one() {
    let configurations = configurations(&[]);
    let measure = |mut source| bandwidth("loop", &mut source, &configurations, &conditions(10_000)).unwrap();
    let (simple, complex) = (measure(Loop::simple()), measure(Loop::complex()));
    for (a, b) in simple.sent.iter().zip(&complex.sent) {
        let (a, b) = (a.as_ref().unwrap(), b.as_ref().unwrap());
        assert!(simple.bytes_per_cycle(a) > 2.0 * complex.bytes_per_cycle(b));
    }
}

#[test]
fn twice_the_instructions_a_cycle_take_half_the_cycles_and_need_no_smaller_buffer() {
    let configurations = configurations(&[]);
    let measure = |instructions_per_kilocycle| {
        let conditions = Conditions { instructions_per_kilocycle, ..conditions(20_000) };
        bandwidth("vm", &mut recorded("vm.retired"), &configurations[..3], &conditions).unwrap()
    };
    let (one, two) = (measure(1000), measure(2000));
    assert_eq!((one.cycles, two.cycles), (20_000, 10_000));
    for (one, two) in one.sent.iter().zip(&two.sent) {
        let (one, two) = (one.as_ref().unwrap(), two.as_ref().unwrap());
        assert_eq!(one.bytes, two.bytes);
        assert!(one.buffers.iter().zip(&two.buffers).all(|(one, two)| one <= two));
    }
}

#[test]
fn a_setting_that_the_unit_does_not_know_is_named_and_the_others_are_measured() {
    let mut configurations = configurations(&[]);
    configurations[1].settings.push(("colour".to_owned(), "1".to_owned()));
    let measured = bandwidth("loop", &mut Loop::simple(), &configurations[..2], &conditions(100)).unwrap();
    assert!(measured.sent[0].is_ok() && measured.sent[1].as_ref().is_err_and(|why| why.contains("colour")));
}
