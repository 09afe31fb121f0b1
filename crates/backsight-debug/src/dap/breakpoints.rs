//! Places to stop at, as an editor sets them: all of a file, all functions, or all instructions together.

use std::collections::{BTreeMap, BTreeSet};

use backsight::Result;
use backsight::moments::Wanted;
use serde_json::{Value, json};

use super::disassembly::reference;
use super::message::Request;
use super::server::{Server, refusal};
use super::sources::Found;
use crate::console::here;
use crate::replay::Breakpoint;

/// Addresses to stop at that an editor may set.
const MOST: usize = 1 << 12;

/// What is set together.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Source(String),
    Functions,
    Instructions,
}

impl Group {
    /// What the protocol calls a stop at one.
    fn reason(&self) -> &'static str {
        match self {
            Self::Source(_) => "breakpoint",
            Self::Functions => "function breakpoint",
            Self::Instructions => "instruction breakpoint",
        }
    }
}

/// One that the editor knows.
#[derive(Debug)]
struct Set {
    id: u64,
    places: Vec<Breakpoint>,
}

/// All that are set.
#[derive(Debug, Default)]
pub(super) struct Breakpoints {
    groups: BTreeMap<Group, Vec<Set>>,
    last_id: u64,
}

impl Breakpoints {
    /// All places to stop at.
    pub fn all(&self) -> BTreeSet<Breakpoint> {
        self.groups.values().flatten().flat_map(|set| &set.places).cloned().collect()
    }

    /// Those at an address, and what the protocol calls a stop there.
    pub fn at(&self, address: u64) -> Vec<(u64, &'static str)> {
        let all = self.groups.iter().flat_map(|(group, sets)| sets.iter().map(move |set| (group, set)));
        let is_there = |set: &Set| set.places.iter().any(|place| place.address == address);
        all.filter(|(_, set)| is_there(set)).map(|(group, set)| (set.id, group.reason())).collect()
    }

    fn len(&self) -> usize {
        self.groups.values().flatten().map(|set| set.places.len()).sum()
    }

    fn clear(&mut self, group: &Group) {
        self.groups.remove(group);
    }

    /// Sets one, if there is room. Gives its number.
    fn add(&mut self, group: &Group, places: Vec<Breakpoint>) -> Result<u64> {
        if self.len() + places.len() > MOST {
            return Err(refusal(format!("there is no room for more than {MOST} addresses to stop at")));
        }
        self.last_id += 1;
        let id = self.last_id;
        self.groups.entry(group.clone()).or_default().push(Set { id, places });
        Ok(id)
    }
}

impl Server<'_, '_> {
    /// Sets one, and says what came of it.
    fn set(&mut self, group: &Group, outcome: Result<(Vec<u64>, Value)>) -> Value {
        let set = outcome.and_then(|(addresses, mut body)| {
            let at = here(self.replay)?;
            let places: Result<Vec<_>> =
                addresses.iter().map(|address| self.replay.breakpoint(at, *address)).collect();
            body["id"] = self.breakpoints.add(group, places?)?.into();
            body["verified"] = true.into();
            body["instructionReference"] = addresses.first().map(|address| format!("{address:#x}")).into();
            Ok(body)
        });
        set.unwrap_or_else(|error| json!({"verified": false, "message": error.to_string()}))
    }

    fn set_all<'v>(
        &mut self,
        group: &Group,
        wanted: &'v [Value],
        mut find: impl FnMut(&mut Self, &'v Value) -> Result<(Vec<u64>, Value)>,
    ) -> Value {
        self.breakpoints.clear(group);
        let mut all = Vec::new();
        for one in wanted.iter().take(MOST) {
            let is_plain = ["condition", "hitCondition", "logMessage"]
                .iter()
                .all(|name| one.get(name).and_then(Value::as_str).is_none_or(str::is_empty));
            let found = match is_plain {
                true => find(self, one),
                false => Err(refusal("conditions and messages need values, which are not in the trace")),
            };
            all.push(self.set(group, found));
        }
        json!({"breakpoints": all})
    }

    /// Those of a file, by lines.
    pub(super) fn set_line_breakpoints(&mut self, request: &Request) -> Result<Value> {
        let source = request.arguments.get("source").cloned().unwrap_or_default();
        let name = match (super::sources::reference_of(request), source.get("path").and_then(Value::as_str)) {
            (Some(reference), _) => format!("#{reference}"),
            (None, Some(path)) => path.to_owned(),
            (None, None) => return Err(refusal("neither a path nor a reference says which source is meant")),
        };
        let wanted = request.list("breakpoints");
        Ok(self.set_all(&Group::Source(name), wanted, |server, one| {
            let line = one.get("line").and_then(Value::as_i64).and_then(|line| server.client.own_line(line));
            let line = line.ok_or_else(|| refusal("a breakpoint without a line"))?;
            let Found { line, addresses } = server.line_addresses(request, line)?;
            Ok((addresses, json!({"line": server.client.line(line), "source": source})))
        }))
    }

    /// Those at functions, by name.
    pub(super) fn set_function_breakpoints(&mut self, request: &Request) -> Result<Value> {
        Ok(self.set_all(&Group::Functions, request.list("breakpoints"), |server, one| {
            let name = one.get("name").and_then(Value::as_str).unwrap_or_default();
            let at = here(server.replay)?;
            let code = server.replay.code(at)?;
            match Wanted::function(name, code.image())? {
                Wanted::Functions { places, .. } => {
                    let starts = places.iter().map(|function| function.start).collect();
                    Ok((starts, json!({})))
                }
                _ => Ok((Vec::new(), json!({}))),
            }
        }))
    }

    /// Those at instructions, by address.
    pub(super) fn set_instruction_breakpoints(&mut self, request: &Request) -> Result<Value> {
        Ok(self.set_all(&Group::Instructions, request.list("breakpoints"), |_, one| {
            let text = one.get("instructionReference").and_then(Value::as_str).unwrap_or_default();
            let offset = one.get("offset").and_then(Value::as_i64).unwrap_or(0);
            Ok((vec![reference(text)?.wrapping_add_signed(offset)], json!({})))
        }))
    }

    /// Gaps and exceptions.
    pub(super) fn set_exception_breakpoints(&mut self, request: &Request) -> Value {
        let plain = request.list("filters").iter().filter_map(Value::as_str);
        let options = request.list("filterOptions").iter();
        let named = options.filter_map(|option| option.get("filterId")?.as_str());
        let filters: Vec<&str> = plain.chain(named).collect();
        self.console.gaps = filters.contains(&"gaps");
        self.console.exceptions = filters.contains(&"exceptions");
        let is_known = |name: &&str| ["gaps", "exceptions"].contains(name);
        let set = |name: &&str| json!({"verified": (is_known(name))});
        json!({"breakpoints": filters.iter().map(set).collect::<Vec<_>>()})
    }
}
