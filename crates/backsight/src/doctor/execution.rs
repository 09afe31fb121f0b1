//! What following the execution shows: code that is missing or wrong, contexts that nobody knows, clocks that do not meet.

use std::collections::{BTreeMap, BTreeSet};

use backsight_capture::ContextIdLayout;
use backsight_capture::events::{Item, Pid};
use backsight_core::{Address, AddressSpace};

use super::{Cause, Finding, Severity};
use crate::decode::Outline;
use crate::{Capture, Event, Result, Source};

/// Addresses and contexts that are listed.
const LISTED: usize = 5;
/// Different ones that are counted at most.
const MOST: usize = 4096;

/// What is gathered of one source.
#[derive(Default)]
struct Seen {
    /// Pages without code, and how often execution went there.
    missing: BTreeMap<u64, u64>,
    contexts: BTreeSet<u64>,
    /// A place in each page that was executed.
    executed: BTreeMap<u64, u64>,
    ranges: u64,
}

impl Seen {
    fn take(&mut self, event: &Event) {
        match event {
            Event::NoMemory { address, .. } if self.missing.len() < MOST => {
                *self.missing.entry(address.0 >> 12).or_default() += 1;
            }
            Event::Context(context, _) if self.contexts.len() < MOST => {
                self.contexts.extend(context.context_id);
            }
            Event::Range(range) => {
                self.ranges += 1;
                if self.executed.len() < MOST {
                    self.executed.insert(range.start.0 >> 12, range.start.0);
                }
            }
            _ => {}
        }
    }
}

pub(super) fn examine(
    capture: &Capture,
    outlines: &[(Source, Outline)],
    findings: &mut Vec<Finding>,
) -> Result<()> {
    images(capture, findings)?;
    let decode = capture.execution().threads(0).positions(false);
    let (summary, all) = decode.fold(|_| Seen::default(), |seen, item| seen.take(&item.value))?;
    let mut seen = Seen::default();
    for (_, one) in all {
        one.missing.into_iter().for_each(|(page, count)| *seen.missing.entry(page).or_default() += count);
        seen.contexts.extend(one.contexts);
        seen.executed.extend(one.executed);
        seen.ranges += one.ranges;
    }
    missing_code(capture, &seen, findings)?;
    let statistics = summary.statistics();
    let symptoms: u64 = statistics.symptoms.iter().sum();
    if symptoms > 0 {
        findings.push(Finding::new(
            if symptoms * 20 > seen.ranges { Severity::Fatal } else { Severity::Warning },
            Cause::WrongCode,
            format!("code and trace contradict each other {symptoms} times in {} ranges", seen.ranges),
            "use the very files that ran: a program that was built again, or moved, decodes to nonsense",
        ));
    }
    contexts(capture, &seen, findings);
    clocks(capture, outlines, findings);
    debug(capture, &seen, findings)
}

fn images(capture: &Capture, findings: &mut Vec<Finding>) -> Result<()> {
    let code = capture.code()?;
    code.find_files();
    for warning in code.warnings() {
        let other = warning.contains("is another version");
        let (cause, advice) = match other {
            true => (Cause::OtherBuild, "find the file that ran, and give its folder with --symfs"),
            false if warning.contains("code that ran is not here") => (Cause::MissingCode, ""),
            false => (Cause::Doubt, ""),
        };
        let severity = if other { Severity::Fatal } else { Severity::Warning };
        findings.push(Finding::new(severity, cause, warning.clone(), advice));
    }
    Ok(())
}

fn missing_code(capture: &Capture, seen: &Seen, findings: &mut Vec<Finding>) -> Result<()> {
    let times: u64 = seen.missing.values().sum();
    if times == 0 {
        return Ok(());
    }
    let mut pages: Vec<_> = seen.missing.iter().collect();
    pages.sort_by_key(|&(page, count)| (std::cmp::Reverse(*count), *page));
    let pages: Vec<String> =
        pages.iter().take(LISTED).map(|(page, _)| format!("{:#x}", **page << 12)).collect();
    let where_ = pages.join(", ");
    let (what, advice) = match capture.code()?.image().is_empty() {
        true => (
            format!(
                "there is no code at all: {times} times execution goes where nothing is known, at {where_}"
            ),
            "name the program with --image FILE, or FILE@ADDRESS for a dump; --symfs FOLDER for many",
        ),
        false => (
            format!("{times} times execution goes to addresses outside every image, at {where_}"),
            "name what was loaded there with --image FILE@ADDRESS: a library, the kernel, a boot program, code made at run time",
        ),
    };
    let severity = if seen.ranges == 0 { Severity::Fatal } else { Severity::Warning };
    findings.push(Finding::new(severity, Cause::MissingCode, what, advice));
    Ok(())
}

