//! Pseudo-probes: marks that clang puts into every block (`-fpseudo-probe-for-profiling`).
//!
//! Lines lose blocks: an optimiser merges, copies and moves what a line was compiled to. A probe is placed in a block
//! before anything is optimised, costs no instruction, and is copied with its block: the sum over the addresses of its
//! copies is how often the block of the source was executed. `.pseudo_probe_desc` names the functions and has a hash of the
//! control flow of each; `.pseudo_probe` has a tree for each function: its probes, and below each call that was replaced
//! by the code of the function those of that function. Addresses count from the probe before, those of the first probe from
//! the beginning of the function.

use std::collections::HashMap;

use object::{Object, ObjectSection};

/// The number of the probe of a call that the compiler did not keep.
const LOST: u32 = 0;

/// Nested functions; more is damage.
const DEEPEST: usize = 256;

/// A function that has probes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbedFunction {
    /// Its name in the compiler.
    pub name: String,
    /// A hash of its control flow: a profile of another one is not applied.
    pub checksum: u64,
}

/// What a probe stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeKind {
    /// A block.
    Block,
    /// A call, of a function that the instruction names or not.
    Call,
}

/// A copy of a probe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// The instruction that it stands before, or the call.
    pub address: u64,
    /// Its number in its function.
    pub index: u32,
    /// Which of several blocks that late passes made of one it is.
    pub discriminator: u32,
    /// What it stands for.
    pub kind: ProbeKind,
    /// The function that it is in: [`Probes::frames`].
    body: u32,
}

/// A function of its own, or the copy of one in place of a call.
#[derive(Clone, Copy, Debug)]
struct Body {
    guid: u64,
    /// The body around it, and the probe of the call there.
    parent: Option<(u32, u32)>,
}

/// A function that a probe is in, and which call or probe of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeFrame<'a> {
    /// The function.
    pub function: &'a ProbedFunction,
    /// The probe of the call, or the probe itself in the innermost function.
    pub index: u32,
}

/// The probes of a file.
#[derive(Clone, Debug, Default)]
pub struct Probes {
    functions: HashMap<u64, ProbedFunction>,
    bodies: Vec<Body>,
    /// By address.
    probes: Vec<Probe>,
}

impl Probes {
    /// Reads the probes of an ELF file with these functions: name, first address and size. What cannot be read is left out.
    pub fn read<'a>(contents: &[u8], functions: impl Iterator<Item = (&'a str, u64, u64)>) -> Self {
        let Ok(file) = object::File::parse(contents) else { return Self::default() };
        let section = |name: &str| file.section_by_name(name).and_then(|section| section.data().ok());
        match (section(".pseudo_probe_desc"), section(".pseudo_probe")) {
            (Some(descriptions), Some(trees)) => Self::decode(descriptions, trees, functions),
            _ => Self::default(),
        }
    }

    fn decode<'a>(
        descriptions: &[u8],
        trees: &[u8],
        functions: impl Iterator<Item = (&'a str, u64, u64)>,
    ) -> Self {
        let mut probes = Self { functions: descriptions_in(descriptions), ..Self::default() };
        let mut ranges = HashMap::new();
        for (name, start, size) in functions {
            for name in [name, crate::export::compiled_name(name)] {
                ranges.entry(guid_of(name)).or_insert((start, start.saturating_add(size)));
            }
        }
        let mut reader =
            TreeReader { bytes: Bytes(trees), ranges: &ranges, range: None, last: 0, probes: &mut probes };
        while !reader.bytes.0.is_empty() && reader.function(None, 0).is_some() {}
        probes.probes.sort_by_key(|probe| probe.address);
        probes
    }

    /// Are there none?
    pub fn is_empty(&self) -> bool {
        self.probes.is_empty()
    }

    /// All copies of all probes, by address.
    pub fn all(&self) -> &[Probe] {
        &self.probes
    }

    /// Those at an address.
    pub fn at(&self, address: u64) -> &[Probe] {
        let start = self.probes.partition_point(|probe| probe.address < address);
        let end = self.probes.partition_point(|probe| probe.address <= address);
        self.probes.get(start..end).unwrap_or_default()
    }

    /// The functions that a probe is in, the innermost first; empty if one of them is not described. Where the compiler
    /// lost the probe of a call, what is inside is counted as if it had not been put there.
    pub fn frames(&self, probe: &Probe) -> Vec<ProbeFrame<'_>> {
        let (mut frames, mut next) = (Vec::new(), Some((probe.body, probe.index)));
        while let Some((number, index)) = next {
            let Some(body) = self.bodies.get(number as usize) else { return Vec::new() };
            let Some(function) = self.functions.get(&body.guid) else { return Vec::new() };
            frames.push(ProbeFrame { function, index });
            next = body.parent.filter(|&(_, call)| call != LOST);
        }
        frames
    }
}

