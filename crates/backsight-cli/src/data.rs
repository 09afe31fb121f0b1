//! Registers and memory for debuggers, out of a recording of the run that a capture is of.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::PathBuf;
use std::sync::Arc;

use backsight::description::{FileRef, Format};
use backsight::image::ImageSpec;
use backsight::states::Making;
use backsight::{Buffer, Capture};
use backsight_core::{Budget, Door, Execution};
use backsight_debug::replay::{Logged, Recorded, Replay, initial_memory};
use backsight_run::TRUTH;
use backsight_run::history::{History, HistoryBuilder, HistoryError, InitialMemory};
use backsight_run::retired::{RetiredReader, is_retired};
use backsight_squeeze::container::Reader;
use clap::Args;

use crate::args::CaptureArgs;
use crate::commands::compress::program;
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{Inputs, say};

/// Items of a recording among which a load or store is expected.
const MOST_WITHOUT: usize = 1 << 16;

/// Where registers and memory are known from.
#[derive(Args, Clone, Debug, Default)]
pub struct DataArgs {
    /// Registers and memory come from this recording of the same run: a file of retired instructions with loads and stores, or what
    /// `compress` made of one. Without it, from the capture, if it was recorded with --truth=accesses; else memory from its data trace
    #[arg(long, value_name = "FILE", help_heading = "Registers and memory")]
    data: Option<PathBuf>,

    /// The program that was executed, as it was given to `compress`
    #[arg(long, value_name = "FILE[@ADDRESS]", requires = "data", help_heading = "Registers and memory")]
    program: Option<ImageSpec>,

    /// Leave the recording and data trace in the capture alone: control flow is all that is known
    #[arg(long, conflicts_with = "data", help_heading = "Registers and memory")]
    no_data: bool,
}

impl DataArgs {
    /// The files that are read, beside others.
    pub fn inputs(&self, others: Inputs) -> Inputs {
        others.and(self.data.iter()).and(self.program.iter().map(|spec| &spec.file))
    }

    /// Refuses files that are not there.
    pub fn check(&self) -> Result {
        let files = self.data.iter().chain(self.program.iter().map(|spec| &spec.file));
        for file in files {
            File::open(file).map_err(|error| Failure::file(file, &error))?;
        }
        Ok(())
    }

    /// A walk with what a recording knows of registers and memory. Where the one in the capture is of no use, that is said, and nothing
    /// is known.
    pub fn give<'c>(&self, replay: Replay<'c>, capture: &CaptureArgs, quiet: bool) -> Result<Replay<'c>> {
        if self.data.is_none()
            && !self.no_data
            && let Some(logged) = logged(&replay, capture, quiet)?
        {
            return Ok(replay.with_state(Box::new(logged)));
        }
        let known = match &self.data {
            Some(_) => self.named(&replay, capture).map(Some),
            None if self.no_data => Ok(None),
            None => match found(&replay, capture) {
                Err(failure) if !quiet => {
                    say(format_args!("warning: {failure}"));
                    Ok(None)
                }
                Err(_) => Ok(None),
                found => found,
            },
        };
        let Some(recorded) = known? else { return Ok(replay) };
        if !quiet {
            recorded.warnings().iter().for_each(|warning| say(format_args!("warning: {warning}")));
        }
        Ok(replay.with_state(Box::new(recorded)))
    }

    /// The recording that the user names.
    fn named(&self, replay: &Replay<'_>, capture: &CaptureArgs) -> Result<Recorded> {
        let path = self.data.clone().unwrap_or_default();
        let named = |why: &dyn std::fmt::Display| Failure::new(format!("{}: {why}", path.display()));
        let mut file = File::open(&path).map_err(|error| Failure::file(&path, &error))?;
        let length = file.metadata().map_or(0, |file| file.len());
        let budget = capture.budget(Door::History, length);
        let memory = initial_memory(replay.capture())?;
        let mut begin = Vec::new();
        file.by_ref().take(8).read_to_end(&mut begin).map_err(|error| Failure::file(&path, &error))?;
        let input = begin.as_slice().chain(BufReader::new(file));
        let history = if is_retired(&begin) {
            read(input, &memory, &budget).map_err(|error| named(&error))?
        } else {
            self.decompress(input, &memory, &budget, &named)?
        };
        Recorded::new(history, replay).map_err(|error| named(&error))
    }

    fn decompress(
        &self,
        input: impl Read + Send,
        memory: &[InitialMemory<'_>],
        budget: &Budget,
        named: &dyn Fn(&dyn std::fmt::Display) -> Failure,
    ) -> Result<History> {
        let program = self.program.as_ref().map(program).transpose()?;
        let mut reader = Reader::new(input, program.as_ref()).map_err(|error| named(&error))?;
        let mut builder =
            HistoryBuilder::new(reader.header().isa, memory, budget).map_err(|error| named(&error))?;
        let mut pushed = Ok(());
        loop {
            let more = reader.next_chunk(&mut |item| {
                if pushed.is_ok() {
                    pushed = builder.push(&item);
                }
            });
            if let Err(error) = &pushed {
                return Err(named(error));
            }
            if !more.map_err(|error| named(&error))? {
                return builder.finish().map_err(|error| named(&error));
            }
        }
    }
}

