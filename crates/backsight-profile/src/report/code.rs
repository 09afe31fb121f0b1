//! The code of a function: instructions with their counts, and lines of source where their folder was given.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use backsight::core::Address;
use backsight::image::{Disassembler, SourceFolders};
use serde_json::{Value, json};

use crate::{Block, Profile};

/// Most instructions and lines of a function that are listed, and characters of a line.
const MOST_INSTRUCTIONS: usize = 1_500;
const MOST_LINES: usize = 4_000;
const MOST_COLUMNS: usize = 500;

/// Makes listings of functions.
pub(super) struct Listings<'p> {
    profile: &'p Profile,
    blocks: HashMap<u32, Vec<u32>>,
    sources: &'p SourceFolders,
}

impl<'p> Listings<'p> {
    pub fn new(profile: &'p Profile, sources: &'p SourceFolders) -> Self {
        let mut blocks: HashMap<u32, Vec<u32>> = HashMap::new();
        for (block, number) in profile.blocks.iter().zip(0..) {
            blocks.entry(block.function).or_default().push(number);
        }
        Self { profile, blocks, sources }
    }

    /// The blocks of a function: where there is not room for all, those that were executed most are listed.
    fn hottest_first(&self, function: u32) -> Vec<&'p Block> {
        let numbers = self.blocks.get(&function).into_iter().flatten();
        let mut blocks: Vec<_> =
            numbers.filter_map(|&number| self.profile.blocks.get(number as usize)).collect();
        blocks.sort_by_key(|block| (Reverse(block.count), block.start));
        blocks
    }

    /// The executed instructions of a function by address: address, count, text, file and line, source. And the lines around them, in
    /// the file that most of them are from: number, count (`null` where no code was executed), text.
    pub fn page(&self, function: u32) -> Value {
        let profile = self.profile;
        let mut rows: BTreeMap<u64, (u64, String)> = BTreeMap::new();
        let mut disassembler = Disassembler::default();
        for block in self.hottest_first(function) {
            let code = profile.code_of(block);
            for (address, size) in profile.instructions_of(block) {
                if let Some((count, _)) = rows.get_mut(&address) {
                    *count += block.count;
                } else if rows.len() < MOST_INSTRUCTIONS {
                    let offset = (address - block.start) as usize;
                    let bytes = code.get(offset..offset + usize::from(size)).unwrap_or_default();
                    let text = disassembler.disassemble(block.isa, bytes, Address(address)).text;
                    rows.insert(address, (block.count, text));
                }
            }
        }
        let Some(function) = profile.functions.get(function as usize) else { return Value::Null };
        let debug = profile.module_of(function).map(crate::Module::debug);
        let mut last = None;
        let mut listed = Vec::new();
        let is_cut = rows.len() >= MOST_INSTRUCTIONS;
        let mut files: BTreeMap<String, BTreeMap<u32, u64>> = BTreeMap::new();
        for (address, (count, text)) in rows {
            let line = debug.and_then(|debug| Some((debug, debug.line(address)?)));
            let line = line.map(|(debug, line)| (debug.file(line.file).to_owned(), line.line));
            if let Some((file, number)) = &line {
                let most = files.entry(file.clone()).or_default().entry(*number).or_default();
                *most = count.max(*most);
            }
            let (mut place, mut source) = (String::new(), String::new());
            if let Some((file, number)) = line.filter(|line| last.as_ref() != Some(line)) {
                place = format!("{}:{number}", file.rsplit('/').next().unwrap_or(&file));
                source = self.source(&file, number);
                last = Some((file, number));
            }
            listed.push(json!([format!("{address:x}"), count, text, place, source]));
        }
        let main = files.iter().max_by_key(|(_, lines)| lines.len());
        let (file, lines) =
            main.map_or_else(Default::default, |(file, lines)| (file.as_str(), self.lines(file, lines)));
        json!({ "instructions": listed, "is_cut": is_cut, "file": file, "lines": lines })
    }

    /// The lines of a file from the first that was executed to the last, with how often.
    fn lines(&self, file: &str, counts: &BTreeMap<u32, u64>) -> Vec<Value> {
        let (Some(text), Some((&first, _)), Some((&last, _))) =
            (self.sources.lines(file), counts.first_key_value(), counts.last_key_value())
        else {
            return Vec::new();
        };
        let first = first.saturating_sub(2).max(1);
        let numbers = (first..=last.saturating_add(1)).take(MOST_LINES);
        let row = |number: u32| {
            let text: String = text.get(number as usize - 1)?.chars().take(MOST_COLUMNS).collect();
            Some(json!([number, counts.get(&number), text]))
        };
        numbers.map_while(row).collect()
    }

    fn source(&self, file: &str, line: u32) -> String {
        let lines = self.sources.lines(file);
        let text = lines.and_then(|lines| lines.get((line as usize).wrapping_sub(1)).cloned());
        text.map_or_else(String::new, |text| text.chars().take(MOST_COLUMNS).collect())
    }
}