/// What LLVM calls a function by where it wants a number.
fn guid_of(name: &str) -> u64 {
    let digest = md5::compute(name).0;
    u64::from_le_bytes(std::array::from_fn(|index| digest[index]))
}

fn descriptions_in(section: &[u8]) -> HashMap<u64, ProbedFunction> {
    let mut bytes = Bytes(section);
    let mut next = || {
        let (guid, checksum, length) = (bytes.u64()?, bytes.u64()?, bytes.unsigned()?);
        let name = bytes.take(usize::try_from(length).ok()?)?;
        let name = String::from_utf8_lossy(name).into_owned();
        Some((guid, ProbedFunction { name, checksum }))
    };
    std::iter::from_fn(&mut next).collect()
}

struct TreeReader<'a> {
    bytes: Bytes<'a>,
    /// First address and address after the last of functions, by what LLVM calls them.
    ranges: &'a HashMap<u64, (u64, u64)>,
    /// The function, or part of one, that probes are in; `None` if no symbol says where it is.
    range: Option<(u64, u64)>,
    /// The address of the probe before.
    last: u64,
    probes: &'a mut Probes,
}

impl TreeReader<'_> {
    /// A function with all that is in it; `None` at damage.
    fn function(&mut self, parent: Option<(u32, u32)>, depth: usize) -> Option<()> {
        let (guid, count, inlined) = (self.bytes.u64()?, self.bytes.unsigned()?, self.bytes.unsigned()?);
        if depth == 0 {
            self.range = self.ranges.get(&guid).copied();
            self.last = self.range.map_or(0, |(start, _)| start);
        }
        let body = u32::try_from(self.probes.bodies.len()).ok()?;
        self.probes.bodies.push(Body { guid, parent });
        for _ in 0..count {
            self.probe(body)?;
        }
        for _ in 0..inlined {
            let call = self.index()?;
            (depth < DEEPEST).then_some(())?;
            self.function(Some((body, call)), depth + 1)?;
        }
        Some(())
    }

    fn index(&mut self) -> Option<u32> {
        u32::try_from(self.bytes.unsigned()?).ok()
    }

    fn probe(&mut self, body: u32) -> Option<()> {
        const SENTINEL: u8 = 2;
        const HAS_DISCRIMINATOR: u8 = 4;
        let index = self.index()?;
        let packed = self.bytes.take(1)?.first().copied()?;
        let (kind, attributes, is_distance) = (packed & 0xF, packed >> 4 & 7, packed & 0x80 != 0);
        if is_distance {
            self.last = self.last.wrapping_add_signed(self.bytes.signed()?);
        } else if attributes & SENTINEL != 0 {
            // Part of a function that has been split off: its number, not its address.
            self.range = self.ranges.get(&self.bytes.u64()?).copied();
            self.last = self.range.map_or(0, |(start, _)| start);
        } else {
            // As older versions wrote it.
            self.last = self.bytes.u64()?;
            self.range = Some((self.last, u64::MAX));
        }
        let discriminator = if attributes & HAS_DISCRIMINATOR != 0 { self.index()? } else { 0 };
        let kind = if kind == 0 { ProbeKind::Block } else { ProbeKind::Call };
        // A block without code at the end of a function is at the beginning of the next.
        let is_inside = self.range.is_some_and(|(start, end)| (start..end).contains(&self.last));
        if is_inside && attributes & SENTINEL == 0 {
            self.probes.probes.push(Probe { address: self.last, index, discriminator, kind, body });
        }
        Some(())
    }
}

struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, left) = self.0.split_at_checked(length)?;
        self.0 = left;
        Some(taken)
    }

    fn u64(&mut self) -> Option<u64> {
        Some(u64::from_le_bytes(self.take(8)?.try_into().ok()?))
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut slice = gimli::EndianSlice::new(self.0, gimli::LittleEndian);
        let value = gimli::Reader::read_uleb128(&mut slice).ok()?;
        self.0 = slice.slice();
        Some(value)
    }

    fn signed(&mut self) -> Option<i64> {
        let mut slice = gimli::EndianSlice::new(self.0, gimli::LittleEndian);
        let value = gimli::Reader::read_sleb128(&mut slice).ok()?;
        self.0 = slice.slice();
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn description(name: &str, checksum: u64) -> Vec<u8> {
        let mut bytes = guid_of(name).to_le_bytes().to_vec();
        bytes.extend(checksum.to_le_bytes());
        bytes.push(name.len() as u8);
        bytes.extend(name.bytes());
        bytes
    }

    fn tree() -> (Vec<u8>, Vec<u8>) {
        let descriptions = [description("outer", 7), description("inner", 9)].concat();
        let mut tree = guid_of("outer").to_le_bytes().to_vec();
        // Three probes, a function inside: block 1 at +0, block 2 at +8, call 3 at +12; 40 is past the end.
        tree.extend([4, 1, 1, 0x80, 0, 2, 0x80, 8, 3, 0x82, 4, 4, 0x80, 28, 3]);
        tree.extend(guid_of("inner").to_le_bytes());
        // Back by 24, with a discriminator.
        tree.extend([1, 0, 1, 0xC0, 0x68, 5]);
        (descriptions, tree)
    }

    #[test]
    fn probes_are_found_at_their_addresses_below_the_calls_that_they_came_by() {
        let (descriptions, tree) = tree();
        let symbols = [("outer", 0x1000, 40), ("inner", 0x2000, 8)];
        let probes = Probes::decode(&descriptions, &tree, symbols.into_iter());
        let found: Vec<_> = probes.all().iter().map(|probe| (probe.address, probe.index)).collect();
        assert_eq!(found, [(0x1000, 1), (0x1008, 2), (0x100C, 3), (0x1010, 1)]);
        assert_eq!(probes.at(0x100C).iter().map(|probe| probe.kind).collect::<Vec<_>>(), [ProbeKind::Call]);
        let inner = probes.at(0x1010).first().copied().expect("the probe of the function inside");
        assert_eq!(inner.discriminator, 5);
        let frames = probes.frames(&inner);
        let frames: Vec<_> = frames
            .iter()
            .map(|frame| (frame.function.name.as_str(), frame.function.checksum, frame.index))
            .collect();
        assert_eq!(frames, [("inner", 9, 1), ("outer", 7, 3)]);
    }

    #[test]
    fn a_function_inside_of_a_call_without_a_probe_stands_by_itself() {
        let (descriptions, mut tree) = tree();
        // The number of the call stands before the function inside.
        let call = 8 + 14;
        assert_eq!(tree[call], 3);
        tree[call] = 0;
        let probes = Probes::decode(&descriptions, &tree, [("outer", 0x1000, 40)].into_iter());
        let inner = probes.at(0x1010).first().copied().expect("the probe of the function inside");
        let frames: Vec<_> = probes.frames(&inner).iter().map(|frame| frame.function.name.clone()).collect();
        assert_eq!(frames, ["inner"]);
    }

    #[test]
    fn a_function_without_a_symbol_has_no_probes() {
        let (descriptions, tree) = tree();
        assert!(Probes::decode(&descriptions, &tree, [("other", 0x1000, 40)].into_iter()).is_empty());
    }

    #[test]
    fn a_section_that_is_cut_off_anywhere_is_read_up_to_there() {
        let (descriptions, tree) = tree();
        let all = Probes::decode(&descriptions, &tree, [("outer", 0x1000, 40)].into_iter());
        for end in 0..tree.len() {
            let cut = Probes::decode(&descriptions, &tree[..end], [("outer", 0x1000, 40)].into_iter());
            assert!(cut.all().len() <= all.all().len(), "{end}");
        }
    }
}
