//! Where two executions that differ come together again.

use std::collections::HashMap;

use super::What;
use super::compare::{Comparison, Found, same};
use super::stream::KEPT;
use crate::steps::{Note, Step};

/// Instructions that are looked at first; then twice as many, again and again.
const FIRST_LOOK: usize = 256;

/// Periods of loops that are tried at a place.
const MOST_PERIODS: usize = 8;

/// Instructions after a gap that have to be the same: a loop may be interrupted by one.
const AFTER_GAP: usize = 64;

/// Instructions after a loop or a handler that have to be the same: it says itself where it ends.
const SURE: usize = 4;

impl Comparison<'_, '_> {
    /// The nearest place at which both are the same again.
    pub(super) fn resync(&mut self, ends: [bool; 2]) -> Found {
        if let Some(side) = (0..2).find(|&side| ends[side]) {
            return self.after_loop(1 - side).unwrap_or(Found { what: What::End { side }, skip: [0; 2] });
        }
        if self.differs_by_opcode() {
            return Found { what: What::Opcode, skip: [1; 2] };
        }
        for side in 0..2 {
            if let Some(found) = self.after_handler(side) {
                return found;
            }
        }
        for side in 0..2 {
            if let Some(found) = self.after_gap(side) {
                return found;
            }
        }
        if let Some(found) = self.after_loops() {
            return found;
        }
        match self.after_anything() {
            Some(skip) => Found { what: self.kind(skip), skip },
            None => Found { what: What::NotFound, skip: [0; 2] },
        }
    }

    /// What instructions are that only one side has, or both instead of one another.
    fn kind(&self, skip: [usize; 2]) -> What {
        let is_start = self.sides.iter().all(|side| side.position() == 0);
        if is_start {
            return What::Start;
        }
        for side in 0..2 {
            let mut notes = self.sides[side].notes_here();
            if skip[side] == 0 && notes.any(|note| *note == Note::Gap) {
                return What::Missing { side };
            }
            if skip[1 - side] == 0
                && let Some(cause) = self.exception_at(side)
            {
                return What::Handler { side, cause };
            }
        }
        What::Path
    }

    fn differs_by_opcode(&self) -> bool {
        let heads = self.sides.each_ref().map(|side| side.ahead().first());
        let [Some(one), Some(other)] = heads else { return false };
        same(one, other, false) && one.size == other.size
    }

    fn exception_at(&self, side: usize) -> Option<backsight_core::Cause> {
        self.sides[side].notes_here().find_map(|note| match note {
            Note::Exception { cause, .. } => Some(*cause),
            _ => None,
        })
    }

    /// A side took an exception: where its handler has returned to what the other one does.
    fn after_handler(&mut self, side: usize) -> Option<Found> {
        let cause = self.exception_at(side)?;
        let target = *self.sides[1 - side].ahead().first()?;
        let (here, mut depth, mut index) = (self.sides[side].position(), 1_u32, 0);
        let mut note = 0;
        while index < self.settings.look && self.sides[side].fill(index + 1) {
            // Exceptions within the handler.
            while let Some((position, what)) = self.sides[side].note(note)
                && *position <= here + index as u64
            {
                depth += u32::from(*position > here && matches!(what, Note::Exception { .. }));
                note += 1;
            }
            let step = self.sides[side].ahead()[index];
            index += 1;
            if !step.returns {
                continue;
            }
            depth = depth.saturating_sub(1);
            if depth > 0 {
                continue;
            }
            self.sides[side].fill(index + SURE);
            self.sides[1 - side].fill(SURE);
            let next = self.sides[side].ahead().get(index).copied()?;
            let mut from = [0; 2];
            from[side] = index;
            if self.same(&next, &target) && self.is_sure(from) {
                let mut skip = [0; 2];
                skip[side] = index;
                return Some(Found { what: What::Handler { side, cause }, skip });
            }
            // It returned to something else, another task most often: what comes back from there is another return.
        }
        None
    }