fn contexts(capture: &Capture, seen: &Seen, findings: &mut Vec<Finding>) {
    let description = capture.description();
    let Some(events) = &description.events else { return };
    let layout = description.contextidr;
    let used: BTreeSet<u64> = seen.contexts.iter().copied().filter(|&id| id != 0).collect();
    if used.is_empty() {
        return;
    }
    if layout.is_none() {
        findings.push(Finding::new(
            Severity::Warning,
            Cause::UnknownContextLayout,
            format!(
                "the trace names {} contexts, and the capture does not say what CONTEXTIDR holds",
                used.len()
            ),
            "say contextidr=pid, tid, asid, asid_pid or asid_tid in [events] of contents.ini",
        ));
        return;
    }
    let mut declared = BTreeSet::new();
    let mut records = events.records();
    while let Some(record) = records.next() {
        match &record.item {
            Item::Mapping(_, mapping) => declared.extend(number(mapping.pid)),
            Item::Thread { tid, pid, .. } => {
                declared.extend([Some(*tid), number(*pid)].into_iter().flatten())
            }
            Item::Asid { asid, .. } => drop(declared.insert(u64::from(*asid))),
            _ => {}
        }
    }
    declared.extend(description.memory.iter().filter_map(|dump| dump.pid));
    let name = |id: u64| match layout {
        Some(ContextIdLayout::AsidPid | ContextIdLayout::AsidTid) if id >> 8 != 0 => id >> 8,
        Some(ContextIdLayout::Asid) => id & 0xFF,
        _ => id,
    };
    let is_none = layout == Some(ContextIdLayout::None);
    let unknown: Vec<u64> = used.into_iter().map(name).filter(|id| !declared.contains(id)).collect();
    if !unknown.is_empty() && !is_none {
        let listed: Vec<String> = unknown.iter().take(LISTED).map(|id| format!("{id:#x}")).collect();
        findings.push(Finding::new(
            Severity::Warning,
            Cause::UndeclaredContexts,
            format!(
                "{} contexts of the trace are never declared in the event log: {}",
                unknown.len(),
                listed.join(", ")
            ),
            "their code cannot be found: record from before they start, or list what exists (%snapshot)",
        ));
    }
}

fn number(pid: Pid) -> Option<u64> {
    match pid {
        Pid::All => None,
        Pid::Process(pid) => Some(pid),
    }
}

/// Where code changes, the trace has to say when it was where.
fn clocks(capture: &Capture, outlines: &[(Source, Outline)], findings: &mut Vec<Finding>) {
    let Some(events) = &capture.description().events else { return };
    let Ok(Some(backsight_capture::EventClock::Timestamps)) = capture.code().map(crate::Code::event_clock)
    else {
        return;
    };
    let first = outlines.iter().filter_map(|(_, outline)| outline.first_time).min();
    let last = outlines.iter().filter_map(|(_, outline)| outline.last_time).max();
    match (first.zip(last), events.survey().times) {
        (None, Some(_)) => findings.push(Finding::new(
            Severity::Warning,
            Cause::NoCommonTime,
            "code changes while it is traced, and the trace has no timestamps: the last version of everything is used",
            "switch timestamps on in the trace unit",
        )),
        (Some((first, last)), Some((begin, end))) if end < first || last < begin => {
            findings.push(Finding::new(
                Severity::Warning,
                Cause::NoCommonTime,
                format!("the trace is from {first:#x} to {last:#x}, the event log from {begin:#x} to {end:#x}: they do not meet"),
                "give the log the clock of the trace, or a %clock line that relates the two",
            ));
        }
        _ => {}
    }
}

/// Do the programs that ran have names and lines?
fn debug(capture: &Capture, seen: &Seen, findings: &mut Vec<Finding>) -> Result<()> {
    let image = capture.code()?.image();
    let mut nameless: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for &address in seen.executed.values() {
        let address = Address(address);
        let Some((module, _)) = image.module_at(AddressSpace::ANY, address) else { continue };
        let name = module.name().display().to_string();
        let has = nameless.entry(name).or_default();
        has.0 |= module.elf().is_some() && image.functions_of(module).next().is_some();
        has.1 |= image.source_line(AddressSpace::ANY, address).is_some();
    }
    for (name, (names, _)) in nameless.into_iter().filter(|(_, (_, lines))| !lines).take(LISTED) {
        let what = match names {
            true => format!("{name}: it has no debug lines: a profile will name functions, and no source"),
            false => {
                format!("{name}: it has neither symbols nor debug lines: a profile will have addresses only")
            }
        };
        findings.push(Finding::new(
            Severity::Note,
            Cause::NoDebugInformation,
            what,
            "name the file with debug information that belongs to it with --image, or build with -g",
        ));
    }
    Ok(())
}
