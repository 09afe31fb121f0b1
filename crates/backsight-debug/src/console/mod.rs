//! What a user may ask of a walk in words: `monitor` in gdb, the console of an editor.

pub(crate) mod words;

use std::ops::ControlFlow;

use backsight::core::Printable;
use backsight::moments::{Moment, Wanted, Window};
use backsight::{Error, Result};

use crate::replay::{At, Direction, Replay, Scheduler, Stopped, Stops, ThreadId};

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
";

/// Where runs stop besides breakpoints: what the words may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Console {
    /// Where something is missing.
    pub gaps: bool,
    /// Where exceptions are taken.
    pub exceptions: bool,
    /// What `help` says besides.
    pub more_help: &'static str,
}

/// Where the thread is that moved last.
pub(crate) fn here(replay: &mut Replay<'_>) -> Result<At> {
    let place = replay.place(replay.current())?;
    Ok(place.unwrap_or(At { source: 0, hart: 0, instruction: 0 }))
}

impl Console {
    /// Obeys a command, and says what came of it.
    pub fn answer(&mut self, replay: &mut Replay<'_>, line: &str) -> String {
        let mut words = line.split_whitespace();
        let (command, arguments) = (words.next().unwrap_or("help"), words.collect::<Vec<_>>());
        let outcome = match (command, &arguments[..]) {
            ("where", []) => place(replay),
            ("known", []) => here(replay).map(|at| format!("{}\n", replay.state().words(at.source))),
            ("goto", [moment]) => match moment.parse() {
                Ok(moment) => go_to(replay, moment),
                Err(error) => Ok(format!("{error}\n")),
            },
            ("first", []) => go_to(replay, Moment::START),
            ("last", []) => go_to(replay, Moment::END),
            ("find", [_, ..]) => find(replay, &arguments.join(" ")),
            ("messages", []) => messages(replay),
            ("gaps", [word @ ("on" | "off")]) => {
                self.gaps = *word == "on";
                Ok(String::new())
            }
            ("exceptions", [word @ ("on" | "off")]) => {
                self.exceptions = *word == "on";
                Ok(String::new())
            }
            ("scheduler", [word @ ("time" | "alone")]) => {
                let scheduler = if *word == "time" { Scheduler::Time } else { Scheduler::Alone };
                replay.set_scheduler(scheduler);
                Ok(String::new())
            }
            ("help", []) => Ok(self.help()),
            _ => Ok(format!("`{}`: not known, or not in this way\n{}", Printable(line.trim()), self.help())),
        };
        outcome.unwrap_or_else(|error| format!("{error}\n"))
    }

    fn help(&self) -> String {
        format!("{HELP}{}", self.more_help)
    }
}

fn place(replay: &mut Replay<'_>) -> Result<String> {
    let at = here(replay)?;
    let mut text = words::of_place(replay, at)?;
    for event in replay.events(at, false)? {
        text += &format!("  reported before it: {}\n", words::of_event(&event));
    }
    Ok(text)
}

fn go_to(replay: &mut Replay<'_>, moment: Moment) -> Result<String> {
    let thread = replay.current();
    match replay.go_to(thread, moment)? {
        true => place(replay),
        false => Ok(format!("{moment}: the source does not come to that moment\n")),
    }
}

/// Where a function is entered: the last time before here, and the next times.
fn find(replay: &mut Replay<'_>, name: &str) -> Result<String> {
    let (at, current) = (here(replay)?, replay.current());
    let capture = replay.capture();
    let code = replay.code(at)?;
    let functions = match Wanted::function(name, code.image()) {
        Ok(Wanted::Functions { places, .. }) => places,
        Ok(_) => Vec::new(),
        Err(error @ Error::Absent(_)) => return Ok(format!("{error}\n")),
        Err(error) => return Err(error),
    };
    let _ = capture;
    let mut stops = Stops::default();
    for function in &functions {
        stops.breakpoints.insert(replay.breakpoint(at, function.start)?);
    }
    let mut text = String::new();
    let before = run_to(replay, current, at, Direction::Backwards, &stops)?;
    text += &before.map_or_else(|| Ok("not before here\n".to_owned()), |found| line(replay, found))?;
    let (mut from, mut count) = (at, 0);
    while count < MOST_LISTED
        && let Some(found) = run_to(replay, current, from, Direction::Forwards, &stops)?
    {
        text += &line(replay, found)?;
        (from, count) = (found, count + 1);
    }
    text += match count {
        0 => "not after here\n",
        MOST_LISTED => "and so on\n",
        _ => "",
    };
    replay.go_to_place(at)?;
    Ok(text)
}

fn line(replay: &mut Replay<'_>, at: At) -> Result<String> {
    let address = words::of_address(replay, at)?;
    Ok(format!("{} {address}\n", Moment::Instruction(at.instruction)))
}

/// Goes on from a place, and says where it stopped.
fn run_to(
    replay: &mut Replay<'_>,
    thread: ThreadId,
    from: At,
    direction: Direction,
    stops: &Stops,
) -> Result<Option<At>> {
    replay.go_to_place(from)?;
    match replay.run(thread, direction, stops)? {
        Stopped::Breakpoint(_) => here(replay).map(Some),
        _ => Ok(None),
    }
}

/// What software wrote before here.
fn messages(replay: &mut Replay<'_>) -> Result<String> {
    let at = here(replay)?;
    let now = replay.time(at)?;
    let capture = replay.capture();
    let (moments, wanted) = (capture.moments(), Wanted::Messages(String::new()));
    let own = replay.sources().nth(at.source).cloned();
    let mut found = std::collections::VecDeque::new();
    for source in capture.execution().sources()? {
        let is_own =
            own.as_ref().is_some_and(|own| (own.buffer(), own.id()) == (source.buffer(), source.id()));
        moments.find(&capture.execution(), &source, Window::default(), &wanted, &mut |hit| {
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
