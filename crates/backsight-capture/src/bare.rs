//! A file of trace with nothing beside it: the user says what it is.

use crate::folder::{FileRef, LONGEST_METADATA, Lone};
use crate::ini::{Dialect, parse_number, short};
use crate::model::{Buffer, Capture, Format, Origin, Register, Source};
use crate::{Error, Settings};
use backsight_arm::frame::Framing;
use std::path::{Path, PathBuf};

impl Capture {
    /// One buffer, and one source that speaks for every trace ID in it. `file` has the bytes; `format` is the word for
    /// the protocol and `packets` the one for how the packets of a stream are framed, if they are. What the words and
    /// the settings mean is not asked here.
    pub fn bare(
        file: FileRef,
        format: &str,
        framing: Framing,
        packets: Option<&str>,
        settings: &Settings,
    ) -> Self {
        let name = file.to_string();
        let mut capture = Self::empty(name.clone(), Format::Bare, file.folder().clone());
        let (registers, options) = sort(settings);
        capture.buffers.push(Buffer {
            files: vec![file],
            framing,
            format: packets.unwrap_or(framing.name()).to_owned(),
            ..Buffer::new(name)
        });
        capture.sources.push(Source {
            name: format.to_owned(),
            id: None,
            format: format.to_owned(),
            stream: 0,
            registers,
            options,
            core: None,
            buffers: vec![0],
            location: None,
            origin: Origin::default(),
        });
        capture
    }
}

/// Settings as a command line gives them: each `KEY=VALUE`, or the name of a file with one on each line (comments
/// after `;` or `#`, section headers ignored).
///
/// # Errors
/// If a file cannot be read, or a line is no setting.
pub fn settings(arguments: &[String]) -> Result<Settings, Error> {
    let mut settings = Vec::new();
    for argument in arguments {
        if let Some((key, value)) = argument.split_once('=') {
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
            continue;
        }
        if !Path::new(argument).exists() {
            return Err(Error::file(
                argument,
                "expected `KEY=VALUE`, or the name of a file with settings: there is no such file",
            ));
        }
        let file = Lone(PathBuf::from(argument)).file();
        for (number, line) in (1..).zip(file.text(LONGEST_METADATA)?.lines()) {
            let line = line.split([';', '#']).next().unwrap_or_default().trim();
            if line.is_empty() || line.starts_with('[') {
                continue;
            }
            let (key, value) = line.split_once('=').ok_or_else(|| {
                Error::line(argument, number, format!("expected `KEY=VALUE`, found `{}`", short(line)))
            })?;
            settings.push((key.trim().to_owned(), value.trim().to_owned()));
        }
    }
    Ok(settings)
}

/// Separates registers from options.
pub(crate) fn sort(settings: &[(String, String)]) -> (Vec<Register>, Settings) {
    let (registers, options): (Vec<_>, Vec<_>) =
        settings.iter().cloned().partition(|(key, _)| is_register(key));
    (registers.into_iter().map(|(name, text)| Register::new(&name, &text)).collect(), options)
}

/// Register names are those of the manuals: TRC…, ETM…, ITM…, STM….
pub fn is_register(key: &str) -> bool {
    let prefix = key.get(..3).unwrap_or_default().to_ascii_uppercase();
    key.len() > 3 && ["TRC", "ETM", "ITM", "STM"].contains(&prefix.as_str())
}

impl Register {
    /// A register with its value as a trace package or a command line writes it.
    pub fn new(name: &str, text: &str) -> Self {
        let value = parse_number(text, Dialect::Package);
        Self { name: name.to_owned(), info: String::new(), text: text.to_owned(), value }
    }
}
