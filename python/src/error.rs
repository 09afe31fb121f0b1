//! Errors as exceptions, with the words of the program.

use pyo3::PyErr;

mod classes {
    pyo3::import_exception!(backsight.errors, BacksightError);
    pyo3::import_exception!(backsight.errors, CaptureError);
    pyo3::import_exception!(backsight.errors, ImageError);
    pyo3::import_exception!(backsight.errors, RecordError);
    pyo3::import_exception!(backsight.errors, UsageError);
}

/// Something that could not be done.
pub fn failure(words: impl ToString) -> PyErr {
    classes::BacksightError::new_err(words.to_string())
}

/// What was asked for makes no sense.
pub fn usage(words: impl ToString) -> PyErr {
    classes::UsageError::new_err(words.to_string())
}

/// A file that could not be read or written.
pub fn file(path: &std::path::Path, error: &std::io::Error) -> PyErr {
    classes::CaptureError::new_err(format!("{}: {error}", path.display()))
}

/// An error of the library.
pub fn of_library(error: &backsight::Error) -> PyErr {
    let words = error.to_string();
    match error {
        backsight::Error::Misuse(_) => classes::UsageError::new_err(words),
        backsight::Error::Absent(_) | backsight::Error::Capture(_) => classes::CaptureError::new_err(words),
        backsight::Error::Image(_) => classes::ImageError::new_err(words),
        _ => classes::BacksightError::new_err(words),
    }
}

/// Why a program cannot be recorded.
pub fn recording(words: impl std::fmt::Display) -> PyErr {
    classes::RecordError::new_err(words.to_string())
}

/// An error of recording.
pub fn of_recording(error: &backsight_run::Error) -> PyErr {
    match error {
        backsight_run::Error::Setting(error) => usage(format!("config {error}")),
        error => recording(error),
    }
}

/// An error of a table.
pub fn of_table(error: &backsight_table::Error) -> PyErr {
    use backsight_table::Error;
    match error {
        Error::Misuse(_) | Error::Filter { .. } => usage(error),
        Error::Capture(error) => of_library(error),
        Error::Changed(_) | Error::File(_) => classes::CaptureError::new_err(error.to_string()),
        error => failure(error),
    }
}