    /// The trace of a side has a gap: what it goes on with is somewhere in what the other one does.
    fn after_gap(&mut self, side: usize) -> Option<Found> {
        let has_gap = self.sides[side].notes_here().any(|note| *note == Note::Gap);
        if !has_gap || self.sides.iter().all(|side| side.position() == 0) {
            return None;
        }
        self.sides[side].fill(AFTER_GAP);
        let least = self.sides[side].ahead().len().min(AFTER_GAP);
        let mut from = [0; 2];
        for index in 1..self.settings.look {
            if !self.sides[1 - side].fill(index + least) {
                break;
            }
            from[1 - side] = index;
            if self.common(from, least) == least {
                return Some(Found { what: What::Missing { side }, skip: from });
            }
        }
        None
    }

    /// Are both the same from there on, for long enough, or as long as both last or are not interrupted?
    fn is_sure(&mut self, from: [usize; 2]) -> bool {
        let mut least = SURE;
        for (side, &first) in from.iter().enumerate() {
            let stream = &mut self.sides[side];
            stream.fill(first + SURE);
            least = least.min(stream.ahead().len().saturating_sub(first));
            let at = stream.position() + first as u64;
            let ends = |note: &Note| matches!(note, Note::Exception { .. } | Note::Gap);
            let next = stream.notes().find(|(position, note)| *position > at && ends(note));
            let until = next.map_or(usize::MAX, |(position, _)| (position - at) as usize);
            least = least.min(until);
        }
        least > 0 && self.common(from, least) == least
    }

    /// Does a side go on with the same instructions as those that it has just executed, so many?
    pub(super) fn is_turn(&mut self, side: usize, period: usize) -> bool {
        let side = &mut self.sides[side];
        if !side.fill(period) {
            return false;
        }
        let behind = side.behind();
        let Some(turn) = behind.len().checked_sub(period).and_then(|from| behind.get(from..)) else {
            return false;
        };
        turn.iter().zip(side.ahead()).all(|(one, other)| same(one, other, true))
    }

    /// Periods with which a side repeats what it has just executed, the shortest first.
    fn periods(&mut self, side: usize) -> Vec<usize> {
        let stream = &self.sides[side];
        let Some(head) = stream.ahead().first() else { return Vec::new() };
        let behind = stream.behind().iter().rev().take(KEPT).zip(1..);
        let near = behind.filter(|(step, _)| same(step, head, true)).map(|(_, period)| period);
        let near: Vec<usize> = near.take(4 * MOST_PERIODS).collect();
        near.into_iter().filter(|&period| self.is_turn(side, period)).take(MOST_PERIODS).collect()
    }

    /// One side is in a loop that the other has left.
    fn after_loops(&mut self) -> Option<Found> {
        let mut periods: Vec<(usize, usize)> = Vec::new();
        for side in 0..2 {
            periods.extend(self.periods(side).into_iter().map(|period| (period, side)));
        }
        periods.sort_unstable();
        periods.into_iter().find_map(|(period, side)| self.after_turns(side, period, false))
    }

    /// One side is in a loop, and the other has ended: the loop may be all that is left.
    fn after_loop(&mut self, side: usize) -> Option<Found> {
        let periods = self.periods(side);
        periods.into_iter().find_map(|period| self.after_turns(side, period, true))
    }

    fn after_turns(&mut self, side: usize, period: usize, at_end: bool) -> Option<Found> {
        let mut from = [0; 2];
        loop {
            let end = from[side] + period;
            let is_turn = self.sides[side].fill(end) && {
                let stream = &self.sides[side];
                let turn = match from[side].checked_sub(period) {
                    Some(before) => &stream.ahead()[before..from[side]],
                    None => &stream.behind()[stream.behind().len() - period..],
                };
                turn.iter().zip(&stream.ahead()[from[side]..end]).all(|(one, other)| same(one, other, true))
            };
            if !is_turn {
                break;
            }
            from[side] = end;
            if end >= self.settings.look {
                // It waits for long: what comes after it is looked at when it has come.
                break;
            }
        }
        let turns = from[side] / period;
        let is_long = from[side] >= self.settings.look;
        let goes_on = match at_end {
            true => is_long || !self.sides[side].fill(from[side] + 1),
            false => is_long || self.is_sure(from),
        };
        let what = What::Loop { side, period, turns: turns as u64 };
        (turns > 0 && goes_on).then_some(Found { what, skip: from })
    }

