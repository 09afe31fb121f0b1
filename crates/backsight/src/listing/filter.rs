//! Which part of the execution is wanted.

use std::ops;
use std::sync::Arc;

use backsight_core::{Address, AddressSpace, Context};
use backsight_flow::{Event, HardwareEvent, Range};
use backsight_image::{Code, Image, Module};
use backsight_isa::{Class, Flags};

use super::instructions::steps;
use crate::calls::{Functions, KnownCalls, ShadowStack, Stay};
use crate::near_names::no_function;
use crate::{Capture, Error, Result, SourceCode};

/// Which part of the execution is wanted. What is left empty takes everything; instructions are wanted that one of
/// `ranges`, `functions` and `modules` holds.
#[derive(Clone, Debug, Default)]
pub struct FilterOptions {
    /// Instructions at these addresses.
    pub ranges: Vec<ops::Range<u64>>,
    /// Whatever happens inside of calls of these functions, in all that they call, too; and all instructions of the functions.
    pub functions: Vec<String>,
    /// Instructions of these files: their names, with or without the path.
    pub modules: Vec<String>,
    /// What ran with these context IDs, or in one of `threads`.
    pub contexts: Vec<u64>,
    /// What these threads did, by the numbers that the operating system gave to them.
    pub threads: Vec<u64>,
}

impl FilterOptions {
    /// Is anything left out?
    pub fn is_selective(&self) -> bool {
        !self.is_anywhere() || !self.takes_everybody()
    }

    /// Refuses threads of a capture that does not tell them apart.
    ///
    /// # Errors
    /// If its context IDs are those of processes; if its code cannot be read.
    pub fn check(&self, capture: &Capture) -> Result {
        let mut sources = capture.buffers().iter().flat_map(|buffer| buffer.sources());
        let is_one = sources.any(|source| source.thread().is_some());
        match self.threads.is_empty() || is_one || capture.code()?.names_threads() {
            true => Ok(()),
            false => {
                let why = "threads are not told apart: its context IDs are those of processes, by which --context chooses";
                Err(Error::Absent(format!("{}: {why}", capture.name())))
            }
        }
    }

    /// Does it not matter who executes?
    fn takes_everybody(&self) -> bool {
        self.contexts.is_empty() && self.threads.is_empty()
    }

    fn is_anywhere(&self) -> bool {
        self.ranges.is_empty() && self.functions.is_empty() && self.modules.is_empty()
    }
}

/// A filter, and what it has to remember of the execution of one hart.
#[derive(Clone, Debug)]
pub struct Filter<'c> {
    /// No address is unwanted.
    anywhere: bool,
    /// Functions whose calls are wanted with all that happens in them.
    functions: Arc<[ops::Range<u64>]>,
    /// What it knows of the hart whose events come, and which one that is.
    now: OfHart<'c>,
    hart: u16,
    /// The same of other harts.
    others: Vec<(u16, OfHart<'c>)>,
    /// Apart from each other, by address.
    addresses: Vec<ops::Range<u64>>,
    /// Who is wanted; nobody: everybody.
    contexts: Vec<u64>,
    threads: Vec<u64>,
    /// The code that says which thread a context is of.
    code: Option<SourceCode<'c>>,
    /// Harts that are wanted; none: all.
    harts: Vec<u16>,
}

/// What a filter has to know of a hart.
#[derive(Clone, Debug)]
struct OfHart<'c> {
    /// The calls under way, where they are followed.
    calls: Option<Box<ShadowStack<'c>>>,
    /// Is what runs wanted, by its context?
    is_chosen: bool,
}

/// What a filter remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    is_chosen: bool,
}

