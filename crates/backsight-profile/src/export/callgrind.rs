//! Callgrind: costs by instruction and line, calls with what they cost, and how often branches were taken.

use std::collections::BTreeMap;
use std::io::{self, Write};

use backsight::isa::Class;

use super::names::{callgrind, one_line};
use super::stacks::totals;
use super::{ExportError, ExportOptions, Format, Need, Weight};
use crate::{EdgeKind, Function, Profile};

pub(super) const FORMAT: Format = Format {
    name: "callgrind",
    title: "Costs by instruction and line, with calls and jumps",
    readers: "KCachegrind, callgrind_annotate",
    needs: &[Need::Symbols, Need::Lines],
    write,
};

/// What an instruction, a call or all of them cost.
#[derive(Clone, Copy, Debug, Default)]
struct Cost {
    instructions: u64,
    cycles: u64,
    conditional: u64,
    indirect: u64,
}

/// Which costs there are.
#[derive(Clone, Copy, Debug)]
struct Columns {
    has_cycles: bool,
}

impl Columns {
    fn titles(self) -> &'static str {
        if self.has_cycles { "Ir Cycles Bc Bi" } else { "Ir Bc Bi" }
    }

    fn text(self, cost: &Cost) -> String {
        let Cost { instructions, cycles, conditional, indirect } = cost;
        match self.has_cycles {
            true => format!("{instructions} {cycles} {conditional} {indirect}"),
            false => format!("{instructions} {conditional} {indirect}"),
        }
    }
}

impl std::ops::AddAssign for Cost {
    fn add_assign(&mut self, other: Self) {
        self.instructions += other.instructions;
        self.cycles += other.cycles;
        self.conditional += other.conditional;
        self.indirect += other.indirect;
    }
}

#[derive(Debug, Default)]
struct Body {
    costs: BTreeMap<u64, Cost>,
    /// By address of the call and number of the callee: how often, the callee's address.
    calls: BTreeMap<(u64, u32), (u64, u64)>,
    /// Conditional branches: taken, executed, target.
    jumps: BTreeMap<u64, (u64, u64, u64)>,
}

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let bodies = bodies(profile);
    let inclusive = inclusive(profile);
    writeln!(out, "# callgrind format\nversion: 1\ncreator: backsight {}", env!("CARGO_PKG_VERSION"))?;
    writeln!(out, "cmd: {}", one_line(&options.title))?;
    let columns = Columns { has_cycles: profile.has_cycles() };
    writeln!(out, "positions: instr line\nevents: {}", columns.titles())?;
    let mut all = Cost::default();
    bodies.values().flat_map(|body| body.costs.values()).for_each(|&cost| all += cost);
    writeln!(out, "summary: {}\n", columns.text(&all))?;
    for (&number, body) in &bodies {
        let Some(function) = profile.functions.get(number as usize) else { continue };
        write_header(profile, function, "", out)?;
        writeln!(out, "fn={}", callgrind(&function.name))?;
        write_body(profile, (function, number), body, (columns, &inclusive), out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn write_header(profile: &Profile, function: &Function, prefix: &str, out: &mut dyn Write) -> io::Result<()> {
    let Some(module) = profile.module_of(function) else { return Ok(()) };
    let file_key = if prefix.is_empty() { "fl" } else { "cfi" };
    writeln!(
        out,
        "{prefix}ob={}\n{file_key}={}",
        callgrind(module.name()),
        callgrind(file_of(profile, function))
    )
}

/// The file that a function is in, as far as that is known.
fn file_of<'p>(profile: &'p Profile, function: &Function) -> &'p str {
    let debug = profile.module_of(function).map(crate::Module::debug);
    let line = debug.and_then(|debug| Some((debug, debug.line(function.start.unwrap_or(0))?)));
    line.map_or("???", |(debug, line)| debug.file(line.file))
}

