//! Steps and runs, by instructions and by lines of source.
//!
//! Lines are stepped through by the rules of gdb. A step forwards ends where a statement of another line begins, or no line is known. A
//! step back goes on to the first instruction of the code of the line that it comes to: that is where a step forwards from there begins, too.

use std::ops::Range;
use std::sync::atomic::Ordering;

use backsight::core::Address;
use backsight::image::SourceRow;
use backsight::{Error, Result};

use crate::replay::{At, Direction, Replay, Stopped, Stops, ThreadId};

/// Where somebody wants to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Motion {
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
pub enum Calls {
    /// They are entered.
    Into,
    /// They are passed over.
    Over,
}

impl Motion {
    /// Does it go by single instructions?
    pub const fn is_instruction(self) -> bool {
        matches!(self, Self::Instruction(..))
    }

    /// Which way it goes.
    pub const fn direction(self) -> Direction {
        match self {
            Self::Run(direction)
            | Self::Instruction(direction, _)
            | Self::Line(direction, _)
            | Self::Out(direction) => direction,
        }
    }

    /// Moves a thread, unless it comes to a place to stop at before.
    ///
    /// # Errors
    /// If bytes or code cannot be read, or a call is to be left that is not known.
    pub fn make(self, replay: &mut Replay<'_>, thread: ThreadId, stops: &Stops) -> Result<Stopped> {
        let mut walk = Steps { replay };
        match self {
            Motion::Run(direction) => walk.replay.run(thread, direction, stops),
            Motion::Instruction(direction, Calls::Into) => walk.one(thread, direction, stops),
            Motion::Instruction(direction, Calls::Over) => {
                let depth = walk.depth(thread)?;
                let stopped = walk.one(thread, direction, stops)?;
                match stopped == Stopped::Step && walk.depth(thread)? > depth {
                    true => walk.replay.return_to(thread, direction, depth, stops),
                    false => Ok(stopped),
                }
            }
            Motion::Out(direction) => match walk.depth(thread)? {
                0 | 1 => Err(Error::Absent(
                    "it is not known where this function was called: that was before the trace begins"
                        .to_owned(),
                )),
                depth => walk.replay.return_to(thread, direction, depth - 1, stops),
            },
            Motion::Line(direction, calls) => walk.line(thread, direction, calls, stops),
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

/// A walk by steps.
struct Steps<'r, 'c> {
    replay: &'r mut Replay<'c>,
}

impl Steps<'_, '_> {
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
        let is_back = direction == Direction::Backwards;
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