impl<'c> Filter<'c> {
    /// Finds functions and modules in the image, which is asked for only if some are named.
    ///
    /// # Errors
    /// If one is not there.
    pub fn new<'i>(options: &FilterOptions, image: impl Fn() -> &'i Image) -> Result<Self> {
        let mut functions = Vec::new();
        for name in &options.functions {
            functions.extend(function_ranges(name, image())?);
        }
        let mut addresses = [&*options.ranges, &*functions].concat();
        for name in &options.modules {
            addresses.extend(module_ranges(name, image())?);
        }
        Ok(Self {
            anywhere: options.is_anywhere(),
            addresses: apart(addresses),
            functions: apart(functions).into(),
            now: OfHart { calls: None, is_chosen: options.takes_everybody() },
            hart: 0,
            others: Vec::new(),
            contexts: options.contexts.clone(),
            threads: options.threads.clone(),
            code: None,
            harts: Vec::new(),
        })
    }

    /// The same, which follows calls through the code of a source: what functions call is wanted with them. Without that, only their own
    /// instructions are.
    #[must_use]
    pub fn following(self, code: SourceCode<'c>) -> Self {
        let filter = Self { code: Some(code), ..self };
        Self { now: filter.met(), ..filter }
    }

    /// What is known of a hart before its first event.
    fn met(&self) -> OfHart<'c> {
        let new = |code| Box::new(ShadowStack::new(code).marking(Arc::clone(&self.functions)));
        let calls = self.code.filter(|_| !self.functions.is_empty()).map(new);
        OfHart { calls, is_chosen: self.chooses(None) }
    }

    /// Is what runs in a context wanted?
    fn chooses(&self, context: Option<&Context>) -> bool {
        if self.contexts.is_empty() && self.threads.is_empty() {
            return true;
        }
        let number = context.and_then(|context| match &self.code {
            Some(code) => code.context_id(context),
            None => context.context_id,
        });
        let thread = self.code.and_then(|code| code.thread_number(context));
        number.is_some_and(|number| self.contexts.contains(&number))
            || thread.is_some_and(|thread| self.threads.contains(&thread))
    }

    /// Does it follow calls? Then it has to see everything that happens, and to know the calls under way where it begins.
    pub const fn follows_calls(&self) -> bool {
        self.now.calls.is_some()
    }

    /// The functions whose calls are wanted.
    pub(super) fn functions(&self) -> &Arc<[ops::Range<u64>]> {
        &self.functions
    }

    /// The same for what has yet to happen on a hart.
    #[must_use]
    pub fn of_hart(&self, hart: u16) -> Self {
        Self { hart, ..self.clone() }
    }

    /// Is this address in one of the functions whose calls are wanted?
    pub(super) fn names(&self, address: Address) -> bool {
        self.functions.iter().any(|function| function.contains(&address.0))
    }

    /// What happens next is of this hart.
    #[inline]
    pub fn turn_to(&mut self, hart: u16) {
        if hart != self.hart {
            self.change_hart(hart);
        }
    }

    #[cold]
    fn change_hart(&mut self, hart: u16) {
        let known = self.others.iter().position(|(number, _)| *number == hart);
        let next = match known {
            Some(known) => self.others.swap_remove(known).1,
            None => self.met(),
        };
        let before = std::mem::replace(&mut self.now, next);
        self.others.push((std::mem::replace(&mut self.hart, hart), before));
    }

    /// The code is not what it was.
    pub fn set_code(&mut self, code: SourceCode<'c>) {
        self.code = self.code.map(|_| code);
        let all = self.others.iter_mut().map(|(_, other)| other).chain([&mut self.now]);
        all.filter_map(|hart| hart.calls.as_mut()).for_each(|calls| calls.set_code(code));
    }

    /// What comes next of the thread may be on another hart. `is_lost`: the last thing that happened was that something is missing.
    pub(super) fn pause(&mut self, is_lost: bool) {
        let ignored = &mut |_: &Functions<'_>, _: &Stay| {};
        self.now.calls.iter_mut().for_each(|calls| calls.pause(is_lost, ignored));
    }

    /// These calls of the hart are under way.
    pub fn resume(&mut self, known: &KnownCalls<'_>) {
        self.now.calls.iter_mut().for_each(|calls| known.resume(self.hart, calls));
    }

    /// Is a call under way of a function that it names?
    pub fn is_inside(&self) -> bool {
        self.now.calls.as_ref().is_some_and(|calls| calls.is_inside())
    }

    /// The same for some harts of a source only; none: all.
    #[must_use]
    pub fn harts(self, harts: &[u16]) -> Self {
        Self { harts: harts.to_vec(), ..self }
    }

    /// Is everything of the harts that are wanted?
    pub fn takes_all(&self) -> bool {
        self.anywhere && self.contexts.is_empty() && self.threads.is_empty()
    }

    /// Is anything of this hart wanted?
    pub fn wants_hart(&self, hart: u16) -> bool {
        self.harts.is_empty() || self.harts.contains(&hart)
    }

    /// Takes note of an event, and says whether it is wanted. Of a range, some part may be: see [`Filter::parts`].
    pub fn wants(&mut self, event: &Event) -> bool {
        if let Event::Context(context, _) = event {
            self.now.is_chosen = self.chooses(Some(context));
        }
        if let Some(calls) = &mut self.now.calls {
            calls.push(event, &mut |_| {});
        }
        let is_edge = matches!(event, Event::StartOfTrace | Event::EndOfTrace { .. });
        let is_address_wanted = self.is_inside() && !is_edge
            || match event {
                Event::Range(range) => self.overlaps(range.start.0, range.end.0),
                Event::PathUnknown { start: Some(address), .. }
                | Event::PathUnknown { next: address, .. }
                | Event::UncountedLoop { address }
                | Event::NoMemory { address, .. }
                | Event::Mismatch { address, .. } => self.wants_address(*address),
                Event::Exception { return_address: Some(address), .. } => self.wants_address(*address),
                Event::Hardware(HardwareEvent::InCircuit(event)) => {
                    self.anywhere || event.address().is_some_and(|address| self.wants_address(address))
                }
                _ => self.anywhere,
            };
        is_address_wanted && self.wants_now()
    }

    /// What it remembers of what came before, as far as that decides what is wanted.
    pub fn remembered(&self) -> Remembered {
        Remembered { is_chosen: self.now.is_chosen }
    }

    /// Goes on as another filter of the same options that remembered this.
    pub fn remember(&mut self, Remembered { is_chosen }: Remembered) {
        self.now.is_chosen = is_chosen;
    }

    /// Is what runs now wanted, by its context?
    pub const fn wants_now(&self) -> bool {
        self.now.is_chosen
    }

    /// Is this address wanted?
    pub fn wants_address(&self, address: Address) -> bool {
        self.anywhere || self.addresses.iter().any(|range| range.contains(&address.0))
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.anywhere || self.addresses.iter().any(|range| range.start < end && start < range.end)
    }

    /// Gives the wanted parts of a range. Only the last instruction of the range may be a branch: a part without it has
    /// none.
    pub fn parts(&self, range: &Range, space: AddressSpace, code: &impl Code, mut each: impl FnMut(&Range)) {
        let holds = |wanted: &ops::Range<u64>| wanted.start <= range.start.0 && range.end.0 <= wanted.end;
        if self.anywhere || self.is_inside() || self.addresses.iter().any(holds) {
            return each(range);
        }
        let mut part: Option<Range> = None;
        steps(range, space, code, |step| {
            if !self.wants_address(step.address) {
                part.take().iter().for_each(&mut each);
                return;
            }
            let (start, before) = part.map_or((step.address, 0), |part| (part.start, part.instructions));
            let end = step.address.plus(step.size.into());
            let (class, flags, executed) = match end == range.end {
                true => (range.class, range.flags, range.executed),
                false => (Class::Other, Flags::NONE, true),
            };
            let (instructions, last_size) = (before + 1, step.size);
            part = Some(Range { start, end, instructions, class, flags, last_size, executed, ..*range });
        });
        part.iter().for_each(&mut each);
    }
}

