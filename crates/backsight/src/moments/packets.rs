//! The packets of a window.
//!
//! A moment lies between instructions, and a packet may say many of them. So a moment is taken for the position of the packet
//! that reports the first thing at or after it: a window has the packets that begin at or after the position of its beginning, and before
//! that of its end. Windows that meet share no packet and leave none out.
//!
//! What a filter wants of a window is in stretches, of which there may be as many as there are calls. A packet belongs to one if it reports
//! something of it, or if it reports nothing and comes after such a packet. Stretches are found while packets are decoded, on a thread beside that.

use std::ops::{ControlFlow, Range};
use std::sync::mpsc::{SyncSender, sync_channel};

use backsight_core::Accounting;
use backsight_flow::Event;

use super::chosen::Chosen;
use super::moment::{Moment, Window};
use super::reach::Moments;
use super::windowed::{Edge, InWindow};
use crate::decode::{Consumer, Decode, Execution, Packets, Span};
use crate::listing::Filter;
use crate::{Item, Packet, Result, Source};

/// Stretches that are found before the first of them is decoded.
const STRETCHES: usize = 1 << 10;

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
        self.take_stretches(decode, source, &mut std::iter::once(positions), consumer)
    }

    /// The same with the packets that report what a filter wants of a window. The second decode says what they report.
    ///
    /// # Errors
    /// As [`Moments::take`].
    pub fn take_chosen_packets(
        &self,
        (packets, execution): (Decode<'c, Packets>, Decode<'c, Execution>),
        source: &Source,
        (window, filter): (Window, Filter<'c>),
        consumer: &mut impl Consumer<Packet>,
    ) -> Result<Accounting> {
        let (code, execution) = (self.capture().code()?.seen_by(source), execution.positions(true));
        let (sender, stretches) = sync_channel(STRETCHES);
        std::thread::scope(|scope| {
            let finding = scope.spawn(|| {
                let mut stretches = Stretches { sender, open: None, is_over: false };
                let mut chosen = Chosen::new(&mut stretches, filter, code);
                self.take(execution.clone(), source, window, &mut chosen)?;
                if stretches.open.is_some() {
                    let end = window.to.filter(|&moment| moment != Moment::END);
                    let end = end.map_or(Ok(None), |moment| self.position_of(&execution, source, moment))?;
                    stretches.close(end.unwrap_or(u64::MAX));
                }
                Ok(())
            });
            let mut stretches = stretches.into_iter();
            let accounting = self.take_stretches(packets, source, &mut stretches, consumer);
            // Nobody listens any more.
            drop(stretches);
            let found = finding.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            found.and(accounting)
        })
    }

    /// Gives the packets that begin in stretches of the buffer, which are in order.
    fn take_stretches(
        &self,
        decode: Decode<'c, Packets>,
        source: &Source,
        stretches: &mut dyn Iterator<Item = Range<u64>>,
        consumer: &mut impl Consumer<Packet>,
    ) -> Result<Accounting> {
        let Some(mut stretch) = stretches.next() else {
            consumer.finish();
            return Ok(Accounting::default());
        };
        let known = self.known_index().and_then(|index| index.source(source));
        let point = known.and_then(|known| known.point_before(Edge::Position(stretch.start)));
        let span = Span { start: point.map(|point| point.cut), ..Span::all(source.buffer(), source.id()) };
        let summary = decode.positions(true).span(&span).run(|item| {
            let position = item.position().unwrap_or(item.offset);
            while position >= stretch.end {
                match stretches.next() {
                    Some(next) => stretch = next,
                    None => return ControlFlow::Break(()),
                }
            }
            if position >= stretch.start {
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

/// Finds stretches of the buffer in which something wanted is reported.
struct Stretches {
    sender: SyncSender<Range<u64>>,
    /// Where the packet begins that reports the first thing of a stretch, and the one that reports the last so far.
    open: Option<(u64, u64)>,
    /// Nobody wants more.
    is_over: bool,
}

impl Stretches {
    /// What is reported from this position on is not wanted, but for what the packet there says of what was.
    fn close(&mut self, position: u64) {
        if let Some((start, last)) = self.open.take() {
            self.is_over |= self.sender.send(start..position.max(last.saturating_add(1))).is_err();
        }
    }
}

impl InWindow for Stretches {
    fn has_enough(&self) -> bool {
        self.is_over
    }

    fn item(&mut self, item: Item<'_, Event>) {
        if let Some(position) = item.position() {
            let (_, last) = self.open.get_or_insert((position, position));
            *last = position.max(*last);
        }
    }

    fn beside(&mut self, item: Item<'_, Event>) {
        item.position().into_iter().for_each(|position| self.close(position));
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
