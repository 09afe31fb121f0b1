//! Callgrind: costs by instruction and line, calls with what they cost, and how often branches were taken.

use std::collections::BTreeMap;
use std::io::{self, Write};

use backsight::isa::Class;

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

/// Instructions, cycles, conditional branches, indirect branches.
#[derive(Clone, Copy, Debug, Default)]
struct Cost([u64; 4]);

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
    writeln!(out, "cmd: {}", options.title.replace('\n', " "))?;
    writeln!(out, "positions: instr line\nevents: Ir Cycles Bc Bi")?;
    writeln!(out, "summary: {} {}\n", profile.totals.instructions, profile.totals.cycles)?;
    for (&number, body) in &bodies {
        let Some(function) = profile.functions.get(number as usize) else { continue };
        write_header(profile, function, "", out)?;
        writeln!(out, "fn={}", one_line(&function.name))?;
        write_body(profile, function, number, body, &inclusive, out)?;
        writeln!(out)?;
    }
    Ok(())
}

fn one_line(name: &str) -> String {
    name.replace(['\n', '\r'], " ")
}

fn write_header(profile: &Profile, function: &Function, prefix: &str, out: &mut dyn Write) -> io::Result<()> {
    let Some(module) = profile.module_of(function) else { return Ok(()) };
    let line = module.debug().line(function.start.unwrap_or(0));
    let file = line.map_or("???", |line| module.debug().file(line.file));
    let file_key = if prefix.is_empty() { "fl" } else { "cfi" };
    writeln!(out, "{prefix}ob={}\n{file_key}={file}", module.name())
}

fn write_body(
    profile: &Profile,
    function: &Function,
    number: u32,
    body: &Body,
    inclusive: &BTreeMap<(u32, u32), Inclusive>,
    out: &mut dyn Write,
) -> io::Result<()> {
    let debug = profile.module_of(function).map(crate::Module::debug);
    let line = |address: u64| debug.and_then(|debug| debug.line(address)).map_or(0, |line| line.line);
    for (&address, Cost([instructions, cycles, conditional, indirect])) in &body.costs {
        writeln!(out, "{address:#x} {} {instructions} {cycles} {conditional} {indirect}", line(address))?;
    }
    for (&(address, callee), &(count, target)) in &body.calls {
        let Some(called) = profile.functions.get(callee as usize) else { continue };
        write_header(profile, called, "c", out)?;
        let of_pair = inclusive.get(&(number, callee)).copied().unwrap_or_default();
        let share =
            |cost: u64| (u128::from(cost) * u128::from(count) / u128::from(of_pair.calls.max(1))) as u64;
        let called_debug = profile.module_of(called).map(crate::Module::debug);
        let target_line = called_debug.and_then(|debug| debug.line(target)).map_or(0, |line| line.line);
        writeln!(out, "cfn={}\ncalls={count} {target:#x} {target_line}", one_line(&called.name))?;
        let (instructions, cycles) = (share(of_pair.instructions), share(of_pair.cycles));
        writeln!(out, "{address:#x} {} {instructions} {cycles}", line(address))?;
    }
    for (&address, &(taken, executed, target)) in &body.jumps {
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
            let Cost([instructions, cycles, conditional, indirect]) = body.costs.entry(address).or_default();
            *instructions += block.count;
            *cycles +=
                if is_last { block.cycles - share * u64::from(block.instructions.max(1) - 1) } else { share };
            if is_last {
                *conditional += if block.is_conditional() { block.count } else { 0 };
                *indirect += if block.class == Class::IndirectBranch { block.count } else { 0 };
            }
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
