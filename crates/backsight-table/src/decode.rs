//! A capture, decoded into rows: buffer by buffer, source by source.

use std::ops::ControlFlow;
use std::sync::Arc;

use backsight::core::TraceId;
use backsight::decode::{self as library, Decode, Kind as What, Span};
use backsight::image::Window;
use backsight::listing::Filter;
use backsight::moments::{Chosen, InWindow, Moments};
use backsight::{Buffer, Capture, Event, Item, Source, Summary};

use crate::gather::Gathering;
use crate::output::Output;
use crate::piece::Piece;
use crate::query::Query;
use crate::rows::{
    Branches, Calls, Damage, DamageRow, Events, Follow, OfSource, Packets, Ranges, Rows, SourceRow, Sources,
};
use crate::table::{Field, Table};
use crate::texts::TextId;
use crate::tracker::Until;
use crate::window::{Followed, PacketRows};
use crate::{Error, Result};

/// Decodes what a query asks for, until the output wants no more.
pub(crate) fn decode(query: &Query, capture: &Capture, piece: Option<&Piece>, output: &mut Output) -> Result {
    let planned = piece.map(|piece| piece.name.as_str());
    let name = query.name.as_deref().or(planned).unwrap_or(capture.name());
    let name = output.texts.id(name);
    let mut reading = Reading { query, capture, fields: query.fields(), name, output };
    if let Some(piece) = piece
        && capture.buffer(&piece.buffer).is_none()
    {
        return Err(Error::misuse(format!(
            "buffer {}: the capture of the piece has none of that name",
            piece.buffer
        )));
    }
    for buffer in capture.buffers() {
        let is_of_piece = piece.is_none_or(|piece| piece.buffer == buffer.name());
        if reading.output.is_full() {
            break;
        }
        if is_of_piece && query.wants_buffer(buffer.name()) && reading.buffer(buffer, piece)?.is_break() {
            break;
        }
    }
    Ok(())
}

/// What is read of a source.
enum Place<'c> {
    Span(Span),
    Window(Moments<'c>, &'c Source, backsight::moments::Window, Option<Box<Filter<'c>>>),
}

/// Gives a window to something that takes it: what a filter wants of it, if there is one.
fn take_window<'c>(
    (moments, source, window): (&Moments<'c>, &Source, backsight::moments::Window),
    filter: Option<&Filter<'c>>,
    decode: Decode<'c, library::Execution>,
    taker: &mut dyn InWindow,
) -> Result<()> {
    match filter {
        None => moments.take(decode, source, window, taker)?,
        Some(filter) => {
            let code = moments.capture().code()?.seen_by(source);
            moments.take(decode, source, window, &mut Chosen::new(taker, filter.clone(), code))?
        }
    };
    Ok(())
}

/// A query while it is read.
struct Reading<'q> {
    query: &'q Query,
    capture: &'q Capture,
    fields: Vec<Field>,
    /// What stands in the column `capture`.
    name: TextId,
    output: &'q mut Output,
}

