//! The instructions of a trace.

use backsight_core::AddressSpace;
use backsight_flow::{Event, Range};
use backsight_image::{Code as _, Window as TimeSpan};

use super::{Batches, Note, Read, Step};
use crate::decode::{Decode, Execution};
use crate::listing::steps;
use crate::moments::{InWindow, Moments, Place, Window};
use crate::retired::opcode;
use crate::{Item, Result, Source, SourceCode};

struct Reader<'c, 'b, 's> {
    batches: &'b mut Batches<'s, 'c>,
    code: SourceCode<'c>,
    hart: Option<u16>,
    read: Read,
}

pub(super) fn read<'c>(
    moments: &Moments<'c>,
    decode: Decode<'c, Execution>,
    source: &Source,
    hart: Option<u16>,
    window: Window,
    batches: &mut Batches<'_, 'c>,
) -> Result<Read> {
    let code = moments.capture().code()?.seen_by(source);
    let mut reader = Reader { batches, code, hart, read: Read::default() };
    let found = moments.take(decode.positions(false), source, window, &mut reader)?;
    Ok(Read { decoded: found.decoded, ..reader.read })
}

impl Reader<'_, '_, '_> {
    fn range(&mut self, range: &Range) {
        let Self { batches, code, .. } = self;
        let space = batches.space.unwrap_or(AddressSpace::ANY);
        steps(range, space, code, |step| {
            batches.begin_step();
            batches.step(Step {
                address: step.address,
                opcode: opcode(range.isa, step.bytes, step.size),
                size: step.size,
                isa: range.isa,
                is_fetched: step.bytes != [0; 4],
                returns: false,
            });
        });
        if range.executed && range.flags.exception_return {
            self.batches.mark_return();
        }
    }

    fn is_own(&self, hart: u16) -> bool {
        self.hart == Some(hart)
    }
}

impl InWindow for Reader<'_, '_, '_> {
    fn begin(&mut self, place: &Place) {
        self.batches.next = place.instructions;
        place.time.into_iter().for_each(|time| self.batches.time(time));
    }

    fn before(&mut self, item: Item<'_, Event>) {
        if let Event::Context(context, _) = item.value
            && (self.hart.is_none() || self.is_own(item.sub_source))
        {
            self.batches.space(self.code.space_of(&context));
        }
    }

    fn item(&mut self, item: Item<'_, Event>) {
        let hart = item.sub_source;
        if matches!(item.value, Event::Range(_)) {
            self.hart.get_or_insert(hart);
            self.read.harts.insert(hart);
        }
        if let Event::Timestamp { value, .. } = item.value
            && value != 0
        {
            self.batches.time(value);
        }
        if !self.is_own(hart) {
            if let Event::Range(range) = item.value {
                self.batches.next += u64::from(range.instructions);
            } else if self.hart.is_none() {
                self.before(item);
            }
            return;
        }
        self.batches.follow(&item.value);
        match item.value {
            Event::Range(range) => self.range(&range),
            Event::Context(context, _) => {
                let space = self.code.space_of(&context);
                self.batches.space(space);
            }
            Event::Exception { cause, return_address, .. } => {
                self.batches.note(Note::Exception { cause, return_address });
            }
            Event::ExceptionReturn => self.batches.mark_return(),
            Event::Access(access) => self.batches.access(access),
            Event::AccessesLost => self.batches.note(Note::AccessesLost),
            Event::UncountedLoop { .. } => self.batches.note(Note::Gap),
            event if event.is_break() => self.batches.note(Note::Gap),
            _ => {}
        }
    }

    fn has_enough(&self) -> bool {
        self.batches.has_enough
    }

    fn enter(&mut self, span: TimeSpan) {
        self.code.enter(span);
    }
}
