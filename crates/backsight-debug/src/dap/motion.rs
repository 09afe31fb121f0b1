//! Steps and runs, by instructions and by lines of source.
//!
//! Lines are stepped through by the rules of gdb. A step forwards ends where a statement of another line begins, or no line is known. A
//! step back goes on to the first instruction of the code of the line that it comes to: that is where a step forwards from there begins, too.

use std::ops::Range;
use std::sync::atomic::Ordering;

use backsight::Result;
use backsight::core::Address;
use backsight::image::SourceRow;

use super::message::Request;
use super::server::Server;
use crate::replay::{At, Direction, Stopped, Stops, ThreadId};

/// What an editor wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Motion {
    /// To the next place to stop at.
    Run(Direction),
    /// By one instruction; over calls or into them.
    Instruction(Direction, Calls),
    /// By one line.
    Line(Direction, Calls),
    /// Out of the function: behind its call, or back to it.
    Out(Direction),
}

/// What becomes of calls on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    Into,
    Over,
}

use Direction::{Backwards, Forwards};

impl Motion {
    /// The one that a request asks for, and the number of the thread.
    ///
    /// # Errors
    /// In words, if it makes no sense.
    pub fn of(request: &Request) -> std::result::Result<(Option<i64>, Self), String> {
        let is_instruction = match request.text("granularity") {
            None | Some("statement" | "line") => false,
            Some("instruction") => true,
            Some(_) => return Err("steps are by statement, line or instruction".to_owned()),
        };
        let step = |direction, calls| match is_instruction {
            true => Self::Instruction(direction, calls),
            false => Self::Line(direction, calls),
        };
        let motion = match &*request.command {
            "continue" => Self::Run(Forwards),
            "reverseContinue" => Self::Run(Backwards),
            "next" => step(Forwards, Calls::Over),
            "stepIn" => step(Forwards, Calls::Into),
            "stepBack" if is_instruction => Self::Instruction(Backwards, Calls::Into),
            "stepBack" => Self::Line(Backwards, Calls::Over),
            _ => Self::Out(Forwards),
        };
        Ok((request.number("threadId"), motion))
    }

    /// Those that the protocol has no requests for, by their names in gdb.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "reverse-step" => Self::Line(Backwards, Calls::Into),
            "reverse-next" => Self::Line(Backwards, Calls::Over),
            "reverse-finish" => Self::Out(Backwards),
            _ => return None,
        })
    }

    pub fn is_instruction(self) -> bool {
        matches!(self, Self::Instruction(..))
    }

    pub fn direction(self) -> Direction {
        match self {
            Self::Run(direction)
            | Self::Instruction(direction, _)
            | Self::Line(direction, _)
            | Self::Out(direction) => direction,
        }
    }
}

/// Where a thread is in the source.
struct Spot {
    pc: u64,
    depth: u32,
    row: Option<SourceRow>,
    /// Where its function begins.
    function: Option<u64>,
}

/// What a step by lines is in: code of one line, in one call.
struct Stretch {
    addresses: Range<u64>,
    line: Option<(String, u32)>,
    depth: u32,
}

impl Server<'_, '_> {
    /// Moves a thread.
    pub(super) fn make(&mut self, thread: ThreadId, motion: Motion) -> Result<Stopped> {
        let stops = self.stops();
        match motion {
            Motion::Run(direction) => self.replay.run(thread, direction, &stops),
            Motion::Instruction(direction, Calls::Into) => self.one(thread, direction, &stops),
            Motion::Instruction(direction, Calls::Over) => {
                let depth = self.depth(thread)?;
                let stopped = self.one(thread, direction, &stops)?;
                match stopped == Stopped::Step && self.depth(thread)? > depth {
                    true => self.replay.return_to(thread, direction, depth, &stops),
                    false => Ok(stopped),
                }
            }
            Motion::Out(direction) => match self.depth(thread)? {
                0 | 1 => Err(super::server::refusal(
                    "it is not known where this function was called: that was before the trace begins",
                )),
                depth => self.replay.return_to(thread, direction, depth - 1, &stops),
            },
            Motion::Line(direction, calls) => self.line(thread, direction, calls, &stops),
        }
    }

    /// Where it stops besides.
    fn stops(&self) -> Stops {
        Stops {
            breakpoints: self.breakpoints.all(),
            gaps: self.console.gaps,
            exceptions: self.console.exceptions,
            ..Stops::default()
        }
    }

    fn depth(&mut self, thread: ThreadId) -> Result<u32> {
        self.replay.place(thread)?.map_or(Ok(0), |at| self.replay.depth(at))
    }