impl Reading<'_> {
    fn buffer(&mut self, buffer: &Buffer, piece: Option<&Piece>) -> Result<ControlFlow<()>> {
        let of_buffer = OfSource {
            capture: self.name,
            buffer: self.output.texts.id(buffer.name()),
            source: None,
            core: TextId::NONE,
            thread: None,
        };
        // A piece of one source need not ask what else there is.
        let contents = match piece.and_then(|piece| piece.source) {
            Some(id) if !matches!(self.query.table, Table::Sources) => {
                let known = buffer.source_with_id(TraceId::new(id)).filter(Source::is_decoded);
                known.map(|source| backsight::Contents { sources: vec![(source, 0)], ..Default::default() })
            }
            _ => None,
        };
        let contents = match contents {
            Some(contents) => contents,
            None => buffer.contents()?,
        };
        if piece.is_none_or(|piece| piece.source.is_some()) {
            for (source, bytes) in &contents.sources {
                let id = source.id().get();
                let is_of_piece = piece.is_none_or(|piece| piece.source == Some(id));
                if !is_of_piece || !self.query.wants_source(id) {
                    continue;
                }
                let of = OfSource::new(self.name, source, &mut self.output.texts);
                if self.output.may_want(&of) && self.source(source, *bytes, of, piece)?.is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        let takes_all = self.query.sources.is_empty() && self.query.part.is_none();
        let is_about_buffer = self.query.table == Table::Damage && takes_all;
        if is_about_buffer && piece.is_none_or(|piece| piece.source.is_none()) {
            return Ok(self.buffer_damage(of_buffer, &contents));
        }
        Ok(ControlFlow::Continue(()))
    }

    fn source(
        &mut self,
        source: &Source,
        bytes: u64,
        of: OfSource,
        piece: Option<&Piece>,
    ) -> Result<ControlFlow<()>> {
        if self.query.table == Table::Sources {
            return self.source_row(source, bytes);
        }
        if !source.is_decoded() {
            return Ok(match self.query.table {
                Table::Damage => self.undecoded(source, bytes, of),
                _ => ControlFlow::Continue(()),
            });
        }
        if piece.is_some_and(|piece| piece.latest > self.query.until && self.query.until.is_some()) {
            return Ok(ControlFlow::Continue(()));
        }
        let span = match piece {
            Some(piece) => piece.span(),
            None => Span::all(source.buffer(), source.id()),
        };
        let part = match &self.query.part {
            Some((part, index)) => {
                let moments = self.capture.moments();
                let moments =
                    index.iter().fold(moments, |moments, index| moments.with_index(Arc::clone(index)));
                let window = (part.window_of)(&moments, &self.prepared(self.capture.execution()), source)?;
                let Some(window) = window else { return Ok(ControlFlow::Continue(())) };
                let code = self.capture.code()?;
                let filter = match part.filter.is_selective() {
                    true => Some(Filter::new(&part.filter, || code.of(source))?),
                    false => None,
                };
                Place::Window(moments, source, window, filter.map(Box::new))
            }
            None => Place::Span(span),
        };
        if self.query.table == Table::Packets {
            return self.packets(&part, of);
        }
        let code = self.capture.code()?.seen_by(source);
        let (harts, pending) = piece.map_or_else(Default::default, |piece| piece.handed_over(&code));
        let fields = self.fields.clone();
        Ok(match self.query.table {
            Table::Ranges => self.ranges(&part, Ranges::new(of, code, &fields, harts))?,
            Table::Branches => self.follow(&part, Branches::new(of, code, &fields, harts, pending))?.0,
            Table::Events => self.follow(&part, Events::new(of, code, &fields, harts))?.0,
            Table::Calls => {
                // It has to see everything, and chooses by itself.
                let (part, filter) = match part {
                    Place::Window(moments, source, window, filter) => {
                        (Place::Window(moments, source, window, None), filter)
                    }
                    span => (span, None),
                };
                self.follow(&part, Calls::new(of, code, filter.map(|filter| *filter)))?.0
            }
            Table::Damage => {
                let (outcome, summary) = self.follow(&part, Damage::of_source(of, code, &fields))?;
                match summary.filter(|_| outcome.is_continue()) {
                    Some(summary) => self.bytes_lost(&summary, of),
                    None => outcome,
                }
            }
            Table::Sources | Table::Packets => ControlFlow::Continue(()),
        })
    }

    /// A decode of what is asked for.
    fn prepared<'c, K: What>(&self, decode: Decode<'c, K>) -> Decode<'c, K> {
        let positions = [Field::Position, Field::PacketBytes];
        let decode = decode.positions(self.fields.iter().any(|field| positions.contains(field)));
        let decode = match &self.query.stop {
            Some(stop) => decode.stop_on(Arc::clone(stop)),
            None => decode,
        };
        match self.query.progress.as_ref().map(Arc::clone) {
            Some(progress) => decode.progress(move |bytes| progress(bytes)),
            None => decode,
        }
    }

    /// Ranges are many: they are gathered in the loop of the decoder.
    fn ranges(&mut self, part: &Place<'_>, table: Ranges<'_>) -> Result<ControlFlow<()>> {
        let decode = self.prepared(self.capture.execution());
        let mut gathering = Gathering::new(table, self.query, &mut *self.output);
        match part {
            Place::Span(span) => drop(decode.span(span).run_to(&mut gathering)?),
            Place::Window(moments, source, window, filter) => {
                take_window((moments, source, *window), filter.as_deref(), decode, &mut gathering)?;
            }
        }
        Ok(gathering.end())
    }

    /// Any other table of what was executed. The summary is that of a whole span.
    fn follow<T: Follow>(
        &mut self,
        part: &Place<'_>,
        mut table: T,
    ) -> Result<(ControlFlow<()>, Option<Summary>)> {
        let decode = self.prepared(self.capture.execution());
        let span = match part {
            Place::Span(span) => span,
            Place::Window(moments, source, window, filter) => {
                let rows = Vec::with_capacity(T::CHUNK);
                let (span, outcome) = (None, ControlFlow::Continue(()));
                let mut followed = Followed { table, rows, span, output: &mut *self.output, outcome };
                take_window((moments, source, *window), filter.as_deref(), decode, &mut followed)?;
                let Followed { mut table, mut rows, output, outcome, .. } = followed;
                if outcome.is_break() {
                    return Ok((outcome, None));
                }
                table.finish(&mut rows);
                return Ok((output.take(&mut table, &mut rows), None));
            }
        };
        let (mut rows, mut window) = (Vec::with_capacity(T::CHUNK), None);
        let mut until = Until::new(self.query.until);
        let output = &mut *self.output;
        let summary = run_events(decode, span, &mut |item| {
            if !matches!(item.value, Event::Range(_)) && until.passes(&item.value) {
                return ControlFlow::Break(());
            }
            take(&item, &mut table, &mut rows, &mut window, output)
        })?;
        if summary.stopped && !until.is_passed {
            return Ok((ControlFlow::Break(()), Some(summary)));
        }
        if span.end.is_none() || until.is_passed {
            table.finish(&mut rows);
        }
        Ok((output.take(&mut table, &mut rows), Some(summary)))
    }

    fn packets(&mut self, part: &Place<'_>, of: OfSource) -> Result<ControlFlow<()>> {
        let decode = self.prepared(self.capture.packets());
        let execution = self.prepared(self.capture.execution());
        let (table, rows) = (Packets::new(of, &self.fields), Vec::with_capacity(Packets::CHUNK));
        let output = &mut *self.output;
        let mut taken = PacketRows { table, rows, output, outcome: ControlFlow::Continue(()) };
        match part {
            Place::Span(span) => {
                if decode.span(span).run_to(&mut taken)?.stopped {
                    taken.outcome = ControlFlow::Break(());
                }
            }
            Place::Window(moments, source, window, Some(filter)) => {
                let chosen = (*window, Filter::clone(filter));
                moments.take_chosen_packets((decode, execution), source, chosen, &mut taken)?;
            }
            Place::Window(moments, source, window, None) => {
                if let Some(positions) = moments.positions_of(&execution, source, *window)? {
                    moments.take_packets(decode, source, positions, &mut taken)?;
                }
            }
        }
        let PacketRows { mut table, mut rows, output, outcome } = taken;
        if outcome.is_break() { Ok(outcome) } else { Ok(output.take(&mut table, &mut rows)) }
    }

    fn source_row(&mut self, source: &Source, bytes: u64) -> Result<ControlFlow<()>> {
        let mut counts = None;
        if source.is_decoded() && Sources::needs_counts(&self.fields) {
            let decode = self.capture.packets().only(source.buffer()).id(source.id().get().into());
            let summary = decode.count()?;
            counts = Some((summary.packets(), summary.accounting()));
        }
        let mut rows = vec![SourceRow { source: source.clone(), bytes, counts }];
        Ok(self.output.take(&mut Sources { capture: self.name }, &mut rows))
    }

    /// Bytes of a source that said nothing.
    fn bytes_lost(&mut self, summary: &Summary, of: OfSource) -> ControlFlow<()> {
        let accounting = summary.accounting();
        let lost = [
            (accounting.bad, "bytes of packets that are reserved, malformed or cut off"),
            (accounting.unsynchronised, "bytes skipped while searching for synchronisation"),
        ];
        let rows = lost.iter().filter(|(bytes, _)| *bytes > 0).map(|(bytes, what)| DamageRow::Sum {
            event: "bytes",
            reason: (*what).to_owned(),
            bytes: Some(*bytes),
            source: of.source,
            buffer: of.buffer,
        });
        self.output.take(&mut Damage::of_buffer(of), &mut rows.collect())
    }

    fn undecoded(&mut self, source: &Source, bytes: u64, of: OfSource) -> ControlFlow<()> {
        let row = DamageRow::Sum {
            event: "undecoded",
            reason: format!("source {}: {}", source.name(), source.configuration()),
            bytes: Some(bytes),
            source: of.source,
            buffer: of.buffer,
        };
        self.output.take(&mut Damage::of_buffer(of), &mut vec![row])
    }

    /// What is wrong with a buffer as a whole.
    fn buffer_damage(&mut self, of: OfSource, contents: &backsight::Contents) -> ControlFlow<()> {
        let buffer = of.buffer;
        let frames = contents.frame_damage.iter().map(|what| DamageRow::Sum {
            event: "frames",
            reason: what.clone(),
            bytes: what.split(' ').next().and_then(|count| count.parse().ok()),
            source: None,
            buffer,
        });
        let unknown = contents.unknown.iter().map(|(id, bytes)| DamageRow::Sum {
            event: "undecoded",
            reason: format!("ID {id}: the capture does not describe its source"),
            bytes: Some(*bytes),
            source: Some(id.get()),
            buffer,
        });
        self.output.take(&mut Damage::of_buffer(of), &mut frames.chain(unknown).collect())
    }
}

