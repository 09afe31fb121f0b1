//! Lists of branches: type, cycle, value.

use std::collections::BTreeMap;
use std::io::Write;

use backsight_core::Address;
use backsight_flow::etm4::{Gap, Record, Step};
use backsight_flow::{Event, Range};

use super::filter::Filter;
use crate::Item;
use crate::calls::KnownCalls;
use crate::decode::Consumer;

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
pub struct BranchWriter<'c> {
    filter: Filter<'c>,
    names: EventNames,
    text: Vec<u8>,
    /// What the execution of each hart has to remember.
    harts: BTreeMap<u16, Followed<'c>>,
}

/// What is known of the execution of one hart.
#[derive(Clone, Debug)]
struct Followed<'c> {
    filter: Filter<'c>,
    cycle: u64,
    /// The end of the last range, and the branch that it ended in if that was taken; `None` where execution does not go
    /// on from there.
    last: Option<(Address, Option<Address>)>,
}

impl Followed<'_> {
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

impl<'c> BranchWriter<'c> {
    /// A writer for one source. A filter [follows calls](Filter::following) only through what was executed: packets alone do not tell them.
    pub fn new(filter: Filter<'c>, names: EventNames) -> Self {
        Self { filter, names, text: Vec::new(), harts: BTreeMap::new() }
    }

    /// Memory takes everything.
    fn step(&mut self, cycle: u64, step: Step, is_inside: bool) {
        let (kind, out) = (step.name(), &mut self.text);
        let _ = match step {
            Step::Branch { target, .. } if !is_inside && !self.filter.wants_address(target) => Ok(()),
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
        };
    }

    fn followed(&mut self, hart: u16) -> &mut Followed<'c> {
        let new = || Followed { filter: self.filter.of_hart(hart), cycle: 0, last: None };
        self.harts.entry(hart).or_insert_with(new)
    }

    fn event(&mut self, hart: u16, event: &Event) {
        let followed = self.followed(hart);
        let is_wanted = followed.filter.wants(event);
        // Whether the target of a branch is wanted is asked when it is written.
        let is_wanted = is_wanted || matches!(event, Event::Range(_)) && followed.filter.wants_now();
        let (step, cycle, is_inside) = (followed.step(event), followed.cycle, followed.filter.is_inside());
        if !is_wanted {
            return;
        }
        match *event {
            Event::UnitEvents(events) => (0..8)
                .filter(|number| events >> number & 1 == 1)
                .for_each(|number| self.step(cycle, Step::Event(number), is_inside)),
            _ => step.into_iter().for_each(|step| self.step(cycle, step, is_inside)),
        }
    }
}

impl Consumer<Record> for BranchWriter<'_> {
    fn item(&mut self, item: Item<'_, Record>) {
        self.step(item.value.cycle, item.value.step, false);
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.text)
    }
}

impl Consumer<Event> for BranchWriter<'_> {
    fn item(&mut self, item: Item<'_, Event>) {
        self.event(item.sub_source, &item.value);
    }

    fn keeps_calls(&self) -> bool {
        self.filter.follows_calls()
    }

    fn resume(&mut self, known: &KnownCalls<'_>) {
        for hart in known.harts() {
            self.followed(hart).filter.resume(known);
        }
    }

    fn text(&mut self) -> Option<&mut Vec<u8>> {
        Some(&mut self.text)
    }
}
