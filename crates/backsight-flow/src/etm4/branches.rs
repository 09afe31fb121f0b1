//! What trace tells without the code.
//!
//! With branch broadcast every taken branch is followed by the address it went to, and the stream is a list of
//! branch targets. Without it only indirect branches have their target in the trace; of the direct ones it is
//! known how many were taken and not taken. Exceptions, events and cycles are there in either case.

use std::fmt;

use backsight_arm::etm4::{AddressPacket, Config, Packet};
use backsight_core::{Address, Located};

use super::{Element, Resolver};
use crate::NoSync;
use crate::speculation::{Role, Speculative};

/// One line of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Sum of all cycle counts up to here, with the one that times this step.
    pub cycle: u64,
    /// What happened.
    pub step: Step,
    /// Atoms since the last record that say `E` and have no address: direct branches, barriers, matched returns.
    pub taken: u32,
    /// Atoms since the last record that say `N`.
    pub not_taken: u32,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Execution continued here: a branch was taken, a handler was entered, or tracing began.
    Branch {
        /// Where it went.
        target: Address,
        /// Where it came from, where the trace tells (ETE source addresses).
        source: Option<Address>,
    },
    /// An event of the trace unit, by its number.
    Event(u8),
    /// An exception or interrupt.
    Exception {
        /// Its number.
        number: u16,
        /// Where the handler would return to.
        return_address: Option<Address>,
    },
    /// Something is missing.
    Gap(Gap),
}

/// What is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gap {
    /// Decoding had to begin again.
    NoSync(NoSync),
    /// Tracing was off before.
    TraceOff,
    /// So many instructions on a path that is not known.
    PathUnknown(Option<u32>),
}

impl Step {
    /// The type, as it is listed.
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Branch { .. } => "branch",
            Self::Event(_) => "event",
            Self::Exception { .. } => "exception",
            Self::Gap(_) => "gap",
        }
    }
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoSync(why) => f.write_str(why.text()),
            Self::TraceOff => f.write_str("trace off"),
            Self::PathUnknown(Some(count)) => write!(f, "path unknown, {count} instructions"),
            Self::PathUnknown(None) => f.write_str("path unknown"),
        }
    }
}

/// Turns packets into records.
#[derive(Clone, Debug)]
pub struct Branches {
    resolver: Resolver,
    list: List,
    end: u64,
}

impl Branches {
    /// For the stream of one trace unit.
    pub fn new(config: &Config) -> Self {
        Self { resolver: Resolver::new(config), list: List::default(), end: 0 }
    }

    /// Takes the next packet.
    pub fn push(&mut self, packet: Located<Packet>, sink: &mut impl FnMut(Located<Record>)) {
        self.end = packet.end();
        let list = &mut self.list;
        self.resolver.push(packet, &mut |element| list.element(element, sink));
    }

    /// The trace ends.
    pub fn finish(&mut self, sink: &mut impl FnMut(Located<Record>)) {
        let list = &mut self.list;
        self.resolver.finish(self.end, &mut |element| list.element(element, sink));
        self.list = List::default();
    }

    /// Begins again, cycles too.
    pub fn reset(&mut self) {
        self.resolver.reset();
        self.list = List::default();
    }
}

/// What the next address will mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    /// Nothing that is not known: it restates the position.
    #[default]
    Nothing,
    /// The target of a branch.
    Target { source: Option<Address> },
    /// Where execution begins: after a gap or an exception.
    Entry,
}

/// More records than this do not wait for a cycle count.
const HELD: usize = 64;

#[derive(Clone, Debug, Default)]
struct List {
    /// Records since the last P0 element: a cycle count that follows times them.
    held: Vec<Located<Record>>,
    cycle: u64,
    taken: u32,
    not_taken: u32,
    expect: Expect,
}

impl List {
    fn element(&mut self, element: Located<Element>, sink: &mut impl FnMut(Located<Record>)) {
        let at = element.map(|_| ());
        if element.value.role() == Role::P0 || matches!(element.value, Element::EndOfTrace) {
            self.give(sink);
        }
        match element.value {
            Element::Atoms(atoms) => atoms.iter().for_each(|taken| self.atom(taken, None)),
            Element::SourceAddress(source) => self.atom(true, Some(source.address)),
            Element::Address(address) => self.address(address, at, sink),
            Element::CycleCount(cycles) => {
                self.cycle += u64::from(cycles.unwrap_or(0));
                self.held.iter_mut().for_each(|record| record.value.cycle = self.cycle);
                self.give(sink);
            }
            Element::Event(events) => {
                for event in (0..4).filter(|event| events >> event & 1 == 1) {
                    self.record(Step::Event(event), at, sink);
                }
            }
            Element::Exception { exception, address, .. } => {
                if exception.address_is_branch_target() {
                    self.address(address, at, sink);
                }
                let return_address = Some(address.address);
                self.record(Step::Exception { number: exception.number, return_address }, at, sink);
                self.expect = Expect::Entry;
            }
            Element::PeReset => {
                self.record(Step::Exception { number: 0, return_address: None }, at, sink);
                self.expect = Expect::Entry;
            }
            Element::Q { count, address, .. } => {
                self.record(Step::Gap(Gap::PathUnknown(count)), at, sink);
                self.expect = Expect::Entry;
                self.address(address, at, sink);
            }
            Element::TraceOn => self.gap(Gap::TraceOff, at, sink),
            Element::StartOfTrace
            | Element::NoSync(NoSync::Initial)
            | Element::TraceInfo { first: true, .. } => {
                self.expect = Expect::Entry;
            }
            Element::NoSync(why) => self.gap(Gap::NoSync(why), at, sink),
            _ => {}
        }
    }

    fn atom(&mut self, taken: bool, source: Option<Address>) {
        if taken {
            self.taken = self.taken.saturating_add(1);
            self.expect = Expect::Target { source };
        } else {
            self.not_taken = self.not_taken.saturating_add(1);
            self.expect = Expect::Nothing;
        }
    }

    fn address(&mut self, address: AddressPacket, at: Located<()>, sink: &mut impl FnMut(Located<Record>)) {
        let source = match std::mem::take(&mut self.expect) {
            Expect::Nothing => return,
            Expect::Entry => None,
            Expect::Target { source } => {
                self.taken = self.taken.saturating_sub(1);
                source
            }
        };
        self.record(Step::Branch { target: address.address, source }, at, sink);
    }

    fn gap(&mut self, gap: Gap, at: Located<()>, sink: &mut impl FnMut(Located<Record>)) {
        self.record(Step::Gap(gap), at, sink);
        self.expect = Expect::Entry;
    }

    fn record(&mut self, step: Step, at: Located<()>, sink: &mut impl FnMut(Located<Record>)) {
        let Self { cycle, taken, not_taken, .. } = *self;
        self.taken = 0;
        self.not_taken = 0;
        if self.held.len() >= HELD {
            self.give(sink);
        }
        self.held.push(at.map(|()| Record { cycle, step, taken, not_taken }));
    }

    fn give(&mut self, sink: &mut impl FnMut(Located<Record>)) {
        self.held.drain(..).for_each(sink);
    }
}
