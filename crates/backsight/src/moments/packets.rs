//! The packets of a window.
//!
//! A moment lies between instructions, and a packet may say many of them. So a moment is taken for the position of the packet
//! that reports the first thing at or after it: a window has the packets that begin at or after the position of its beginning, and before
//! that of its end. Windows that meet share no packet and leave none out.

use std::ops::{ControlFlow, Range};

use backsight_core::Accounting;
use backsight_flow::Event;

use super::moment::{Moment, Window};
use super::reach::Moments;
use super::windowed::{Edge, InWindow};
use crate::decode::{Consumer, Decode, Execution, Packets, Span};
use crate::{Item, Packet, Result, Source};

impl<'c> Moments<'c> {
    /// The positions in the buffer between which the packets of a window of a source begin; `None` if the source does not come to its
    /// beginning. Where the source does not come to its end, that is `u64::MAX`.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn positions_of(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        window: Window,
    ) -> Result<Option<Range<u64>>> {
        let Some(from) = self.position_of(decode, source, window.from.unwrap_or(Moment::START))? else {
            return Ok(None);
        };
        let to = match window.to {
            None | Some(Moment::END) => None,
            Some(moment) => self.position_of(decode, source, moment)?,
        };
        Ok(Some(from..to.unwrap_or(u64::MAX)))
    }

    /// Where the packet begins that reports the first thing at or after a moment.
    fn position_of(
        &self,
        decode: &Decode<'c, Execution>,
        source: &Source,
        moment: Moment,
    ) -> Result<Option<u64>> {
        match moment {
            Moment::START => Ok(Some(0)),
            Moment::Position(position) => Ok(Some(position)),
            moment => {
                let window = Window { from: Some(moment), to: None };
                let mut first = First { position: None, is_met: false };
                let found = self.take(decode.clone().positions(true), source, window, &mut first)?;
                // At the very end there is a moment, and nothing is reported after it.
                Ok(found.places.map(|_| first.position.unwrap_or(u64::MAX)))
            }
        }
    }

    /// Gives the packets of a source that begin between two positions of its buffer to a consumer, until it has enough. What becomes of the
    /// bytes that are decoded for it is in the result.
    ///
    /// # Errors
    /// If bytes cannot be read.
    pub fn take_packets(
        &self,
        decode: Decode<'c, Packets>,
        source: &Source,
        positions: Range<u64>,
        consumer: &mut impl Consumer<Packet>,
    ) -> Result<Accounting> {
        let known = self.known_index().and_then(|index| index.source(source));
        let point = known.and_then(|known| known.point_before(Edge::Position(positions.start)));
        let span = Span { start: point.map(|point| point.cut), ..Span::all(source.buffer(), source.id()) };
        let summary = decode.positions(true).span(&span).run(|item| {
            let position = item.position().unwrap_or(item.offset);
            if position >= positions.end {
                return ControlFlow::Break(());
            }
            if position >= positions.start {
                consumer.item(item);
            }
            match consumer.has_enough() {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        })?;
        consumer.finish();
        Ok(summary.accounting())
    }
}

/// Wants to know where the first thing was reported.
struct First {
    position: Option<u64>,
    is_met: bool,
}

impl InWindow for First {
    fn has_enough(&self) -> bool {
        self.is_met
    }

    fn item(&mut self, item: Item<'_, Event>) {
        if !self.is_met {
            (self.position, self.is_met) = (item.position(), true);
        }
    }
}
