//! `backsight view`: a capture of any length in the browser.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backsight::Capture;
use backsight::image::SourceFolders;
use backsight_view::{ServeOptions, View, ViewOptions, address, listen, new_key, serve};
use clap::Args;

use crate::args::{CaptureArgs, ImageArgs};
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::say;

/// Look at a capture of any length in the browser: zoom from all of it to single instructions
///
/// Serves a page to this machine alone and opens it: a timeline of calls, the profile of whatever is selected, stacks, source and
/// disassembly at any moment, steps in both directions, search. What is looked at is decoded when it is looked at. The index that
/// `backsight index` writes is used; without one, it is made first, and the beginning can be looked at meanwhile. Ends with Ctrl-C, or half
/// a minute after the page was closed.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ViewCommand {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// Look at this capture too, and compare with it; may be given several times
    #[arg(long, value_name = "CAPTURE")]
    compare: Vec<PathBuf>,

    /// Show lines of source out of this folder: debug information names files, and files elsewhere are not read. May be
    /// given several times
    #[arg(long, value_name = "FOLDER", help_heading = "Code")]
    source: Vec<PathBuf>,

    /// Serve the page at this port; 0 is any free port
    #[arg(long, value_name = "PORT", default_value_t = 0, hide_default_value = true)]
    port: u16,

    /// Open no browser: say the address of the page only, on standard output
    #[arg(long)]
    no_browser: bool,

    /// Use up to N cores; 0, the default, is as many as there are
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    /// No words besides the address, no warnings
    #[arg(long, short)]
    quiet: bool,
}

const EXAMPLES: &str = "Examples:
  backsight view capture/ --source src/
  backsight view good/ --compare bad/
  backsight view capture/ --no-browser --port 8080      then open the address that it says";

/// Runs the command.
pub fn run(command: &ViewCommand) -> Result {
    if command.capture.is_standard_input() {
        return Err(Failure::usage("standard input can be read once only: the page goes back and forth"));
    }
    if let Some(folder) = command.source.iter().find(|folder| !folder.is_dir()) {
        return Err(Failure::new(format!("--source {}: there is no such folder", folder.display())));
    }
    let others = command.compare.iter().map(|path| command.capture.at(path));
    let all: Vec<CaptureArgs> = std::iter::once(command.capture.clone()).chain(others).collect();
    let mut captures = Vec::new();
    for arguments in &all {
        let capture = arguments.open(&command.images, command.quiet)?;
        arguments.check_buffers(&capture)?;
        captures.push(capture);
    }
    let options = ViewOptions {
        sources: SourceFolders::new(&command.source),
        gdb: all.iter().map(|arguments| gdb(&arguments.capture)).collect(),
        threads: command.threads,
    };
    let mut view = View::new(options);
    for (arguments, capture) in all.iter().zip(&captures) {
        let decode = arguments.choose(capture.execution(), capture, true);
        let index = index_file::find(&arguments.capture, capture, command.quiet);
        view.add(&name_of(&arguments.capture, capture), capture, decode, index)?;
    }
    if !view.has_sources() {
        let name = captures[0].name();
        return Err(Failure::new(format!(
            "{name}: no source in it traces execution: `backsight doctor` says why"
        )));
    }
    let failed = |error: std::io::Error| Failure::new(format!("--port {}: {error}", command.port));
    let listener = listen(command.port).map_err(failed)?;
    let key = new_key();
    let place = address(&listener, &key).map_err(failed)?;
    writeln!(std::io::stdout(), "{place}").map_err(|_| Failure::PipeClosed)?;
    if !command.no_browser && !open_browser(&place) && !command.quiet {
        say("no browser could be started: open the address above in one");
    }
    if !command.quiet {
        say("the page is for this machine alone; Ctrl-C ends it, and so does closing the page");
    }
    serve(&view, &listener, &key, &ServeOptions::default()).map_err(failed)
}

/// The last part of its path, or what the capture is called.
fn name_of(path: &Path, capture: &Capture) -> String {
    path.file_name().map_or_else(|| capture.name().to_owned(), |name| name.to_string_lossy().into_owned())
}

/// What the page says for opening a capture in gdb: this program with the same options, but for those of the page.
fn gdb(capture: &Path) -> Vec<String> {
    let mut arguments = std::env::args().skip(1).skip_while(|word| word != "view").skip(1);
    let mut words = vec!["backsight".to_owned(), "gdb".to_owned(), capture.display().to_string()];
    while let Some(word) = arguments.next() {
        let (name, value) = word.split_once('=').map_or((&*word, false), |(name, _)| (name, true));
        match name {
            // They may name what gdb is not to be told twice.
            "--compare" | "--source" | "--port" | "--threads" | "--id" | "--buffer" if !value => {
                drop(arguments.next())
            }
            _ if !word.starts_with("--") => {}
            "--protocol" | "--framing" | "--config" | "--image" | "--symfs" | "--budget" => {
                words.push(word.clone());
                words.extend((!value).then(|| arguments.next()).flatten());
            }
            "--wrapped" | "--follow-links" | "--host-files" => words.push(word),
            _ => {}
        }
    }
    words
}

/// Opens an address in the user's browser. Gives whether that could be done.
fn open_browser(address: &str) -> bool {
    let programs: &[&[&str]] = match () {
        () if cfg!(target_os = "macos") => &[&["open"]],
        () if cfg!(windows) => &[&["rundll32", "url.dll,FileProtocolHandler"]],
        // Without a display, what would start is a browser in this terminal.
        () if std::env::var_os("DISPLAY").or_else(|| std::env::var_os("WAYLAND_DISPLAY")).is_none() => &[],
        () => &[&["xdg-open"], &["gio", "open"], &["x-www-browser"]],
    };
    programs.iter().any(|words| {
        let mut program = Command::new(words[0]);
        program
            .args(&words[1..])
            .arg(address)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let Ok(mut child) = program.spawn() else { return false };
        // Nobody waits for it, but it is taken note of when it ends.
        std::thread::spawn(move || child.wait());
        true
    })
}
