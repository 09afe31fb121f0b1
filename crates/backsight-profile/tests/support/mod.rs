//! Recording bundled programs, and counting what they really executed.

// Each test file uses a part.
#![allow(dead_code)]

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::path::{Path, PathBuf};

use backsight::core::{Address, Execution, Isa, Retired, Trap};
use backsight::isa::{Class, classify_retired};
use backsight_profile::{EdgeKind, Profile};
use backsight_run::qemu::{EmulatedProgram, EmulationOptions};
use backsight_run::retired::RetiredReader;
use backsight_run::{Recording, SimulatedProgram, TRUTH, UnitKind};

/// A folder that is gone at the end.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("backsight-profile-{}-{name}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("a temporary folder");
        Self(folder)
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

pub fn program(target: &str, name: &str) -> PathBuf {
    backsight_testing::repository().join("testdata/programs").join(target).join(name)
}

/// Records a program with the truth beside the trace; false, and a word about it, where QEMU is missing.
pub fn record(capture: &Path, program: &Path, unit: &str, settings: &[&str], limit: u64) -> bool {
    let kind = UnitKind::named(unit).expect("a unit of that name");
    let settings: Vec<(String, String)> = settings
        .iter()
        .map(|setting| {
            setting.split_once('=').map(|(key, value)| (key.into(), value.into())).expect("KEY=VALUE")
        })
        .collect();
    let is_riscv = unit == "etrace" || unit == "ntrace";
    let is_a32 = matches!(unit, "ptm" | "etm3");
    let isa = if is_riscv {
        Isa::Rv64
    } else if is_a32 {
        Isa::A32
    } else {
        Isa::A64
    };
    let unit = kind.program(isa, &settings).expect("a unit");
    let recording = Recording::new(unit).truth(true).limit(limit).replace(true);
    let recorded = if is_riscv {
        let contents = std::fs::read(program).expect("a bundled program");
        let options = backsight_sim_options(limit);
        let mut source = SimulatedProgram::load(program, &contents, options).expect("a program");
        recording.record(&mut source, capture, &mut |_| {})
    } else {
        let options = EmulationOptions { program: program.to_owned(), ..EmulationOptions::default() };
        let Some(mut source) = emulated(options) else { return false };
        recording.record(&mut source, capture, &mut |_| {})
    };
    recorded.expect("a recording");
    true
}

/// A program under QEMU with the plugin that the tests have; `None`, and a word about it, where one of them is missing.
pub fn emulated(options: EmulationOptions) -> Option<EmulatedProgram> {
    let Some(plugin) = backsight_testing::qemu_plugin() else {
        backsight_testing::skipped("the QEMU plugin is not built (tools/qemu-plugin)");
        return None;
    };
    let program = EmulatedProgram::new(EmulationOptions { plugin: Some(plugin), ..options });
    program.map_err(backsight_testing::skipped).ok()
}

fn backsight_sim_options(limit: u64) -> backsight_sim::Options {
    backsight_sim::Options { instructions: limit, ..Default::default() }
}

/// First address, address after the last.
pub type Range = (u64, u64);

/// How a block was left, as far as counts tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Way {
    Onwards,
    Taken,
    Exception,
}

/// What was counted.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub blocks: BTreeMap<Range, u64>,
    pub edges: BTreeMap<(Range, Way, Range), u64>,
    pub instructions: BTreeMap<u64, u64>,
}

impl Counts {
    /// Those of a profile.
    pub fn of(profile: &Profile) -> Self {
        let mut counts = Self::default();
        let range = |number: u32| {
            let block = &profile.blocks[number as usize];
            let start = block.memory_start.0;
            (start, start + (block.end - block.start))
        };
        for (block, number) in profile.blocks.iter().zip(0..) {
            *counts.blocks.entry(range(number)).or_default() += block.count;
            for (address, _) in profile.instructions_of(block) {
                let address = block.memory_start.0 + (address - block.start);
                *counts.instructions.entry(address).or_default() += block.count;
            }
        }
        for edge in &profile.edges {
            let way = match edge.kind {
                EdgeKind::Sequence | EdgeKind::NotTaken => Way::Onwards,
                EdgeKind::Exception => Way::Exception,
                _ => Way::Taken,
            };
            *counts.edges.entry((range(edge.from), way, range(edge.to))).or_default() += edge.count;
        }
        counts
    }