fn write_body(
    profile: &Profile,
    (function, number): (&Function, u32),
    body: &Body,
    (columns, inclusive): (Columns, &BTreeMap<(u32, u32), Inclusive>),
    out: &mut dyn Write,
) -> io::Result<()> {
    let debug = profile.module_of(function).map(crate::Module::debug);
    let line = |address: u64| debug.and_then(|debug| debug.line(address)).map_or(0, |line| line.line);
    let file_of_function = file_of(profile, function);
    let file_at = |address: u64| {
        let line = debug.and_then(|debug| Some((debug, debug.line(address)?)));
        line.map_or(file_of_function, |(debug, line)| debug.file(line.file))
    };
    // Functions of other files (headers) may be inlined.
    let mut file = file_of_function;
    let mut position = |address: u64, out: &mut dyn Write| {
        let now = file_at(address);
        if std::mem::replace(&mut file, now) != now {
            let now_is = if now == file_of_function { "fe" } else { "fi" };
            writeln!(out, "{now_is}={}", callgrind(now))?;
        }
        Ok::<_, io::Error>(())
    };
    for (&address, cost) in &body.costs {
        position(address, out)?;
        writeln!(out, "{address:#x} {} {}", line(address), columns.text(cost))?;
    }
    for (&(address, callee), &(count, target)) in &body.calls {
        let Some(called) = profile.functions.get(callee as usize) else { continue };
        position(address, out)?;
        write_header(profile, called, "c", out)?;
        let called_debug = profile.module_of(called).map(crate::Module::debug);
        let target_line = called_debug.and_then(|debug| debug.line(target)).map_or(0, |line| line.line);
        writeln!(out, "cfn={}\ncalls={count} {target:#x} {target_line}", callgrind(&called.name))?;
        let of_pair = inclusive.get(&(number, callee)).copied().unwrap_or_default();
        let cost = of_pair.share(count);
        writeln!(out, "{address:#x} {} {}", line(address), columns.text(&cost))?;
    }
    // Nothing says where a branch that was never taken leads.
    for (&address, &(taken, executed, target)) in body.jumps.iter().filter(|(_, jump)| jump.0 > 0) {
        position(address, out)?;
        writeln!(out, "jcnd={taken}/{executed} {target:#x} {}", line(target))?;
        writeln!(out, "{address:#x} {}", line(address))?;
    }
    Ok(())
}

/// What calls of one function by another cost, with all that was called.
#[derive(Clone, Copy, Debug, Default)]
struct Inclusive {
    calls: u64,
    instructions: u64,
    cycles: u64,
}

impl Inclusive {
    /// The cost of some of the calls: those of one call instruction.
    fn share(self, calls: u64) -> Cost {
        let part = |cost: u64| (u128::from(cost) * u128::from(calls) / u128::from(self.calls.max(1))) as u64;
        Cost { instructions: part(self.instructions), cycles: part(self.cycles), ..Cost::default() }
    }
}

fn inclusive(profile: &Profile) -> BTreeMap<(u32, u32), Inclusive> {
    let (instructions, cycles) = (totals(profile, Weight::Instructions), totals(profile, Weight::Cycles));
    let mut pairs: BTreeMap<(u32, u32), Inclusive> = BTreeMap::new();
    for (number, node) in profile.calls.iter().enumerate() {
        let caller = node.parent.and_then(|parent| profile.calls.get(parent as usize)?.function);
        if let (Some(caller), Some(callee)) = (caller, node.function) {
            let sums = pairs.entry((caller, callee)).or_default();
            sums.calls += node.calls;
            sums.instructions += instructions.get(number).copied().unwrap_or(0);
            sums.cycles += cycles.get(number).copied().unwrap_or(0);
        }
    }
    pairs
}

fn bodies(profile: &Profile) -> BTreeMap<u32, Body> {
    let mut bodies: BTreeMap<u32, Body> = BTreeMap::new();
    for block in &profile.blocks {
        let body = bodies.entry(block.function).or_default();
        let share = block.cycles / u64::from(block.instructions.max(1));
        for (address, _) in profile.instructions_of(block) {
            let is_last = address == block.last();
            let rest = block.cycles - share * u64::from(block.instructions.max(1) - 1);
            let times = |has_it: bool| if has_it { block.count } else { 0 };
            *body.costs.entry(address).or_default() += Cost {
                instructions: block.count,
                cycles: if is_last { rest } else { share },
                conditional: times(is_last && block.is_conditional()),
                indirect: times(is_last && block.class == Class::IndirectBranch),
            };
        }
    }
    for edge in &profile.edges {
        let (Some(from), Some(to)) =
            (profile.blocks.get(edge.from as usize), profile.blocks.get(edge.to as usize))
        else {
            continue;
        };
        let body = bodies.entry(from.function).or_default();
        match edge.kind {
            _ if profile.is_entry(edge) => {
                let call = body.calls.entry((from.last(), to.function)).or_insert((0, to.start));
                call.0 += edge.count;
            }
            EdgeKind::Taken => {
                let jump = body.jumps.entry(from.last()).or_insert((0, 0, to.start));
                (jump.0, jump.1, jump.2) = (jump.0 + edge.count, jump.1 + edge.count, to.start);
            }
            EdgeKind::NotTaken if from.is_conditional() => {
                let jump = body.jumps.entry(from.last()).or_insert((0, 0, to.start));
                jump.1 += edge.count;
            }
            _ => {}
        }
    }
    bodies
}
