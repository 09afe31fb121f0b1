//! What the cycles of harts of other shapes cost, as text and as JSON.

use std::fmt::Write;

use backsight_run::measure::Measured;
use serde_json::{Value, json};

const HEADER: &str = "  shape                 cycles  inst/cycle  blocks/cycle  most  packets/cycle  most  held early    stalls";

/// The figures of all programs as rows; nothing if none were asked for.
pub fn text(measured: &[Measured]) -> String {
    let mut text = String::new();
    for program in measured.iter().filter(|program| !program.shapes.is_empty()) {
        let _ = writeln!(text, "\n{}: cycles of the hart, baseline options\n{HEADER}", program.name);
        for (shape, figures) in &program.shapes {
            let _ = writeln!(
                text,
                "  {:<18}{:>10}{:>12.3}{:>14.3}{:>6}{:>15.4}{:>6}{:>12}{:>10}",
                shape.to_string(),
                figures.cycles,
                figures.instructions_per_cycle(),
                figures.blocks_per_cycle(),
                figures.most_blocks(),
                figures.packets_per_cycle(),
                figures.most_packets(),
                figures.held,
                figures.stalls + figures.waits,
            );
        }
    }
    text
}

/// The same of one program as a list.
pub fn json(program: &Measured) -> Value {
    let shapes = program.shapes.iter().map(|(shape, figures)| {
        json!({
            "shape": shape.to_string(),
            "cycles": figures.cycles,
            "commit_cycles": figures.commit_cycles,
            "held_early": figures.held,
            "stalls": figures.stalls,
            "waits": figures.waits,
            "blocks": figures.blocks,
            "packets": figures.packets,
            "most_packets_waiting": figures.most_waiting,
            "cycles_by_blocks": figures.by_blocks,
            "cycles_by_packets": figures.by_packets,
        })
    });
    shapes.collect()
}