    /// The nearest place from which on both have the same instructions, whatever they do before.
    fn after_anything(&mut self) -> Option<[usize; 2]> {
        let look = self.settings.look.max(1);
        let mut window = FIRST_LOOK.min(look);
        loop {
            self.sides.iter_mut().for_each(|side| _ = side.fill(window));
            let best = self.nearest(window, self.settings.resync.max(1));
            // Beyond the window may be something nearer than what is far apart in it.
            if let Some(skip) = best
                && (skip[0] + skip[1] <= window || window == look)
            {
                return Some(skip);
            }
            let is_all = self.sides.iter().all(|side| side.has_ended() && side.ahead().len() <= window);
            if is_all || window == look {
                // What is left may be shorter than what is asked for.
                let mut length = self.settings.resync.max(1);
                while best.is_none() && is_all && length > 1 {
                    length /= 2;
                    let shorter = self.nearest(window, length);
                    if shorter.is_some() {
                        return shorter;
                    }
                }
                return best.or_else(|| is_all.then(|| self.sides.each_ref().map(|side| side.ahead().len())));
            }
            window = (2 * window).min(look);
        }
    }

    /// Of all places within a window from which on so many instructions are the same, the one with the fewest before it.
    fn nearest(&self, window: usize, length: usize) -> Option<[usize; 2]> {
        let [one, other] = self.sides.each_ref().map(|side| &side.ahead()[..side.ahead().len().min(window)]);
        let mut places: HashMap<u64, usize> = HashMap::new();
        for (index, hash) in Rolling::of(one, length) {
            places.entry(hash).or_insert(index);
        }
        let mut best: Option<[usize; 2]> = None;
        for (index, hash) in Rolling::of(other, length) {
            if best.is_some_and(|best| index >= best[0] + best[1]) {
                break;
            }
            let Some(&place) = places.get(&hash) else { continue };
            let is_nearer = best.is_none_or(|best| place + index < best[0] + best[1]);
            if is_nearer && self.common([place, index], length) == length {
                best = Some([place, index]);
            }
        }
        best
    }
}

/// Hashes of so many addresses one after the other, at each place.
struct Rolling<'s> {
    steps: &'s [Step],
    length: usize,
    /// What the address that goes weighs.
    last: u64,
    hash: u64,
    index: usize,
}

impl<'s> Rolling<'s> {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

    fn of(steps: &'s [Step], length: usize) -> Self {
        let last = (1..length).fold(1_u64, |product, _| product.wrapping_mul(Self::FACTOR));
        Self { steps, length, last, hash: 0, index: 0 }
    }

    fn weight(step: &Step) -> u64 {
        let mixed = (step.address.0 ^ step.address.0 >> 29).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ mixed >> 32
    }
}

impl Iterator for Rolling<'_> {
    type Item = (usize, u64);

    fn next(&mut self) -> Option<(usize, u64)> {
        loop {
            let step = self.steps.get(self.index)?;
            if let Some(gone) = self.index.checked_sub(self.length) {
                let gone = Self::weight(&self.steps[gone]).wrapping_mul(self.last);
                self.hash = self.hash.wrapping_sub(gone);
            }
            self.hash = self.hash.wrapping_mul(Self::FACTOR).wrapping_add(Self::weight(step));
            self.index += 1;
            if let Some(first) = self.index.checked_sub(self.length) {
                return Some((first, self.hash));
            }
        }
    }
}