    /// Blocks that end without a branch though nothing happened there. Followers differ in that: they end long blocks,
    /// and blocks at calls of the environment. The truth is cut at the same addresses.
    pub fn splits(profile: &Profile) -> BTreeSet<Range> {
        let mut longest: BTreeMap<u64, u64> = BTreeMap::new();
        for block in &profile.blocks {
            let end = longest.entry(block.memory_start.0).or_default();
            *end = (*end).max(block.memory_start.0 + (block.end - block.start));
        }
        let plain = profile.blocks.iter().filter(|block| block.class == Class::Other);
        plain
            .map(|block| (block.memory_start.0, block.memory_start.0 + (block.end - block.start)))
            .filter(|(start, end)| longest.get(start) == Some(end))
            .collect()
    }

    /// Those of the truth that a capture keeps.
    pub fn of_truth(capture: &Path, splits: &BTreeSet<Range>) -> Self {
        let file = std::fs::File::open(capture.join(TRUTH)).expect("the truth");
        let mut threads: BTreeMap<u32, Thread> = BTreeMap::new();
        let (mut counts, mut current) = (Self::default(), 0);
        for item in RetiredReader::new(BufReader::new(file)).expect("the truth") {
            match item.expect("an item") {
                Execution::Thread(thread) => current = thread,
                Execution::Instruction(retired) => {
                    *counts.instructions.entry(retired.address.0).or_default() += 1;
                    threads.entry(current).or_default().instruction(&retired, splits, &mut counts);
                }
                Execution::Trap(trap) => threads.entry(current).or_default().trap(&trap, &mut counts),
                Execution::Gap => {
                    let thread = threads.entry(current).or_default();
                    thread.end(&mut counts);
                    thread.last = None;
                }
                _ => {}
            }
        }
        threads.values_mut().for_each(|thread| thread.end(&mut counts));
        counts
    }

    /// Are they the same? If not, names the first difference.
    pub fn assert_same(&self, truth: &Self, what: &str) {
        fn first<K: Ord + std::fmt::Debug>(a: &BTreeMap<K, u64>, b: &BTreeMap<K, u64>) -> Option<String> {
            let wrong = a.iter().find(|(key, count)| b.get(key) != Some(count));
            let missing = b.iter().find(|(key, _)| !a.contains_key(key));
            wrong
                .map(|(key, count)| format!("{key:x?}: counted {count}, executed {:?}", b.get(key)))
                .or_else(|| missing.map(|(key, count)| format!("{key:x?}: not counted, executed {count}")))
        }
        let differences = [
            ("instructions", first(&self.instructions, &truth.instructions)),
            ("blocks", first(&self.blocks, &truth.blocks)),
            ("edges", first(&self.edges, &truth.edges)),
        ];
        for (kind, difference) in differences {
            assert!(difference.is_none(), "{what}, {kind}: {}", difference.unwrap_or_default());
        }
    }
}

/// A thread of the truth.
#[derive(Default)]
struct Thread {
    /// The block that goes on.
    open: Option<Range>,
    /// How the open block ends.
    way: Option<Way>,
    /// The last block, and how it was left.
    last: Option<(Range, Way)>,
    /// Where the program would go on after an exception.
    expected: Option<Address>,
    trapped: bool,
}

impl Thread {
    fn instruction(&mut self, retired: &Retired, splits: &BTreeSet<Range>, counts: &mut Counts) {
        let address = retired.address.0;
        if self.open.is_some_and(|(start, end)| end != address || splits.contains(&(start, end))) {
            self.end(counts);
        }
        if self.open.is_none() && std::mem::take(&mut self.trapped) {
            let resumed = self.expected == Some(retired.address);
            if !resumed && let Some((_, way)) = &mut self.last {
                *way = Way::Exception;
            }
        }
        let (start, _) = self.open.unwrap_or((address, address));
        self.open = Some((start, retired.end().0));
        self.expected = Some(retired.next);
        let instruction = classify_retired(retired);
        let is_branch = matches!(instruction.class, Class::DirectBranch | Class::IndirectBranch);
        self.way = Some(if is_branch && retired.taken { Way::Taken } else { Way::Onwards });
        if is_branch {
            self.end(counts);
        }
    }

    fn trap(&mut self, _trap: &Trap, counts: &mut Counts) {
        self.end(counts);
        self.trapped = true;
    }

    fn end(&mut self, counts: &mut Counts) {
        let Some(block) = self.open.take() else { return };
        *counts.blocks.entry(block).or_default() += 1;
        if let Some((last, way)) = self.last {
            *counts.edges.entry((last, way, block)).or_default() += 1;
        }
        self.last = Some((block, self.way.take().unwrap_or(Way::Onwards)));
    }
}
