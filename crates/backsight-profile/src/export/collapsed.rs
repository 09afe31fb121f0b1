//! Collapsed stacks: a line for each chain of callers, for flame graphs.

use std::collections::BTreeMap;
use std::io::Write;

use super::names::frame;
use super::stacks::{functions_of, threads_of};
use super::{ExportError, ExportOptions, Format, Need};
use crate::Profile;

pub(super) const FORMAT: Format = Format {
    name: "collapsed",
    title: "Stacks of calls, one a line",
    readers: "flamegraph.pl, inferno, speedscope",
    needs: &[Need::Symbols],
    write,
};

fn write(profile: &Profile, options: &ExportOptions, out: &mut dyn Write) -> Result<(), ExportError> {
    let mut lines: BTreeMap<String, u64> = BTreeMap::new();
    let threads = threads_of(profile);
    for (node, number) in profile.calls.iter().zip(0..) {
        let cost = options.weight.of(node);
        if cost == 0 {
            continue;
        }
        let thread = threads.get(number as usize).copied().flatten();
        let thread = thread.and_then(|thread| profile.threads.get(thread as usize));
        let several = profile.threads.len() > 1;
        let mut names: Vec<String> =
            thread.filter(|_| several).map(|thread| frame(&thread.full_name(true))).into_iter().collect();
        let functions = functions_of(profile, number).into_iter().rev();
        names.extend(
            functions.filter_map(|function| Some(frame(&profile.functions.get(function as usize)?.name))),
        );
        *lines.entry(names.join(";")).or_default() += cost;
    }
    for (stack, cost) in lines.iter().filter(|(stack, _)| !stack.is_empty()) {
        writeln!(out, "{stack} {cost}")?;
    }
    Ok(())
}