/// Where the functions of a name are.
fn function_ranges(name: &str, image: &Image) -> Result<Vec<ops::Range<u64>>> {
    let all = image.functions().filter(|function| function.name == name || function.mangled == name);
    let ranges = all.map(|one| one.start.0..one.start.0.saturating_add(one.size.max(1)));
    let ranges: Vec<_> = ranges.collect();
    match ranges.is_empty() {
        false => Ok(ranges),
        true => Err(no_function(name, image)),
    }
}

/// Where the files of a name are.
fn module_ranges(name: &str, image: &Image) -> Result<Vec<ops::Range<u64>>> {
    let is_named = |module: &&Module| {
        let path = module.name();
        path.as_os_str() == name || path.file_name().is_some_and(|file| file == name)
    };
    let ranges: Vec<_> = image.modules().iter().filter(is_named).map(Module::range).collect();
    if ranges.is_empty() {
        let mut names: Vec<_> = image
            .modules()
            .iter()
            .filter_map(|module| Some(module.name().file_name()?.to_string_lossy().into_owned()))
            .collect();
        names.sort();
        names.dedup();
        return Err(Error::Absent(format!("module {name}: the code is in {}", names.join(", "))));
    }
    Ok(ranges.into_iter().map(|(first, last)| first.0..last.0.saturating_add(1)).collect())
}

/// The same addresses, in ranges that do not touch.
fn apart(mut ranges: Vec<ops::Range<u64>>) -> Vec<ops::Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut apart: Vec<ops::Range<u64>> = Vec::new();
    for range in ranges {
        match apart.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => apart.push(range),
        }
    }
    apart
}

#[cfg(test)]
mod tests {
    use super::*;
    use backsight_core::Isa;

    fn parts(wanted: &[ops::Range<u64>]) -> Vec<(u64, u64, u32, &'static str)> {
        let image = Image::new();
        let options = FilterOptions { ranges: wanted.to_vec(), ..FilterOptions::default() };
        let mut parts = Vec::new();
        let range = Range {
            start: Address(0x1000),
            end: Address(0x1020),
            instructions: 8,
            isa: Isa::A64,
            class: Class::DirectBranch,
            flags: Flags { link: true, ..Flags::NONE },
            last_size: 4,
            executed: true,
        };
        Filter::new(&options, || &image).unwrap().parts(&range, AddressSpace::ANY, &image, |part| {
            parts.push((part.start.0, part.end.0, part.instructions, part.ending()));
        });
        parts
    }

    #[test]
    #[expect(clippy::single_range_in_vec_init, reason = "one range is wanted")]
    fn a_range_is_cut_to_what_is_wanted_and_only_its_end_is_a_branch() {
        let all = [(0x1000, 0x1020, 8, "call")];
        assert_eq!(parts(&[]), all);
        assert_eq!(parts(&[0..0x1010, 0x1010..0x2000]), all);
        assert_eq!(parts(&[0x1008..0x1010]), [(0x1008, 0x1010, 2, "")]);
        assert_eq!(parts(&[0x101C..0x5000]), [(0x101C, 0x1020, 1, "call")]);
        let two = [(0x1000, 0x1004, 1, ""), (0x1018, 0x1020, 2, "call")];
        assert_eq!(parts(&[0x1018..0x1020, 0..0x1004]), two);
        assert_eq!(parts(&[0x1020..0x1030]), []);
    }
}
