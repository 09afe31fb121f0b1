//! The figures as bars.

use backsight_run::measure::bandwidth::{Bandwidth, Sent};

use super::super::bars::{self, Group, Panel, values};
use super::{Experiment, literature};

/// Two panels over the programs: megabytes a second, and bytes for each instruction.
pub fn svg(experiment: &Experiment) -> String {
    let rates = groups(experiment, |program, sent| experiment.rate(program.bytes_per_cycle(sent)));
    let bytes = groups(experiment, Bandwidth::bytes_per_instruction);
    let highest = |groups: &[Group], step: f64| (values(groups).fold(step, f64::max) / step).ceil() * step;
    let panels = [
        Panel {
            title: format!("MB/s at {} MHz", experiment.clock),
            low: 0.0,
            high: highest(&rates, 200.0).max(literature::SIMPLE_LOOP_RATE),
            mark: Some(("paper's simple loop, more than", literature::SIMPLE_LOOP_RATE)),
            groups: rates,
        },
        Panel {
            title: "Bytes for each instruction".to_owned(),
            low: 0.0,
            high: highest(&bytes, 0.1),
            mark: None,
            groups: bytes,
        },
    ];
    bars::svg(&panels, experiment.configurations.iter().map(|configuration| configuration.name.as_str()))
}

fn groups(experiment: &Experiment, of: impl Fn(&Bandwidth, &Sent) -> f64) -> Vec<Group> {
    let bars = |program: &Bandwidth| {
        program.sent.iter().map(|sent| sent.as_ref().ok().map(|sent| of(program, sent))).collect()
    };
    experiment.programs.iter().map(|program| (program.name.clone(), bars(program))).collect()
}
