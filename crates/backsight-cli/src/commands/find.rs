//! `backsight find`: moments at which something holds.

use std::ops::ControlFlow;
use std::path::PathBuf;

use backsight::listing::Printable;
use backsight::moments::{Hit, Moment, Wanted};
use backsight::{Capture, Event, Source};
use backsight_core::describe::write_text;
use backsight_core::{Address, AddressSpace, Describe as _};
use clap::{ArgGroup, Args};
use serde_json::json;

use crate::args::{CaptureArgs, ImageArgs, parse_number};
use crate::failure::{Failure, Result};
use crate::index_file;
use crate::output::{Output, counted, say};
use crate::window::SpanArgs;

/// Find moments: where a function was entered, an address executed, an exception taken, something written or missing
///
/// Lists each as #INSTRUCTION, which `flow --around` and the other commands take, with the time where the trace has it, and what happened
/// there. `backsight index` makes the last moment of something quick to find.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("what").required(true)
    .args(["function", "address", "line", "exception", "message", "gap", "context"]), override_usage = USAGE, after_help = EXAMPLES)]
pub struct Find {
    #[command(flatten)]
    capture: CaptureArgs,

    #[command(flatten)]
    images: ImageArgs,

    /// Where execution comes to the beginning of this function, by a call or from outside of it; an address names the function there
    #[arg(long, value_name = "NAME|0xADDRESS")]
    function: Option<String>,

    /// Where the instruction at this address is executed
    #[arg(long, value_name = "ADDRESS", value_parser = parse_number)]
    address: Option<u64>,

    /// Where an instruction of this line of source is executed
    #[arg(long, value_name = "FILE:N")]
    line: Option<String>,

    /// Where an exception or interrupt is taken
    #[arg(long)]
    exception: bool,

    /// Where software wrote a message with this text in it
    #[arg(long, value_name = "TEXT")]
    message: Option<String>,

    /// Where something is missing in the trace
    #[arg(long)]
    gap: bool,

    /// Where a context with this ID begins to run
    #[arg(long, value_name = "ID", value_parser = parse_number)]
    context: Option<u64>,

    /// Only the Nth of each source, from 1 on
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..), conflicts_with_all = ["last", "count"])]
    nth: Option<u64>,

    /// Only the last of each source
    #[arg(long, conflicts_with = "count")]
    last: bool,

    /// Only how many there are
    #[arg(long)]
    count: bool,

    #[command(flatten)]
    window: SpanArgs,

    /// Stop after N moments
    #[arg(long, value_name = "N")]
    limit: Option<u64>,

    /// One JSON object a line
    #[arg(long)]
    json: bool,

    /// Write to this file; `-` is standard output
    #[arg(long, short, value_name = "FILE")]
    output: Option<PathBuf>,

    /// Look at parts of a source on up to N cores, where there is an index; 0, the default, is as many as there are
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    threads: usize,

    /// No summary, no progress, no warnings
    #[arg(long, short)]
    quiet: bool,
}

/// The usual one names all that can be looked for, in one long line.
const USAGE: &str = "backsight find [OPTIONS] --function <NAME> <CAPTURE>
       backsight find [OPTIONS] --exception <CAPTURE>, or --address, --line, --message, …";

const EXAMPLES: &str = "Examples:
  backsight find capture/ --function main
  backsight find capture/ --function malloc --nth 1000
  backsight find capture/ --exception --last
  backsight find capture/ --line main.c:17 --count
  backsight flow capture/ --around \"$(backsight find capture/ --gap --nth 1 --quiet | cut -d' ' -f1)\"";

/// Runs the command. Where nothing is found, the exit status is 1.
pub fn run(command: &Find) -> Result {
    let arguments = &command.capture;
    let capture = arguments.open(&command.images, command.quiet)?;
    let inputs = arguments.inputs(&command.images);
    let mut output =
        Output::for_tables(command.output.as_deref(), &inputs, command.json)?.limit(command.limit);
    let outcome = find(command, &capture, &mut output);
    match outcome {
        Ok(_) | Err(Failure::Enough) => output.finish()?,
        Err(_) => drop(output),
    }
    match outcome {
        Err(Failure::Enough) => Ok(()),
        Ok(0) if !command.count => {
            Err(Failure::new(format!("{}: nothing of that is in the trace", capture.name())))
        }
        Ok(found) => {
            if !command.quiet && !command.count {
                say(counted(found, "moment"));
            }
            Ok(())
        }
        Err(failure) => Err(failure),
    }
}

