//! Memory out of data trace: the loads and stores that a trace unit reports between the instructions.
//!
//! An access comes after its instruction, often with some instructions between them: the newest instructions are held back until it is
//! there. Where accesses are missing, or it is not known where one wrote, nothing is known of memory until it is accessed again.

use std::collections::VecDeque;

use backsight::core::{Access, Address, AddressSpace, Budget, Execution, Isa, Retired};
use backsight::flow::{AccessKind, Range, TracedAccess};
use backsight::image::{Code as _, Window as TimeSpan};
use backsight::listing::steps;
use backsight::moments::InWindow;
use backsight::{Error, Event, Item, Result, SourceCode};
use backsight_run::history::{History, HistoryBuilder, HistoryError};

use super::track::Track;

/// Instructions among which an access is expected, if there is data trace.
const MOST_WITHOUT: u64 = 1 << 16;
/// Instructions that are held back.
const MOST_WAITING: usize = 256;
/// Accesses of one of them; those of a load or store multiple, and some more.
const MOST_ACCESSES: usize = 64;

/// What the data trace of a source says of memory; `None` if it has none.
pub(super) fn history(track: &Track<'_>, budget: &Budget) -> Result<Option<History>> {
    let mut look = Look { instructions: 0, isa: None, has_accesses: false };
    track.follow(&mut look)?;
    let Some(isa) = look.isa.filter(|_| look.has_accesses) else { return Ok(None) };
    let failed = |error: HistoryError| Error::Absent(format!("data trace: {error}"));
    let builder = HistoryBuilder::new(isa, &[], budget).map_err(failed)?.memory_only();
    let mut traced = Traced {
        code: track.code,
        space: AddressSpace::ANY,
        waiting: VecDeque::new(),
        builder,
        failed: None,
    };
    track.follow(&mut traced)?;
    while !traced.waiting.is_empty() {
        traced.hand_on();
    }
    match traced.failed {
        Some(error) => Err(failed(error)),
        None => traced.builder.finish().map(Some).map_err(failed),
    }
}

/// Looks for data trace at the beginning.
struct Look {
    instructions: u64,
    isa: Option<Isa>,
    has_accesses: bool,
}

impl InWindow for Look {
    fn item(&mut self, item: Item<'_, Event>) {
        match item.value {
            Event::Range(range) => {
                self.instructions += u64::from(range.instructions);
                self.isa.get_or_insert(range.isa);
            }
            Event::Access(access) => self.has_accesses |= access.address().is_some(),
            _ => {}
        }
    }

    fn has_enough(&self) -> bool {
        self.instructions > MOST_WITHOUT || self.has_accesses && self.isa.is_some()
    }
}

/// An instruction that is held back, with its accesses.
struct Waiting {
    retired: Retired,
    accesses: Vec<Access>,
    /// An access of it is missing.
    is_lost: bool,
}

struct Traced<'c, 'b> {
    code: SourceCode<'c>,
    space: AddressSpace,
    waiting: VecDeque<Waiting>,
    builder: HistoryBuilder<'b>,
    failed: Option<HistoryError>,
}

impl Traced<'_, '_> {
    fn push(&mut self, item: &Execution) {
        if self.failed.is_none() {
            self.failed = self.builder.push(item).err();
        }
    }

    /// Hands on the oldest instruction.
    fn hand_on(&mut self) {
        let Some(Waiting { retired, accesses, is_lost }) = self.waiting.pop_front() else { return };
        self.push(&Execution::Instruction(retired));
        if is_lost {
            self.push(&Execution::Gap);
        }
        accesses.into_iter().for_each(|access| self.push(&Execution::Access(access)));
    }

    fn range(&mut self, range: &Range) {
        let (mut count, mut next) = (0, range.start);
        let mut all = Vec::new();
        steps(range, self.space, &self.code, |step| {
            if count < range.instructions {
                (count, next) = (count + 1, step.address.plus(u64::from(step.size)));
                all.push((step.address, u32::from_le_bytes(step.bytes), step.size));
            }
        });
        // Each counts, whether its code is there or not.
        let missing =
            (count..range.instructions).map(|number| (next.plus(4 * u64::from(number - count)), 0, 4));
        for (address, opcode, size) in all.into_iter().chain(missing) {
            let end = address.plus(u64::from(size));
            let isa = range.isa;
            let retired = Retired { address, next: end, cycle: 0, opcode, size, isa, taken: true };
            self.waiting.push_back(Waiting { retired, accesses: Vec::new(), is_lost: false });
            if self.waiting.len() > MOST_WAITING {
                self.hand_on();
            }
        }
    }

    fn access(&mut self, traced: &TracedAccess) {
        let mut newest = self.waiting.iter_mut().rev();
        let found = match traced.instruction() {
            Some(address) => newest.find(|waiting| waiting.retired.address == address),
            None => newest.next(),
        };
        let Some(waiting) = found else { return self.lose() };
        let (reads, writes) = match traced.kind() {
            AccessKind::Load => (true, false),
            AccessKind::Store => (false, true),
            // Whether it wrote, and what, is not known.
            _ => (true, true),
        };
        let is_plain = matches!(traced.kind(), AccessKind::Load | AccessKind::Store);
        match (traced.address(), traced.size()) {
            (Some(Address(address)), size @ 1..=8) if waiting.accesses.len() + 2 <= MOST_ACCESSES => {
                let value = traced.value().filter(|_| !traced.has_failed());
                let known = |known| Access {
                    address: Address(address),
                    value: if known { value.unwrap_or(0) } else { 0 },
                    size,
                    store: false,
                    known,
                };
                if reads {
                    waiting.accesses.push(known(value.is_some() && traced.kind() != AccessKind::Unknown));
                }
                if writes {
                    waiting.accesses.push(Access { store: true, ..known(is_plain && value.is_some()) });
                }
            }
            _ if writes => waiting.is_lost = true,
            _ => {}
        }
    }

    /// Nothing is known of memory from here on.
    fn lose(&mut self) {
        while !self.waiting.is_empty() {
            self.hand_on();
        }
        self.push(&Execution::Gap);
    }
}

impl InWindow for Traced<'_, '_> {
    fn item(&mut self, item: Item<'_, Event>) {
        match &item.value {
            Event::Range(range) => self.range(range),
            Event::Context(context, _) => self.space = self.code.space_of(context),
            Event::Access(access) => self.access(access),
            Event::AccessesLost => self.lose(),
            event if event.is_break() => self.lose(),
            _ => {}
        }
    }

    fn enter(&mut self, span: TimeSpan) {
        self.code.enter(span);
    }

    fn has_enough(&self) -> bool {
        self.failed.is_some()
    }
}
