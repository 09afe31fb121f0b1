//! Two profiles side by side: by function and by line of source.
//!
//! Functions are the same by file and name, wherever they are: two builds of a program can be compared. Where only the file has another
//! name, and there is one function of that name on each side, it is the same, too. Local functions of one file and name are added up.

use std::collections::{BTreeMap, HashMap};
use std::io::{self, Write};

use serde_json::{Value, json};

use crate::json::Object;
use crate::{Module, Profile};

/// What was counted of a function on one side.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FunctionCounts {
    /// Instructions executed in it, without what it called.
    pub instructions: u64,
    /// The same with all that it called.
    pub inclusive: u64,
    /// How often it was entered.
    pub entries: u64,
    /// Cycles spent in it, where the trace counts them.
    pub cycles: u64,
}

/// A function on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedFunction {
    /// Its name, as the programmer wrote it.
    pub name: String,
    /// Its file, without folders; where they differ, that of the first profile.
    pub module: String,
    /// What was counted of it in the first profile and in the other one.
    pub counts: [FunctionCounts; 2],
}

/// A line of source on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ComparedLine {
    /// Its file.
    pub file: String,
    /// Its number.
    pub line: u32,
    /// Instructions of it that were executed in the first profile and in the other one.
    pub instructions: [u64; 2],
}

/// Two profiles side by side.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Comparison {
    /// Instructions of both.
    pub instructions: [u64; 2],
    /// Cycles of both, where the traces count them.
    pub cycles: [u64; 2],
    /// Instructions that are of no known line.
    pub without_line: [u64; 2],
    /// Functions, those with the greatest difference of instructions first.
    pub functions: Vec<ComparedFunction>,
    /// Lines, in the same order.
    pub lines: Vec<ComparedLine>,
}

/// By how much the other count is greater than the first.
pub fn difference([one, other]: [u64; 2]) -> i64 {
    let difference = i128::from(other) - i128::from(one);
    difference.clamp(i64::MIN.into(), i64::MAX.into()) as i64
}

/// How many times the first count the other one is; `None` where the first is 0.
pub fn ratio([one, other]: [u64; 2]) -> Option<f64> {
    (one > 0).then(|| other as f64 / one as f64)
}

impl ComparedFunction {
    /// Instructions on both sides.
    pub fn instructions(&self) -> [u64; 2] {
        self.counts.map(|counts| counts.instructions)
    }
}

impl Comparison {
    /// Compares a profile with another one.
    pub fn new(one: &Profile, other: &Profile) -> Self {
        let sides = [one, other];
        let (lines, without_line) = lines(sides);
        let mut comparison = Self {
            instructions: sides.map(|side| side.totals.instructions),
            cycles: sides.map(|side| side.totals.cycles),
            without_line,
            functions: functions(sides),
            lines,
        };
        comparison.sort_functions_by(|counts| counts.instructions);
        comparison
    }

    /// Puts the functions first between whose counts of something there is the greatest difference.
    pub fn sort_functions_by(&mut self, count: impl Fn(&FunctionCounts) -> u64) {
        let counts = |row: &ComparedFunction| row.counts.each_ref().map(&count);
        order(&mut self.functions, counts, |row| (row.name.clone(), row.module.clone()));
    }

    /// Do the traces of both count cycles?
    pub fn has_cycles(&self) -> bool {
        self.cycles.iter().all(|&cycles| cycles > 0)
    }

    /// Writes all of it as JSON. `names` say what the sides are.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write_json(&self, names: [&str; 2], out: &mut dyn Write) -> io::Result<()> {
        let side = |side: usize| {
            json!({
                "name": names[side], "instructions": self.instructions[side], "cycles": self.cycles[side],
                "without_line": self.without_line[side],
            })
        };
        Object::write(out, |object| {
            object.value("this", side(0))?;
            object.value("other", side(1))?;
            object.objects("functions", &self.functions, |function, row| {
                row.value("function", function.name.as_str())?;
                row.value("module", function.module.as_str())?;
                row.value("this", of_function(&function.counts[0]))?;
                row.value("other", of_function(&function.counts[1]))?;
                row.value("difference", difference(function.instructions()))?;
                row.value("ratio", ratio(function.instructions()))
            })?;
            object.objects("lines", &self.lines, |line, row| {
                row.value("file", line.file.as_str())?;
                row.value("line", line.line)?;
                row.value("this", line.instructions[0])?;
                row.value("other", line.instructions[1])?;
                row.value("difference", difference(line.instructions))?;
                row.value("ratio", ratio(line.instructions))
            })
        })?;
        writeln!(out)
    }
}

fn of_function(counts: &FunctionCounts) -> Value {
    let FunctionCounts { instructions, inclusive, entries, cycles } = *counts;
    json!({ "instructions": instructions, "inclusive": inclusive, "entries": entries, "cycles": cycles })
}