fn find(command: &Find, capture: &Capture, output: &mut Output) -> Result<u64> {
    let quiet = command.quiet || output.is_terminal();
    let moments = index_file::moments(&command.capture, capture, command.quiet);
    let decode = command.capture.choose(capture.execution(), capture, quiet).threads(command.threads);
    let sources = decode.sources()?;
    let code = capture.code()?;
    // A source of another program need not have the function.
    let mut wanted: Vec<_> = sources.iter().map(|source| wanted(command, code.of(source))).collect();
    if wanted.iter().all(Result::is_err)
        && let Some(Err(failure)) = wanted.pop()
    {
        return Err(failure);
    }
    let window = command.window.window();
    let mut total = 0;
    for (source, wanted) in sources.iter().zip(&wanted) {
        let Ok(wanted) = wanted else { continue };
        let mut found = 0;
        if command.count {
            found = moments.count(&decode, source, window, wanted)?;
        } else if command.last || command.nth.is_some() {
            let hit = match command.nth {
                Some(nth) => moments.find_nth(&decode, source, window, wanted, nth)?,
                None => moments.find_last(&decode, source, window, wanted)?,
            };
            found = hit.iter().len() as u64;
            hit.iter().try_for_each(|hit| put(command, capture, source, hit, output))?;
        } else {
            let mut outcome = Ok(());
            moments.find(&decode, source, window, wanted, &mut |hit| {
                found += 1;
                outcome = put(command, capture, source, hit, output);
                if outcome.is_err() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            outcome?;
        }
        if command.count {
            let (name, id) = (source.name(), source.id());
            let line = match command.json {
                true => json!({"source": name, "id": id.get(), "moments": found}).to_string(),
                false => format!("{found} {} {id}", Printable(name)),
            };
            output.put_lines(format!("{line}\n").as_bytes())?;
        }
        total += found;
    }
    Ok(total)
}

fn wanted(command: &Find, image: &backsight::image::Image) -> Result<Wanted> {
    Ok(match command {
        Find { function: Some(name), .. } => Wanted::function(name, image)?,
        Find { line: Some(line), .. } => Wanted::line(line, image)?,
        &Find { address: Some(address), .. } => Wanted::at(address),
        Find { message: Some(text), .. } => Wanted::Messages(text.clone()),
        &Find { context: Some(id), .. } => Wanted::Context(id),
        Find { gap: true, .. } => Wanted::Gaps,
        Find { .. } => Wanted::Exceptions,
    })
}

/// Writes a moment.
fn put(command: &Find, capture: &Capture, source: &Source, hit: &Hit, output: &mut Output) -> Result {
    let moment = Moment::Instruction(hit.place.instructions);
    let what = match (&hit.message, &hit.event) {
        (Some(message), _) => message.clone(),
        (None, Event::Range(range)) => name_of(capture, source, range.start)?,
        (None, event) => {
            let mut words = event.name().to_owned();
            let mut text = String::new();
            // Memory takes everything.
            let _ = write_text(event, &mut text);
            words.extend((!text.is_empty()).then(|| format!(" {text}")));
            words
        }
    };
    let name = source.hart_name(hit.hart);
    let line = match command.json {
        true => {
            let (time, id) = (hit.place.time, source.id().get());
            let number = hit.place.instructions;
            json!({"moment": moment.to_string(), "instruction": number, "timestamp": time, "buffer": source.buffer(),
                "id": id, "hart": hit.hart, "core": name, "what": what})
            .to_string()
        }
        false => {
            let time = hit.place.time.map_or_else(|| "-".to_owned(), |time| Moment::Time(time).to_string());
            format!("{moment} {time} {} {} {}", source.id(), Printable(&name), Printable(&what))
        }
    };
    output.put_lines(format!("{line}\n").as_bytes())
}

/// An address, and where that is.
fn name_of(capture: &Capture, source: &Source, address: Address) -> Result<String> {
    let image = capture.code()?.of(source);
    Ok(match image.symbolise(AddressSpace::ANY, address) {
        Some(symbol) if symbol.offset > 0 => format!("{address} {}+{:#x}", symbol.name, symbol.offset),
        Some(symbol) => format!("{address} {}", symbol.name),
        None => address.to_string(),
    })
}
