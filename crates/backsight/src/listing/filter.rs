//! Which part of the execution is wanted.

use std::ops;

use backsight_core::{Address, AddressSpace};
use backsight_flow::{Event, HardwareEvent, Range};
use backsight_image::{Code, Image, Module};
use backsight_isa::{Class, Flags};

use super::instructions::steps;
use crate::{Error, Result};

/// Which part of the execution to list. What is left empty takes everything; instructions are wanted that one of
/// `ranges`, `functions` and `modules` holds.
#[derive(Clone, Debug, Default)]
pub struct FilterOptions {
    /// Instructions at these addresses.
    pub ranges: Vec<ops::Range<u64>>,
    /// Instructions of these functions.
    pub functions: Vec<String>,
    /// Instructions of these files: their names, with or without the path.
    pub modules: Vec<String>,
    /// What ran with these context IDs.
    pub contexts: Vec<u64>,
}

impl FilterOptions {
    /// Is anything left out?
    pub fn is_selective(&self) -> bool {
        !self.is_anywhere() || !self.contexts.is_empty()
    }

    fn is_anywhere(&self) -> bool {
        self.ranges.is_empty() && self.functions.is_empty() && self.modules.is_empty()
    }
}

/// A filter, and what it has to remember of the execution of one hart.
#[derive(Clone, Debug)]
pub struct Filter {
    /// No address is unwanted.
    anywhere: bool,
    /// Apart from each other, by address.
    addresses: Vec<ops::Range<u64>>,
    contexts: Vec<u64>,
    context: Option<u64>,
    /// Harts that are wanted; none: all.
    harts: Vec<u16>,
}

/// What a filter remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    context: Option<u64>,
}

impl Filter {
    /// Finds functions and modules in the image, which is asked for only if some are named.
    ///
    /// # Errors
    /// If one is not there.
    pub fn new<'c>(options: &FilterOptions, image: impl Fn() -> &'c Image) -> Result<Self> {
        let mut addresses = options.ranges.clone();
        for name in &options.functions {
            let before = addresses.len();
            for function in image().functions() {
                if function.name == name || function.mangled == name {
                    addresses.push(function.start.0..function.start.0.saturating_add(function.size.max(1)));
                }
            }
            if addresses.len() == before {
                return Err(Error::Absent(format!(
                    "function {name}: the image has no function of that name"
                )));
            }
        }
        for name in &options.modules {
            addresses.extend(module_ranges(name, image())?);
        }
        Ok(Self {
            anywhere: options.is_anywhere(),
            addresses: apart(addresses),
            contexts: options.contexts.clone(),
            context: None,
            harts: Vec::new(),
        })
    }

    /// The same for some harts of a source only; none: all.
    #[must_use]
    pub fn harts(self, harts: &[u16]) -> Self {
        Self { harts: harts.to_vec(), ..self }
    }

    /// Is everything of the harts that are wanted?
    pub fn takes_all(&self) -> bool {
        self.anywhere && self.contexts.is_empty()
    }

    /// Is anything of this hart wanted?
    pub fn wants_hart(&self, hart: u16) -> bool {
        self.harts.is_empty() || self.harts.contains(&hart)
    }

    /// Takes note of an event, and says whether it is wanted. Of a range, some part may be: see [`Filter::parts`].
    pub fn wants(&mut self, event: &Event) -> bool {
        if let Event::Context(context, _) = event {
            self.context = context.context_id;
        }
        let is_address_wanted = match event {
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
        Remembered { context: self.context.filter(|_| !self.contexts.is_empty()) }
    }

    /// Goes on as another filter of the same options that remembered this.
    pub fn remember(&mut self, Remembered { context }: Remembered) {
        self.context = context;
    }

    /// Is what runs now wanted, by its context?
    pub fn wants_now(&self) -> bool {
        self.contexts.is_empty() || self.context.is_some_and(|context| self.contexts.contains(&context))
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
        if self.anywhere || self.addresses.iter().any(holds) {
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
