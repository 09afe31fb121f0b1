//! The figures as text and as JSON.

use std::fmt::Write;

use backsight_riscv::etrace::Params;
use backsight_run::Ended;
use backsight_run::measure::{BASELINE, CVA6, Measured, Variant};
use serde_json::{Value, json};

use super::{mean, retire, thesis};

/// Characters of the longest bar.
const BAR: f64 = 24.0;

/// The table: a block of rows for each program, the means, and the thesis.
pub fn text(params: &Params, variants: &[Variant], measured: &[Measured]) -> String {
    let mut text = format!(
        "return stack 2^{}, predictor 2^{}, jump target cache 2^{} entries; itype of {} bits\n",
        params.return_stack_size, params.bpred_size, params.cache_size, params.itype_width
    );
    let most = (0..variants.len())
        .flat_map(|variant| measured.iter().filter_map(move |program| program.bits(variant)))
        .fold(0.0, f64::max);
    for program in measured {
        let _ =
            writeln!(text, "\n{}: {} instructions ({})", program.name, program.instructions, end(program));
        let _ = writeln!(text, "{HEADER}");
        for (variant, figures) in variants.iter().zip(&program.sent) {
            let _ = match figures {
                Ok(figures) => {
                    let bits = figures.bits_per_instruction(program.instructions);
                    let rate = figures.rate(program.instructions);
                    let (packets, bytes, bar) = (figures.packets, figures.bytes, bar(bits, most));
                    writeln!(
                        text,
                        "  {:<20}{packets:>10}{bytes:>11}{rate:>9.2}{bits:>11.4}  {bar}",
                        variant.name
                    )
                }
                Err(why) => writeln!(text, "  {:<20}not measured: {why}", variant.name),
            };
        }
    }
    let _ = writeln!(text, "\nmean of {} programs\n{HEADER}", measured.len());
    for (index, variant) in variants.iter().enumerate() {
        let rate = mean(measured, index, Measured::rate);
        if let (Some(rate), Some(bits)) = (rate, mean(measured, index, Measured::bits)) {
            let bar = bar(bits, most);
            let _ = writeln!(text, "  {:<20}{:>21}{rate:>9.2}{bits:>11.4}  {bar}", variant.name, "");
        }
    }
    text.push_str(&retire::text(measured));
    let thesis = variants.iter().position(|variant| variant.name == CVA6);
    let ours = [
        ("mean of ours, baseline", mean(measured, BASELINE, Measured::rate)),
        ("mean of ours, CVA6", thesis.and_then(|index| mean(measured, index, Measured::rate))),
    ];
    text.push_str(&thesis_text(ours));
    text
}

const HEADER: &str = "  options                packets      bytes   rate %   bit/inst";

/// How the run of a program ended.
fn end(program: &Measured) -> String {
    match program.ended {
        Ended::Limit => format!("stopped after {} instructions", program.instructions),
        ended => ended.to_string(),
    }
}

fn bar(bits: f64, most: f64) -> String {
    let length = if most > 0.0 { (bits / most * BAR).round() as usize } else { 0 };
    "#".repeat(length)
}

fn thesis_text(ours: [(&str, Option<f64>); 2]) -> String {
    let mut text = String::from(
        "\nLaghi 2024, table 4.1 (CVA6 encoder in hardware, differential addresses)\n  test                  instructions   packets      bytes   rate %   bit/inst\n",
    );
    for thesis::Row { test, instructions, figures } in &thesis::TABLE {
        let (rate, bits) = (figures.rate(*instructions), figures.bits_per_instruction(*instructions));
        let (packets, bytes) = (figures.packets, figures.bytes);
        let _ =
            writeln!(text, "  {test:<22}{instructions:>12}{packets:>10}{bytes:>11}{rate:>9.2}{bits:>11.4}");
    }
    let (rate, bits) = (thesis::mean_rate(), thesis::mean_bits());
    let _ = writeln!(text, "  {:<22}{:>33}{rate:>9.2}{bits:>11.4}", "mean", "");
    for (what, rate) in ours {
        if let Some(rate) = rate {
            let _ = writeln!(text, "  {what:<25}{:>30}{rate:>9.2}", "");
        }
    }
    text
}

/// The same as one object.
pub fn json(params: &Params, variants: &[Variant], measured: &[Measured]) -> Value {
    let programs: Vec<Value> = measured.iter().map(|program| program_json(variants, program)).collect();
    let means: Vec<Value> = variants
        .iter()
        .enumerate()
        .map(|(index, variant)| {
            json!({
                "options": variant.name,
                "rate": mean(measured, index, Measured::rate),
                "bits_per_instruction": mean(measured, index, Measured::bits),
            })
        })
        .collect();
    let thesis: Vec<Value> = thesis::TABLE
        .iter()
        .map(|row| {
            json!({
                "test": row.test,
                "instructions": row.instructions,
                "packets": row.figures.packets,
                "bytes": row.figures.bytes,
                "rate": row.figures.rate(row.instructions),
                "bits_per_instruction": row.figures.bits_per_instruction(row.instructions),
            })
        })
        .collect();
    json!({
        "params": params.list().map(|(name, value)| (name.to_owned(), json!(value))).collect::<serde_json::Map<_, _>>(),
        "programs": programs,
        "mean": means,
        "thesis": { "tests": thesis, "mean_rate": thesis::mean_rate(), "mean_bits_per_instruction": thesis::mean_bits() },
    })
}

fn program_json(variants: &[Variant], program: &Measured) -> Value {
    let figures: Vec<Value> = variants
        .iter()
        .zip(&program.sent)
        .map(|(variant, figures)| match figures {
            Ok(figures) => json!({
                "options": variant.name,
                "packets": figures.packets,
                "bytes": figures.bytes,
                "rate": figures.rate(program.instructions),
                "bits_per_instruction": figures.bits_per_instruction(program.instructions),
            }),
            Err(why) => json!({ "options": variant.name, "not_measured": why.to_string() }),
        })
        .collect();
    json!({
        "name": program.name,
        "instructions": program.instructions,
        "end": end(program),
        "figures": figures,
        "retire": retire::json(program),
    })
}
