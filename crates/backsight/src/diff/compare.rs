//! The comparison itself: two streams side by side.

use std::ops::ControlFlow;

use super::effects::Effects;
use super::stream::{Steps, Stream};
use super::{Difference, Part, Settings, Shown, Summary, What};
use crate::steps::{Note, Step};

/// What takes differences.
pub(super) type Sink<'d> = &'d mut dyn FnMut(&Difference) -> ControlFlow<()>;

/// Compares two executions. Differences are given in their order.
pub fn compare<'s>(
    one: impl Steps + 's,
    other: impl Steps + 's,
    settings: &Settings,
    each: &mut dyn FnMut(&Difference) -> ControlFlow<()>,
) -> Summary {
    let sides = [Stream::new(Box::new(one)), Stream::new(Box::new(other))];
    let (summary, effects) = Default::default();
    let mut comparison = Comparison { sides, settings: *settings, summary, effects, each };
    while comparison.go_on().is_continue() {}
    comparison.summary
}

pub(super) struct Comparison<'s, 'd> {
    pub sides: [Stream<'s>; 2],
    pub settings: Settings,
    summary: Summary,
    effects: Effects,
    each: Sink<'d>,
}

/// Where both are the same again.
pub(super) struct Found {
    pub what: What,
    /// Instructions that each side has before that.
    pub skip: [usize; 2],
}

impl Comparison<'_, '_> {
    /// Are two instructions the same?
    #[inline]
    pub fn same(&self, one: &Step, other: &Step) -> bool {
        same(one, other, self.settings.opcodes)
    }

    /// Instructions ahead that are the same, from these on.
    pub fn common(&self, from: [usize; 2], most: usize) -> usize {
        let [one, other] =
            [0, 1].map(|side: usize| self.sides[side].ahead().get(from[side]..).unwrap_or_default());
        let pairs = one.iter().zip(other).take(most);
        pairs.take_while(|(one, other)| self.same(one, other)).count()
    }

    fn go_on(&mut self) -> ControlFlow<()> {
        let ends = [self.sides[0].is_at_end(), self.sides[1].is_at_end()];
        if ends == [true; 2] {
            return ControlFlow::Break(());
        }
        if ends == [false; 2] {
            let count = self.common([0; 2], usize::MAX);
            if count > 0 {
                return self.pass_equal(count);
            }
        }
        let found = self.resync(ends);
        self.report(found)
    }

