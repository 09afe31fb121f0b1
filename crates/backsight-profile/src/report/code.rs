//! The code of a function, line by line: source where the file is there, instructions with their counts.

use std::collections::{BTreeMap, HashMap};

use backsight::core::Address;
use backsight::image::Disassembler;
use serde_json::{Value, json};

use crate::Profile;

/// Longest listing of a function.
const MOST_INSTRUCTIONS: usize = 1_500;

/// Longest file of source that is read.
const LONGEST_SOURCE: u64 = 4 << 20;

/// Makes listings of functions.
pub(super) struct Listings<'p> {
    profile: &'p Profile,
    blocks: HashMap<u32, Vec<u32>>,
    sources: HashMap<String, Vec<String>>,
}

impl<'p> Listings<'p> {
    pub fn new(profile: &'p Profile) -> Self {
        let mut blocks: HashMap<u32, Vec<u32>> = HashMap::new();
        for (block, number) in profile.blocks.iter().zip(0..) {
            blocks.entry(block.function).or_default().push(number);
        }
        Self { profile, blocks, sources: HashMap::new() }
    }

    /// The executed instructions of a function by address: address, count, text, file and line, source.
    pub fn of(&mut self, function: u32) -> Vec<Value> {
        let profile = self.profile;
        let mut rows: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        for &number in self.blocks.get(&function).into_iter().flatten() {
            let Some(block) = profile.blocks.get(number as usize) else { continue };
            let code = profile.code_of(block);
            let mut disassembler = Disassembler::default();
            for (address, size) in profile.instructions_of(block) {
                let offset = (address - block.start) as usize;
                let bytes = code.get(offset..offset + usize::from(size)).unwrap_or_default();
                let text = disassembler.disassemble(block.isa, bytes, Address(address)).text;
                rows.entry(address).or_insert((0, text)).0 += block.count;
            }
            if rows.len() > MOST_INSTRUCTIONS {
                break;
            }
        }
        let Some(function) = profile.functions.get(function as usize) else { return Vec::new() };
        let debug = profile.module_of(function).map(crate::Module::debug);
        let mut last = None;
        let mut listed = Vec::new();
        for (address, (count, text)) in rows.into_iter().take(MOST_INSTRUCTIONS) {
            let line = debug.and_then(|debug| Some((debug, debug.line(address)?)));
            let line = line.map(|(debug, line)| (debug.file(line.file).to_owned(), line.line));
            let (mut place, mut source) = (String::new(), String::new());
            if let Some((file, number)) = line.filter(|line| last.as_ref() != Some(line)) {
                place = format!("{}:{number}", file.rsplit('/').next().unwrap_or(&file));
                source = self.source(&file, number);
                last = Some((file, number));
            }
            listed.push(json!([format!("{address:x}"), count, text, place, source]));
        }
        listed
    }

    fn source(&mut self, file: &str, line: u32) -> String {
        let lines = self.sources.entry(file.to_owned()).or_insert_with(|| {
            let is_small =
                std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() <= LONGEST_SOURCE);
            let text = is_small.then(|| std::fs::read(file).ok()).flatten().unwrap_or_default();
            String::from_utf8_lossy(&text).lines().map(str::to_owned).collect()
        });
        lines.get((line as usize).wrapping_sub(1)).cloned().unwrap_or_default()
    }
}
