//! The code of a function, line by line: source where its folder was given, instructions with their counts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};

use backsight::core::Address;
use backsight::image::{Disassembler, SourceFolders};
use serde_json::{Value, json};

use crate::{Block, Profile};

/// Most instructions of a function that are listed.
const MOST_INSTRUCTIONS: usize = 1_500;

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

    /// The executed instructions of a function by address: address, count, text, file and line, source.
    pub fn of(&self, function: u32) -> Vec<Value> {
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
        let Some(function) = profile.functions.get(function as usize) else { return Vec::new() };
        let debug = profile.module_of(function).map(crate::Module::debug);
        let mut last = None;
        let mut listed = Vec::new();
        for (address, (count, text)) in rows {
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

    fn source(&self, file: &str, line: u32) -> String {
        let lines = self.sources.lines(file);
        lines.and_then(|lines| lines.get((line as usize).wrapping_sub(1)).cloned()).unwrap_or_default()
    }
}