/// What a Tarmac log says, by its index, or one that is made now.
fn logged<'c>(replay: &Replay<'c>, arguments: &CaptureArgs, quiet: bool) -> Result<Option<Logged<'c>>> {
    let Some((source, buffer)) = replay.capture().log() else { return Ok(None) };
    let index = match index_file::states(arguments, replay.capture(), quiet) {
        Some(index) => index,
        None => {
            let budget = arguments.budget(Door::History, buffer.size().unwrap_or(0));
            let threads = replay.capture().execution().thread_count();
            Arc::new(Making::on(threads).in_memory(&source, buffer, budget.limit())?)
        }
    };
    Ok(Logged::new(replay, index)?)
}

/// What lies in the capture: a recording with loads and stores, or else data trace.
fn found(replay: &Replay<'_>, arguments: &CaptureArgs) -> Result<Option<Recorded>> {
    if let Some(recorded) = found_recording(replay, arguments)? {
        return Ok(Some(recorded));
    }
    let size = arguments.chosen(replay.capture()).filter_map(Buffer::size).sum();
    Ok(Recorded::from_data_trace(replay, &arguments.budget(Door::History, size))?)
}

/// The recording in the capture; none if there is nothing, or only instructions without loads and stores.
fn found_recording(replay: &Replay<'_>, arguments: &CaptureArgs) -> Result<Option<Recorded>> {
    let capture: &Capture = replay.capture();
    let description = capture.description();
    if description.format == Format::Bare {
        return Ok(None);
    }
    let file = FileRef::new(&description.folder, TRUTH).map_err(Failure::new)?;
    if !file.exists() {
        return Ok(None);
    }
    let named = |why: &dyn std::fmt::Display| Failure::new(format!("{file}: {why}"));
    let open = || Ok::<_, Failure>(BufReader::new(file.open().map_err(Failure::new)?));
    if !has_accesses(open()?) {
        return Ok(None);
    }
    let budget = arguments.budget(Door::History, file.length().unwrap_or(0));
    let history = read(open()?, &initial_memory(capture)?, &budget).map_err(|error| named(&error))?;
    Recorded::new(history, replay).map(Some).map_err(|error| named(&error))
}

/// Are there loads or stores among the first items? What is wrong with the file is said where it is read.
fn has_accesses(input: impl Read + Send) -> bool {
    let Ok(reader) = RetiredReader::new(input) else { return true };
    reader.take(MOST_WITHOUT).any(|item| matches!(item, Ok(Execution::Access(_)) | Err(_)))
}

fn read(
    input: impl Read + Send,
    memory: &[InitialMemory<'_>],
    budget: &Budget,
) -> std::result::Result<History, HistoryError> {
    let mut reader = RetiredReader::new(input).map_err(HistoryError::Retired)?;
    History::read(&mut reader, memory, budget)
}