    /// Instructions that are the same: what they did is compared.
    fn pass_equal(&mut self, count: usize) -> ControlFlow<()> {
        // A difference of effects shows what is around it, so its instruction comes last.
        let Self { sides: [one, other], .. } = self;
        let has_notes = |side: &Stream<'_>| {
            let end = side.position() + count as u64;
            side.notes().next().is_some_and(|(position, _)| *position <= end)
        };
        if !has_notes(one) && !has_notes(other) {
            one.advance(count, &mut |_, _| ());
            other.advance(count, &mut |_, _| ());
            self.summary.equal += count as u64;
            return ControlFlow::Continue(());
        }
        let mut left = count;
        while left > 0 {
            let until = |side: &Stream<'_>| {
                let here = side.position();
                let next = side.notes().find(|(position, _)| *position > here);
                next.map_or(left, |(position, _)| usize::try_from(position - here).unwrap_or(left))
            };
            let part = left.min(until(&self.sides[0])).min(until(&self.sides[1])).max(1);
            self.pass_part(part)?;
            left -= part;
        }
        ControlFlow::Continue(())
    }

    /// Instructions that are the same, and of which only the first has notes before it and only the last notes after it.
    fn pass_part(&mut self, count: usize) -> ControlFlow<()> {
        let mut causes = [None; 2];
        let mut gaps = false;
        self.effects.clear();
        for (index, side) in self.sides.iter_mut().enumerate() {
            let effects = &mut self.effects;
            side.advance(count, &mut |_, note| match note {
                Note::Exception { cause, .. } => causes[index] = Some(cause),
                Note::Gap => gaps = true,
                note => effects.take(index, &note),
            });
        }
        self.summary.equal += count as u64;
        if self.settings.exceptions && !gaps && differ(causes) {
            // It was taken before the first of them.
            self.report_here(What::Cause(causes), count)?;
        }
        let mut effects = std::mem::take(&mut self.effects);
        let found = effects.differences(&self.settings, &mut self.sides, &mut self.summary.effects);
        self.effects = effects;
        found.into_iter().try_for_each(|what| self.report_here(what, 0))
    }

    /// A difference without other instructions: so many of those before here come after it.
    fn report_here(&mut self, what: What, after: usize) -> ControlFlow<()> {
        let context = self.settings.context;
        self.sides.iter_mut().for_each(|side| _ = side.fill(context));
        let back = -(after as i64);
        let parts = [0, 1].map(|side| self.part(side, back));
        let difference = Difference {
            what,
            before: self.pairs(back - context as i64..back),
            parts,
            after: self.pairs_ahead(back),
        };
        self.hand_on(&difference)
    }

    fn report(&mut self, Found { what, skip }: Found) -> ControlFlow<()> {
        let context = self.settings.context as i64;
        let before = self.pairs(-context..0);
        let mut parts = [0, 1].map(|side| self.part(side, 0));
        for (side, part) in parts.iter_mut().enumerate() {
            part.exception = self.sides[side].notes_here().find_map(|note| match note {
                Note::Exception { cause, .. } => Some(*cause),
                _ => None,
            });
            let count = match what {
                What::NotFound => context,
                What::End { side: ended } if ended != side => context,
                _ => context.min(skip[side] as i64),
            };
            self.sides[side].fill(count as usize);
            let shown = (0..count).map_while(|index| self.sides[side].shown(index));
            part.first = shown.collect();
            self.sides[side].advance(skip[side], &mut |_, _| ());
            part.count = skip[side] as u64;
        }
        let mut what = what;
        match &mut what {
            What::Loop { side, period, turns } => {
                while self.is_turn(*side, *period) {
                    self.sides[*side].advance(*period, &mut |_, _| ());
                    *turns += 1;
                    parts[*side].count += *period as u64;
                }
            }
            What::End { side } => {
                let rest = &mut self.sides[1 - *side];
                while !rest.is_at_end() {
                    let count = rest.ahead().len();
                    rest.advance(count, &mut |_, _| ());
                    parts[1 - *side].count += count as u64;
                }
            }
            _ => {}
        }
        if what != What::NotFound {
            // How each side came back is part of the difference.
            self.sides.iter_mut().for_each(|side| {
                side.fill(1);
                side.pass_leading();
            });
        }
        let counts = parts.each_ref().map(|part| part.count);
        for (side, count) in counts.into_iter().enumerate() {
            match what {
                What::Missing { .. } => self.summary.missing[side] += count,
                _ => self.summary.only[side] += count,
            }
        }
        let after = self.pairs_ahead(0);
        let outcome = self.hand_on(&Difference { what, before, parts, after });
        if what == What::NotFound {
            self.summary.stopped = true;
            return ControlFlow::Break(());
        }
        outcome
    }

    fn hand_on(&mut self, difference: &Difference) -> ControlFlow<()> {
        self.summary.count(&difference.what);
        let outcome = (self.each)(difference);
        self.summary.stopped |= outcome.is_break();
        outcome
    }

    fn part(&self, side: usize, distance: i64) -> Part {
        let (number, time) = self.sides[side].moment(distance);
        Part { number, time, ..Part::default() }
    }

    fn pair(&self, distance: i64) -> Option<[Shown; 2]> {
        let [one, other] = [0, 1].map(|side: usize| self.sides[side].shown(distance));
        let pair = [one?, other?];
        self.same(&pair[0].step, &pair[1].step).then_some(pair)
    }

    /// Pairs that are the same, those at the end of a range of distances.
    fn pairs(&self, distances: std::ops::Range<i64>) -> Vec<[Shown; 2]> {
        let mut pairs: Vec<_> = distances.rev().map_while(|distance| self.pair(distance)).collect();
        pairs.reverse();
        pairs
    }

    fn pairs_ahead(&mut self, from: i64) -> Vec<[Shown; 2]> {
        let context = self.settings.context;
        self.sides.iter_mut().for_each(|side| _ = side.fill(context));
        (from..from + context as i64).map_while(|distance| self.pair(distance)).collect()
    }
}

/// Are two instructions the same?
#[inline]
pub(super) fn same(one: &Step, other: &Step, opcodes: bool) -> bool {
    let knows = opcodes && one.is_fetched && other.is_fetched;
    one.address == other.address
        && one.isa == other.isa
        && (!knows || (one.opcode, one.size) == (other.opcode, other.size))
}

/// Do two exceptions differ, as far as both sides say?
fn differ(causes: [Option<backsight_core::Cause>; 2]) -> bool {
    use backsight_core::Cause::NotTraced;
    match causes {
        [None, None] => false,
        [Some(NotTraced { .. }), Some(_)] | [Some(_), Some(NotTraced { .. })] => false,
        [Some(one), Some(other)] => {
            one != other && std::mem::discriminant(&one) == std::mem::discriminant(&other)
        }
        _ => true,
    }
}
