//! Threads, calls under way, and what is known at each.

use std::collections::HashSet;

use backsight::Result;
use backsight::core::{Address, Printable};
use backsight::image::Module;
use backsight::moments::Moment;
use serde_json::{Value, json};

use super::message::Request;
use super::server::{Server, refusal};
use crate::console::{here, words};
use crate::gdb::{Arch, Holds};
use crate::replay::{At, Call, ThreadId};

/// Frames of a thread that an editor may be told of: numbers of frames have to tell threads apart, too.
const MOST_FRAMES: i64 = 1 << 17;

/// What the variables of a frame are about.
const SCOPES: [&str; 2] = ["Registers", "Trace"];

/// Where a frame is.
struct Spot {
    /// The address that is shown, if it is known.
    address: Option<u64>,
    /// Where names and lines are looked up: in the call, and not behind it.
    inside: u64,
}

fn spot(pc: u64, calls: &[Call], index: usize) -> Spot {
    let callee = index.checked_sub(1).and_then(|callee| calls.get(callee));
    match callee {
        None => Spot { address: Some(pc), inside: pc },
        Some(Call { return_address: Some(Address(address)), is_handler, .. }) => {
            let inside = if *is_handler { *address } else { address.saturating_sub(1) };
            Spot { address: Some(*address), inside }
        }
        Some(_) => {
            let entered = calls.get(index).map_or(0, |call| call.entered.0);
            Spot { address: None, inside: entered }
        }
    }
}

impl Server<'_, '_> {
    pub(super) fn threads(&self) -> Value {
        let list = self.replay.threads().iter().enumerate();
        let list =
            list.map(|(index, thread)| json!({"id": index + 1, "name": Printable(&thread.name).to_string()}));
        json!({"threads": list.collect::<Vec<_>>()})
    }

    /// The thread and the number of a frame that the editor was told of.
    fn frame_of(&self, number: Option<i64>) -> Result<(ThreadId, usize)> {
        let number = number.and_then(|number| number.checked_sub(1)).filter(|number| *number >= 0);
        let number = number.ok_or_else(|| refusal("there is no such frame"))?;
        Ok((self.thread_of(Some(number / MOST_FRAMES + 1))?, (number % MOST_FRAMES) as usize))
    }

    pub(super) fn stack_trace(&mut self, request: &Request) -> Result<Value> {
        let thread = self.thread_of(request.number("threadId"))?;
        let Some(at) = self.replay.place(thread)? else {
            return Ok(json!({"stackFrames": [], "totalFrames": 0}));
        };
        let Some(what) = self.replay.what(at)? else { return Err(refusal("its address is not known")) };
        let (calls, _) = self.replay.calls(at)?;
        let total = calls.len().clamp(1, MOST_FRAMES as usize);
        let number = |name| request.number(name).and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
        let (first, levels) = (number("startFrame"), number("levels"));
        let end = if levels == 0 { total } else { first.saturating_add(levels).min(total) };
        let mut frames = Vec::new();
        for index in first..end {
            let id = thread.0 as i64 * MOST_FRAMES + index as i64 + 1;
            let spot = spot(what.address.0, &calls, index);
            frames.push(self.frame(at, id, &spot, calls.get(index))?);
        }
        Ok(json!({"stackFrames": frames, "totalFrames": total}))
    }

