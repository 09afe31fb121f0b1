//! Where execution stops: breakpoints and watchpoints, steps and runs, and what gdb is told of them.

use std::io;

use super::super::arch::Holds;
use super::super::packet::parse_two;
use super::{ERROR, OK, Server};
use crate::console::{here, words};
use crate::replay::{At, Direction, Stopped, Stops, ThreadId, Touch, Watchpoint};

/// Places to stop at that a debugger may set.
const MOST_BREAKPOINTS: usize = 1 << 12;
const MOST_WATCHPOINTS: usize = 64;

impl Server<'_, '_> {
    pub(super) fn set_breakpoint(&mut self, text: &[u8]) -> backsight::Result<Vec<u8>> {
        match stop_in(text) {
            Some(Place::Code(address)) => {
                if self.breakpoints.len() >= MOST_BREAKPOINTS && !self.breakpoints.contains_key(&address) {
                    return Ok(ERROR.to_vec());
                }
                let at = here(self.replay)?;
                let breakpoint = self.replay.breakpoint(at, address)?;
                self.breakpoints.insert(address, breakpoint);
                Ok(OK.to_vec())
            }
            Some(Place::Memory(watchpoint)) if self.replay.state().knows_accesses() => {
                let has_room = self.watchpoints.len() < MOST_WATCHPOINTS;
                if watchpoint.length == 0 || !has_room && !self.watchpoints.contains(&watchpoint) {
                    return Ok(ERROR.to_vec());
                }
                self.watchpoints.insert(watchpoint);
                Ok(OK.to_vec())
            }
            _ => Ok(Vec::new()),
        }
    }

    pub(super) fn remove_breakpoint(&mut self, text: &[u8]) -> Vec<u8> {
        match stop_in(text) {
            Some(Place::Code(address)) => _ = self.breakpoints.remove(&address),
            Some(Place::Memory(watchpoint)) => _ = self.watchpoints.remove(&watchpoint),
            None => return Vec::new(),
        }
        OK.to_vec()
    }

    fn step(&mut self, thread: ThreadId, direction: Direction) -> backsight::Result<Stopped> {
        let from = self.replay.place(thread)?;
        let stopped = self.replay.step(thread, direction)?;
        if self.watchpoints.is_empty() || !matches!(stopped, Stopped::Step | Stopped::Gap) {
            return Ok(stopped);
        }
        let passed = if direction == Direction::Forwards { from } else { self.replay.place(thread)? };
        let touched = passed.and_then(|at| self.replay.touched(at, &self.watchpoints));
        let Some(watchpoint) = touched else { return Ok(stopped) };
        if self.arch.stops_before_access()
            && let Some(from) = from
        {
            self.replay.go_to_place(from)?;
        }
        Ok(Stopped::Touched(watchpoint))
    }

    fn run(&mut self, thread: ThreadId, direction: Direction) -> backsight::Result<Stopped> {
        let stops = Stops {
            breakpoints: self.breakpoints.values().cloned().collect(),
            watchpoints: self.watchpoints.clone(),
            gaps: self.console.gaps,
            exceptions: self.console.exceptions,
        };
        let stopped = self.replay.run(thread, direction, &stops)?;
        if let Stopped::Touched(_) = stopped
            && self.arch.stops_before_access()
        {
            let at = here(self.replay)?;
            let instruction = match direction {
                Direction::Forwards => at.instruction.saturating_sub(1),
                Direction::Backwards => at.instruction + 1,
            };
            self.replay.go_to_place(At { instruction, ..at })?;
        }
        Ok(stopped)
    }

    pub(super) fn resume(&mut self, is_step: bool, direction: Direction) -> io::Result<Vec<u8>> {
        let thread = self.moving.unwrap_or(self.replay.current());
        let from = self.replay.place(thread).unwrap_or_default().filter(|_| is_step);
        let outcome = match is_step {
            true => self.step(thread, direction),
            false => self.run(thread, direction),
        };
        let reply = outcome.and_then(|stopped| {
            self.stopped = stopped;
            let text = words::of_stop(self.replay, from, stopped, direction == Direction::Backwards)?;
            Ok((text, self.stop_reply()?))
        });
        match reply {
            Ok((text, reply)) => {
                self.say(&text)?;
                self.asked = None;
                Ok(reply)
            }
            Err(error) => {
                self.say(&format!("{error}\n"))?;
                self.stopped = Stopped::Interrupted;
                Ok(self.stop_reply().unwrap_or_else(|_| b"S00".to_vec()))
            }
        }
    }

    /// Where execution stopped, and why, with the registers that are known.
    pub(super) fn stop_reply(&mut self) -> backsight::Result<Vec<u8>> {
        let thread = self.replay.current();
        let place = self.replay.place(thread)?;
        // A gap is no trap: gdb would step over it.
        let (signal, why) = match self.stopped {
            Stopped::Step => (5, ""),
            Stopped::Breakpoint(_) => (5, "swbreak:;"),
            Stopped::Touched(_) => (5, ""),
            Stopped::Beginning => (5, "replaylog:begin;"),
            Stopped::End => (5, "replaylog:end;"),
            Stopped::Interrupted => (2, ""),
            Stopped::Gap if !self.console.gaps => (5, ""),
            Stopped::Gap | Stopped::Exception => (0, ""),
        };
        let mut text = format!("T{signal:02x}thread:{:x};", thread.0 + 1);
        for index in 0..self.registers.len() {
            let entry = self.registers[index];
            if let Holds::Pc | Holds::Moment | Holds::Calls = entry.holds {
                text += &format!("{:x}:{};", entry.number, self.register_text(place, &entry)?);
            }
        }
        text += why;
        if let Stopped::Touched(Watchpoint { address, touch, .. }) = self.stopped {
            let what = match touch {
                Touch::Write => "watch",
                Touch::Read => "rwatch",
                Touch::Any => "awatch",
            };
            text += &format!("{what}:{address:x};");
        }
        if self.libraries()? != self.told {
            text += "library:;";
        }
        Ok(text.into_bytes())
    }
}

/// Where execution is to stop.
enum Place {
    Code(u64),
    Memory(Watchpoint),
}

/// What comes after `Z` and `z`: a kind, an address, and how many bytes.
fn stop_in(text: &[u8]) -> Option<Place> {
    let (&kind, rest) = text.split_first()?;
    let (address, length) = parse_two(rest.strip_prefix(b",")?.split(|byte| *byte == b';').next()?)?;
    let touch = match kind {
        b'0' | b'1' => return Some(Place::Code(address)),
        b'2' => Touch::Write,
        b'3' => Touch::Read,
        b'4' => Touch::Any,
        _ => return None,
    };
    Some(Place::Memory(Watchpoint { address, length, touch }))
}
