//! Running the programs of a set, several at a time; and again from their load values.

use super::data::DataBench;
use super::report::Row;
use super::speed::{Executed, speed};
use super::{Bench, Case, code_of};
use crate::code::Code;
use crate::container::Reader;
use crate::data::replay::{RecordingWriter, replay};
use crate::data::values::ValueCache;
use crate::program::Program;
use crate::scheme::Scheme;
use backsight_core::{EachItem, Execution, ExecutionSink};
use backsight_sim::{Elf, Options, Simulator, Streams};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Programs in a folder: `bin/`, `input/`, and `list`, which says how each is run.
#[derive(Clone, Debug)]
pub struct Set {
    /// The folder.
    pub folder: PathBuf,
    /// The programs.
    pub cases: Vec<Case>,
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Experiment {
    /// The schemes.
    pub schemes: Vec<Scheme>,
    /// Data addresses and load values too.
    pub data: bool,
    /// Instructions of each program, at most.
    pub instructions: u64,
}

/// What became of a program that was executed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Replayed {
    /// Instructions.
    pub instructions: u64,
    /// Instructions, loads, stores and whatever else was compared.
    pub items: u64,
    /// Those that were not the same.
    pub differing: u64,
    /// All registers are the same in the end.
    pub registers: bool,
    /// Bits of all load values.
    pub raw_bits: u64,
    /// Bits that it was executed from.
    pub bits: u64,
}

impl Set {
    /// Reads the list of a folder.
    pub fn open(folder: &Path) -> Result<Self, String> {
        let list = folder.join("list");
        let text = std::fs::read_to_string(&list).map_err(|error| format!("{}: {error}", list.display()))?;
        let cases = Case::list(&text).map_err(|why| format!("{}: {why}", list.display()))?;
        Ok(Self { folder: folder.to_owned(), cases })
    }

    fn simulator(&self, case: &Case, file: &[u8], most: u64) -> Result<Simulator, String> {
        let mut streams = Streams::none();
        if let Some(input) = &case.input {
            let path = self.folder.join(input);
            let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            streams.input = Box::new(std::io::BufReader::new(file));
        }
        let word = |word: &String| {
            if word.starts_with("input/") {
                self.folder.join(word).display().to_string()
            } else {
                word.clone()
            }
        };
        let arguments = case.command.iter().map(word).collect();
        let options = Options { streams, arguments, instructions: most, ..Options::default() };
        Simulator::load(file, options).map_err(|error| format!("{}: {error}", case.name))
    }

    /// Reads a run that was recorded.
    fn recorded(&self, case: &Case, trace: &str) -> Result<(Reader<'static>, Code), String> {
        let named = |why: &dyn std::fmt::Display| format!("{}: {why}", case.name);
        let program = Program::read(&self.program(case)?, 0).map_err(|why| named(&why))?;
        let path = self.folder.join(trace);
        let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        let reader =
            Reader::new(std::io::BufReader::new(file), Some(&program)).map_err(|error| named(&error))?;
        let code = Code::new(reader.header().isa, program.sections);
        Ok((reader, code))
    }

    /// Gives at least so many instructions of a recorded run, if it has them.
    fn read(
        case: &Case,
        reader: &mut Reader<'_>,
        most: u64,
        sink: &mut dyn ExecutionSink,
    ) -> Result<(), String> {
        let named = |error| format!("{}: {error}", case.name);
        while reader.instructions() < most && reader.next_blocks(sink).map_err(named)? {}
        Ok(())
    }

    /// Measures one program.
    pub fn measure(&self, case: &Case, experiment: &Experiment) -> Result<Row, String> {
        if let Some(trace) = &case.recorded {
            return self.measure_recorded(case, trace, experiment);
        }
        let file = self.program(case)?;
        let code = code_of(&file).map_err(|error| format!("{}: {error}", case.name))?;
        let mut bench = Bench::new(&experiment.schemes, code);
        let mut data = experiment.data.then(DataBench::new);
        let mut unfit = Ok(());
        let mut sink = |item: Execution| {
            if unfit.is_ok() && !matches!(item, Execution::Access(_)) {
                unfit = bench.push(&item);
            }
            if let Some(data) = &mut data {
                data.push(&item);
            }
        };
        let mut simulator = self.simulator(case, &file, experiment.instructions)?;
        if experiment.data {
            simulator.run_with_accesses(&mut sink);
        } else {
            simulator.run(&mut sink);
        }
        unfit.map_err(|unfit| format!("{}: {unfit}", case.name))?;
        Ok(Row {
            name: case.name.clone(),
            instructions: bench.instructions(),
            outcomes: bench.finish(),
            data: data.map(DataBench::finish),
        })
    }

