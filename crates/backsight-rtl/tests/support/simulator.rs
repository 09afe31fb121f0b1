//! Building and running a design under a simulator.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use backsight_rtl::SourceFile;
use backsight_testing::skipped;

use crate::TESTBENCH;

/// A simulator that takes the emitted text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Simulator {
    Verilator,
    Icarus,
}

impl Simulator {
    const fn program(self) -> &'static str {
        match self {
            Self::Verilator => "verilator",
            Self::Icarus => "iverilog",
        }
    }

    /// Is it installed? If not, says so.
    pub fn is_there(self) -> bool {
        is_installed(self.program())
    }
}

/// Is a program installed? If not, says so.
pub fn is_installed(program: &str) -> bool {
    let found = Command::new(program).arg("-V").output().is_ok();
    if !found {
        skipped(format_args!("{program} is not installed (tools/install-rtl-tools installs it)"));
    }
    found
}

/// What is simulated with a design: each test program has one, as `TESTBENCH`.
pub struct Testbench {
    /// Its top module.
    pub top: &'static str,
    /// The argument that names the file it reads.
    pub input: &'static str,
}

/// A design that has been built.
pub struct Simulation {
    folder: PathBuf,
    simulator: Simulator,
}

impl Simulation {
    /// Writes the files of a design and builds its testbench, with these macros defined.
    pub fn build(simulator: Simulator, name: &str, macros: &[&str], files: &[SourceFile]) -> Self {
        let folder = write(name, files);
        let mut command = Command::new(simulator.program());
        match simulator {
            Simulator::Verilator => {
                command.args("--binary -j 1 -O3 -Wno-fatal -Wno-lint --x-assign 0 --x-initial 0".split(' '));
                command.args(["-MAKEFLAGS", "OPT_FAST=-O1 OPT_SLOW=-O0", "--prefix", "Vtb"]);
                command.args(["--top-module", TESTBENCH.top, "--Mdir"]).arg(folder.join("obj"))
            }
            Simulator::Icarus => {
                command.args(["-g2012", "-s", TESTBENCH.top, "-o"]).arg(folder.join("tb.vvp"))
            }
        };
        command.args(macros.iter().map(|name| format!("-D{name}")));
        run(command.args(sources(&folder, files)));
        Self { folder, simulator }
    }

    /// The lines that the testbench prints for these lines.
    pub fn run(&self, lines: &str) -> String {
        let file = self.folder.join("input.txt");
        fs::write(&file, lines).expect("lines");
        let input = format!("+{}={}", TESTBENCH.input, file.display());
        match self.simulator {
            Simulator::Verilator => run(Command::new(self.folder.join("obj/Vtb")).arg(input)),
            Simulator::Icarus => run(Command::new("vvp").arg(self.folder.join("tb.vvp")).arg(input)),
        }
    }
}

/// Writes the files of a design into a fresh folder.
pub fn write(name: &str, files: &[SourceFile]) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).expect("a folder for the design");
    for file in files {
        fs::write(folder.join(file.name), &file.text).expect("a file of the design");
    }
    folder
}

/// The SystemVerilog files of a design, in the order in which tools need them; without the example, which is a top of its own.
pub fn sources(folder: &Path, files: &[SourceFile]) -> Vec<PathBuf> {
    let is_source = |file: &&SourceFile| file.name.ends_with(".sv") && !file.name.starts_with("example");
    files.iter().filter(is_source).map(|file| folder.join(file.name)).collect()
}

/// Runs a command that must succeed; gives what it printed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}\n{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}
