//! From paths and notes back to executed instructions.

use crate::Damage;
use crate::block::Path;
use crate::code::{Code, Kind, Op};
use crate::notes::{Note, NoteReader};
use backsight_core::Execution;

/// Gives up to `most` instructions from `at` on without notes, as far as they are in one page. All but the
/// last of a path are plain or not taken. Gives how many there were.
#[inline]
fn give_easy(at: &mut u64, most: u32, code: &Code, sink: &mut impl FnMut(Execution)) -> u32 {
    let ops = code.recent(*at);
    let mut slot = 0;
    for given in 0..most {
        let Some(op) = ops.get(slot).filter(|op| op.size != 0) else { return given };
        let next = at.wrapping_add(u64::from(op.size));
        sink(Execution::Instruction(op.retired(*at, next, op.kind != Kind::Conditional)));
        slot += usize::from(op.size / 2);
        *at = next;
    }
    most
}

/// Expands the paths of one flush.
pub struct Expander<'a> {
    notes: NoteReader<'a>,
    /// Instructions given, those that wait not counted.
    given: u64,
    /// The last instruction of the path before: where it goes is not known before the next path.
    waiting: Option<(u64, Op)>,
    damage: Result<(), Damage>,
}

impl<'a> Expander<'a> {
    /// With the notes of the same flush.
    pub fn new(notes: &'a [u8]) -> Result<Self, Damage> {
        Ok(Self { notes: NoteReader::new(notes)?, given: 0, waiting: None, damage: Ok(()) })
    }

    /// Gives the items before the first instruction.
    pub fn begin(&mut self, sink: &mut impl FnMut(Execution)) -> Result<(), Damage> {
        while let Some(note) = self.notes.next_at(0)? {
            match note {
                Note::Item(item) => sink(item),
                _ => return Err(Damage::Record("a note on an instruction that is not there")),
            }
        }
        Ok(())
    }

    /// Takes the next path. After damage nothing more is given.
    #[inline]
    pub fn push(&mut self, path: Path, code: &mut Code, sink: &mut impl FnMut(Execution)) {
        if self.damage.is_ok() {
            self.damage = self.try_push(path, code, sink);
        }
    }

    #[inline]
    fn try_push(
        &mut self,
        path: Path,
        code: &mut Code,
        sink: &mut impl FnMut(Execution),
    ) -> Result<(), Damage> {
        if let Some((address, op)) = self.waiting.take() {
            self.give(address, op, path.start, sink)?;
        }
        let mut at = path.start;
        let mut op = code.at(at).ok_or(Damage::NoCode(at))?;
        let mut left = path.count.saturating_sub(1);
        while left > 0 {
            // Notes are rare: most instructions are before the next one.
            let easy = self.notes.at().saturating_sub(self.given + 1).min(u64::from(left)) as u32;
            let given = give_easy(&mut at, easy, code, sink);
            if given == 0 {
                let next = at.wrapping_add(u64::from(op.size));
                self.give(at, op, next, sink)?;
                at = next;
                left -= 1;
            } else {
                self.given += u64::from(given);
                left -= given;
            }
            op = code.at(at).ok_or(Damage::NoCode(at))?;
        }
        self.waiting = Some((at, op));
        Ok(())
    }

    /// Gives an instruction and what is noted after it.
    #[inline]
    fn give(
        &mut self,
        address: u64,
        op: Op,
        next: u64,
        sink: &mut impl FnMut(Execution),
    ) -> Result<(), Damage> {
        let end = address.wrapping_add(u64::from(op.size));
        self.given += 1;
        if self.notes.at() != self.given {
            let taken = op.kind != Kind::Conditional || next != end;
            sink(Execution::Instruction(op.retired(address, next, taken)));
            return Ok(());
        }
        self.give_noted(address, op, next, sink)
    }

    fn give_noted(
        &mut self,
        address: u64,
        op: Op,
        mut next: u64,
        sink: &mut impl FnMut(Execution),
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
        sink(Execution::Instruction(op.retired(address, next, taken)));
        let Some(first) = item else { return Ok(()) };
        sink(first);
        while let Some(note) = self.notes.next_at(self.given)? {
            match note {
                Note::Item(item) => sink(item),
                _ => return Err(Damage::Record("a note on an instruction after other notes")),
            }
        }
        Ok(())
    }

    /// Gives the last instruction. All notes must have been used.
    pub fn finish(mut self, sink: &mut impl FnMut(Execution)) -> Result<(), Damage> {
        self.damage?;
        if let Some((address, op)) = self.waiting.take() {
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
