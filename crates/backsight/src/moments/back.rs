//! The way back.

use std::ops::ControlFlow;

use backsight_flow::Event;

use super::moment::{Moment, Window};
use super::reach::Moments;
use crate::decode::{Decode, Execution, Kept};
use crate::{Item, Result, Source};

/// Instructions that are decoded forwards before they are given backwards.
const CHUNK: u64 = 1 << 16;

impl<'c> Moments<'c> {
    /// Gives what comes before a moment of a source, the last first: exactly the reverse of forwards, but for a range that is cut in
    /// two every few ten thousand instructions. What it does before that, it does again for each of these pieces: with an index
    /// that is little.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn run_back(
        &self,
        decode: Decode<'c, Execution>,
        source: &Source,
        before: Moment,
        mut each: impl FnMut(Item<'_, Event>) -> ControlFlow<()>,
    ) -> Result<()> {
        // The first piece may end with what comes after the last instruction.
        let mut to = match before {
            Moment::BeforeEnd(0) => None,
            before => Some(before),
        };
        let mut from = match before {
            Moment::Instruction(_) | Moment::BeforeEnd(_) => before,
            _ => match self.place_of(decode.clone(), source, before)? {
                Some(place) => Moment::Instruction(place.instructions),
                None => return Ok(()),
            },
        };
        loop {
            let is_first = from == Moment::START;
            from = from.earlier(CHUNK).unwrap_or(Moment::START);
            let mut items = Vec::new();
            let window = Window { from: Some(from), to };
            let found = self.run(decode.clone(), source, window, |item| items.push(Kept::of(&item)))?;
            for kept in items.iter().rev() {
                if each(kept.item(source)).is_break() {
                    return Ok(());
                }
            }
            let began_with = found.places.map_or(0, |(place, _)| place.instructions);
            let reached_start = !found.is_counted_from_end && began_with == 0;
            if is_first || reached_start {
                return Ok(());
            }
            to = Some(from);
        }
    }
}
