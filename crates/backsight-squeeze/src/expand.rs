//! From paths and notes back to executed instructions.

use crate::Damage;
use crate::block::Path;
use crate::code::{Code, Instructions, Kind, Op};
use crate::notes::{Note, NoteReader};
use backsight_core::{Address, Execution, ExecutionSink, RetiredBlock};

/// What was not given yet of the path before: where its last instruction goes is not known before the next path.
#[derive(Clone, Copy)]
enum Waiting {
    Nothing,
    /// The last instruction.
    Last(u64, Op),
    /// All of it. No note is about it.
    All(Path),
}

/// Expands the paths of one flush.
pub struct Expander<'a> {
    notes: NoteReader<'a>,
    /// Instructions given, those that wait not counted.
    given: u64,
    waiting: Waiting,
    damage: Result<(), Damage>,
}

impl<'a> Expander<'a> {
    /// With the notes of the same flush.
    pub fn new(notes: &'a [u8]) -> Result<Self, Damage> {
        Ok(Self { notes: NoteReader::new(notes)?, given: 0, waiting: Waiting::Nothing, damage: Ok(()) })
    }

    /// Gives the items before the first instruction.
    pub fn begin(&mut self, sink: &mut dyn ExecutionSink) -> Result<(), Damage> {
        while let Some(note) = self.notes.next_at(0)? {
            match note {
                Note::Item(item) => sink.item(item),
                _ => return Err(Damage::Record("a note on an instruction that is not there")),
            }
        }
        Ok(())
    }

    /// Takes the next path. After damage nothing more is given.
    #[inline]
    pub fn push(&mut self, path: Path, code: &mut Code, sink: &mut dyn ExecutionSink) {
        if self.damage.is_ok() {
            self.damage = self.try_push(path, code, sink);
        }
    }

    #[inline]
    fn try_push(&mut self, path: Path, code: &mut Code, sink: &mut dyn ExecutionSink) -> Result<(), Damage> {
        match std::mem::replace(&mut self.waiting, Waiting::Nothing) {
            Waiting::Nothing => {}
            Waiting::Last(address, op) => self.give(address, op, path.start, sink)?,
            Waiting::All(before) => self.give_all(before, path.start, code, sink)?,
        }
        // Notes are rare: most paths are before the next one.
        if self.notes.at() > self.given + u64::from(path.count) {
            self.waiting = Waiting::All(path);
            return Ok(());
        }
        let (address, op) = self.give_but_last(path, code, sink)?;
        self.waiting = Waiting::Last(address, op);
        Ok(())
    }

    /// Gives a path that no note is about.
    #[inline]
    fn give_all(
        &mut self,
        path: Path,
        next: u64,
        code: &mut Code,
        sink: &mut dyn ExecutionSink,
    ) -> Result<(), Damage> {
        let Some(Instructions { number, code, last }) = code.instructions(path.start, path.count) else {
            let (address, op) = self.give_but_last(path, code, sink)?;
            return self.give(address, op, next, sink);
        };
        self.given += u64::from(path.count);
        let end = code.last().map_or(path.start, |retired| retired.end().0);
        let taken = last != Kind::Conditional || next != end;
        sink.block(&RetiredBlock { number, code, next: Address(next), taken });
        Ok(())
    }

    /// Gives a path instruction by instruction, but for the last one.
    fn give_but_last(
        &mut self,
        path: Path,
        code: &mut Code,
        sink: &mut dyn ExecutionSink,
    ) -> Result<(u64, Op), Damage> {
        let mut at = path.start;
        let mut op = code.at(at).ok_or(Damage::NoCode(at))?;
        for _ in 1..path.count {
            let next = at.wrapping_add(u64::from(op.size));
            self.give(at, op, next, sink)?;
            at = next;
            op = code.at(at).ok_or(Damage::NoCode(at))?;
        }
        Ok((at, op))
    }

    /// Gives an instruction and what is noted after it.
    #[inline]
    fn give(&mut self, address: u64, op: Op, next: u64, sink: &mut dyn ExecutionSink) -> Result<(), Damage> {
        let end = address.wrapping_add(u64::from(op.size));
        self.given += 1;
        if self.notes.at() != self.given {
            let taken = op.kind != Kind::Conditional || next != end;
            sink.item(Execution::Instruction(op.retired(address, next, taken)));
            return Ok(());
        }
        self.give_noted(address, op, next, sink)
    }

    fn give_noted(
        &mut self,
        address: u64,
        op: Op,
        mut next: u64,
        sink: &mut dyn ExecutionSink,
    ) -> Result<(), Damage> {
        let end = address.wrapping_add(u64::from(op.size));
        let mut flip = false;
        let mut item = None;
        while let Some(note) = self.notes.next_at(self.given)? {
            match note {
                Note::Next(distance) => next = end.wrapping_add(distance),
                Note::Flip => flip = true,
                Note::Item(first) => {
                    item = Some(first);
                    break;
                }
            }
        }
        let taken = (op.kind != Kind::Conditional || next != end) != flip;
        sink.item(Execution::Instruction(op.retired(address, next, taken)));
        let Some(first) = item else { return Ok(()) };
        sink.item(first);
        while let Some(note) = self.notes.next_at(self.given)? {
            match note {
                Note::Item(item) => sink.item(item),
                _ => return Err(Damage::Record("a note on an instruction after other notes")),
            }
        }
        Ok(())
    }

    /// Gives the last instruction. All notes must have been used.
    pub fn finish(mut self, code: &mut Code, sink: &mut dyn ExecutionSink) -> Result<(), Damage> {
        self.damage?;
        let last = match self.waiting {
            Waiting::Nothing => None,
            Waiting::Last(address, op) => Some((address, op)),
            Waiting::All(path) => Some(self.give_but_last(path, code, sink)?),
        };
        if let Some((address, op)) = last {
            if self.notes.at() != self.given + 1 {
                return Err(Damage::Record("it is not noted where the last instruction goes"));
            }
            self.give(address, op, 0, sink)?;
        }
        if self.notes.at() == u64::MAX {
            Ok(())
        } else {
            Err(Damage::Record("notes on instructions that are not there"))
        }
    }
}
