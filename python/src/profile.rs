//! Profiles: what was executed, counted.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use backsight::Capture;
use backsight::decode::{Decode, Execution};
use backsight_profile::export::{ExportError, ExportOptions, FORMATS, Format, Weight};
use backsight_profile::{CountOptions, Profile};
use backsight_table::Guard;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use crate::background::{self, StopFlag};
use crate::capture::CaptureObject;
use crate::error;

/// Calls over time that are kept, for formats that show them.
const SLICES: usize = 200_000;
/// Branches on a path, for formats that show outcomes by path.
const PATH: usize = 8;

/// What a program executed, counted: blocks, edges, calls and, where the trace has them, cycles.
#[pyclass(frozen, module = "backsight", name = "Profile")]
pub struct ProfileObject {
    profile: Mutex<Profile>,
    title: String,
}

/// What `pickle` takes: a function and its arguments.
type Reduced<'py> = (Bound<'py, PyAny>, (Bound<'py, PyBytes>, String));

/// The names of the formats that profiles can be written in.
pub fn format_names() -> Vec<&'static str> {
    FORMATS.iter().map(|format| format.name).collect()
}

fn format_named(name: &str) -> PyResult<&'static Format> {
    Format::named(name)
        .ok_or_else(|| error::usage(format!("format {name}: expected one of {}", format_names().join(", "))))
}

impl ProfileObject {
    /// Counts what a decode gives; all that `format` needs. The capture is to stay as it was meanwhile.
    pub fn count(
        py: Python<'_>,
        capture: Capture,
        guard: Option<Guard>,
        title: String,
        format: Option<&str>,
        choose: impl FnOnce(&Capture) -> Decode<'_, Execution> + Send + 'static,
    ) -> PyResult<Self> {
        let format = format.map(format_named).transpose()?;
        let options = CountOptions {
            timeline: if format.is_some_and(Format::needs_timeline) { SLICES } else { 0 },
            paths: if format.is_some_and(Format::needs_paths) { PATH } else { 0 },
            ..CountOptions::default()
        };
        let stop = StopFlag::default();
        let flag = stop.shared();
        let counted = background::run(py, &stop, move || {
            guard.iter().try_for_each(Guard::check)?;
            let (profile, _) = backsight_profile::count(&capture, choose(&capture).stop_on(flag), &options)?;
            guard.iter().try_for_each(Guard::check)?;
            Ok(profile)
        })?;
        let profile = counted.map_err(|error: backsight_table::Error| error::of_table(&error))?;
        Ok(Self::new(profile, title))
    }

    /// What was counted, and what it is called.
    pub fn new(profile: Profile, title: String) -> Self {
        Self { profile: Mutex::new(profile), title }
    }

    fn lock(&self) -> MutexGuard<'_, Profile> {
        self.profile.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn export(
        &self,
        format: &str,
        weight: &str,
        module: Option<String>,
        out: &mut dyn Write,
        failure: impl FnOnce(&std::io::Error) -> PyErr,
    ) -> PyResult<()> {
        let format = format_named(format)?;
        let profile = self.lock();
        let weight = match weight {
            "instructions" => Weight::Instructions,
            "cycles" if profile.has_cycles() => Weight::Cycles,
            "cycles" => {
                let why = "the trace counts none; record with cyclecount=1, or program the trace unit to";
                return Err(error::failure(format!("weight cycles: {why}")));
            }
            other => {
                return Err(error::usage(format!("weight {other}: expected one of instructions, cycles")));
            }
        };
        if profile.totals.instructions == 0 {
            return Err(error::failure(
                "no instruction could be followed: the code that ran is not there; give it with images=[\"FILE[@ADDRESS]\"]",
            ));
        }
        let options = ExportOptions { weight, module, title: self.title.clone() };
        format.write(&profile, &options, out).map_err(|error| match error {
            ExportError::Io(error) => failure(&error),
            ExportError::Missing(what) => error::failure(format!("format {}: {what}", format.name)),
        })
    }
}

#[pymethods]
impl ProfileObject {
    /// Instructions that were counted.
    #[getter]
    fn instructions(&self) -> u64 {
        self.lock().totals.instructions
    }

    /// Cycles that the trace counts; 0 where it does not.
    #[getter]
    fn cycles(&self) -> u64 {
        self.lock().totals.cycles
    }

