//! What a bare file holds of which nobody says anything.

use backsight::detect::{Detection, Wrapping};
use backsight::listing::Printable;
use serde_json::{Value, json};

use super::{Info, as_json, as_text, survey};
use crate::args::ImageArgs;
use crate::failure::Result;
use crate::output::{Output, counted};

/// Says what was found, and, where nothing lies around the trace, what reading it shows.
pub fn run(command: &Info, detection: &Detection) -> Result {
    let Some(reading) = detection.reading() else { return Ok(()) };
    let command = Info { capture: command.capture.detected(reading), ..command.clone() };
    let is_readable = reading.steps.is_empty();
    let (mut text, mut value) = (String::new(), json!({"name": detection.name, "format": "bare file"}));
    if is_readable {
        let capture = command.capture.open_as(&ImageArgs::default())?;
        let surveys = survey(&command, &capture)?;
        text = as_text(&command, &capture, &surveys);
        value = as_json(&command, &capture, &surveys);
    } else {
        let size = counted(detection.size, "byte");
        text.push_str(&format!("{}: bare file, {size}\n", Printable(&detection.name)));
    }
    let mut line = |indentation: usize, words: &str| {
        text.push_str(&format!("{:indentation$}{}\n", "", Printable(words)));
    };
    line(2, &format!("nothing says what it holds; {}", detection.what()));
    let advice = detection.advice();
    if !advice.is_empty() {
        line(2, &advice);
    }
    let verb = if is_readable { "flow" } else { "info" };
    line(2, "go on with:");
    detection.commands(verb).iter().for_each(|command| line(4, command));
    value["detected"] = detected(detection, verb);
    let path = command.output.output.as_deref();
    let inputs = command.capture.inputs(&ImageArgs::default());
    let mut output = match command.json {
        true => Output::for_tables(path, &inputs, true)?,
        false => Output::for_people(path, &inputs)?,
    };
    match command.json {
        true => output.put(|out| writeln!(out, "{value:#}"))?,
        false => output.put(|out| out.write_all(text.as_bytes()))?,
    }
    output.finish()
}

fn detected(detection: &Detection, verb: &str) -> Value {
    let Some(reading) = detection.reading() else { return Value::Null };
    json!({
        "protocol": reading.protocol,
        "also": reading.also,
        "framing": reading.framing,
        "config": reading.config,
        "around": reading.steps.iter().map(|step| Wrapping::words(*step)).collect::<Vec<_>>(),
        "ids": reading.ids.iter().map(|(id, protocol)| json!({"id": id.get(), "protocol": protocol})).collect::<Vec<_>>(),
        "confidence": reading.confidence.name(),
        "share": reading.share,
        "commands": detection.commands(verb),
    })
}
