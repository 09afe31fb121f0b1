//! Lists of branches: type, cycle, value.

use std::collections::BTreeMap;
use std::io::{self, Write};

use backsight_core::Address;
use backsight_flow::etm4::{Gap, Record, Step};
use backsight_flow::{Event, Range};

use super::filter::Filter;
use crate::{Item, decode};

/// Names of the trace unit's events.
#[derive(Clone, Debug, Default)]
pub struct EventNames(pub BTreeMap<u8, String>);

impl EventNames {
    /// The name of an event, else its number.
    fn name(&self, number: u8) -> String {
        self.0.get(&number).cloned().unwrap_or_else(|| number.to_string())
    }
}

/// Lists the branches of one source: from its packets, where they name the targets, else from its execution.
#[derive(Clone, Debug)]
pub struct BranchWriter {
    filter: Filter,
    names: EventNames,
    /// What the execution of each hart has to remember.
    harts: BTreeMap<u16, Followed>,
}

/// What is known of the execution of one hart.
#[derive(Clone, Debug)]
struct Followed {
    filter: Filter,
    cycle: u64,
    /// The end of the last range, and the branch that it ended in if that was taken; `None` where execution does not go
    /// on from there.
    last: Option<(Address, Option<Address>)>,
}

impl Followed {
    /// What an event is in a list of branches, if it is anything there.
    fn step(&mut self, event: &Event) -> Option<Step> {
        let gap = match *event {
            Event::Range(range) => return self.branch_to(&range),
            Event::CycleCount(cycles) => {
                self.cycle += u64::from(cycles.unwrap_or(0));
                return None;
            }
            Event::Exception { cause, return_address, .. } => {
                self.last = None;
                return Some(Step::Exception { number: cause.number() as u16, return_address });
            }
            Event::NoSync(why) => Gap::NoSync(why),
            Event::TraceOn(_) if self.last.is_some() => Gap::TraceOff,
            Event::PathUnknown { instructions, .. } => {
                Gap::PathUnknown((instructions > 0).then_some(instructions))
            }
            Event::NoMemory { .. } | Event::AddressUnknown => Gap::PathUnknown(None),
            _ => return None,
        };
        self.last = None;
        Some(Step::Gap(gap))
    }

    /// The branch that led to a range, if one did.
    fn branch_to(&mut self, range: &Range) -> Option<Step> {
        let step = match self.last {
            Some((_, Some(source))) => Some(Step::Branch { target: range.start, source: Some(source) }),
            Some((end, None)) if end == range.start => None,
            _ => Some(Step::Branch { target: range.start, source: None }),
        };
        let taken = range.executed && range.ends_in_branch();
        let branch = Address(range.end.0.wrapping_sub(range.last_size.into()));
        self.last = Some((range.end, taken.then_some(branch)));
        step
    }
}

impl BranchWriter {
    /// A writer for one source.
    pub fn new(filter: Filter, names: EventNames) -> Self {
        Self { filter, names, harts: BTreeMap::new() }
    }

    fn step(&self, out: &mut dyn Write, cycle: u64, step: Step) -> io::Result<()> {
        let kind = step.name();
        match step {
            Step::Branch { target, .. } if !self.filter.wants_address(target) => Ok(()),
            Step::Branch { target, source: Some(source) } => {
                writeln!(out, "{kind}\t{cycle}\t{target}\tfrom {source}")
            }
            Step::Branch { target, source: None } => writeln!(out, "{kind}\t{cycle}\t{target}"),
            Step::Event(number) => writeln!(out, "{kind}\t{cycle}\t{}", self.names.name(number)),
            Step::Exception { number, return_address: Some(address) } => {
                writeln!(out, "{kind}\t{cycle}\t{number:#x}\treturns to {address}")
            }
            Step::Exception { number, return_address: None } => writeln!(out, "{kind}\t{cycle}\t{number:#x}"),
            Step::Gap(gap) => writeln!(out, "{kind}\t{cycle}\t{gap}"),
        }
    }

    fn event(&mut self, out: &mut dyn Write, hart: u16, event: &Event) -> io::Result<()> {
        let filter = &self.filter;
        let followed = self.harts.entry(hart).or_insert_with(|| Followed {
            filter: filter.clone(),
            cycle: 0,
            last: None,
        });
        let is_wanted = followed.filter.wants(event);
        // Whether the target of a branch is wanted is asked when it is written.
        let is_wanted = is_wanted || matches!(event, Event::Range(_)) && followed.filter.wants_now();
        let (step, cycle) = (followed.step(event), followed.cycle);
        if !is_wanted {
            return Ok(());
        }
        if let Event::UnitEvents(events) = *event {
            let mut set = (0..8).filter(|number| events >> number & 1 == 1);
            return set.try_for_each(|number| self.step(out, cycle, Step::Event(number)));
        }
        step.map_or(Ok(()), |step| self.step(out, cycle, step))
    }
}

impl decode::Writer<Record> for BranchWriter {
    // Nothing but branches is decoded for it.
    const TAKES_PATHS: bool = true;

    fn item(&mut self, item: &Item<'_, Record>, text: &mut Vec<u8>) {
        // Memory takes everything.
        let _ = self.step(text, item.value.cycle, item.value.step);
    }
}

impl decode::Writer<Event> for BranchWriter {
    fn item(&mut self, item: &Item<'_, Event>, text: &mut Vec<u8>) {
        let _ = self.event(text, item.sub_source, &item.value);
    }
}
