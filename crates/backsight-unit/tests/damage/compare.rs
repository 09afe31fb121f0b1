//! What is decoded from an intact stream and from a damaged one, side by side.

use std::collections::BTreeSet;

use backsight_core::{Address, AddressSpace, Context, Isa, Located};
use backsight_flow::{AccessKind, Event, Symptom};
use backsight_image::Code;
use backsight_isa::{classify, rv};

use crate::harm::Harm;

/// A traced program.
pub trait Subject {
    /// What it is, and how it is traced.
    fn name(&self) -> String;
    /// Its trace.
    fn bytes(&self) -> &[u8];
    /// Decodes bytes of such a trace.
    fn decode(&self, bytes: &[u8]) -> Listing;
    /// The code that was executed.
    fn code(&self) -> &dyn CodeAt;
    /// Does the unit trace data accesses?
    fn traces_data(&self) -> bool {
        false
    }
    /// Does it trace the value of every access at once?
    fn traces_values(&self) -> bool {
        false
    }
    /// Can the beginnings of packets be found again in damaged bytes?
    fn realigns(&self) -> bool {
        true
    }
    /// Is a byte of a packet one that does not say how long the packet is?
    fn is_payload(&self, _packet: &Mark, _at: usize) -> bool {
        false
    }
    /// The first packet that synchronises after the damage, if there is one.
    fn synchronisation<'l>(&self, intact: &'l Listing, damaged: &Listing, harm: &Harm) -> Option<&'l Mark>;
}

/// [`Code`], to be had behind a reference.
pub trait CodeAt {
    /// Bytes of the instruction at an address. A source address may say that A64 or A32 code was executed which is not
    /// there: its instructions have 4 bytes each.
    fn size_at(&self, address: Address, isa: Isa) -> u8;
}

impl<C: Code> CodeAt for C {
    fn size_at(&self, address: Address, isa: Isa) -> u8 {
        let Some(bytes) = self.bytes_at(AddressSpace::ANY, address) else { return 4 };
        match isa {
            Isa::Rv32 | Isa::Rv64 => rv::size(u16::from(bytes[0])),
            _ => classify(isa, bytes, address).map_or(4, |instruction| instruction.size),
        }
    }
}

/// A packet in the stream.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub start: usize,
    pub end: usize,
    pub kind: MarkKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MarkKind {
    /// Any packet.
    Packet,
    /// Packets are found again after it.
    Alignment,
    /// It says where execution is, whatever was lost before.
    Synchronisation(Address),
}

/// What was decoded.
#[derive(Debug, Default)]
pub struct Listing {
    pub events: Vec<Located<Event>>,
    pub marks: Vec<Mark>,
}

/// The first synchronisation after an alignment that is seen in the damaged stream too: bytes before one that damage made
/// into a long packet may take its first bytes.
pub fn after_alignment<'l>(intact: &'l Listing, damaged: &Listing, harm: &Harm) -> Option<&'l Mark> {
    let alignments = damaged.marks.iter().filter(|mark| mark.kind == MarkKind::Alignment);
    let seen: BTreeSet<usize> = alignments.map(|mark| mark.end).collect();
    let mut later = intact.marks.iter().filter(|mark| mark.start >= harm.end);
    later.find(|mark| mark.kind == MarkKind::Alignment && seen.contains(&harm.moved(mark.end)))?;
    later.find(|mark| matches!(mark.kind, MarkKind::Synchronisation(_)))
}

/// How much was compared.
pub struct Compared {
    pub before: u64,
    /// `None`: nothing synchronises after the damage.
    pub after: Option<u64>,
}

/// Bytes of code between two branches, at most.
const LONGEST_BLOCK: u64 = 0x100;

/// One thing that a trace says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Item {
    Instruction(Address),
    Other(Event),
}

fn items<'a>(subject: &dyn Subject, events: impl IntoIterator<Item = &'a Located<Event>>) -> Vec<Item> {
    let code = subject.code();
    let mut items = Vec::new();
    for event in events {
        match event.value {
            Event::Range(range) => {
                let mut at = range.start;
                for _ in 0..range.instructions {
                    items.push(Item::Instruction(at));
                    at = at.plus(code.size_at(at, range.isa).into());
                }
            }
            Event::StartOfTrace | Event::EndOfTrace { .. } => {}
            // Where the unit traces no data, only damage looks like it.
            Event::Access(_) | Event::AccessesLost if !subject.traces_data() => {}
            // A placeholder that damage made waits for its value across a synchronisation, as sound ones do.
            Event::Access(access) if access.value().is_none() && subject.traces_values() => {}
            // Where decoding begins inside an IT block, its instructions do not look conditional.
            Event::Mismatch {
                symptom: Symptom::UnconditionalNotTaken | Symptom::IndirectNotTaken, ..
            } => {}
            // A message has the operating system's context or the hypervisor's, and says nothing of the other.
            Event::Context(context, isa @ (Isa::Rv32 | Isa::Rv64)) => {
                items.push(Item::Other(Event::Context(Context { vmid: None, ..context }, isa)));
            }
            other => items.push(Item::Other(other)),
        }
    }
    items
}

