//! The calls of an index in a file.
//!
//! First all sites, then all calls, each after the one around it; then for each point the stacks of harts. Numbers are differences to
//! what is known of the call around it, or of the point before.

use std::collections::BTreeMap;
use std::sync::Arc;

use backsight_core::{Address, AddressSpace};

use super::file::{MOST_INSTRUCTIONS, Read, Written};
use crate::calls::saved::{CallSite, HartCalls, NONE, Paused, SavedCall, SavedCalls, SavedStack};
use crate::calls::{Clock, Departure};

/// What was written of the point before.
#[derive(Default)]
pub(super) struct LastCalls {
    clock: Clock,
    paused: BTreeMap<u16, Paused>,
}

const HANDLER: u8 = 1;
const BEGINNING: u8 = 2;

impl Written {
    pub(super) fn calls(&mut self, SavedCalls { sites, calls }: &SavedCalls) {
        self.number(sites.len() as u64);
        for &CallSite { space, address, return_address, is_handler, is_beginning_known } in sites {
            self.number(u64::from(space.view()) | u64::from(space.process()) << 8);
            self.number(address.0);
            self.optional(return_address.map(|address| address.0));
            let (handler, beginning) = (u8::from(is_handler), u8::from(is_beginning_known));
            self.byte((HANDLER * handler) | (BEGINNING * beginning));
        }
        self.number(calls.len() as u64);
        for (number, call) in calls.iter().enumerate() {
            let &SavedCall { caller, site, was_visited, ref entered, elsewhere } = call;
            let around = calls.get(caller as usize);
            self.number(if caller == NONE { 0 } else { number as u64 - u64::from(caller) });
            self.number(site.into());
            self.byte(was_visited.into());
            self.clock(entered, &around.map_or_else(Clock::default, |around| around.entered));
            self.number(elsewhere.wrapping_sub(around.map_or(0, |around| around.elsewhere)));
        }
    }

    fn clock(&mut self, &Clock { instructions, cycles, time }: &Clock, before: &Clock) {
        self.number(instructions.wrapping_sub(before.instructions));
        self.optional(cycles.map(|cycles| cycles.wrapping_sub(before.cycles.unwrap_or(0))));
        self.optional(time.map(|time| time.wrapping_sub(before.time.unwrap_or(0))));
    }

    pub(super) fn harts(&mut self, harts: Option<&[HartCalls]>, last: &mut LastCalls) {
        let Some(harts) = harts else { return self.number(0) };
        self.number(harts.len() as u64 + 1);
        for HartCalls { hart, thread, clock, began, running, paused } in harts {
            self.number((*hart).into());
            self.optional(*thread);
            self.clock(clock, &last.clock);
            self.number(clock.instructions - began.instructions);
            let back = |now: Option<u64>, then: Option<u64>| Some(now?.wrapping_sub(then?));
            self.optional(back(clock.cycles, began.cycles));
            self.optional(back(clock.time, began.time));
            last.clock = *clock;
            self.stack(running);
            if last.paused.get(hart).is_some_and(|last| Arc::ptr_eq(last, paused) || last == paused) {
                self.number(0);
                continue;
            }
            self.number(paused.len() as u64 + 1);
            for (thread, stack) in paused.iter() {
                self.number(*thread);
                self.stack(stack);
            }
            last.paused.insert(*hart, Arc::clone(paused));
        }
    }

    fn stack(&mut self, &SavedStack { top, frames, forgotten, departure, is_lost }: &SavedStack) {
        self.number(if top == NONE { 0 } else { u64::from(top) + 1 });
        self.number(frames.into());
        self.number(forgotten);
        let (kind, address) = match departure {
            Departure::Sequence => (0, None),
            Departure::Jump { is_indirect } => (1 + u8::from(is_indirect), None),
            Departure::Call { return_address } => (3, Some(return_address)),
            Departure::Return => (4, None),
            Departure::ExceptionReturn => (5, None),
            Departure::Exception { return_address } => (6, Some(return_address)),
            Departure::ExceptionSomewhere => (7, None),
        };
        self.byte(kind << 1 | u8::from(is_lost));
        address.into_iter().for_each(|address| self.number(address.0));
    }
}

