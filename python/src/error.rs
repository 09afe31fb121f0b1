//! Errors as exceptions, with the words of the program, and the names that its options have in Python.

use pyo3::PyErr;

mod classes {
    pyo3::import_exception!(backsight.errors, BacksightError);
    pyo3::import_exception!(backsight.errors, CaptureError);
    pyo3::import_exception!(backsight.errors, ImageError);
    pyo3::import_exception!(backsight.errors, RecordError);
    pyo3::import_exception!(backsight.errors, UsageError);
}

/// Options of the program, and the arguments that mean the same.
const ARGUMENTS: [(&str, &str); 13] = [
    ("config", "config"),
    ("cpu", "cpu"),
    ("force", "force=True"),
    ("format", "format"),
    ("framing", "framing"),
    ("host-files", "host_files=True"),
    ("image", "images"),
    ("module", "module"),
    ("protocol", "protocol"),
    ("qemu", "qemu=True"),
    ("qemu-plugin", "qemu_plugin"),
    ("symfs", "symfs"),
    ("sysroot", "sysroot"),
];

/// Words of the program in which options are named as arguments are. Options of other programs stay as they are.
pub fn in_python(words: &str) -> String {
    let mut parts = words.split("--");
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let end =
            part.find(|letter: char| !letter.is_ascii_lowercase() && letter != '-').unwrap_or(part.len());
        let (option, rest) = part.split_at(end);
        match ARGUMENTS.iter().find(|(name, _)| *name == option) {
            Some((_, argument)) => out.extend(["`", argument, "`"]),
            None => out.extend(["--", option]),
        }
        out.push_str(rest);
    }
    out
}

/// Something that could not be done.
pub fn failure(words: impl ToString) -> PyErr {
    classes::BacksightError::new_err(in_python(&words.to_string()))
}

/// What was asked for makes no sense.
pub fn usage(words: impl ToString) -> PyErr {
    classes::UsageError::new_err(in_python(&words.to_string()))
}

/// A file of code that cannot be had.
pub fn image(words: impl ToString) -> PyErr {
    classes::ImageError::new_err(words.to_string())
}

/// A file that could not be read or written.
pub fn file(path: &std::path::Path, error: &std::io::Error) -> PyErr {
    classes::CaptureError::new_err(format!("{}: {error}", path.display()))
}

/// An error of the library.
pub fn of_library(error: &backsight::Error) -> PyErr {
    let words = in_python(&error.to_string());
    match error {
        backsight::Error::Misuse(_) => classes::UsageError::new_err(words),
        backsight::Error::Absent(_) | backsight::Error::Undescribed(_) | backsight::Error::Capture(_) => {
            classes::CaptureError::new_err(words)
        }
        backsight::Error::Image(_) => classes::ImageError::new_err(words),
        _ => classes::BacksightError::new_err(words),
    }
}

/// Why a program cannot be recorded.
pub fn recording(words: impl std::fmt::Display) -> PyErr {
    classes::RecordError::new_err(in_python(&words.to_string()))
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

#[cfg(test)]
mod tests {
    use super::in_python;

    #[test]
    fn options_are_named_as_arguments_are() {
        for (words, expected) in [
            ("name it with --image FILE", "name it with `images` FILE"),
            ("replace it with --force", "replace it with `force=True`"),
            ("($PLUGIN or --qemu-plugin names it)", "($PLUGIN or `qemu_plugin` names it)"),
            ("--config trap_base=ADDRESS", "`config` trap_base=ADDRESS"),
            ("cargo build --release --manifest-path x--y", "cargo build --release --manifest-path x--y"),
            ("", ""),
            ("-- a -", "-- a -"),
        ] {
            assert_eq!(in_python(words), expected);
        }
    }
}
