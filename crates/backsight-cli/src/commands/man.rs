//! `backsight man`: manual pages, from the same source as the help.

use std::path::PathBuf;

use clap::{Args, Command};
use clap_mangen::Man;

use crate::failure::{Failure, Result};
use crate::output::{Inputs, Output, counted, put_files, say};

/// Write manual pages
///
/// They say what the help of each command says.
#[derive(Args, Debug)]
#[command(after_help = EXAMPLES)]
pub struct ManualPages {
    /// The folder to write to, a page for each command; without it, the page of the program goes to standard output
    folder: Option<PathBuf>,
}

const EXAMPLES: &str = "Examples:
  backsight man | man -l -                       read it now
  backsight man ~/.local/share/man/man1          install all pages: man backsight-flow";

/// Runs the command for the program whose arguments are `program`.
pub fn run(command: &ManualPages, program: Command) -> Result {
    // `help` has no help of its own.
    let mut program = program.disable_help_subcommand(true);
    program.build();
    let Some(folder) = &command.folder else {
        let page = page(program)?.1;
        let mut output = Output::open(None, &Inputs::none())?;
        output.put(|out| out.write_all(page.as_bytes()))?;
        return output.finish();
    };
    let pages = pages(program)?;
    let files = pages.iter().map(|(name, page)| (name.as_str(), page.as_bytes()));
    // Pages of other programs may be there.
    put_files(folder, true, &Inputs::none(), files)?;
    say(format_args!("{}: {}", folder.display(), counted(pages.len() as u64, "manual page")));
    Ok(())
}

/// The pages of a command and of those below it, by the names of their files.
fn pages(command: Command) -> Result<Vec<(String, String)>> {
    let mut all = Vec::new();
    for below in command.get_subcommands().filter(|command| command.get_name() != "help") {
        all.extend(pages(below.clone())?);
    }
    all.push(page(command)?);
    Ok(all)
}

/// The name of the file of a page, and the page. What the help says at its end is laid out already: examples, columns.
fn page(command: Command) -> Result<(String, String)> {
    let manual = Man::new(command);
    let mut bytes = Vec::new();
    manual.render(&mut bytes).map_err(Failure::new)?;
    let mut page = String::from_utf8_lossy(&bytes).into_owned();
    if let Some((before, extra)) = page.split_once(".SH EXTRA\n") {
        let (notes, rest) = extra.split_at(extra.find(".SH ").unwrap_or(extra.len()));
        page = format!("{before}.SH NOTES\n.nf\n{notes}.fi\n{rest}");
    }
    Ok((manual.get_filename(), page))
}