/// Sorts by difference, the greatest first.
fn order<T, K: Ord>(rows: &mut [T], counts: impl Fn(&T) -> [u64; 2], name: impl Fn(&T) -> K) {
    let key = |row: &T| {
        let [one, other] = counts(row);
        (std::cmp::Reverse((one.abs_diff(other), one.max(other))), name(row))
    };
    rows.sort_by_cached_key(key);
}

/// The file and the name of a function, in the file's own terms.
type Symbol = (String, String);

/// What was counted of each function, and its name for people.
fn counted(profile: &Profile) -> BTreeMap<Symbol, (String, FunctionCounts)> {
    let mut counted: BTreeMap<Symbol, (String, FunctionCounts)> = BTreeMap::new();
    for (function, inclusive) in profile.functions.iter().zip(profile.inclusive_instructions()) {
        if function.instructions == 0 && function.entries == 0 && inclusive == 0 {
            continue;
        }
        let module = profile.module_of(function).map_or("", Module::short_name).to_owned();
        let symbol = if function.mangled.is_empty() { &function.name } else { &function.mangled };
        let (_, sums) = counted
            .entry((module, symbol.clone()))
            .or_insert_with(|| (function.name.clone(), Default::default()));
        sums.instructions = sums.instructions.saturating_add(function.instructions);
        sums.inclusive = sums.inclusive.saturating_add(inclusive);
        sums.entries = sums.entries.saturating_add(function.entries);
        sums.cycles = sums.cycles.saturating_add(function.cycles);
    }
    counted
}

/// The files that have a function of each name.
fn modules_of<T>(names: &BTreeMap<Symbol, T>) -> HashMap<&str, Vec<&str>> {
    let mut modules: HashMap<&str, Vec<&str>> = HashMap::new();
    for (module, symbol) in names.keys() {
        modules.entry(symbol).or_default().push(module);
    }
    modules
}

fn functions(sides: [&Profile; 2]) -> Vec<ComparedFunction> {
    let [one, mut other] = sides.map(counted);
    // A function that is only in one file on each side is the same, however the files are called.
    let moved: Vec<(Symbol, Symbol)> = {
        let (here, there) = (modules_of(&one), modules_of(&other));
        let pairs = here.iter().filter_map(|(&symbol, modules)| {
            match (modules.as_slice(), there.get(symbol)?.as_slice()) {
                (&[module], &[moved]) if module != moved => {
                    Some(((moved.to_owned(), symbol.to_owned()), (module.to_owned(), symbol.to_owned())))
                }
                _ => None,
            }
        });
        pairs.collect()
    };
    for (from, to) in moved {
        let counts = other.remove(&from);
        other.extend(counts.map(|counts| (to, counts)));
    }
    let mut rows = Vec::with_capacity(one.len());
    for ((module, symbol), (name, counts)) in one {
        let found = other.remove(&(module.clone(), symbol));
        let counts = [counts, found.map_or_else(Default::default, |(_, counts)| counts)];
        rows.push(ComparedFunction { name, module, counts });
    }
    rows.extend(other.into_iter().map(|((module, _), (name, counts))| ComparedFunction {
        name,
        module,
        counts: [FunctionCounts::default(), counts],
    }));
    rows
}

/// Instructions by line, and those without one.
fn lines(sides: [&Profile; 2]) -> (Vec<ComparedLine>, [u64; 2]) {
    let mut sums: BTreeMap<(String, u32), [u64; 2]> = BTreeMap::new();
    let mut without_line = [0_u64; 2];
    for (side, profile) in sides.into_iter().enumerate() {
        for ((module, file, line), count) in lines_of(profile, &mut without_line[side]) {
            let Some(module) = profile.modules.get(module as usize) else { continue };
            let sum = sums.entry((module.debug().file(file).to_owned(), line)).or_default();
            sum[side] = sum[side].saturating_add(count);
        }
    }
    let mut rows: Vec<_> = sums
        .into_iter()
        .map(|((file, line), instructions)| ComparedLine { file, line, instructions })
        .collect();
    order(&mut rows, |row| row.instructions, |row| (row.file.clone(), row.line));
    (rows, without_line)
}

/// Instructions by file of code, file of source and line.
fn lines_of(profile: &Profile, without_line: &mut u64) -> HashMap<(u32, u32, u32), u64> {
    let mut sums: HashMap<(u32, u32, u32), u64> = HashMap::new();
    for block in profile.blocks.iter().filter(|block| block.count > 0) {
        let Some(function) = profile.function_of(block) else { continue };
        let debug = profile.module_of(function).map(Module::debug);
        let mut left = block.instructions;
        for (address, _) in profile.instructions_of(block).take(block.instructions as usize) {
            let line = debug.and_then(|debug| debug.line(address)).filter(|line| line.line > 0);
            let Some(line) = line else { continue };
            left -= 1;
            let sum = sums.entry((function.module, line.file, line.line)).or_default();
            *sum = sum.saturating_add(block.count);
        }
        *without_line = without_line.saturating_add(block.count.saturating_mul(left.into()));
    }
    sums
}
