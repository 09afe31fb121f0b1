//! How fast programs are run, recorded and written down as retired instructions:
//! `cargo run --release -p backsight-run --example record_speed -- [--rounds N] [--only WORD] PROGRAM [ARGUMENTS]`.
//!
//! A static RV64 program runs in the simulator and is recorded with E-Trace, any other under QEMU, with ETMv4. Each line
//! is what was measured, and millions of instructions in a second of processor time, of all threads and of QEMU: the best
//! of several rounds, because others use the machine, too.

use backsight_core::{Execution, ExecutionSink, Isa, Retired, RetiredBlock};
use backsight_run::qemu::{EmulatedProgram, EmulationOptions};
use backsight_run::retired::{RetiredReader, RetiredWriter};
use backsight_run::{ExecutionSource, Observation, Recording, SimulatedProgram, Target, UnitKind};
use backsight_sim::{Options, Streams};
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Instant;

type Failed = Box<dyn std::error::Error>;

/// Blocks and instructions that are kept to be written down again and again.
const KEPT: usize = 100_000;
/// Ticks of processor time in a second.
const TICKS: f64 = 100.0;
/// Seconds of a round, at least: many ticks.
const ROUND: f64 = 0.4;

const USAGE: &str = "usage: record_speed [--rounds N] [--only WORD] PROGRAM [ARGUMENTS]";

/// What is measured, and how often.
struct Effort {
    rounds: u32,
    /// Only what has this word in its name.
    only: String,
}

fn main() -> Result<(), Failed> {
    let mut arguments: Vec<String> = std::env::args().skip(1).collect();
    let mut effort = Effort { rounds: 5, only: String::new() };
    while arguments.first().is_some_and(|argument| argument.starts_with("--")) && arguments.len() > 1 {
        let value = arguments.remove(1);
        match arguments.remove(0).as_str() {
            "--rounds" => effort.rounds = value.parse()?,
            "--only" => effort.only = value,
            other => return Err(format!("{other}: {USAGE}").into()),
        }
    }
    let path = PathBuf::from(arguments.first().ok_or(USAGE)?);
    let file = std::fs::read(&path)?;
    match Target::of_elf(&file) {
        Some(Target::Riscv64) => measure(&effort, "etrace", || simulated(&path, &file, &arguments)),
        _ => measure(&effort, "etm4", || emulated(&path, &arguments)),
    }
}

fn simulated(path: &Path, file: &[u8], arguments: &[String]) -> Result<SimulatedProgram, Failed> {
    let arguments = arguments.to_vec();
    let options = Options { arguments, streams: Streams::none(), ..Options::default() };
    Ok(SimulatedProgram::load(path, file, options)?)
}

fn emulated(path: &Path, arguments: &[String]) -> Result<EmulatedProgram, Failed> {
    let arguments = arguments.iter().skip(1).map(Into::into).collect();
    let program = path.to_owned();
    Ok(EmulatedProgram::new(EmulationOptions { program, arguments, silent: true, ..Default::default() })?)
}

fn measure<S: ExecutionSource>(
    effort: &Effort,
    unit: &str,
    source: impl Fn() -> Result<S, Failed>,
) -> Result<(), Failed> {
    best("source, single instructions", effort, || {
        let mut count = 0;
        source()?.run(&mut |seen| count += instructions(black_box(&seen)))?;
        Ok(count)
    })?;
    best("source, blocks", effort, || {
        let mut count = 0;
        source()?.run_blocks(&mut |seen| count += instructions(black_box(&seen)))?;
        Ok(count)
    })?;
    let isa = source()?.isa();
    let kind = UnitKind::named(unit).ok_or("no such unit")?;
    for (what, truth, two_threads) in [
        ("recording, one thread", false, false),
        ("recording, two threads", false, true),
        ("recording with retired stream, one thread", true, false),
    ] {
        let folder = std::env::temp_dir().join(format!("backsight-speed-{}", std::process::id()));
        best(what, effort, || {
            let recording = Recording::new(kind.program(isa, &[])?).truth(truth).two_threads(two_threads);
            let recorded = recording.replace(true).record(&mut source()?, &folder, &mut |_| {})?;
            Ok(recorded.instructions)
        })?;
        if folder.is_dir() {
            std::fs::remove_dir_all(&folder)?;
        }
    }
    retired(effort, &Kept::new(&mut source()?)?)
}