    fn measure_recorded(&self, case: &Case, trace: &str, experiment: &Experiment) -> Result<Row, String> {
        let (mut reader, code) = self.recorded(case, trace)?;
        let mut bench = Bench::new(&experiment.schemes, code);
        let mut unfit = Ok(());
        let mut sink = |item: Execution| {
            if unfit.is_ok() && bench.instructions() < experiment.instructions {
                unfit = bench.push(&item);
            }
        };
        Self::read(case, &mut reader, experiment.instructions, &mut EachItem(&mut sink))?;
        unfit.map_err(|unfit| format!("{}: {unfit}", case.name))?;
        let instructions = bench.instructions();
        Ok(Row { name: case.name.clone(), instructions, outcomes: bench.finish(), data: None })
    }

    /// How fast each scheme packs and unpacks one program, in instructions a second of this thread; the best of `times`. What
    /// comes back is compared with what went in.
    pub fn speed(
        &self,
        case: &Case,
        schemes: &[Scheme],
        (most, times): (u64, u32),
    ) -> Result<Vec<[f64; 2]>, String> {
        let (code, executed) = match &case.recorded {
            Some(trace) => {
                let (mut reader, code) = self.recorded(case, trace)?;
                let mut executed = Executed::default();
                Self::read(case, &mut reader, most, &mut executed)?;
                (code, executed)
            }
            None => {
                let file = self.program(case)?;
                let code = code_of(&file).map_err(|error| format!("{}: {error}", case.name))?;
                (code, Executed::record(&mut self.simulator(case, &file, most)?))
            }
        };
        schemes
            .iter()
            .map(|scheme| {
                speed(scheme, &code, &executed, times).map_err(|why| format!("{}: {why}", case.name))
            })
            .collect()
    }

    /// Executes a program again from its load values and what enters from outside, and compares every item.
    pub fn replay(&self, case: &Case, most: u64) -> Result<Replayed, String> {
        if case.recorded.is_some() {
            return Err(format!("{}: it was recorded: what it loaded is not known", case.name));
        }
        let file = self.program(case)?;
        let elf = Elf::parse(&file).map_err(|error| format!("{}: {error}", case.name))?;
        let mut values = Vec::new();
        self.simulator(case, &file, most)?.record(&mut |value| values.push(value), &mut |_| {});
        let mut first = self.simulator(case, &file, most)?;
        let begin = first.hart().clone();
        let mut writer = RecordingWriter::new(ValueCache::first_access(64 << 10), values.into_iter());
        let mut items = Vec::new();
        first.run_with_accesses(&mut |item| {
            writer.push(&item);
            items.push(item);
        });
        let (recording, raw_bits) = writer.finish();
        let mut expected = items.iter();
        let mut differing = 0;
        let (_, hart) = replay(&elf, begin, &recording, &mut |item| {
            differing += u64::from(expected.next() != Some(&item));
        });
        differing += expected.count() as u64;
        let registers = (hart.integers(), hart.floats()) == (first.hart().integers(), first.hart().floats());
        Ok(Replayed {
            instructions: recording.instructions,
            items: items.len() as u64,
            differing,
            registers,
            raw_bits,
            bits: recording.load_bits + 8 * recording.outside.len() as u64,
        })
    }

    fn program(&self, case: &Case) -> Result<Vec<u8>, String> {
        let path = self.folder.join("bin").join(&case.command[0]);
        std::fs::read(&path).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Measures all programs on so many threads; `done` is called after each. Rows are in the order of the list.
    pub fn measure_all(
        &self,
        experiment: &Experiment,
        threads: usize,
        done: &(impl Fn(&Case) + Sync),
    ) -> (Vec<Row>, Vec<String>) {
        let next = AtomicUsize::new(0);
        let rows = Mutex::new(Vec::new());
        let work = || {
            while let Some(case) = self.cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                let row = self.measure(case, experiment);
                done(case);
                rows.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(row);
            }
        };
        std::thread::scope(|scope| (0..threads.max(1)).for_each(|_| drop(scope.spawn(work))));
        let (mut good, mut bad) = (Vec::new(), Vec::new());
        for row in rows.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            match row {
                Ok(row) => good.push(row),
                Err(why) => bad.push(why),
            }
        }
        good.sort_by_key(|row: &Row| self.cases.iter().position(|case| case.name == row.name));
        (good, bad)
    }
}
