//! A recording is the same whether its source gives blocks or single instructions.

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use backsight_core::{Execution, Isa};
use backsight_run::qemu::{EmulatedProgram, EmulationOptions};
use backsight_run::retired::RetiredReader;
use backsight_run::units::MessageKind;
use backsight_run::{
    Ending, Error, ExecutionSource, Observation, Recording, SimulatedProgram, Stop, SystemOptions, TRUTH,
    UnitKind,
};
use backsight_sim::{Options, Streams};
use backsight_testing::{qemu_plugin, repository, skipped};

/// A source that knows no blocks.
struct Single<S>(S);

impl<S: ExecutionSource> ExecutionSource for Single<S> {
    fn isa(&self) -> Isa {
        self.0.isa()
    }

    fn has_threads(&self) -> bool {
        self.0.has_threads()
    }

    fn stop(&self) -> Stop {
        self.0.stop()
    }

    fn run(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Result<Ending, Error> {
        self.0.run(&mut |seen| {
            assert!(!matches!(seen, Observation::Blocks(_)), "nobody asked for blocks");
            sink(seen);
        })
    }
}

fn program(name: &str) -> SimulatedProgram {
    let path = repository().join("testdata/programs/riscv64").join(name);
    let options =
        Options { streams: Streams::none(), host_files: false, instructions: 300_000, ..Options::default() };
    let file = std::fs::read(&path).expect("a bundled program");
    SimulatedProgram::load(&path, &file, options).expect("a static program")
}

fn recording(unit: &str, settings: &[(&str, &str)]) -> Recording {
    let settings: Vec<_> = settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let unit = UnitKind::named(unit).expect("a unit").program(Isa::Rv64, &settings).expect("settings");
    Recording::new(unit).truth(true)
}

/// A folder that is gone when the test is over.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("backsight-blocks-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A leftover of a test harms nobody.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Every file of a capture with its contents.
fn files(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut files: Vec<_> = std::fs::read_dir(folder)
        .expect("a capture")
        .map(|entry| entry.expect("a file").path())
        .filter(|path| path.is_file())
        .map(|path| {
            (path.file_name().map(PathBuf::from).unwrap_or_default(), std::fs::read(&path).expect("a file"))
        })
        .collect();
    files.sort();
    files
}

/// Records by single instructions, and by blocks on one and on two threads; gives the bytes of trace.
fn assert_same(name: &str, what: &str, recording: impl Fn() -> Recording) -> u64 {
    let folder = Folder::new(&format!("{name}-{what}"));
    let one = folder.0.join("one");
    let single = recording().two_threads(false);
    let single = single.record(&mut Single(program(name)), &one, &mut |_| {}).expect("a recording");
    for two_threads in [false, true] {
        let path = folder.0.join(format!("two-{two_threads}"));
        let by_blocks = recording().two_threads(two_threads);
        let by_blocks = by_blocks.record(&mut program(name), &path, &mut |_| {}).expect("a recording");
        assert_eq!(by_blocks.instructions, single.instructions, "{name}, {what}");
        assert_eq!(by_blocks.ending, single.ending, "{name}, {what}");
        assert_same_files(&one, &path, &format!("{name}, {what}, two threads {two_threads}"));
    }
    single.bytes
}

fn assert_same_files(one: &Path, two: &Path, what: &str) {
    let (one, two) = (files(one), files(two));
    assert!(one.len() > 2, "{what}: {} files", one.len());
    for ((path, single), (other, by_blocks)) in one.iter().zip(&two) {
        assert!(path == other && single == by_blocks, "{what}: {} differs", path.display());
    }
    assert_eq!(one.len(), two.len(), "{what}");
}

#[test]
fn captures_are_the_same_with_blocks() {
    for name in ["calls", "jit", "pack", "signals", "sort", "threads", "vm"] {
        assert!(assert_same(name, "etrace", || recording("etrace", &[])) > 100);
        assert!(assert_same(name, "ntrace", || recording("ntrace", &[])) > 100);
        let predicted = [("branch_prediction", "1"), ("implicit_return", "1"), ("framing", "siemens")];
        assert_same(name, "predicted", || recording("etrace", &predicted));
    }
}

#[test]
fn bytes_of_several_sources_meet_in_the_same_order() {
    for name in ["calls", "pack", "threads"] {
        let messages = || recording("etrace", &[("resync", "64")]).messages(Some(MessageKind::Itm));
        assert_same(name, "messages", messages);
    }
}

#[test]
fn a_limit_in_the_middle_of_a_block_is_kept() {
    for limit in [1, 2, 100, 12_345, 12_346, 12_347, 12_348] {
        let limited = || recording("etrace", &[]).limit(limit);
        assert_same("pack", &format!("limit-{limit}"), limited);
    }
}

#[test]
fn programs_under_qemu_are_the_same_with_blocks() {
    let Some(plugin) = qemu_plugin() else { return skipped("the QEMU plugin is not built") };
    for (name, unit) in [("aarch64/calls", "etm4"), ("arm/interwork", "etm4"), ("riscv64/calls", "etrace")] {
        let options = EmulationOptions {
            program: repository().join("testdata/programs").join(name),
            environment: Some(Vec::new()),
            plugin: Some(plugin.clone()),
            qemu_arguments: vec!["-seed".into(), "1".into()],
            silent: true,
            ..EmulationOptions::default()
        };
        let mut program = match EmulatedProgram::new(options) {
            Ok(program) => program,
            Err(error) => return skipped(error),
        };
        let folder = Folder::new(&name.replace('/', "-"));
        let (one, two) = (folder.0.join("one"), folder.0.join("two"));
        let recording = || {
            let unit =
                UnitKind::named(unit).expect("a unit").program(program.isa(), &[]).expect("no settings");
            Recording::new(unit).truth(true)
        };
        let (first, second) = (recording(), recording());
        let single = first.record(&mut Single(program.clone()), &one, &mut |_| {}).expect("a recording");
        let by_blocks = second.record(&mut program, &two, &mut |_| {}).expect("a recording");
        assert_eq!(by_blocks.instructions, single.instructions, "{name}");
        assert!(by_blocks.instructions > 10_000, "{name}: {} instructions", by_blocks.instructions);
        // Each run has a process of its own, and contexts have its number.
        let executed = |folder: &Path| -> Vec<Execution> {
            let file = std::fs::read(folder.join(TRUTH)).expect("a retired stream");
            let items =
                RetiredReader::new(&file[..]).expect("a retired stream").map(|item| item.expect("an item"));
            items.filter(|item| !matches!(item, Execution::Context(_))).collect()
        };
        assert!(executed(&one) == executed(&two), "{name}: other execution with blocks");
    }
}

#[test]
fn systems_under_qemu_are_the_same_with_blocks() {
    let Some(plugin) = qemu_plugin() else { return skipped("the QEMU plugin is not built") };
    // Slices that end in the middle of blocks, one CPU, events in the trace, cycles, and code that the log has to keep.
    type Case = (&'static str, &'static str, u32, u64, bool, &'static [(&'static str, &'static str)]);
    let cases: [Case; 5] = [
        ("aarch64/calls", "etm4", 2, 3000, false, &[]),
        ("aarch64/calls", "etm4", 3, 37, true, &[]),
        ("aarch64/pack", "ete", 1, 3000, false, &[("cyclecount", "1"), ("timestamps", "100")]),
        ("arm/interwork", "etm4", 2, 500, false, &[]),
        ("arm/interwork", "ptm", 2, 500, false, &[]),
    ];
    for (name, unit, cpus, slice, events_in_trace, settings) in cases {
        let options = EmulationOptions {
            program: repository().join("testdata/programs").join(name),
            environment: Some(Vec::new()),
            plugin: Some(plugin.clone()),
            qemu_arguments: vec!["-seed".into(), "1".into()],
            silent: true,
            children: true,
            ..EmulationOptions::default()
        };
        // Clones would end together.
        let programs = (EmulatedProgram::new(options.clone()), EmulatedProgram::new(options));
        let (program, mut other) = match programs {
            (Ok(program), Ok(other)) => (program, other),
            (Err(error), _) | (_, Err(error)) => return skipped(error),
        };
        let what = format!("{}-{unit}-{cpus}-{slice}", name.replace('/', "-"));
        let folder = Folder::new(&what);
        let (one, two) = (folder.0.join("one"), folder.0.join("two"));
        let settings: Vec<_> =
            settings.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        let isa = program.isa();
        let recording = || {
            let unit = UnitKind::named(unit).expect("a unit").program(isa, &settings);
            let unit = unit.expect("settings").for_system(true).expect("a unit with timestamps");
            let (cpus, numbers) = (NonZeroU32::new(cpus).expect("CPUs"), NonZeroU32::new(5));
            let system = SystemOptions { cpus, numbers, slice, ..SystemOptions::default() };
            Recording::new(unit).system(Some(system)).events_in_trace(events_in_trace).limit(400_001)
        };
        let (first, second) = (recording(), recording());
        let single = first.record(&mut Single(program), &one, &mut |_| {}).expect("a recording");
        let by_blocks = second.record(&mut other, &two, &mut |_| {}).expect("a recording");
        assert_eq!(by_blocks.instructions, single.instructions, "{what}");
        assert!(by_blocks.instructions > 10_000, "{what}: {} instructions", by_blocks.instructions);
        assert_same_files(&one, &two, &what);
    }
}
