//! What is said of a place, in words.

use std::fmt::Write as _;

use backsight::core::{Describe as _, Printable, describe};
use backsight::moments::Moment;
use backsight::{Event, Result};

use crate::replay::{At, Replay, Stopped};

/// What was passed over on the way to where it stopped, or is right before it: nothing for most steps.
pub(crate) fn of_stop(
    replay: &mut Replay<'_>,
    from: Option<At>,
    stopped: Stopped,
    is_back: bool,
) -> Result<String> {
    let here = replay.place(replay.current())?;
    let events = match (stopped, here, from) {
        // Nothing is known of what was before, and what is after the end is not passed over on the way back.
        (Stopped::Beginning | Stopped::Interrupted, ..) | (_, None, _) => Vec::new(),
        (Stopped::End, Some(here), _) => replay.events(here, true)?,
        (Stopped::Step | Stopped::Gap, Some(_), Some(from)) if is_back => replay.events(from, false)?,
        (_, Some(here), _) if here.instruction == 0 => Vec::new(),
        (_, Some(here), _) => replay.events(here, false)?,
    };
    let mut text = String::new();
    for event in events {
        let words = of_event(&event);
        // Memory takes everything, here and below.
        let _ = match event {
            Event::StartOfTrace | Event::EndOfTrace { .. } | Event::Context(..) => Ok(()),
            Event::Exception { .. } | Event::ExceptionReturn => writeln!(text, "[{words}]"),
            _ => writeln!(text, "[something is missing in the trace here: {words}]"),
        };
    }
    Ok(text)
}

/// An event, with its fields.
pub(crate) fn of_event(event: &Event) -> String {
    let mut fields = String::new();
    let _ = describe::write_text(event, &mut fields);
    match fields.is_empty() {
        true => event.name().to_owned(),
        false => format!("{} {fields}", event.name()),
    }
}

/// An address, with its function.
pub(crate) fn of_address(replay: &mut Replay<'_>, at: At) -> Result<String> {
    let Some(what) = replay.what(at)? else { return Ok("an address that is not known".to_owned()) };
    let code = replay.code(at)?;
    let image = code.names_at(what.space, what.address);
    Ok(match image.symbolise(what.space, what.address) {
        Some(symbol) if symbol.offset > 0 => {
            format!("{} {}+{:#x}", what.address, Printable(symbol.name), symbol.offset)
        }
        Some(symbol) => format!("{} {}", what.address, Printable(symbol.name)),
        None => what.address.to_string(),
    })
}

/// Where the walk stands.
pub(crate) fn of_place(replay: &mut Replay<'_>, at: At) -> Result<String> {
    let moment = Moment::Instruction(at.instruction);
    let last = replay.instructions(at.source).saturating_sub(1);
    let thread = &replay.threads()[replay.current().0.min(replay.threads().len() - 1)];
    let name = thread.name.clone();
    let mut text = format!("{moment} of #0 to #{last}, {}", Printable(&name));
    if let Some(time) = replay.time(at)? {
        let _ = write!(text, ", {}", Moment::Time(time));
    }
    let _ = writeln!(text, ": {}", of_address(replay, at)?);
    Ok(text)
}