/// Decodes a damaged stream and compares it with the intact one.
pub fn check(subject: &dyn Subject, intact: &Listing, harm: &Harm) -> Result<Compared, String> {
    let damaged = subject.decode(&harm.apply(subject.bytes()));
    let before = check_before(subject, &damaged, intact, harm)?;
    let Some(mark) = subject.synchronisation(intact, &damaged, harm) else {
        return Ok(Compared { before, after: None });
    };
    let MarkKind::Synchronisation(address) = mark.kind else { panic!("{mark:?} synchronises") };
    let after = |listing: &Listing, start: usize| {
        let late = listing.events.iter().filter(|event| event.offset > start as u64);
        from(address, items(subject, late))
    };
    let (expected, found) = (after(intact, mark.start), after(&damaged, harm.moved(mark.start)));
    let same = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    if same < expected.len() || same < found.len() {
        return Err(format!(
            "after the synchronisation at {:#x} ({address:x?}), {same} things are the same, then\n  expected {:x?}\n  found    {:x?}",
            mark.start,
            &expected[same..expected.len().min(same + 4)],
            &found[same..found.len().min(same + 4)],
        ));
    }
    Ok(Compared { before, after: Some(same as u64) })
}

/// What the packets before the damage say must be there, in front of everything else.
fn check_before(
    subject: &dyn Subject,
    damaged: &Listing,
    intact: &Listing,
    harm: &Harm,
) -> Result<u64, String> {
    let packets = intact.marks.iter().filter(|mark| mark.kind != MarkKind::Alignment);
    let ends = packets.map(|mark| mark.end).take_while(|&end| end <= harm.start);
    let good = &subject.bytes()[..ends.last().unwrap_or(0)];
    // A context at the very end of a trace is left out, because nothing was executed in it: after the last instruction
    // contexts are not compared.
    let expected = items(subject, &subject.decode(good).events);
    let is_instruction = |item: &Item| matches!(item, Item::Instruction(_));
    let executed = expected.iter().rposition(is_instruction).map_or(0, |last| last + 1);
    let without_last_contexts = |items: Vec<Item>| {
        let kept = items.into_iter().enumerate();
        let kept =
            kept.filter(|(at, item)| *at < executed || !matches!(item, Item::Other(Event::Context(..))));
        kept.map(|(_, item)| item).collect::<Vec<_>>()
    };
    let found = without_last_contexts(items(subject, &damaged.events));
    let expected = without_last_contexts(expected);
    let same = expected.iter().zip(&found).take_while(|(a, b)| a == b).count();
    // Where the last trap happened, the next packet decides, and that one is damaged.
    let is_trap = |item: Option<&Item>| matches!(item, Some(Item::Other(Event::Exception { .. })));
    let undecided = same + 1 == expected.len() && is_trap(expected.last()) && is_trap(found.get(same));
    let (lacks, instead) = (&expected[same..], &found[same..]);
    let taken_back = is_cancelled(lacks, instead) || has_failed(lacks, instead);
    if same < expected.len() && !undecided && !taken_back {
        return Err(format!(
            "{same} of {} things before the damage are the same, then\n  expected {:x?}\n  found    {:x?}",
            expected.len(),
            &expected[same..expected.len().min(same + 4)],
            &found[same..found.len().min(same + 4)],
        ));
    }
    Ok(same as u64)
}

/// Does the damaged packet say that the last instruction, with its accesses, never happened? An exception then returns to it.
fn is_cancelled(expected: &[Item], found: &[Item]) -> bool {
    let [Item::Instruction(last), rest @ ..] = expected else { return false };
    let others: Vec<&Item> = rest.iter().filter(|item| !is_of_instruction(item)).collect();
    let mut until_next = found.iter().take_while(|item| !matches!(item, Item::Instruction(_)));
    others.iter().all(|&other| until_next.next() == Some(other))
        && until_next.any(|item| {
            matches!(item, Item::Other(Event::Exception { return_address, .. }) if *return_address == Some(*last))
        })
}

/// Is cancelled with its instruction?
fn is_of_instruction(item: &Item) -> bool {
    matches!(item, Item::Other(Event::Access(_) | Event::ExceptionReturn))
}

/// Does the damaged packet say that the last store failed?
fn has_failed(expected: &[Item], found: &[Item]) -> bool {
    let ([Item::Other(Event::Access(store))], [Item::Other(Event::Access(failed)), ..]) = (expected, found)
    else {
        return false;
    };
    *failed == store.as_kind(AccessKind::ConditionalStoreFailure)
}

/// Drops the instructions just before the address, which an event that began earlier may have.
fn from(address: Address, items: Vec<Item>) -> Vec<Item> {
    let instructions = items.iter().enumerate().filter_map(|(number, item)| match item {
        Item::Instruction(at) => Some((number, *at)),
        Item::Other(_) => None,
    });
    let mut earlier: Vec<(usize, Address)> = Vec::new();
    for (number, at) in instructions {
        if at == address {
            let dropped = |number: usize| earlier.iter().any(|(earlier, _)| *earlier == number);
            let kept = items.iter().enumerate().filter(|(number, _)| !dropped(*number));
            return kept.map(|(_, item)| *item).collect();
        }
        let goes_on = earlier.last().is_none_or(|(_, earlier)| at.0.wrapping_sub(earlier.0) <= 4);
        if !goes_on || address.0.wrapping_sub(at.0) > LONGEST_BLOCK {
            break;
        }
        earlier.push((number, at));
    }
    items
}
