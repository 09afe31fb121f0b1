//! Captures that a test records, with what was really executed beside them.

use std::fs;
use std::path::{Path, PathBuf};

use backsight::Result;
use backsight_core::{Budget, Door, Execution};
use backsight_debug::replay::{Recorded, Replay, initial_memory};
use backsight_run::history::History;
use backsight_run::qemu::{EmulatedProgram, EmulationOptions, QemuError};
use backsight_run::retired::RetiredReader;
use backsight_run::{ExecutionSource, Observation, Recording, SimulatedProgram, TRUTH, UnitKind};
use backsight_sim::{Options, Streams};
use backsight_testing::{qemu_plugin, repository, skipped};

/// A bundled program for riscv64.
pub fn program(name: &str) -> PathBuf {
    repository().join("testdata/programs/riscv64").join(name)
}

/// It, in the simulator. Where its stack is depends on its name alone.
pub fn simulated(name: &str, limit: u64) -> SimulatedProgram {
    let path = program(name);
    let file = fs::read(&path).expect("a bundled program");
    let options = Options {
        arguments: vec![name.to_owned()],
        streams: Streams::none(),
        host_files: false,
        instructions: limit,
        ..Options::default()
    };
    SimulatedProgram::load(&path, &file, options).expect("a program for the simulator").with_data()
}

/// A bundled program under QEMU; `None`, and a word about it, where that or its plugin is missing.
pub fn emulated(name: &str) -> Option<EmulatedProgram> {
    let options = EmulationOptions {
        program: repository().join("testdata/programs").join(name),
        environment: Some(Vec::new()),
        values: true,
        inputs: true,
        silent: true,
        plugin: qemu_plugin(),
        ..EmulationOptions::default()
    };
    match EmulatedProgram::new(options) {
        Ok(source) => Some(source),
        Err(why @ (QemuError::NoQemu(_) | QemuError::NoPlugin(_))) => {
            skipped(why);
            None
        }
        Err(why) => panic!("{why}"),
    }
}

/// What it executes.
pub fn items(name: &str, limit: u64) -> Vec<Execution> {
    let mut items = Vec::new();
    let run = simulated(name, limit).run(&mut |seen| {
        if let Observation::Execution(item) = seen {
            items.push(item);
        }
    });
    run.expect("a program that runs");
    items
}

/// Records the beginning of a run as a capture in a folder.
pub fn record_with(source: &mut dyn ExecutionSource, unit: &str, settings: &[(&str, &str)], folder: &Path) {
    let settings: Vec<_> =
        settings.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
    let unit = UnitKind::named(unit).expect("a unit").program(source.isa(), &settings).expect("its settings");
    let recording = Recording::new(unit).truth(true).limit(100_000);
    let recorded = recording.record(source, folder, &mut |_| {}).expect("a capture");
    assert!(recorded.instructions > 0 && recorded.cut_short.is_none());
}

/// The same with a unit as it is without settings.
pub fn record(source: &mut dyn ExecutionSource, unit: &str, folder: &Path) {
    record_with(source, unit, &[], folder);
}

/// What a walk knows by the recording in a capture.
pub fn recorded(replay: &Replay<'_>, folder: &Path) -> Result<Recorded> {
    Recorded::new(history(replay, &folder.join(TRUTH)).expect("a recording"), replay)
}

/// A recording by its file.
pub fn history(
    replay: &Replay<'_>,
    file: &Path,
) -> std::result::Result<History, backsight_run::history::HistoryError> {
    let bytes = fs::read(file).expect("a recording");
    let budget = Budget::of(Door::History, None, bytes.len() as u64);
    let mut reader = RetiredReader::new(&bytes[..]).expect("a recording");
    History::read(&mut reader, &initial_memory(replay.capture()).expect("code"), &budget)
}