impl Read<'_> {
    pub(super) fn calls(&mut self) -> Option<SavedCalls> {
        let count = self.count()?;
        let sites = (0..count).map(|_| self.site()).collect::<Option<_>>()?;
        let count = self.count()?;
        let mut calls: Vec<SavedCall> = Vec::new();
        for number in 0..u32::try_from(count).ok()? {
            let caller = match self.number()? {
                0 => NONE,
                distance => number.checked_sub(u32::try_from(distance).ok()?)?,
            };
            let site = u32::try_from(self.number()?).ok()?;
            let was_visited = self.flag()?;
            let around = calls.get(caller as usize);
            let (entered, elsewhere) =
                around.map_or_else(Default::default, |around| (around.entered, around.elsewhere));
            let entered = self.clock(&entered)?;
            let elsewhere = elsewhere.wrapping_add(self.number()?);
            calls.push(SavedCall { caller, site, was_visited, entered, elsewhere });
        }
        Some(SavedCalls { sites, calls }).filter(SavedCalls::is_sound)
    }

    fn site(&mut self) -> Option<CallSite> {
        let space = u32::try_from(self.number()?).ok()?;
        let space = AddressSpace::from_view(space as u8).in_process(space >> 8);
        let address = Address(self.number()?);
        let return_address = self.optional()?.map(Address);
        let flags = self.byte().filter(|flags| flags & !(HANDLER | BEGINNING) == 0)?;
        let (is_handler, is_beginning_known) = (flags & HANDLER != 0, flags & BEGINNING != 0);
        Some(CallSite { space, address, return_address, is_handler, is_beginning_known })
    }

    fn clock(&mut self, before: &Clock) -> Option<Clock> {
        let instructions = before.instructions.wrapping_add(self.number()?);
        let cycles = self.optional()?.map(|more| before.cycles.unwrap_or(0).wrapping_add(more));
        let time = self.optional()?.map(|more| before.time.unwrap_or(0).wrapping_add(more));
        Some(Clock { instructions, cycles, time })
    }

    /// The calls of each hart at a point with so many instructions before it.
    pub(super) fn harts(
        &mut self,
        instructions: u64,
        saved: &SavedCalls,
        last: &mut LastCalls,
    ) -> Option<Option<Box<[HartCalls]>>> {
        let Some(count) = self.optional_count()? else { return Some(None) };
        let harts = (0..count).map(|_| self.hart(instructions, saved, last)).collect::<Option<Box<[_]>>>()?;
        harts.is_sorted_by(|one, other| one.hart < other.hart).then_some(Some(harts))
    }

    fn hart(&mut self, instructions: u64, saved: &SavedCalls, last: &mut LastCalls) -> Option<HartCalls> {
        let hart = u16::try_from(self.number()?).ok()?;
        let thread = self.optional()?;
        let clock = self.clock(&last.clock)?;
        last.clock = clock;
        if clock.instructions > instructions || clock.cycles > Some(MOST_INSTRUCTIONS) {
            return None;
        }
        let back = |now: Option<u64>, distance: Option<u64>| {
            distance.map_or(Some(None), |distance| Some(Some(now?.wrapping_sub(distance))))
        };
        let began = {
            let instructions = clock.instructions.checked_sub(self.number()?)?;
            let (cycles, time) = (self.optional()?, self.optional()?);
            Clock { instructions, cycles: back(clock.cycles, cycles)?, time: back(clock.time, time)? }
        };
        let running = self.stack()?;
        let paused = match self.optional_count()? {
            None => Arc::clone(last.paused.get(&hart)?),
            Some(count) => {
                let paused = (0..count).map(|_| Some((self.number()?, self.stack()?)));
                Arc::new(paused.collect::<Option<_>>()?)
            }
        };
        last.paused.insert(hart, Arc::clone(&paused));
        Some(HartCalls { hart, thread, clock, began, running, paused }).filter(|calls| saved.has(calls))
    }

    fn stack(&mut self) -> Option<SavedStack> {
        let top = match self.number()? {
            0 => NONE,
            top => u32::try_from(top - 1).ok()?,
        };
        let frames = u32::try_from(self.number()?).ok()?;
        let forgotten = self.number().filter(|&forgotten| forgotten <= MOST_INSTRUCTIONS)?;
        let kind = self.byte()?;
        let is_lost = kind & 1 != 0;
        let departure = match kind >> 1 {
            0 => Departure::Sequence,
            kind @ (1 | 2) => Departure::Jump { is_indirect: kind == 2 },
            3 => Departure::Call { return_address: Address(self.number()?) },
            4 => Departure::Return,
            5 => Departure::ExceptionReturn,
            6 => Departure::Exception { return_address: Address(self.number()?) },
            7 => Departure::ExceptionSomewhere,
            _ => return None,
        };
        Some(SavedStack { top, frames, forgotten, departure, is_lost })
    }
}
