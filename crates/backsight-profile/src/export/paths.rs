//! Branches by path, a JSON object a line: the branches that depend most on the path come first.

use std::io::Write;

use serde_json::{Value, json};

use super::{ExportError, ExportOptions, Format, Need};
use crate::{PathElement, Profile};

pub(super) const FORMAT: Format = Format {
    name: "paths",
    title: "Branches by the path that led to them, JSON lines (--paths W)",
    readers: "scripts",
    needs: &[Need::Paths],
    write,
};

/// Contexts that are listed for each branch.
const MOST_CONTEXTS: usize = 32;

fn write(profile: &Profile, _options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let Some(paths) = &profile.paths else {
        return Err(ExportError::Missing(
            "paths were not counted: --paths W says how long they are".to_owned(),
        ));
    };
    for found in profile.path_branches() {
        let Some(block) = profile.blocks.get(found.branch.block as usize) else { continue };
        let function = profile.function_of(block);
        let debug = function.and_then(|function| profile.module_of(function)).map(crate::Module::debug);
        let line = debug.and_then(|debug| Some((debug, debug.line(found.branch.address)?)));
        let contexts: Vec<Value> = found
            .contexts
            .iter()
            .take(MOST_CONTEXTS)
            .filter_map(|&number| paths.contexts.get(number))
            .map(|context| {
                let n = context.taken + context.not_taken;
                let path: Vec<Value> =
                    context.path.iter().map(|element| described(profile, *element)).collect();
                json!({ "path": path, "n": n, "f": context.taken as f64 / n.max(1) as f64 })
            })
            .collect();
        let object = json!({
            "address": format!("{:#x}", found.branch.address),
            "function": function.map(|function| &function.name),
            "file": line.map(|(debug, line)| debug.file(line.file)),
            "line": line.map(|(_, line)| line.line),
            "n": found.branch.executed(), "f": found.branch.frequency(), "w": paths.window,
            "h0": found.entropy, "hw": found.conditional_entropy, "gain": found.gain,
            "paths": found.contexts.len(), "contexts": contexts,
        });
        writeln!(out, "{object}")?;
    }
    Ok(())
}

/// `0x1234:T`, `0x1234:N`, or where an indirect branch went to.
fn described(profile: &Profile, element: PathElement) -> Value {
    let block = |number: u32| profile.blocks.get(number as usize);
    match element {
        PathElement::Conditional { block: number, taken } => {
            let address = block(number).map_or(0, crate::Block::last);
            json!(format!("{address:#x}:{}", if taken { 'T' } else { 'N' }))
        }
        PathElement::Target { block: number } => {
            json!(format!("->{:#x}", block(number).map_or(0, |block| block.start)))
        }
    }
}
