//! What `monitor` takes in gdb.

use std::io::Write;
use std::ops::ControlFlow;

use backsight::core::Printable;
use backsight::moments::{Moment, Wanted, Window};
use backsight::{Error, Result};

use super::server::Server;
use super::words;
use crate::replay::{At, Direction, Scheduler, Stopped, Stops, ThreadId};

/// Moments and messages that are listed.
const MOST_LISTED: usize = 20;

const HELP: &str = "\
where                  the moment: instructions before it, time, thread, address, what was reported there
known                  what is known of registers and memory
goto MOMENT            go to #INSTRUCTION, start, end-INSTRUCTIONS, tTIMESTAMP, 3.2s, 15ms or @POSITION
first, last            go to the first instruction of the trace, to the last
find FUNCTION          the last call of a function before here, and the next ones, as moments
messages               the last messages that software wrote before here
gaps on|off            stop where something is missing in the trace, or pass over it
exceptions on|off      stop where an exception or interrupt was taken, or pass over it
scheduler time|alone   what else moves: all sources to the same time, or none
help                   this
After goto, first and last, gdb has to be told that registers are others: `maint flush register-cache` (the commands of
`backsight gdb --print-commands` do that).
";

/// Obeys a command, and says what came of it.
pub(super) fn answer<W: Write>(server: &mut Server<'_, '_, W>, line: &str) -> String {
    let mut words = line.split_whitespace();
    let (command, arguments) = (words.next().unwrap_or("help"), words.collect::<Vec<_>>());
    let outcome = match (command, &arguments[..]) {
        ("where", []) => place(server),
        ("known", []) => known(server),
        ("goto", [moment]) => match moment.parse() {
            Ok(moment) => go_to(server, moment),
            Err(error) => Ok(format!("{error}\n")),
        },
        ("first", []) => go_to(server, Moment::START),
        ("last", []) => go_to(server, Moment::END),
        ("find", [_, ..]) => find(server, &arguments.join(" ")),
        ("messages", []) => messages(server),
        ("gaps", [word @ ("on" | "off")]) => {
            server.gaps = *word == "on";
            Ok(String::new())
        }
        ("exceptions", [word @ ("on" | "off")]) => {
            server.exceptions = *word == "on";
            Ok(String::new())
        }
        ("scheduler", [word @ ("time" | "alone")]) => {
            let scheduler = if *word == "time" { Scheduler::Time } else { Scheduler::Alone };
            server.replay.set_scheduler(scheduler);
            Ok(String::new())
        }
        ("help", []) => Ok(HELP.to_owned()),
        _ => Ok(format!("`{}`: not known, or not in this way\n{HELP}", Printable(line.trim()))),
    };
    outcome.unwrap_or_else(|error| format!("{error}\n"))
}

fn place<W: Write>(server: &mut Server<'_, '_, W>) -> Result<String> {
    let at = server.here()?;
    let mut text = words::of_place(server.replay, at)?;
    for event in server.replay.events(at, false)? {
        text += &format!("  reported before it: {}\n", words::of_event(&event));
    }
    Ok(text)
}

fn known<W: Write>(server: &mut Server<'_, '_, W>) -> Result<String> {
    let source = server.here()?.source;
    Ok(format!("{}\n", server.replay.state().words(source)))
}

fn go_to<W: Write>(server: &mut Server<'_, '_, W>, moment: Moment) -> Result<String> {
    let thread = server.replay.current();
    match server.replay.go_to(thread, moment)? {
        true => place(server),
        false => Ok(format!("{moment}: the source does not come to that moment\n")),
    }
}

/// Where a function is entered: the last time before here, and the next times.
fn find<W: Write>(server: &mut Server<'_, '_, W>, name: &str) -> Result<String> {
    let (at, current) = (server.here()?, server.replay.current());
    let capture = server.replay.capture();
    let code = server.replay.code(at)?;
    let functions = match Wanted::function(name, code.image()) {
        Ok(Wanted::Functions(functions)) => functions,
        Ok(_) => Vec::new(),
        Err(error @ Error::Absent(_)) => return Ok(format!("{error}\n")),
        Err(error) => return Err(error),
    };
    let _ = capture;
    let mut stops = Stops::default();
    for function in &functions {
        stops.breakpoints.insert(server.replay.breakpoint(at, function.start)?);
    }
    let mut text = String::new();
    let before = run_to(server, current, at, Direction::Backwards, &stops)?;
    text += &before.map_or_else(|| Ok("not before here\n".to_owned()), |found| line(server, found))?;
    let (mut from, mut count) = (at, 0);
    while count < MOST_LISTED
        && let Some(found) = run_to(server, current, from, Direction::Forwards, &stops)?
    {
        text += &line(server, found)?;
        (from, count) = (found, count + 1);
    }
    text += match count {
        0 => "not after here\n",
        MOST_LISTED => "and so on\n",
        _ => "",
    };
    server.replay.go_to_place(at)?;
    Ok(text)
}

fn line<W: Write>(server: &mut Server<'_, '_, W>, at: At) -> Result<String> {
    let address = words::of_address(server.replay, at)?;
    Ok(format!("{} {address}\n", Moment::Instruction(at.instruction)))
}

/// Goes on from a place, and says where it stopped.
fn run_to<W: Write>(
    server: &mut Server<'_, '_, W>,
    thread: ThreadId,
    from: At,
    direction: Direction,
    stops: &Stops,
) -> Result<Option<At>> {
    server.replay.go_to_place(from)?;
    match server.replay.run(thread, direction, stops)? {
        Stopped::Breakpoint(_) => server.here().map(Some),
        _ => Ok(None),
    }
}

/// What software wrote before here.
fn messages<W: Write>(server: &mut Server<'_, '_, W>) -> Result<String> {
    let at = server.here()?;
    let now = server.replay.time(at)?;
    let capture = server.replay.capture();
    let (moments, wanted) = (capture.moments(), Wanted::Messages(String::new()));
    let own = server.replay.sources().nth(at.source).cloned();
    let mut found = std::collections::VecDeque::new();
    for source in capture.execution().sources()? {
        let is_own =
            own.as_ref().is_some_and(|own| (own.buffer(), own.id()) == (source.buffer(), source.id()));
        moments.find(capture.execution(), &source, Window::default(), &wanted, &mut |hit| {
            let is_before = match is_own {
                true => hit.place.instructions <= at.instruction,
                false => now.is_none_or(|now| hit.place.time.is_none_or(|time| time <= now)),
            };
            if !is_before {
                return ControlFlow::Continue(());
            }
            let time = hit.place.time.map_or_else(|| "-".to_owned(), |time| Moment::Time(time).to_string());
            let message = hit.message.clone().unwrap_or_default();
            found.push_back(format!(
                "{time} {}: {}\n",
                Printable(source.name()),
                Printable(message.trim_end())
            ));
            if found.len() > MOST_LISTED {
                found.pop_front();
            }
            ControlFlow::Continue(())
        })?;
    }
    Ok(if found.is_empty() { "no message before here\n".to_owned() } else { Vec::from(found).concat() })
}