type Sink<'s> = &'s mut dyn FnMut(Item<'_, Event>) -> ControlFlow<()>;

/// Decodes execution, and gives it to a sink that is not compiled into the decoders.
fn run_events(decode: Decode<'_, library::Execution>, span: &Span, sink: Sink<'_>) -> Result<Summary> {
    Ok(decode.span(span).run(|item: Item<'_, Event>| sink(item))?)
}

pub(crate) fn take<T: Follow>(
    item: &Item<'_, Event>,
    table: &mut T,
    rows: &mut Vec<T::Row>,
    window: &mut Option<Window>,
    output: &mut Output,
) -> ControlFlow<()> {
    if item.window != *window {
        change_window(item.window, table, rows, window, output)?;
    }
    table.event(item, rows);
    if rows.len() < T::CHUNK { ControlFlow::Continue(()) } else { output.take(table, rows) }
}

/// Rows that were gathered are named by the code of their time.
#[cold]
fn change_window<T: Follow>(
    now: Option<Window>,
    table: &mut T,
    rows: &mut Vec<T::Row>,
    window: &mut Option<Window>,
    output: &mut Output,
) -> ControlFlow<()> {
    *window = now;
    output.take(table, rows)?;
    if let Some(now) = now {
        table.enter(now);
    }
    ControlFlow::Continue(())
}
