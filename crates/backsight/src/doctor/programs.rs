//! Code that ran and is not there, is another version, or has no names.

use std::collections::BTreeMap;
use std::collections::BTreeSet;

use backsight_core::{Address, AddressSpace};

use super::execution::Seen;
use super::{Cause, Finding, Severity, listed};
use crate::code::UNTIMED;
use crate::listing::counted;
use crate::{Capture, Result};

pub(super) fn examine(capture: &Capture, seen: &Seen, findings: &mut Vec<Finding>) -> Result<()> {
    // Asked for now, they are about the files that execution led to, and not about all that was mapped.
    let said = capture.warnings();
    let warnings = capture
        .code()?
        .warnings()
        .into_iter()
        .filter(|warning| !said.contains(warning) && warning.as_str() != UNTIMED);
    let (missing, other) = warnings.partition::<Vec<String>, _>(|warning| is_missing(warning));
    let (versions, doubts) =
        other.into_iter().partition::<Vec<String>, _>(|warning| warning.contains("is another version"));
    for version in versions {
        let advice = "find the file that ran, and give its folder with --symfs";
        findings.push(Finding::new(Severity::Fatal, Cause::OtherBuild, version, advice));
    }
    missing_code(capture, seen, &missing, &doubts, findings)?;
    debug(capture, seen, findings)
}

/// Is it said that files of code are not there?
fn is_missing(warning: &str) -> bool {
    warning.contains("code that ran is not here") || warning.contains("these memory contents are not there")
}

/// Code that is not there: one finding, whether its files are known or not.
fn missing_code(
    capture: &Capture,
    seen: &Seen,
    warnings: &[String],
    doubts: &[String],
    findings: &mut Vec<Finding>,
) -> Result<()> {
    let times: u64 = seen.missing_in.values().sum();
    let memory = &capture.description().memory;
    let files: BTreeSet<&str> =
        memory.iter().filter(|dump| !dump.file.exists()).map(|dump| dump.file.path()).collect();
    let files: Vec<&str> = files.into_iter().collect();
    let mut pages: Vec<_> = seen.missing.iter().collect();
    pages.sort_by_key(|&(page, count)| (std::cmp::Reverse(*count), *page));
    let pages: Vec<String> = pages.iter().map(|(page, _)| format!("{:#x}", **page << 12)).collect();
    let goes =
        format!("{} execution goes to addresses without code: {}", counted(times, "time"), listed(&pages));
    let severity = if seen.ranges == 0 && times > 0 { Severity::Fatal } else { Severity::Warning };
    if !files.is_empty() {
        let nothing = "nothing that was executed is in them, as far as the trace says".to_owned();
        let severity = if times > 0 { severity } else { Severity::Note };
        let what = format!(
            "memory contents are not there: {}; {}",
            listed(&files),
            if times > 0 { goes } else { nothing }
        );
        let advice = "copy the files beside the capture, or name the program with --image";
        findings.push(Finding::new(severity, Cause::MissingFiles, what, advice));
        return Ok(());
    }
    // Files that are there and cannot be used explain what is missing.
    if !doubts.is_empty() {
        let goes = if times > 0 { format!("; {goes}") } else { String::new() };
        let what = format!("{}{goes}", listed(doubts));
        let advice = "copy the files again, or name the program with --image";
        findings.push(Finding::new(severity, Cause::MissingFiles, what, advice));
        return Ok(());
    }
    if let Some(warning) = warnings.first().filter(|_| times > 0) {
        let what = format!("{}; {goes}", warning.split("; --symfs").next().unwrap_or(warning));
        let advice = "give the folder with the files of the traced system with --symfs";
        findings.push(Finding::new(severity, Cause::MissingCode, what, advice));
        return Ok(());
    }
    if times == 0 {
        return Ok(());
    }
    let (what, advice) = match capture.code()?.image().is_empty() {
        true => (
            format!("there is no code at all; {goes}"),
            "name the program with --image FILE, or FILE@ADDRESS for a dump; --symfs FOLDER for many",
        ),
        false => (
            goes,
            "name what was loaded there with --image FILE@ADDRESS: a library, the kernel, a boot program, code made at run time",
        ),
    };
    findings.push(Finding::new(severity, Cause::MissingCode, what, advice));
    Ok(())
}

/// Do the programs that ran have names and lines?
fn debug(capture: &Capture, seen: &Seen, findings: &mut Vec<Finding>) -> Result<()> {
    let image = capture.code()?.image();
    let mut programs: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for &address in seen.executed.values() {
        let Some((module, _)) = image.module_at(AddressSpace::ANY, Address(address)) else { continue };
        programs.entry(module.name().display().to_string()).or_insert_with(|| {
            let has_names = module.elf().is_some() && image.functions_of(module).next().is_some();
            (has_names, image.debug_source_of(module).is_some())
        });
    }
    let without = |names: bool| -> Vec<&str> {
        let programs = programs.iter().filter(|(_, has)| **has == (names, false));
        programs.map(|(name, _)| name.as_str()).collect()
    };
    let advice = "name the file with debug information that belongs to it with --image, or build with -g";
    let (named, nameless) = (without(true), without(false));
    if !nameless.is_empty() {
        let what = format!(
            "no symbols and no debug lines: a profile will have addresses only: {}",
            listed(&nameless)
        );
        findings.push(Finding::new(Severity::Note, Cause::NoDebugInformation, what, advice));
    }
    if !named.is_empty() {
        let what =
            format!("no debug lines: a profile will name functions, and no source: {}", listed(&named));
        findings.push(Finding::new(Severity::Note, Cause::NoDebugInformation, what, advice));
    }
    Ok(())
}
