//! The figures as text and as JSON.

use std::fmt::Write;

use backsight_run::Ended;
use backsight_run::measure::bandwidth::{Bandwidth, Family, Sent};
use serde_json::{Value, json};

use super::{Experiment, literature};

/// The widest name of a configuration that stays on its line.
const NAME: usize = 28;

/// Two tables for each program, and the literature.
pub fn text(experiment: &Experiment) -> String {
    let mut text = format!(
        "{}; clock {} MHz; MB/s are 10^6 bytes a second of one source, before frames\n\
         peak/N: MB/s in the N cycles with most; buffer@R: bytes of the smallest buffer that never overflows at R MB/s\n\
         + after a buffer: the trace is faster than the drain, so that the buffer grows for as long as the program runs\n",
        experiment.conditions.unit.title, experiment.clock
    );
    for program in &experiment.programs {
        let _ = write!(
            text,
            "\n{} ({}): {} instructions in {} cycles, {}",
            program.name,
            program.isa,
            program.instructions,
            program.cycles,
            end(program)
        );
        if program.left_out > 0 {
            let _ = write!(text, "; {} instructions of other threads left out", program.left_out);
        }
        let _ = writeln!(text, "\n{}", rate_header(experiment));
        rows(experiment, program, &mut text, rate_row);
        let _ = writeln!(text, "\n  {:<NAME$}{}", "% of bytes", family_header());
        rows(experiment, program, &mut text, |_, _, sent| share_row(sent));
    }
    let _ = writeln!(text, "\nMB/s in the literature");
    for (what, rate) in literature::SINKS {
        let _ = writeln!(text, "  {what:<86}{rate:>12}");
    }
    for (configuration, rate) in simple_loop(experiment) {
        let what = format!("ours: {}, {configuration}", literature::SIMPLE_LOOP);
        let _ = writeln!(text, "  {what:<86}{rate:>12.0}");
    }
    let _ = writeln!(text, "{}", literature::EXPECTED);
    text
}

fn end(program: &Bandwidth) -> String {
    match program.ended {
        Ended::Limit => "stopped at the limit".to_owned(),
        ended => ended.to_string(),
    }
}

fn rows(
    experiment: &Experiment,
    program: &Bandwidth,
    text: &mut String,
    row: impl Fn(&Experiment, &Bandwidth, &Sent) -> String,
) {
    for (configuration, sent) in experiment.configurations.iter().zip(&program.sent) {
        let figures = match sent {
            Ok(sent) => row(experiment, program, sent),
            Err(why) => format!("not measured: {why}"),
        };
        let name = &configuration.name;
        if name.len() < NAME {
            let _ = writeln!(text, "  {name:<NAME$}{figures}");
        } else {
            let _ = writeln!(text, "  {name}\n  {:<NAME$}{figures}", "");
        }
    }
}

fn rate_header(experiment: &Experiment) -> String {
    let windows =
        experiment.conditions.windows.iter().map(|window| format!("{:>15}", format!("peak/{window}")));
    let drains = experiment.drains.iter().map(|drain| format!("{:>15}", format!("buffer@{drain}")));
    let columns: String = windows.chain(drains).collect();
    format!("  {:<NAME$}{:>10}{:>11}{:>9}{columns}", "configuration", "bytes", "byte/inst", "MB/s")
}

fn rate_row(experiment: &Experiment, program: &Bandwidth, sent: &Sent) -> String {
    let mean = experiment.rate(program.bytes_per_cycle(sent));
    let mut row = format!("{:>10}{:>11.4}{mean:>9.1}", sent.bytes, program.bytes_per_instruction(sent));
    for (&window, &peak) in experiment.conditions.windows.iter().zip(&sent.peaks) {
        let _ = write!(row, "{:>15.1}", experiment.rate(peak as f64 / window as f64));
    }
    for (&drain, &buffer) in experiment.conditions.drains.iter().zip(&sent.buffers) {
        let grows = if program.is_faster_than(sent, drain) { "+" } else { " " };
        let _ = write!(row, "{buffer:>14}{grows}");
    }
    row.trim_end().to_owned()
}

fn family_header() -> String {
    Family::ALL.iter().map(|family| format!("{:>14}", family.name())).collect()
}

fn share_row(sent: &Sent) -> String {
    let share = |family| 100.0 * sent.kinds.bytes_of(family) as f64 / sent.bytes.max(1) as f64;
    Family::ALL.iter().map(|&family| format!("{:>14.1}", share(family))).collect()
}

/// MB/s of the loop that the paper has too, in each configuration.
fn simple_loop(experiment: &Experiment) -> impl Iterator<Item = (&str, f64)> {
    let program = experiment.programs.iter().find(|program| program.name == literature::SIMPLE_LOOP);
    program.into_iter().flat_map(|program| {
        experiment.configurations.iter().zip(&program.sent).filter_map(|(configuration, sent)| {
            let rate = experiment.rate(program.bytes_per_cycle(sent.as_ref().ok()?));
            Some((configuration.name.as_str(), rate))
        })
    })
}

/// The same as one object.
pub fn json(experiment: &Experiment) -> Value {
    let programs: Vec<_> =
        experiment.programs.iter().map(|program| program_json(experiment, program)).collect();
    json!({
        "unit": experiment.conditions.unit.name,
        "clock_mhz": experiment.clock,
        "window_cycles": experiment.conditions.windows,
        "drain_mb_s": experiment.drains,
        "programs": programs,
        "literature_mb_s": literature::SINKS.map(|(what, rate)| json!({ "what": what, "rate": rate })),
    })
}

fn program_json(experiment: &Experiment, program: &Bandwidth) -> Value {
    let figures = experiment.configurations.iter().zip(&program.sent).map(|(configuration, sent)| {
        let settings: Vec<_> =
            configuration.settings.iter().map(|(key, value)| format!("{key}={value}")).collect();
        match sent {
            Ok(sent) => json!({
                "configuration": configuration.name,
                "settings": settings,
                "bytes": sent.bytes,
                "packets": sent.kinds.packets(),
                "bytes_per_instruction": program.bytes_per_instruction(sent),
                "mb_s": experiment.rate(program.bytes_per_cycle(sent)),
                "peak_bytes": sent.peaks,
                "buffer_bytes": sent.buffers,
                "kinds": sent.kinds.shares().iter().map(|share| json!({
                    "name": share.name,
                    "family": share.family.name(),
                    "packets": share.packets,
                    "bytes": share.bytes,
                })).collect::<Vec<_>>(),
            }),
            Err(why) => {
                json!({ "configuration": configuration.name, "settings": settings, "not_measured": why })
            }
        }
    });
    json!({
        "name": program.name,
        "isa": program.isa.to_string(),
        "instructions": program.instructions,
        "cycles": program.cycles,
        "left_out": program.left_out,
        "end": end(program),
        "figures": figures.collect::<Vec<_>>(),
    })
}
