//! Searches for moments.

use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::Event;
use backsight::core::describe::write_text;
use backsight::core::{AddressSpace, Describe as _};
use backsight::moments::{Hit, Moment, Wanted, Window};
use serde_json::{Value, json};

use crate::ask::Ask;
use crate::names::shown;
use crate::recording::Recording;
use crate::running::Ticket;
use crate::view::{Failed, View};

/// Moments of one answer, and names of functions of one.
const MOST_HITS: usize = 500;
const MOST_NAMES: usize = 200;

impl View<'_> {
    /// Moments of a source at which something holds: the first ones, or the last one before another moment.
    pub(crate) fn find(&self, ask: Ask<'_>, ticket: &Ticket<'_>) -> Result<Value, Failed> {
        let recording = self.recording(ask.get("recording")?)?;
        let number: usize = ask.get("source")?;
        let source = recording.sources.get(number).ok_or("there is no such source")?;
        let code = recording.capture.code()?.of(source);
        let what = ask.text("what").unwrap_or_default();
        let wanted = match ask.text("kind") {
            Some("function") => Wanted::function(what, code)?,
            Some("line") => Wanted::line(what, code)?,
            Some("address") => Wanted::at(address(what).ok_or("an address is expected, as in 0x4006f0")?),
            Some("context") => {
                Wanted::Context(address(what).ok_or("a number is expected, as in 1742 or 0x6ce")?)
            }
            Some("message") => Wanted::Messages(what.to_owned()),
            Some("exception") => Wanted::Exceptions,
            Some("gap") => Wanted::Gaps,
            _ => {
                return Err(
                    "`kind` is none of function, line, address, context, message, exception, gap".into()
                );
            }
        };
        let decode = recording.decode.clone().stop_on(Arc::clone(&ticket.flag)).threads(self.threads());
        let moments = recording.moments();
        let moment = |name: &str| ask.text(name).map(|_| ask.get(name).map(Moment::Instruction)).transpose();
        let window = Window { from: moment("from")?, to: moment("to")? };
        let mut hits = Vec::new();
        let mut is_cut = false;
        if ask.text("last").is_some() {
            hits.extend(moments.find_last(&decode, source, window, &wanted)?);
        } else {
            let most = ask.or("limit", 100_usize)?.clamp(1, MOST_HITS);
            moments.find(&decode, source, window, &wanted, &mut |hit| {
                is_cut = hits.len() >= most;
                if is_cut {
                    return ControlFlow::Break(());
                }
                hits.push(hit.clone());
                ControlFlow::Continue(())
            })?;
        }
        if ticket.is_given_up() {
            return Err(Failed::GivenUp);
        }
        let hits = hits.iter().map(|hit| self.hit(recording, number, hit)).collect::<Result<Vec<_>, _>>()?;
        Ok(json!({ "hits": hits, "is_cut": is_cut }))
    }

    fn hit(&self, recording: &Recording<'_>, number: usize, hit: &Hit) -> Result<Value, Failed> {
        let source = &recording.sources[number];
        let words = match (&hit.message, &hit.event) {
            (Some(message), _) => message.clone(),
            (None, Event::Range(range)) => {
                let image = recording.capture.code()?.of(source);
                let symbol = image.symbolise(AddressSpace::ANY, range.start);
                let name = symbol.map_or(String::new(), |symbol| match symbol.offset {
                    0 => format!(" {}", symbol.name),
                    offset => format!(" {}+{offset:#x}", symbol.name),
                });
                format!("{}{name}", range.start)
            }
            (None, event) => {
                let mut words = event.name().to_owned() + " ";
                // Memory takes everything.
                let _ = write_text(event, &mut words);
                words
            }
        };
        Ok(json!({
            "source": number, "instruction": hit.place.instructions, "time": hit.place.time.map(|time| recording.since(time)),
            "lane": shown(&source.hart_name(hit.hart)), "words": shown(&words),
        }))
    }

    /// Names of functions with a text in them, for the one who types.
    pub(crate) fn functions(&self, ask: Ask<'_>) -> Result<Value, Failed> {
        let recording = self.recording(ask.get("recording")?)?;
        let needle = ask.text("what").unwrap_or_default().to_lowercase();
        let image = recording.capture.code()?.image();
        let found = image.functions().filter(|function| function.name.to_lowercase().contains(&needle));
        let found =
            found.take(MOST_NAMES).map(|function| json!([shown(function.name), function.start.to_string()]));
        Ok(found.collect())
    }
}

fn address(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}
