//! The backsight program: what a processor's trace hardware wrote, turned into what the program did, and back.
//!
//! # What is where
//!
//! The program: arguments, words, progress and `output`, through which all results go; a file or a folder for each command.

#![deny(unsafe_code)]

mod args;
mod color;
mod commands;
mod data;
mod failure;
mod index_file;
mod output;
mod progress;
mod recording;
mod window;

use std::process::ExitCode;
use std::sync::Arc;

use clap::{ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand};

use failure::{Failure, Result};

/// Reads hardware trace: Arm CoreSight (ETMv4, ETE, ETMv3, PTM, ITM, STM) and RISC-V (E-Trace, N-Trace)
///
/// A CAPTURE is a snapshot folder, a trace package (folder or ZIP), a perf.data file, an ELF core file with trace, or a
/// bare file with --protocol, --framing and --config. Results go to standard output; the summary and warnings go to
/// standard error. Exit status: 0 done, 1 could not, 2 wrong use; `doctor` also 3: something is wrong; `diff` also 3:
/// they differ. Damage in the trace is shown and counted, and is no failure unless --strict is given.
#[derive(Parser)]
#[command(name = "backsight", version = env!("BACKSIGHT_VERSION"), max_term_width = 110, propagate_version = true)]
#[command(after_help = "`backsight COMMAND --help` says more, with examples.", after_long_help = AFTER_HELP)]
struct Program {
    /// When to use colours: auto is on a terminal, unless NO_COLOR is set
    #[arg(long, value_name = "WHEN", global = true, default_value_t, hide_default_value = true)]
    color: ColorChoice,

    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
First steps:
  backsight record -o /tmp/run -- PROGRAM    run a program and trace it
  backsight info /tmp/run                    what a capture holds
  backsight flow /tmp/run --calls            what the program did, function by function
  backsight profile /tmp/run                 what it executed most
  backsight flow /tmp/run --color always | less -R

Environment:
  BACKSIGHT_QEMU_PLUGIN  the plugin that QEMU loads for `record`, if it is not installed with this program
  NO_COLOR               if it is set and not empty, no colours unless --color always is given";

#[derive(Subcommand)]
enum Command {
    Info(commands::info::Info),
    Doctor(commands::doctor::Doctor),
    Packets(commands::packets::Packets),
    Flow(Box<commands::flow::Flow>),
    Find(Box<commands::find::Find>),
    State(Box<commands::state::State>),
    Diff(Box<commands::diff::Diff>),
    Gdb(Box<commands::gdb::Gdb>),
    Dap(commands::dap::Dap),
    Profile(Box<commands::profile::ProfileCommand>),
    Report(Box<commands::report::Report>),
    View(Box<commands::view::ViewCommand>),
    Index(Box<commands::index::IndexCommand>),
    Record(Box<commands::record::Record>),
    Export(Box<commands::export::Export>),
    Pieces(Box<commands::pieces::Pieces>),
    Encode(commands::encode::Encode),
    Convert(commands::convert::Convert),
    Compress(Box<commands::compress::Compress>),
    Decompress(commands::decompress::Decompress),
    Rtl(commands::rtl::Rtl),
    Session(Box<commands::session::SessionCommand>),
    Lab(commands::lab::Lab),
    Bench(commands::bench::Bench),
    Completions(commands::completions::Completions),
    Man(commands::man::ManualPages),
}

fn main() -> ExitCode {
    let arguments = Program::command().color(color::asked_for(std::env::args_os())).get_matches();
    let program = Program::from_arg_matches(&arguments).unwrap_or_else(|error| error.exit());
    color::set(program.color);
    let_writes_fail();
    say_bus_errors();
    // A recording ends with what it has.
    if !matches!(program.command, Command::Record(_)) {
        output::give_up_on_signals();
    }
    match run(&program.command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            let says_nothing = matches!(
                failure,
                Failure::PipeClosed | Failure::Enough | Failure::Found | Failure::Status(_)
            );
            if !says_nothing {
                output::say(format_args!("backsight: {failure}"));
            }
            ExitCode::from(failure.exit_status())
        }
    }
}

fn run(command: &Command) -> Result {
    match command {
        Command::Info(command) => commands::info::run(command),
        Command::Doctor(command) => commands::doctor::run(command),
        Command::Packets(command) => commands::packets::run(command),
        Command::Flow(command) => commands::flow::run(command),
        Command::Find(command) => commands::find::run(command),
        Command::State(command) => commands::state::run(command),
        Command::Diff(command) => commands::diff::run(command),
        Command::Gdb(command) => commands::gdb::run(command),
        Command::Dap(command) => commands::dap::run(command),
        Command::Index(command) => commands::index::run(command),
        Command::Profile(command) => commands::profile::run(command),
        Command::Report(command) => commands::report::run(command),
        Command::View(command) => commands::view::run(command),
        Command::Record(command) => commands::record::run(command),
        Command::Export(command) => commands::export::run(command),
        Command::Pieces(command) => commands::pieces::run(command),
        Command::Encode(command) => commands::encode::run(command),
        Command::Convert(command) => commands::convert::run(command),
        Command::Compress(command) => commands::compress::run(command),
        Command::Decompress(command) => commands::decompress::run(command),
        Command::Rtl(command) => commands::rtl::run(command),
        Command::Session(command) => commands::session::run(command),
        Command::Lab(command) => commands::lab::run(command),
        Command::Bench(command) => commands::bench::run(command),
        Command::Completions(command) => commands::completions::run(command, Program::command()),
        Command::Man(command) => commands::man::run(command, Program::command()),
    }
}

/// A limit on the size of files (`ulimit -f`) is to be an error of the write that exceeds it, not the end of us.
fn let_writes_fail() {
    // Without a handler the default holds.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::default());
}

/// A mapped file that somebody shortens is a bus error at the next access. It is to be said, and not to end us without a word.
#[cfg(unix)]
#[expect(unsafe_code)]
fn say_bus_errors() {
    use std::io::Write;
    use std::os::fd::AsFd;
    const MESSAGE: &str = "backsight: a file that is in use was shortened, or cannot be read any more (bus error): the \
        result is not complete; run the command again when images and captures stay as they are\n";
    // A descriptor of our own: nobody holds a lock on it when the error comes.
    let Ok(errors) = std::io::stderr().as_fd().try_clone_to_owned().map(std::fs::File::from) else { return };
    let end = move || {
        let _ = (&errors).write(MESSAGE.as_bytes());
        signal_hook::low_level::exit(1);
    };
    // SAFETY: a handler may call `write` and `_exit`, and this one calls nothing else. Without it the default holds.
    let _ = unsafe { signal_hook::low_level::register(signal_hook::consts::SIGBUS, end) };
}

#[cfg(not(unix))]
fn say_bus_errors() {}