/// Retired streams alone, in memory.
fn retired(effort: &Effort, kept: &Kept) -> Result<(), Failed> {
    let write = || -> Result<_, Failed> {
        let mut writer = RetiredWriter::new(Vec::new(), Isa::Rv64)?;
        for _ in 0..kept.times() {
            kept.blocks().try_for_each(|block| writer.push_block(&block))?;
        }
        Ok((writer.instructions(), writer.finish()?))
    };
    best("retired stream, written by blocks", effort, || Ok(write()?.0))?;
    let (_, file) = write()?;
    let mut single = Vec::new();
    for block in kept.blocks().take(KEPT / 4) {
        single.extend(block.instructions().map(Execution::Instruction));
    }
    best("retired stream, written one by one", effort, || {
        let mut writer = RetiredWriter::new(Vec::new(), Isa::Rv64)?;
        for _ in 0..kept.times() {
            single.iter().try_for_each(|item| writer.push(item))?;
        }
        let count = writer.instructions();
        writer.finish()?;
        Ok(count)
    })?;
    best("retired stream, read", effort, || {
        let (mut count, mut sum) = (0, 0u64);
        RetiredReader::new(&file[..])?.read(&mut |item| {
            if let Execution::Instruction(retired) = item {
                count += 1;
                sum = sum.wrapping_add(retired.next.0 ^ u64::from(retired.opcode));
            }
        })?;
        black_box(sum);
        Ok(count)
    })?;
    best("retired stream, read by blocks", effort, || {
        let mut sum = Sum::default();
        while RetiredReader::read_blocks(&mut RetiredReader::new(&file[..])?, usize::MAX, &mut sum)? {}
        black_box(sum.addresses);
        Ok(sum.count)
    })?;
    println!("{:<50}{:>10.3}", "retired stream, bits an instruction", file.len() as f64 * 8.0 / kept.count());
    Ok(())
}

/// Adds up what comes.
#[derive(Default)]
struct Sum {
    count: u64,
    addresses: u64,
}

impl ExecutionSink for Sum {
    fn item(&mut self, item: Execution) {
        if let Execution::Instruction(retired) = item {
            self.count += 1;
            self.addresses = self.addresses.wrapping_add(retired.next.0);
        }
    }

    fn block(&mut self, block: &RetiredBlock<'_>) {
        self.count += block.code.len() as u64;
        self.addresses = self.addresses.wrapping_add(block.next.0);
    }
}

/// The first blocks that a program executed.
struct Kept {
    codes: Vec<Vec<Retired>>,
    executed: Vec<(usize, backsight_core::Address, bool)>,
}

impl Kept {
    fn new(source: &mut dyn ExecutionSource) -> Result<Self, Failed> {
        let stop = source.stop();
        let mut kept = Self { codes: Vec::new(), executed: Vec::new() };
        let mut numbers = std::collections::HashMap::new();
        source.run_blocks(&mut |seen| {
            let Observation::Blocks(blocks) = seen else { return };
            for block in blocks.iter() {
                if kept.executed.len() == KEPT {
                    return stop.request_at_once();
                }
                let codes = &mut kept.codes;
                let number = *numbers.entry(block.number).or_insert_with(|| {
                    codes.push(block.code.to_vec());
                    codes.len() - 1
                });
                kept.executed.push((number, block.next, block.taken));
            }
        })?;
        Ok(kept)
    }

    fn blocks(&self) -> impl Iterator<Item = RetiredBlock<'_>> {
        self.executed.iter().map(|&(number, next, taken)| RetiredBlock {
            number: number as u64,
            code: &self.codes[number],
            next,
            taken,
        })
    }

    /// How often what was kept is written.
    const fn times(&self) -> u64 {
        50
    }

    fn count(&self) -> f64 {
        self.blocks().map(|block| block.code.len() as u64).sum::<u64>() as f64 * self.times() as f64
    }
}

fn instructions(seen: &Observation<'_>) -> u64 {
    match seen {
        Observation::Execution(Execution::Instruction(_)) => 1,
        Observation::Blocks(blocks) => blocks.count(),
        _ => 0,
    }
}

/// Measures the best of several rounds. What is measured gives the number of its instructions, and is repeated until a
/// round is long for the clock.
fn best(
    what: &str,
    effort: &Effort,
    mut measured: impl FnMut() -> Result<u64, Failed>,
) -> Result<(), Failed> {
    if !what.contains(&effort.only) {
        return Ok(());
    }
    let mut rate: f64 = 0.0;
    for _ in 0..effort.rounds {
        let start = (Instant::now(), processor_time());
        let mut count = 0;
        let seconds = loop {
            count += measured()?;
            let seconds = match (start.1, processor_time()) {
                (Some(before), Some(now)) => now - before,
                _ => start.0.elapsed().as_secs_f64(),
            };
            if seconds >= ROUND {
                break seconds;
            }
        };
        rate = rate.max(count as f64 / seconds / 1e6);
    }
    println!("{what:<50}{rate:>10.0}");
    Ok(())
}

/// Seconds that this process and those that it waited for have used, where the system reports it (Linux).
fn processor_time() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name, which may hold anything: the fields from the third on.
    let fields = text.rsplit_once(')')?.1.split_whitespace().skip(11).take(4);
    Some(fields.filter_map(|field| field.parse::<f64>().ok()).sum::<f64>() / TICKS)
}
