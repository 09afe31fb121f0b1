//! `backsight dap`: walks through captures in an editor.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use backsight::image::SourceFolders;
use backsight_debug::dap::{Launcher, Settings, Walk, serve};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser};
use serde_json::Value;

use super::gdb::{Gdb, serve_walk};
use crate::failure::{Failure, Result};

/// Walk through a capture in an editor: serves the Debug Adapter Protocol on standard input and output
///
/// Editors start it: VS Code, Neovim (nvim-dap), Emacs (dape) and others. What they launch is a capture; the options of `backsight gdb` for
/// captures and code are keys of their configuration there: `capture`, `at`, `image`, `symfs`, `id`, `buffer`, `hostFiles`. `source` names folders with
/// source text.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Dap {}

const EXAMPLES: &str = "What an editor launches, in VS Code's launch.json:
  { \"type\": \"backsight\", \"request\": \"launch\", \"name\": \"trace\",
    \"capture\": \"${workspaceFolder}/capture\", \"source\": [\"${workspaceFolder}\"] }";

/// What a configuration may say, as options.
#[derive(Parser)]
#[command(disable_help_flag = true)]
struct Launch {
    #[command(flatten)]
    walk: Gdb,

    /// Source text is looked up beneath this folder
    #[arg(long, value_name = "FOLDER")]
    source: Vec<PathBuf>,
}

/// Options that mean nothing to an editor, or are no business of a capture.
const NOT_TAKEN: [&str; 5] = ["stdio", "port", "print-commands", "gdb", "quiet"];

/// Runs the command.
pub fn run(_command: &Dap) -> Result {
    let outcome = serve(&mut Captures, std::io::stdin(), std::io::stdout().lock());
    outcome.map_err(|error| Failure::new(format!("the editor: {error}")))
}

/// Opens captures that an editor launches.
struct Captures;

impl Launcher for Captures {
    fn launch(
        &mut self,
        arguments: &Value,
        stop: &Arc<AtomicBool>,
        walk: &mut Walk<'_>,
    ) -> std::result::Result<(), String> {
        self.open(arguments, stop, walk).map_err(|failure| failure.to_string())
    }
}

impl Captures {
    fn open(&self, arguments: &Value, stop: &Arc<AtomicBool>, walk: &mut Walk<'_>) -> Result {
        let mut launch = parse(arguments)?;
        launch.walk.stop = Some(stop.clone());
        if let Some(folder) = launch.source.iter().find(|folder| !folder.is_dir()) {
            return Err(Failure::new(format!("source {}: there is no such folder", folder.display())));
        }
        // Editors name files by whole paths.
        let whole = |folder: &PathBuf| std::path::absolute(folder).unwrap_or_else(|_| folder.clone());
        let sources = SourceFolders::new(launch.source.iter().map(whole));
        let mut settings = Some(Settings { sources });
        serve_walk(&launch.walk, |replay| {
            walk(replay, settings.take().unwrap_or_default());
            Ok(())
        })
    }
}

/// The configuration of an editor as arguments of a command: each key is the name of an option. What editors add of their own is passed over.
fn parse(arguments: &Value) -> Result<Launch> {
    let command = Launch::command();
    let capture = arguments.get("capture").and_then(Value::as_str);
    let Some(capture) = capture.filter(|capture| !capture.is_empty()) else {
        return Err(Failure::new("the configuration has no `capture`: a folder or file with trace"));
    };
    let mut words = vec!["launch".to_owned(), "--stdio".to_owned(), "--quiet".to_owned()];
    for argument in command.get_arguments() {
        let Some(option) = argument.get_long().filter(|option| !NOT_TAKEN.contains(option)) else { continue };
        let key = key_of(option);
        let value = arguments.get(&key).unwrap_or(&Value::Null);
        let is_switch = !argument.get_action().takes_values();
        let wrong =
            || Failure::new(format!("`{key}` of the configuration: a value that makes no sense there"));
        let several = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        for one in several {
            match (one, is_switch) {
                (Value::Null, _) | (Value::Bool(false), true) => {}
                (Value::Bool(true), true) => words.push(format!("--{option}")),
                (Value::String(text), false) => words.push(format!("--{option}={text}")),
                (Value::Number(number), false) => words.push(format!("--{option}={number}")),
                _ => return Err(wrong()),
            }
        }
    }
    // It may begin with a hyphen.
    words.extend(["--".to_owned(), capture.to_owned()]);
    let matches = command.try_get_matches_from(words).map_err(|error| Failure::new(first_line(&error)))?;
    let launch = Launch::from_arg_matches(&matches).map_err(|error| Failure::new(first_line(&error)))?;
    if Path::new(capture) == Path::new("-") {
        return Err(Failure::new("standard input is the editor's: a capture is a folder or file"));
    }
    Ok(launch)
}

/// The name of an option as configurations are written: `host-files` is `hostFiles`.
fn key_of(option: &str) -> String {
    let mut parts = option.split('-');
    let mut key = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (first, rest) = part.split_at(part.len().min(1));
        key += &format!("{}{rest}", first.to_ascii_uppercase());
    }
    key
}

/// What is wrong, without what is said on command lines beside it.
fn first_line(error: &clap::Error) -> String {
    let text = error.to_string();
    let line = text.lines().next().unwrap_or_default();
    line.strip_prefix("error: ").unwrap_or(line).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_configuration_says_what_options_say() {
        let launch = parse(&json!({
            "type": "backsight", "request": "launch", "name": "x", "__sessionId": "1", "noDebug": false,
            "capture": "--odd", "at": "#12", "id": [16, "0x11"], "hostFiles": true, "source": ["src", "lib"], "threads": 2,
            "port": 80, "printCommands": true,
        }));
        let launch = launch.unwrap_or_else(|failure| panic!("{failure}"));
        let said = format!("{:?}", launch.walk);
        for part in [
            "capture: \"--odd\"",
            "id: [16, 17]",
            "host_files: true",
            "threads: 2",
            "port: None",
            "print_commands: false",
        ] {
            assert!(said.contains(part), "{part}: {said}");
        }
        assert_eq!(launch.source, [PathBuf::from("src"), PathBuf::from("lib")]);
    }

    #[test]
    fn a_configuration_that_makes_no_sense_is_refused_with_the_key() {
        for (wrong, part) in [
            (json!({}), "capture"),
            (json!({"capture": 3}), "capture"),
            (json!({"capture": "-"}), "standard input"),
            (json!({"capture": "x", "at": "nowhere"}), "nowhere"),
            (json!({"capture": "x", "id": [true]}), "`id`"),
            (json!({"capture": "x", "image": {"file": 1}}), "`image`"),
            (json!({"capture": "x", "hostFiles": "yes"}), "`hostFiles`"),
        ] {
            let Err(failure) = parse(&wrong) else { panic!("{wrong}") };
            assert!(failure.to_string().contains(part), "{wrong}: {failure}");
        }
    }
}
