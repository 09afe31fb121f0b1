//! `backsight completions`: what a shell needs to complete command lines.

use clap::{Args, Command};
use clap_complete::{Shell, generate};

use crate::failure::Result;
use crate::output::{Inputs, Output};

/// Print what a shell needs to complete command lines
///
/// Each shell reads it from a place of its own; the examples are for the current user.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct Completions {
    /// The shell
    shell: Shell,
}

const EXAMPLES: &str = "Examples:
  backsight completions bash > ~/.local/share/bash-completion/completions/backsight
  backsight completions zsh > ~/.zfunc/_backsight        (a folder of $fpath)
  backsight completions fish > ~/.config/fish/completions/backsight.fish";

/// Runs the command for the program whose arguments are `program`.
pub fn run(command: &Completions, mut program: Command) -> Result {
    let mut script = Vec::new();
    generate(command.shell, &mut program, "backsight", &mut script);
    let mut output = Output::open(None, &Inputs::none())?;
    output.put(|out| out.write_all(&script))?;
    output.finish()
}
