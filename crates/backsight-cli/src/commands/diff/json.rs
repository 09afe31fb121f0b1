//! Differences as JSON, one object a line.

use std::io::{Result, Write};

use backsight::SourceCode;
use backsight::diff::{Difference, Part, Shown, What};
use backsight::image::Disassembler;
use backsight::moments::Moment;
use serde_json::{Value, json};

use super::pairs::Pair;
use super::text::{SIDES, digits, instruction, words};
use super::totals::{Totals, function_of};

pub fn difference(
    number: u64,
    difference: &Difference,
    pair: &Pair,
    place: &str,
    code: &[SourceCode<'_>; 2],
    out: &mut dyn Write,
) -> Result<()> {
    let mut text = Disassembler::default();
    let mut pairs = |pairs: &[[Shown; 2]]| -> Vec<Value> {
        let one = |pair: &[Shown; 2]| {
            let mut value = shown(&pair[0], &code[0], &mut text);
            value["second"] = pair[1].number.into();
            value
        };
        pairs.iter().map(one).collect()
    };
    let (before, after) = (pairs(&difference.before), pairs(&difference.after));
    let [first, second] = [0, 1].map(|side: usize| {
        let mut value = part(&difference.parts[side], &code[side], &mut text);
        let source = &pair.sources[side];
        value["source"] = source.name().into();
        value["id"] = source.id().get().into();
        value["hart"] = pair.harts[side].into();
        value
    });
    let mut value = json!({
        "kind": difference.what.name(), "what": words(difference), "function": place,
        "before": before, "first": first, "second": second, "after": after,
    });
    if !matches!(difference.what, What::Missing { .. }) {
        value["difference"] = number.into();
    }
    details(&difference.what, &mut value);
    writeln!(out, "{value}")
}

/// What only differences of a kind have.
fn details(what: &What, value: &mut Value) {
    match what {
        What::Loop { side, period, turns } => {
            value["side"] = SIDES[*side].into();
            value["period"] = (*period as u64).into();
            value["turns"] = (*turns).into();
        }
        What::End { side } | What::Handler { side, .. } | What::Missing { side } => {
            value["side"] = SIDES[*side].into();
        }
        What::Access { store, bytes } => {
            value["access"] = if *store { "store" } else { "load" }.into();
            for (side, name) in SIDES.iter().enumerate() {
                value[*name]["address"] = bytes[side].map(|(address, _)| format!("{address:#x}")).into();
                value[*name]["byte"] = bytes[side].and_then(|(_, byte)| byte).into();
            }
        }
        What::Register { register, values } => {
            value["register"] = register.name().as_str().into();
            for (side, name) in SIDES.iter().enumerate() {
                value[*name]["value"] = digits(&values[side]).into();
            }
        }
        What::Cause(causes) => {
            for (side, name) in SIDES.iter().enumerate() {
                value[*name]["exception"] = causes[side].map(|cause| cause.to_string()).into();
            }
        }
        What::Path | What::Start | What::Opcode | What::NotFound => {}
    }
}

fn part(part: &Part, code: &SourceCode<'_>, text: &mut Disassembler) -> Value {
    let instructions: Vec<_> = part.first.iter().map(|one| shown(one, code, text)).collect();
    json!({
        "instruction": part.number, "moment": Moment::Instruction(part.number).to_string(), "timestamp": part.time,
        "count": part.count, "exception": part.exception.map(|cause| cause.to_string()), "instructions": instructions,
    })
}

fn shown(one: &Shown, code: &SourceCode<'_>, text: &mut Disassembler) -> Value {
    let (opcode, words) = instruction(one, code, text);
    json!({
        "instruction": one.number, "address": one.step.address.to_string(), "opcode": opcode, "text": words,
        "function": function_of(one, code),
    })
}

pub fn summary(totals: &Totals, out: &mut dyn Write) -> Result<()> {
    let sums = &totals.sums;
    let named = What::NAMES.iter().zip(sums.kinds).filter(|(_, count)| *count > 0);
    let kinds: serde_json::Map<String, Value> =
        named.map(|(name, count)| ((*name).to_owned(), count.into())).collect();
    let [loads, stores, registers] = sums.effects;
    let functions: Vec<_> = totals
        .sorted()
        .into_iter()
        .map(|(name, count, only)| json!({"function": name, "differences": count, "first": only[0], "second": only[1]}))
        .collect();
    let value = json!({
        "kind": "summary", "same": totals.are_same(), "equal": sums.equal, "only_first": sums.only[0],
        "only_second": sums.only[1], "missing_in_second": sums.missing[0], "missing_in_first": sums.missing[1],
        "differences": totals.differences, "kinds": kinds, "compared_bytes_loaded": loads,
        "compared_bytes_stored": stores, "compared_registers": registers, "without_counterpart": totals.alone,
        "complete": !sums.stopped, "functions": functions,
    });
    writeln!(out, "{value}")
}
