//! Captures that a test records, with what was really executed beside them.

use std::fs;
use std::path::{Path, PathBuf};

use backsight::Result;
use backsight_core::{Budget, Door, Execution};
use backsight_debug::replay::{Recorded, Replay, initial_memory};
use backsight_run::history::History;
use backsight_run::retired::RetiredReader;
use backsight_run::{ExecutionSource, Observation, Recording, SimulatedProgram, TRUTH, UnitKind};
use backsight_sim::{Options, Streams};
use backsight_testing::repository;

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

/// Records a run as a capture in a folder.
pub fn record(source: &mut impl ExecutionSource, unit: &str, folder: &Path) {
    let unit = UnitKind::named(unit).expect("a unit").program(source.isa(), &[]).expect("its settings");
    let recorded = Recording::new(unit).truth(true).record(source, folder, &mut |_| {}).expect("a capture");
    assert!(recorded.instructions > 0 && recorded.cut_short.is_none());
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