    fn frame(&mut self, at: At, id: i64, spot: &Spot, call: Option<&Call>) -> Result<Value> {
        let Some(what) = self.replay.what(at)? else { return Err(refusal("its address is not known")) };
        let inside = Address(spot.inside);
        let code = self.replay.code(at)?;
        let image = code.names_at(what.space, inside);
        let symbol = image.symbolise(what.space, inside);
        // Where no function is known, code is shown from the address itself on.
        let shown = if symbol.is_some() { spot.inside } else { spot.address.unwrap_or(spot.inside) };
        let name =
            symbol.map_or_else(|| Address(shown).to_string(), |symbol| Printable(symbol.name).to_string());
        let is_handler = call.is_some_and(|call| call.is_handler);
        let name = if is_handler { format!("{name} (exception)") } else { name };
        let mut frame = json!({"id": id, "name": name, "line": 0, "column": 0});
        if let Some(address) = spot.address {
            frame["instructionPointerReference"] = format!("{address:#x}").into();
        }
        if let Some((module, _)) = image.module_at(what.space, inside) {
            let name = module.name().to_string_lossy();
            frame["moduleId"] = format!("{} {}", Printable(&name), module.range().0).into();
        }
        let row = image.source_row(what.space, inside).filter(|row| row.line.line > 0);
        let path = row.as_ref().and_then(|row| self.sources.path(&row.line.file));
        match (row, path) {
            (Some(row), Some(path)) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                frame["source"] = json!({"name": name, "path": path});
                frame["line"] = self.client.line(row.line.line).into();
                frame["column"] = self.client.column(row.line.column).into();
            }
            (row, _) => {
                // A line that nobody has the text of is named beside the function.
                if let Some(row) = row {
                    let file = row.line.file.rsplit('/').next().unwrap_or_default();
                    let named = format!("{name} at {}:{}", Printable(file), row.line.line);
                    frame["name"] = named.into();
                }
                if let Some((name, reference, line)) = self.listing(at, shown)? {
                    frame["source"] = json!({
                        "name": format!("{name} (disassembly)"), "sourceReference": reference, "origin": "code of the capture",
                        "presentationHint": "deemphasize",
                    });
                    frame["line"] = self.client.line(line).into();
                    frame["column"] = self.client.column(1).into();
                }
            }
        }
        Ok(frame)
    }

    pub(super) fn scopes(&self, request: &Request) -> Result<Value> {
        let number = request.number("frameId");
        self.frame_of(number)?;
        let base = (number.unwrap_or(1) - 1) * SCOPES.len() as i64 + 1;
        let scopes = SCOPES.iter().zip(base..).map(|(name, reference)| {
            let hint = if *name == "Registers" { "registers" } else { "locals" };
            json!({"name": name, "presentationHint": hint, "variablesReference": reference, "expensive": false})
        });
        Ok(json!({"scopes": scopes.collect::<Vec<_>>()}))
    }

    pub(super) fn variables(&mut self, request: &Request) -> Result<Value> {
        let number = request.number("variablesReference").and_then(|number| number.checked_sub(1));
        let number =
            number.filter(|number| *number >= 0).ok_or_else(|| refusal("there are no such variables"))?;
        let scopes = SCOPES.len() as i64;
        let (thread, index) = self.frame_of(Some(number / scopes + 1))?;
        let Some(at) = self.replay.place(thread)? else { return Ok(json!({"variables": []})) };
        let all = match number % scopes {
            0 => self.registers(at, index)?,
            _ => self.facts(at, thread)?,
        };
        let amount = |name| request.number(name).and_then(|number| usize::try_from(number).ok());
        let (first, count) = (amount("start").unwrap_or(0), amount("count").filter(|count| *count > 0));
        let some: Vec<_> = all.into_iter().skip(first).take(count.unwrap_or(usize::MAX)).collect();
        Ok(json!({"variables": some}))
    }

    /// The registers of a frame: of those that called others, only the program counter is known.
    fn registers(&mut self, at: At, index: usize) -> Result<Vec<Value>> {
        let Some(what) = self.replay.what(at)? else { return Ok(Vec::new()) };
        let (calls, _) = self.replay.calls(at)?;
        let pc = spot(what.address.0, &calls, index).address;
        let mut all = Vec::new();
        for entry in Arch::of(what.isa).registers() {
            let value = match entry.holds {
                Holds::Pc => pc,
                Holds::Zero => Some(0),
                Holds::Value(register) if index == 0 => self.replay.register(at, register),
                Holds::Value(_) => None,
                Holds::Nothing | Holds::Moment | Holds::Calls => continue,
            };
            let digits = 2 * entry.bytes;
            all.push(match value {
                Some(value) => json!({
                    "name": entry.name, "value": format!("{value:#0width$x}", width = digits + 2), "variablesReference": 0,
                    "memoryReference": format!("{value:#x}"), "evaluateName": format!("${}", entry.name),
                }),
                None => json!({
                    "name": entry.name, "value": "not traced", "variablesReference": 0,
                    "presentationHint": {"attributes": ["readOnly"]},
                }),
            });
        }
        // The program counter is what there always is.
        all.sort_by_key(|variable| variable["name"] != "pc");
        Ok(all)
    }

    /// What the trace says of a place.
    fn facts(&mut self, at: At, thread: ThreadId) -> Result<Vec<Value>> {
        let last = self.replay.instructions(at.source).saturating_sub(1);
        let (calls, is_deep) = self.replay.calls(at)?;
        let moment = Moment::Instruction(at.instruction);
        let mut all = vec![("moment".to_owned(), format!("{moment} of #0 to #{last}"))];
        if let Some(time) = self.replay.time(at)? {
            all.push(("time".to_owned(), Moment::Time(time).to_string()));
        }
        all.push((
            "calls".to_owned(),
            format!("{}{}", calls.len(), if is_deep { ", and more before" } else { "" }),
        ));
        let name = self.replay.threads()[thread.0].name.clone();
        all.push(("thread".to_owned(), Printable(&name).to_string()));
        let events = self.replay.events(at, false)?;
        let reported = events.iter().map(words::of_event).enumerate();
        all.extend(reported.map(|(index, event)| (format!("reported before it {}", index + 1), event)));
        let variable = |(name, value)| json!({"name": name, "value": value, "variablesReference": 0});
        Ok(all.into_iter().map(variable).collect())
    }

    /// What a name with `$` before it stands for, if it is known.
    pub(super) fn value(&mut self, request: &Request, name: &str) -> Result<Option<Value>> {
        let Some(name) = name.strip_prefix('$') else { return Ok(None) };
        let (thread, index) = match request.number("frameId") {
            Some(number) => self.frame_of(Some(number))?,
            None => (self.replay.current(), 0),
        };
        let at = match self.replay.place(thread)? {
            Some(at) => at,
            None => here(self.replay)?,
        };
        let text = match name {
            "moment" => at.instruction.to_string(),
            "calls" => self.replay.calls(at)?.0.len().to_string(),
            _ => {
                let all = self.registers(at, index)?;
                let found = all.iter().find(|variable| variable["name"] == name);
                let known = found.filter(|variable| variable.get("memoryReference").is_some());
                return Ok(known.map(|known| {
                    let (value, reference) = (&known["value"], &known["memoryReference"]);
                    json!({"result": value, "variablesReference": 0, "memoryReference": reference})
                }));
            }
        };
        Ok(Some(json!({"result": text, "variablesReference": 0})))
    }

    /// The files that code is from.
    pub(super) fn modules(&mut self, request: &Request) -> Result<Value> {
        let at = here(self.replay)?;
        let code = self.replay.code(at)?;
        // One that is given and is in the capture, too, is one.
        let mut all: Vec<&Module> = Vec::new();
        let mut known = HashSet::new();
        for module in code.image().modules() {
            if known.insert((module.name(), module.range())) {
                all.push(module);
            }
        }
        let number = |name| request.number(name).and_then(|number| usize::try_from(number).ok()).unwrap_or(0);
        let (first, count) = (number("startModule"), number("moduleCount"));
        let some = all.iter().skip(first).take(if count == 0 { usize::MAX } else { count });
        let list = some.map(|module| {
            let name = Printable(&module.name().to_string_lossy()).to_string();
            let (from, to) = module.range();
            json!({"id": format!("{name} {from}"), "name": name, "addressRange": format!("{from} to {to}")})
        });
        Ok(json!({"modules": list.collect::<Vec<_>>(), "totalModules": all.len()}))
    }
}