    /// Times that something is missing in the trace.
    #[getter]
    fn breaks(&self) -> u64 {
        self.lock().totals.breaks
    }

    /// The functions that were executed, the one with most instructions first: dictionaries with "function", "module",
    /// "instructions", "cycles" and "entries".
    #[getter]
    fn functions<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let profile = self.lock();
        let mut functions: Vec<_> = profile.functions.iter().collect();
        functions.sort_by_key(|function| std::cmp::Reverse(function.instructions));
        functions
            .into_iter()
            .map(|function| {
                let row = PyDict::new(py);
                row.set_item("function", &function.name)?;
                row.set_item("module", profile.module_of(function).map(|module| module.short_name()))?;
                row.set_item("instructions", function.instructions)?;
                row.set_item("cycles", function.cycles)?;
                row.set_item("entries", function.entries)?;
                Ok(row)
            })
            .collect()
    }

    /// Adds what another profile counted. The same code is the same wherever it was loaded.
    fn merge(&self, py: Python<'_>, other: &Self) {
        py.detach(|| {
            let other = other.lock().clone();
            self.lock().merge(other);
        });
    }

    /// All that was counted, as bytes that `from_bytes` reads: to carry it to another process. Pickling does the same.
    fn to_bytes<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.lock().to_bytes());
        let what =
            "a profile with calls over time or outcomes by path is made for one format, and does not travel";
        Ok(PyBytes::new(py, &bytes.ok_or_else(|| error::usage(what))?))
    }

    /// The profile that `to_bytes` wrote. Lines, and functions that were not executed, are in files that do not travel:
    /// `take_files` finds them again.
    #[staticmethod]
    #[pyo3(signature = (data, title="profile"))]
    fn from_bytes(py: Python<'_>, data: &[u8], title: &str) -> PyResult<Self> {
        let profile = py.detach(|| Profile::from_bytes(data));
        let profile = profile.ok_or_else(|| error::usage("these are not the bytes of a profile"))?;
        Ok(Self::new(profile, title.to_owned()))
    }

    /// Gives a profile that came as bytes the files of a capture that has the same code. True if none is missing then.
    fn take_files(&self, py: Python<'_>, capture: &CaptureObject) -> PyResult<bool> {
        let lacks = py.detach(|| self.lock().take_files_of(&capture.capture));
        lacks.map(|lacks| !lacks).map_err(|error| error::of_library(&error))
    }

    /// As `pickle` wants it: what makes it again, and from what.
    fn __reduce__<'py>(slf: &Bound<'py, Self>) -> PyResult<Reduced<'py>> {
        let this = slf.get();
        Ok((slf.get_type().getattr("from_bytes")?, (this.to_bytes(slf.py())?, this.title.clone())))
    }

    /// The profile in a format of `backsight.PROFILE_FORMATS`, as bytes.
    #[pyo3(signature = (format, *, weight="instructions", module=None))]
    fn export_bytes<'py>(
        &self,
        py: Python<'py>,
        format: &str,
        weight: &str,
        module: Option<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| {
            let mut bytes = Vec::new();
            self.export(format, weight, module, &mut bytes, |error| error::failure(error)).map(|()| bytes)
        })?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Writes the profile to a file, in a format of `backsight.PROFILE_FORMATS`.
    #[pyo3(signature = (format, output, *, weight="instructions", module=None))]
    pub fn write(
        &self,
        py: Python<'_>,
        format: &str,
        output: PathBuf,
        weight: &str,
        module: Option<String>,
    ) -> PyResult<()> {
        py.detach(|| {
            // In memory first: where a format is refused, what was in the file before stays.
            let mut bytes = Vec::new();
            self.export(format, weight, module, &mut bytes, |error| error::file(&output, error))?;
            save(&output, &bytes)
        })
    }

    fn __repr__(&self) -> String {
        let profile = self.lock();
        format!(
            "<Profile {:?}: {} instructions in {} functions>",
            self.title,
            profile.totals.instructions,
            profile.functions.len()
        )
    }
}

fn save(path: &Path, bytes: &[u8]) -> PyResult<()> {
    std::fs::write(path, bytes).map_err(|error| error::file(path, &error))
}