    /// A step by an instruction, which may come to a place to stop at.
    fn one(&mut self, thread: ThreadId, direction: Direction, stops: &Stops) -> Result<Stopped> {
        let stopped = self.replay.step(thread, direction)?;
        let (Stopped::Step | Stopped::Gap, Some(at)) = (stopped, self.replay.place(thread)?) else {
            return Ok(stopped);
        };
        if stopped == Stopped::Gap && stops.gaps {
            return Ok(stopped);
        }
        if stops.exceptions {
            let events = self.replay.events(at, false)?;
            if events.iter().any(|event| matches!(event, backsight::Event::Exception { .. })) {
                return Ok(Stopped::Exception);
            }
        }
        let Some(what) = self.replay.what(at)? else { return Ok(Stopped::Step) };
        let mut set = stops.breakpoints.iter().filter(|one| one.address == what.address.0).peekable();
        if set.peek().is_some() {
            let here = self.replay.breakpoint(at, what.address.0)?;
            if set.any(|one| one.file.is_none() || one.file == here.file) {
                return Ok(Stopped::Breakpoint(what.address.0));
            }
        }
        Ok(Stopped::Step)
    }

    fn spot(&mut self, at: At) -> Result<Option<Spot>> {
        let Some(what) = self.replay.what(at)? else { return Ok(None) };
        let (pc, space) = (what.address, what.space);
        let depth = self.replay.depth(at)?;
        let code = self.replay.code(at)?;
        let image = code.names_at(space, pc);
        let row = image.source_row(space, pc).filter(|row| row.line.line > 0);
        let function = image.symbolise(space, pc).map(|symbol| symbol.start.0);
        Ok(Some(Spot { pc: pc.0, depth, row, function }))
    }

    /// Does the function at a place have lines?
    fn has_lines(&mut self, at: At, spot: &Spot) -> Result<bool> {
        let Some(what) = self.replay.what(at)? else { return Ok(false) };
        let start = spot.function.map_or(what.address, Address);
        let code = self.replay.code(at)?;
        let image = code.names_at(what.space, start);
        Ok(image.source_row(what.space, start).is_some_and(|row| row.line.line > 0))
    }

    /// What a step begins in: where no line is known, that is the function.
    fn stretch(&mut self, at: At) -> Result<Option<Stretch>> {
        let Some(spot) = self.spot(at)? else { return Ok(None) };
        let (addresses, line) = match (spot.row, spot.function) {
            (Some(row), _) => (row.start.0..row.end.0, Some((row.line.file, row.line.line))),
            (None, Some(start)) => {
                let code = self.replay.code(at)?;
                let found = code.image().functions().find(|function| function.start.0 == start);
                let size = found.map_or(0, |function| function.size).max(spot.pc - start + 1);
                (start..start.saturating_add(size), None)
            }
            (None, None) => return Ok(None),
        };
        Ok(Some(Stretch { addresses, line, depth: spot.depth }))
    }

    fn line(
        &mut self,
        thread: ThreadId,
        direction: Direction,
        calls: Calls,
        stops: &Stops,
    ) -> Result<Stopped> {
        let is_back = direction == Backwards;
        let first = match self.replay.place(thread)? {
            Some(at) => self.stretch(at)?,
            None => None,
        };
        let Some(mut stretch) = first else {
            return self.one(thread, direction, stops);
        };
        let flag = self.replay.stop_flag();
        let mut stopped = self.one(thread, direction, stops)?;
        loop {
            if stopped != Stopped::Step {
                return Ok(stopped);
            }
            if flag.load(Ordering::Relaxed) {
                return Ok(Stopped::Interrupted);
            }
            let Some(at) = self.replay.place(thread)? else { return Ok(stopped) };
            let Some(spot) = self.spot(at)? else { return Ok(stopped) };
            let is_entry = spot.function == Some(spot.pc);
            if stretch.addresses.contains(&spot.pc) && (!is_back || spot.depth == stretch.depth) {
                // Backwards, it ends where the code of the line begins; before the first of a function is its call.
                if is_back && spot.pc == stretch.addresses.start && !is_entry {
                    return Ok(Stopped::Step);
                }
                stopped = self.one(thread, direction, stops)?;
                continue;
            }
            if spot.depth > stretch.depth {
                if calls == Calls::Over || !self.has_lines(at, &spot)? {
                    stopped = self.replay.return_to(thread, direction, stretch.depth, stops)?;
                    continue;
                }
                match &spot.row {
                    Some(row) if is_back && row.start.0 != spot.pc => {
                        stopped = self.one(thread, direction, stops)?;
                        continue;
                    }
                    _ => return Ok(Stopped::Step),
                }
            }
            let Some(row) = &spot.row else { return Ok(Stopped::Step) };
            let line = (row.line.file.clone(), row.line.line);
            let begins = spot.pc == row.start.0 && stretch.line.as_ref() != Some(&line);
            if begins && row.is_statement {
                return Ok(Stopped::Step);
            }
            // Code of another line in the midst of this one is passed over.
            if !begins || spot.depth != stretch.depth {
                let line = if begins { None } else { Some(line) };
                stretch = Stretch { addresses: row.start.0..row.end.0, line, depth: spot.depth };
            }
            stopped = self.one(thread, direction, stops)?;
        }
    }
}
