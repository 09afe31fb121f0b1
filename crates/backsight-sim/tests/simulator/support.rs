//! Running programs in tests.
#![allow(dead_code, reason = "each test file uses a part")]

use backsight_core::Execution;
use backsight_sim::{Exit, Options, Simulator, Streams};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

/// A bundled program.
pub fn program(name: &str) -> Vec<u8> {
    let path = path(name);
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Where a bundled program is.
pub fn path(name: &str) -> PathBuf {
    backsight_testing::repository().join("testdata/programs/riscv64").join(name)
}

/// What a program writes, for the test to look at.
#[derive(Clone, Default)]
pub struct Output(Arc<Mutex<Vec<u8>>>);

impl Output {
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Output {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Options for a run that touches nothing of the host, and what it will write.
pub fn quiet() -> (Options, Output) {
    let output = Output::default();
    let streams = Streams { output: Box::new(output.clone()), ..Streams::none() };
    (Options { streams, host_files: false, ..Options::default() }, output)
}

/// Runs a program to its end: how it ended, what it wrote.
pub fn run(file: &[u8]) -> (Exit, String) {
    let (options, output) = quiet();
    let exit = Simulator::load(file, options).unwrap().run(&mut |_| {});
    (exit, output.text())
}

/// What a program does, run so many instructions at a time.
pub fn items_in_pieces(file: &[u8], size: u64) -> (Exit, Vec<Execution>) {
    let mut simulator = Simulator::load(file, quiet().0).unwrap();
    let (mut items, mut limit) = (Vec::new(), 0);
    loop {
        limit += size;
        simulator.set_limit(limit);
        match simulator.run(&mut |item| items.push(item)) {
            Exit::Limit => assert_eq!(simulator.retired(), limit),
            exit => break (exit, items),
        }
    }
}

/// A program of nothing but these instructions, at 0x10000, writable.
pub fn assembled(opcodes: &[u32]) -> Vec<u8> {
    let code: Vec<u8> = opcodes.iter().flat_map(|opcode| opcode.to_le_bytes()).collect();
    let mut file = b"\x7FELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend([2, 0, 243, 0, 1, 0, 0, 0]);
    for value in [0x1_0078u64, 64, 0] {
        file.extend(value.to_le_bytes());
    }
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    file.extend([1, 0, 0, 0, 7, 0, 0, 0]);
    let size = 120 + code.len() as u64;
    for value in [0, 0x1_0000, 0x1_0000, size, size, 0x1000] {
        file.extend(u64::to_le_bytes(value));
    }
    file.extend(code);
    file
}

/// The items of a run.
pub fn items(file: &[u8]) -> (Exit, Vec<Execution>) {
    let mut items = Vec::new();
    let exit = Simulator::load(file, quiet().0).unwrap().run(&mut |item| items.push(item));
    (exit, items)
}
