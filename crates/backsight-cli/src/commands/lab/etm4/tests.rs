use clap::Parser;

use super::*;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    command: Etm4,
}

fn measured(words: &[&str]) -> Result<Experiment> {
    let line = Line::try_parse_from(["lab"].iter().chain(words)).unwrap();
    measure(&line.command)
}

#[test]
fn bundled_programs_have_a_row_for_every_configuration_and_the_literature_beside_them() {
    let experiment = measured(&["--limit", "5000", "--also", "cyclecount=1,return_stack=1"]).unwrap();
    assert_eq!(experiment.programs.len(), BUNDLED.len() + 2);
    let text = table::text(&experiment);
    for configuration in &experiment.configurations {
        assert!(text.matches(&configuration.name).count() >= 2 * experiment.programs.len(), "{text}");
    }
    assert!(text.contains("buffer@125") && text.contains("peak/4096") && text.contains("figure 1"), "{text}");
    let json = table::json(&experiment);
    let figures = &json["programs"][0]["figures"][0];
    let kinds = figures["kinds"].as_array().unwrap().iter();
    assert_eq!(kinds.map(|kind| kind["bytes"].as_u64().unwrap()).sum::<u64>(), figures["bytes"]);
    let bars = experiment.programs.len() * experiment.configurations.len();
    assert_eq!(plot::svg(&experiment).matches("<title>").count(), 2 * bars);
}

#[test]
fn the_simple_loop_with_broadcast_and_cycle_counts_exceeds_what_the_paper_saw() {
    let experiment = measured(&["--limit", "20000"]).unwrap();
    let simple = experiment.programs.iter().find(|program| program.name == literature::SIMPLE_LOOP).unwrap();
    let rates: Vec<_> = simple
        .sent
        .iter()
        .map(|sent| experiment.rate(simple.bytes_per_cycle(sent.as_ref().unwrap())))
        .collect();
    assert!(rates.iter().any(|&rate| rate > literature::SIMPLE_LOOP_RATE), "{rates:?}");
    assert!(rates[0] < literature::SIMPLE_LOOP_RATE, "{rates:?}");
}

#[test]
fn what_makes_no_sense_is_refused() {
    for words in [&["--config", "colour=1"][..], &["--also", "colour"], &["no-such-file"]] {
        assert!(measured(words).is_err(), "{words:?}");
    }
    for words in [["--ipc", "0"], ["--ipc", "x"], ["--clock", "0"], ["--drain", "0"], ["--unit", "ptm"]] {
        assert!(Line::try_parse_from(["lab"].iter().chain(&words)).is_err(), "{words:?}");
    }
}

#[test]
fn captures_with_their_truth_are_measured_and_programs_of_other_processors_refused() {
    let captures = backsight_testing::repository().join("testdata/captures");
    let arm = captures.join("interwork-arm");
    let experiment = measured(&[arm.to_str().unwrap(), "--unit", "ete"]).unwrap();
    assert!(experiment.programs[0].sent.iter().all(|sent| sent.is_ok()));
    let riscv = captures.join("calls-riscv64");
    assert!(measured(&[riscv.to_str().unwrap()]).is_err());
}
