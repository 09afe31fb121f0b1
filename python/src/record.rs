//! Recording programs.

use std::path::PathBuf;

use backsight::core::Isa;
use backsight_capture::Format;
use backsight_run::qemu::{EmulatedProgram, EmulationOptions};
use backsight_run::units::{TracedData, UnitTemplate};
use backsight_run::{
    ExecutionSource, Recorded, Recording, RefusedFolder, SandboxRequest, SimulatedProgram, Target, UnitKind,
};
use backsight_sim::Options;
use pyo3::prelude::*;

use crate::background::{self, StopFlag};
use crate::error;

/// Runs a program with a trace unit attached, and writes a capture to `output`: a folder, or an archive if the name ends in
/// .zip.
///
/// Static riscv64 programs run in the built-in simulator; programs for aarch64 and arm, and riscv64 ones with `qemu=True`,
/// run under QEMU. What the program prints passes through. An interrupt ends the program; what it did until then is in the
/// capture. `sandbox=True` refuses a program in the simulator all files of this machine but those beneath the folders of
/// `allow_read` and `allow_write`, and `notes` has what was refused; programs that lie in a capture run so by themselves, unless
/// it is False. Under QEMU a program may do all that you may do. `unit` is the trace unit (without it etrace for riscv64 and etm4 for Arm), `config` its settings, "KEY=VALUE".
#[pyfunction]
#[pyo3(signature = (program, output, unit=None, *, config=Vec::new(), format="package", truth=false, limit=None,
    force=false, qemu=false, sysroot=None, cpu=None, qemu_plugin=None, sandbox=None, allow_read=Vec::new(),
    allow_write=Vec::new()),
    text_signature = "(program, output, unit=None, *, config=(), format=\"package\", truth=False, limit=None, force=False, \
        qemu=False, sysroot=None, cpu=None, qemu_plugin=None, sandbox=None, allow_read=(), allow_write=())")]
#[expect(clippy::too_many_arguments, reason = "keyword arguments of Python")]
pub fn record(
    py: Python<'_>,
    program: Vec<PathBuf>,
    output: PathBuf,
    unit: Option<&str>,
    config: Vec<String>,
    format: &str,
    truth: bool,
    limit: Option<u64>,
    force: bool,
    qemu: bool,
    sysroot: Option<PathBuf>,
    cpu: Option<String>,
    qemu_plugin: Option<PathBuf>,
    sandbox: Option<bool>,
    allow_read: Vec<PathBuf>,
    allow_write: Vec<PathBuf>,
) -> PyResult<RecordedObject> {
    if sandbox == Some(false) && (!allow_read.is_empty() || !allow_write.is_empty()) {
        return Err(error::usage(
            "sandbox=False: without a sandbox, allow_read and allow_write have no meaning",
        ));
    }
    let sandbox = SandboxRequest { wanted: sandbox, read: allow_read, write: allow_write };
    let path = program.first().ok_or_else(|| error::usage("program: it is empty"))?.clone();
    let contents = std::fs::read(&path).map_err(|error| error::file(&path, &error))?;
    let target = Target::of_elf(&contents)
        .ok_or_else(|| error::recording(format!("{}: {}", path.display(), Target::refusal(&contents))))?;
    let unit = programmed(unit, &config, target.first_isa(), target.name())?;
    let traced = unit.traced_data();
    let words: Vec<_> = program.iter().map(|word| word.to_string_lossy()).collect();
    let recording = Recording::new(unit)
        .title(format!("{} ({target})", words.join(" ")))
        .format(match format {
            "package" => Format::Package,
            "snapshot" => Format::Snapshot,
            other => return Err(error::usage(format!("format {other}: expected one of package, snapshot"))),
        })
        .truth(truth)
        .limit(limit.unwrap_or(u64::MAX))
        .replace(force);
    if target == Target::Riscv64 && !qemu {
        let arguments: Option<Vec<_>> = program.iter().map(|word| Some(word.to_str()?.to_owned())).collect();
        let arguments = arguments.ok_or_else(|| {
            error::recording(
                "the simulator takes only arguments that are UTF-8 text: run the program with qemu=True",
            )
        })?;
        let refused = |RefusedFolder { folder, writable, error }| {
            let name = if writable { "allow_write" } else { "allow_read" };
            error::usage(format!("{name} {}: {error}", folder.display()))
        };
        let sandbox = sandbox.of(&path).map_err(refused)?;
        let instructions = limit.unwrap_or(u64::MAX);
        let options = Options { arguments, instructions, sandbox, ..Options::default() };
        let program =
            SimulatedProgram::load(&path, &contents, options).map_err(|error| error::of_recording(&error))?;
        return run(py, recording, program, output);
    }
    let checked = sandbox.check_emulated(&path, "sandbox=True", "sandbox=False");
    checked.map_err(|why| if sandbox.is_explicit() { error::usage(why) } else { error::recording(why) })?;
    let options = EmulationOptions {
        program: path,
        arguments: program.into_iter().skip(1).map(PathBuf::into_os_string).collect(),
        sysroot,
        cpu,
        plugin: qemu_plugin,
        memory: traced != TracedData::None,
        values: traced == TracedData::Values,
        ..EmulationOptions::default()
    };
    let program = EmulatedProgram::new(options).map_err(error::recording)?;
    run(py, recording, program, output)
}

