//! Steps and runs, forwards and backwards.

use std::collections::BTreeSet;

use backsight::core::AddressSpace;
use backsight::{Result, SourceCode};

use super::super::chunk::{Executor, Run};
use super::super::search::{Direction, Found, Reason, Wanted, search};
use super::super::track::Track;
use super::super::watch::{self, Watchpoint};
use super::{At, Breakpoint, Replay, Scheduler, Stopped, Stops, Thread, ThreadId, file_at};

impl Replay<'_> {
    /// Goes to the next instruction of a thread, or to the one before.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn step(&mut self, thread: ThreadId, direction: Direction) -> Result<Stopped> {
        let Some(&Thread { source, hart, context, .. }) = self.threads.get(thread.0) else {
            return Ok(Stopped::End);
        };
        let executor = Executor { hart, thread: context };
        let from = self.position(source)?;
        let found = match near(&mut self.tracks[source], executor, from, direction)? {
            Some(found) => Some(found),
            None => {
                let wanted = Wanted { of: Some(executor), ..Wanted::default() };
                let until = end_of(&self.tracks[source], direction);
                self.find(source, (from, until), direction, &wanted, &BTreeSet::new())?
                    .map(|found| found.number)
            }
        };
        let Some(to) = found else {
            return Ok(match direction {
                _ if self.is_stopped() => Stopped::Interrupted,
                Direction::Forwards => Stopped::End,
                Direction::Backwards => Stopped::Beginning,
            });
        };
        self.arrive(source, to)?;
        // What was passed over on the way.
        let crossed = if direction == Direction::Forwards { to } else { from };
        let notes = self.tracks[source].notes(crossed)?;
        let is_missing = notes.iter().any(|note| note.hart == hart && note.event.is_break());
        Ok(if is_missing && crossed > 0 { Stopped::Gap } else { Stopped::Step })
    }

    fn is_stopped(&self) -> bool {
        self.stop.load(std::sync::atomic::Ordering::Relaxed)
    }

    /// The nearest place at which something holds, no farther away than another one.
    fn find(
        &mut self,
        source: usize,
        (from, until): (u64, u64),
        direction: Direction,
        wanted: &Wanted,
        breakpoints: &BTreeSet<Breakpoint>,
    ) -> Result<Option<Found>> {
        let is_right = |code: &SourceCode<'_>, space: AddressSpace, address: u64| {
            let mut here = breakpoints.iter().filter(|one| one.address == address).peekable();
            here.peek().is_none()
                || here.any(|one| one.file.is_none() || one.file == file_at(code, space, address))
        };
        let track = &mut self.tracks[source];
        let code = track.code;
        // What is near is decoded already, and what is not will be asked for again.
        let chunk = track.chunk(from)?;
        let mut edge = from;
        if chunk.unkept == 0 {
            if let Some(found) = chunk.search(from, direction, wanted, &code, &is_right) {
                let is_before = match direction {
                    Direction::Forwards => found.number <= until,
                    Direction::Backwards => found.number >= until,
                };
                return Ok(Some(found).filter(|_| is_before));
            }
            edge = match direction {
                Direction::Forwards => from.max(chunk.end.saturating_sub(1)),
                Direction::Backwards => from.min(chunk.first),
            };
        }
        search(track, (edge, until), direction, wanted, &is_right, self.cores)
    }

    /// The nearest place of a source to stop at, no farther away than another one.
    fn nearest(
        &mut self,
        source: usize,
        (from, until): (u64, u64),
        direction: Direction,
        wanted: &Wanted,
        stops: &Stops,
    ) -> Result<Option<Found>> {
        let at = At { source, hart: 0, instruction: from };
        let touched = watch::nearest(&mut *self.state, at, direction, &stops.watchpoints);
        let touched = match direction {
            Direction::Forwards => touched.map(|(number, watchpoint)| (number + 1, watchpoint)),
            Direction::Backwards => touched,
        };
        // What the last instruction did shows nowhere.
        let touched = touched.filter(|&(number, _)| match direction {
            Direction::Forwards => number <= until && number < self.tracks[source].instructions,
            Direction::Backwards => number >= until,
        });
        let until = match (touched, direction) {
            (None, _) => until,
            (Some((number, _)), Direction::Forwards) => number.saturating_sub(1),
            (Some((number, _)), Direction::Backwards) => number + 1,
        };
        let found = self.find(source, (from, until), direction, wanted, &stops.breakpoints)?;
        let Some((number, watchpoint)) = touched else { return Ok(found) };
        let is_before = |found: &Found| match direction {
            Direction::Forwards => found.number < number,
            Direction::Backwards => found.number > number,
        };
        if found.is_some_and(|found| is_before(&found)) {
            return Ok(found);
        }
        let time = self.tracks[source].time(number)?;
        Ok(Some(Found { number, reason: Reason::Touch(watchpoint), time }))
    }

    /// The first of some watchpoints whose memory the instruction at a place touched.
    pub fn touched(&mut self, at: At, watchpoints: &BTreeSet<Watchpoint>) -> Option<Watchpoint> {
        let is_touched = |watchpoint: &&Watchpoint| {
            self.state.access_at(at, watchpoint.addresses(), watchpoint.touch).is_some()
        };
        watchpoints.iter().find(is_touched).copied()
    }

    /// Runs to the next place to stop at, or to the one before, of any source that moves.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn run(&mut self, thread: ThreadId, direction: Direction, stops: &Stops) -> Result<Stopped> {
        let active = self.threads.get(thread.0).map_or(self.active, |thread| thread.source);
        let wanted = Wanted::of_stops(stops);
        let all = match self.scheduler {
            Scheduler::Time => 0..self.tracks.len(),
            Scheduler::Alone => active..active + 1,
        };
        let mut nearest: Option<(usize, Found, Option<u64>)> = None;
        let from = self.position(active)?;
        let order = self.state.order(At { source: active, hart: 0, instruction: from });
        let others_move = order.is_some() || self.tracks[active].time(from)?.is_some();
        for source in std::iter::once(active).chain(all.filter(|source| *source != active && others_move)) {
            let from = self.position(source)?;
            let until = end_of(&self.tracks[source], direction);
            let found = self.nearest(source, (from, until), direction, &wanted, stops)?;
            let Some(found) = found else { continue };
            let order = self.state.order(At { source, hart: 0, instruction: found.number });
            let is_nearer = |known: &Found, known_order: Option<u64>| match (direction, order, known_order) {
                (Direction::Forwards, Some(order), Some(known)) => order < known,
                (Direction::Backwards, Some(order), Some(known)) => order > known,
                (Direction::Forwards, ..) => found.time.is_some() && found.time < known.time,
                (Direction::Backwards, ..) => known.time.is_some() && found.time > known.time,
            };
            if nearest.is_none_or(|(_, known, order)| is_nearer(&known, order)) {
                nearest = Some((source, found, order));
            }
        }
        if self.is_stopped() {
            return Ok(Stopped::Interrupted);
        }
        if let Some((source, found, _)) = nearest {
            self.arrive(source, found.number)?;
            return Ok(found.reason.stopped());
        }
        let (to, stopped) = match direction {
            Direction::Forwards => (self.tracks[active].instructions - 1, Stopped::End),
            Direction::Backwards => (0, Stopped::Beginning),
        };
        self.arrive(active, to)?;
        Ok(stopped)
    }

    /// Runs to the nearest instruction of a thread with no more than so many calls under way, unless its source comes to a place to
    /// stop at before.
    ///
    /// # Errors
    /// If bytes or code cannot be read.
    pub fn return_to(
        &mut self,
        thread: ThreadId,
        direction: Direction,
        depth: u32,
        stops: &Stops,
    ) -> Result<Stopped> {
        let Some(&Thread { source, hart, context, .. }) = self.threads.get(thread.0) else {
            return Ok(Stopped::End);
        };
        let executor = Executor { hart, thread: context };
        let from = self.position(source)?;
        let returned = self.tracks[source].nearest_depth(executor, from, direction, depth)?;
        if self.is_stopped() {
            return Ok(Stopped::Interrupted);
        }
        let until = returned.unwrap_or_else(|| end_of(&self.tracks[source], direction));
        let wanted = Wanted::of_stops(stops);
        let found = self.nearest(source, (from, until), direction, &wanted, stops)?;
        let stopped = match (found, returned) {
            _ if self.is_stopped() => return Ok(Stopped::Interrupted),
            (Some(found), _) => found.reason.stopped(),
            (None, Some(_)) => Stopped::Step,
            (None, None) if direction == Direction::Forwards => Stopped::End,
            (None, None) => Stopped::Beginning,
        };
        self.arrive(source, found.map_or(until, |found| found.number))?;
        Ok(stopped)
    }
}

/// The last instruction in a direction.
fn end_of(track: &Track<'_>, direction: Direction) -> u64 {
    match direction {
        Direction::Forwards => track.instructions.saturating_sub(1),
        Direction::Backwards => 0,
    }
}

/// The next instruction of an executor, or the one before, if it is near.
fn near(track: &mut Track<'_>, executor: Executor, from: u64, direction: Direction) -> Result<Option<u64>> {
    let to = match direction {
        Direction::Forwards => from + 1,
        Direction::Backwards => match from.checked_sub(1) {
            Some(to) => to,
            None => return Ok(None),
        },
    };
    if to >= track.instructions {
        return Ok(None);
    }
    let chunk = track.chunk(to)?;
    let Some(place) = chunk.run_at(to) else { return Ok(None) };
    let is_it = |run: &&Run| chunk.scene(run).is_some_and(|scene| scene.executor == executor);
    Ok(match direction {
        Direction::Forwards => chunk.runs[place..].iter().find(is_it).map(|run| to.max(run.number)),
        Direction::Backwards => {
            let run = chunk.runs[..=place].iter().rev().find(is_it);
            run.map(|run| to.min(run.number + u64::from(run.range.instructions) - 1))
        }
    })
}