/// The unit for programs of this instruction set, which is called `target`.
fn programmed(
    name: Option<&str>,
    config: &[String],
    isa: Isa,
    target: &str,
) -> PyResult<Box<dyn UnitTemplate>> {
    let mut fitting = UnitKind::for_isa(isa);
    let kind = match name {
        None => fitting.next(),
        Some(name) => fitting.find(|kind| kind.name == name),
    };
    let kind = kind.ok_or_else(|| {
        let names: Vec<_> = UnitKind::for_isa(isa).map(|kind| kind.name).collect();
        error::usage(format!("unit: this program is for {target}, which {} can trace", names.join(" and ")))
    })?;
    let settings = backsight_capture::settings(config).map_err(error::usage)?;
    kind.program(isa, &settings).map_err(|error| error::usage(format!("config {error}")))
}

fn run(
    py: Python<'_>,
    recording: Recording,
    mut source: impl ExecutionSource + Send + 'static,
    output: PathBuf,
) -> PyResult<RecordedObject> {
    let flag = StopFlag::of(source.stop().flag());
    let path = output.clone();
    let recorded = background::run(py, &flag, move || recording.record(&mut source, &path, &mut |_| {}))?;
    let recorded = recorded.map_err(|error| error::of_recording(&error))?;
    match &recorded.cut_short {
        Some(why) => Err(error::failure(format!(
            "{}: recording ended early: {why}; what was recorded until then is there",
            output.display()
        ))),
        None => Ok(RecordedObject { path: output, recorded }),
    }
}

/// What was recorded.
#[pyclass(frozen, module = "backsight", name = "Recorded")]
pub struct RecordedObject {
    path: PathBuf,
    recorded: Recorded,
}

#[pymethods]
impl RecordedObject {
    /// The capture: `backsight.open` takes it.
    #[getter]
    fn path(&self) -> PathBuf {
        self.path.clone()
    }

    /// Instructions that were executed.
    #[getter]
    fn instructions(&self) -> u64 {
        self.recorded.instructions
    }

    /// Bytes of trace.
    #[getter]
    fn bytes(&self) -> u64 {
        self.recorded.bytes
    }

    /// Threads, each a source of its own.
    #[getter]
    fn threads(&self) -> usize {
        self.recorded.threads
    }

    /// How the program ended, in words.
    #[getter]
    fn ended(&self) -> String {
        self.recorded.ending.ended.to_string()
    }

    /// What one should know about the recording, in words.
    #[getter]
    fn notes(&self) -> Vec<String> {
        self.recorded.ending.notes.iter().map(|note| error::in_python(note)).collect()
    }

    fn __repr__(&self) -> String {
        let Recorded { instructions, bytes, ending, .. } = &self.recorded;
        format!(
            "<Recorded {:?}: {instructions} instructions, {bytes} bytes of trace, {}>",
            self.path, ending.ended
        )
    }
}
