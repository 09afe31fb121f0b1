//! Comparisons of executions that are made up.

use std::ops::ControlFlow;

use backsight_core::{Address, Cause, Isa};
use backsight_flow::{AccessKind, TracedAccess};
use proptest::prelude::*;

use super::{Difference, Settings, Summary, What, compare};
use crate::steps::{Batch, Bytes, Note, Register, Step};

/// What happens, one after the other.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Happening {
    Step(u64),
    /// A step that returns from an exception.
    Return(u64),
    Note(Note),
}

use Happening::{Return, Step as At};

const IRQ: Happening = Happening::Note(Note::Exception { cause: Cause::Arm(0x0E), return_address: None });
const GAP: Happening = Happening::Note(Note::Gap);

fn step(address: u64, returns: bool) -> Step {
    let opcode = address as u32 ^ 0x5555;
    Step { address: Address(address), opcode, size: 4, isa: Isa::A64, is_fetched: true, returns }
}

fn addresses(addresses: impl IntoIterator<Item = u64>) -> Vec<Happening> {
    addresses.into_iter().map(At).collect()
}

/// In batches of these sizes, again and again.
fn batches(happenings: &[Happening], sizes: &[usize]) -> Vec<Batch> {
    let mut sizes = sizes.iter().copied().cycle();
    let (mut batches, mut batch, mut size) = (Vec::new(), Batch::default(), sizes.next().unwrap_or(1));
    for happening in happenings {
        let step = match *happening {
            At(address) => step(address, false),
            Return(address) => step(address, true),
            Happening::Note(note) => {
                batch.notes.push((batch.steps.len() as u32, note));
                continue;
            }
        };
        if batch.steps.len() >= size {
            batches.push(std::mem::take(&mut batch));
            size = sizes.next().unwrap_or(1);
        }
        batch.steps.push(step);
    }
    batches.push(batch);
    batches
}

fn compared_in(
    sides: [&[Happening]; 2],
    sizes: [&[usize]; 2],
    settings: &Settings,
) -> (Summary, Vec<Difference>) {
    let [one, other] = [0, 1].map(|side: usize| batches(sides[side], sizes[side]).into_iter());
    let mut found = Vec::new();
    let summary = compare(one, other, settings, &mut |difference| {
        found.push(difference.clone());
        ControlFlow::Continue(())
    });
    (summary, found)
}

fn compared(one: &[Happening], other: &[Happening]) -> (Summary, Vec<Difference>) {
    compared_in([one, other], [&[4096], &[4096]], &Settings::default())
}

fn whats(found: &[Difference]) -> Vec<What> {
    found.iter().map(|difference| difference.what).collect()
}

#[test]
fn a_loop_that_turns_more_often_is_found_with_its_turns() {
    let polls = |turns: u64| {
        let turns = (0..turns).flat_map(|_| [0x200, 0x204, 0x208]);
        addresses([0x100, 0x104].into_iter().chain(turns).chain((0..20).map(|index| 0x300 + 4 * index)))
    };
    for (one, other) in [(5, 2), (2, 5), (3, 100_000), (200_000, 7)] {
        let (summary, found) = compared(&polls(one), &polls(other));
        let side = usize::from(other > one);
        let what = What::Loop { side, period: 3, turns: one.abs_diff(other) };
        assert_eq!(whats(&found), [what], "{one} {other}");
        assert_eq!(summary.equal, 22 + 3 * one.min(other));
        assert_eq!(summary.only[side], 3 * one.abs_diff(other));
        assert_eq!(found[0].before.len(), 3);
        assert_eq!(found[0].after[0][0].step.address, Address(0x300));
    }
}

#[test]
fn a_program_that_ends_in_a_loop_differs_by_its_turns() {
    let ends = |turns: usize| addresses([0x100, 0x104].into_iter().chain([0x200, 0x204].repeat(turns)));
    let (_, found) = compared(&ends(10), &ends(500_000));
    assert_eq!(whats(&found), [What::Loop { side: 1, period: 2, turns: 499_990 }]);
    let (_, found) = compared(&ends(10), &addresses([0x100]));
    assert_eq!(whats(&found), [What::End { side: 1 }]);
    assert_eq!(found[0].parts[0].count, 21);
}

#[test]
fn handlers_nest_and_go_to_others_before_they_come_back() {
    let one = addresses((0..40).map(|index| 0x1000 + 4 * index));
    let mut other = one.clone();
    let handler = [
        IRQ,
        At(0x8000),
        IRQ,
        At(0x8000),
        Return(0x8004),
        At(0x8004),
        // To another task, and back from there.
        Return(0x8008),
        At(0x5000),
        IRQ,
        At(0x8000),
        Return(0x8008),
    ];
    other.splice(20..20, handler);
    let (summary, found) = compared(&one, &other);
    assert_eq!(whats(&found), [What::Handler { side: 1, cause: Cause::Arm(0x0E) }]);
    assert_eq!((summary.equal, summary.only), (40, [0, 8]));
    assert_eq!(found[0].parts[1].number, 20);
}

#[test]
fn a_gap_is_no_difference_and_what_is_missing_is_counted() {
    let one = addresses((0..100).map(|index| 0x1000 + 4 * index));
    let mut other = one.clone();
    other.splice(30..60, [GAP]);
    let (summary, found) = compared(&one, &other);
    assert_eq!(whats(&found), [What::Missing { side: 1 }]);
    assert_eq!((summary.differences(), summary.equal, summary.missing), (0, 70, [30, 0]));
}

#[test]
fn a_gap_in_a_loop_is_not_taken_for_other_turns() {
    let turn = |number: u64| [0x200, 0x204, if number % 7 == 3 { 0x20C } else { 0x208 }, 0x210];
    let one = addresses((0..100).flat_map(turn).chain((0..100).map(|index| 0x300 + 4 * index)));
    let mut other = one.clone();
    other.splice(201..350, [GAP]);
    let (summary, found) = compared(&one, &other);
    assert_eq!(whats(&found), [What::Missing { side: 1 }]);
    assert_eq!((summary.equal, summary.missing), (351, [149, 0]));
}

#[test]
fn other_opcodes_at_the_same_addresses_do_not_part_the_two() {
    let one = addresses([0x100, 0x104, 0x108]);
    let [mut first, second] = [&one, &one].map(|side| batches(side, &[8]));
    first[0].steps[1].opcode = 7;
    let mut found = Vec::new();
    let mut each = |difference: &Difference| {
        found.push(difference.what);
        ControlFlow::Continue(())
    };
    let summary =
        compare(first.clone().into_iter(), second.clone().into_iter(), &Settings::default(), &mut each);
    assert_eq!((summary.equal, summary.only), (2, [1, 1]));
    let settings = Settings { opcodes: false, ..Settings::default() };
    compare(first.into_iter(), second.into_iter(), &settings, &mut each);
    assert_eq!(found, [What::Opcode]);
}

fn store(address: u64, value: u64, size: u8) -> Happening {
    let access = TracedAccess::new(AccessKind::Store, size);
    Happening::Note(Note::Access(access.at(Some(address)).with_value(Some(value))))
}

#[test]
fn stores_are_compared_by_bytes_however_they_are_cut() {
    let one = [At(0x100), store(0x8000, 0x1122_3344, 4), At(0x104), store(0x9000, 5, 1), At(0x108)];
    let other = [At(0x100), store(0x8002, 0x1122, 2), store(0x8000, 0x3344, 2), At(0x104), At(0x108)];
    let (summary, found) = compared(&one, &other);
    let bytes = [Some((0x9000, Some(5))), None];
    assert_eq!(whats(&found), [What::Access { store: true, bytes }]);
    assert_eq!(summary.equal, 3);
    assert_eq!(found[0].before.last().expect("its instruction")[0].step.address, Address(0x104));
    // A trace without accesses has no others.
    let (summary, _) = compared(&one, &addresses([0x100, 0x104, 0x108]));
    assert_eq!(summary.differences(), 0);
}

fn write(number: u8, value: u8) -> Happening {
    let register = Register::new(backsight_tarmac::Class::X, number);
    let mut bytes = Bytes { touched: 1, known: 1, ..Bytes::default() };
    bytes.bytes[0] = value;
    Happening::Note(Note::Register(register, bytes))
}

#[test]
fn registers_are_compared_with_what_is_in_them() {
    let one = [At(0x100), write(1, 7), write(2, 1), At(0x104), write(1, 7), At(0x108), write(1, 8)];
    // That it still is 7 is not logged.
    let other = [At(0x100), write(1, 7), At(0x104), At(0x108), write(1, 9)];
    let (summary, found) = compared(&one, &other);
    assert!(matches!(whats(&found)[..], [What::Register { register, .. }] if register.number == 1));
    assert_eq!((found.len(), summary.equal, summary.effects[2]), (1, 3, 3));
}

#[test]
fn causes_are_compared_where_both_are_known() {
    let with =
        |cause| [At(0x100), Happening::Note(Note::Exception { cause, return_address: None }), At(0x8000)];
    let differences = |one, other| compared(&with(one), &with(other)).0.differences();
    assert_eq!(differences(Cause::Arm(0x0E), Cause::Arm(0x0E)), 0);
    assert_eq!(differences(Cause::Arm(0x0E), Cause::Arm(0x0F)), 1);
    assert_eq!(differences(Cause::Arm(0x0E), Cause::NotTraced { interrupt: true }), 0);
    assert_eq!(differences(Cause::Arm(0x0E), Cause::Armv7(14)), 0);
}

#[test]
fn nothing_in_common_is_said_and_bounded() {
    let one = addresses((0..50_000).map(|index| 0x10_0000 + 4 * index));
    let other = addresses((0..50_000).map(|index| 0x90_0000 + 4 * index));
    let settings = Settings { look: 1000, ..Settings::default() };
    let (summary, found) = compared_in([&one, &other], [&[64], &[64]], &settings);
    assert_eq!(whats(&found), [What::NotFound]);
    assert!(summary.stopped);
}

/// Instructions of a program that has a few loops: addresses come again.
fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let block = (0_u64..30, 1_u64..12, 1_usize..6);
    let other = prop_oneof![8 => Just(None), 1 => Just(Some(IRQ)), 1 => Just(Some(GAP))];
    proptest::collection::vec((block, other, any::<bool>()), 0..40).prop_map(|blocks| {
        let mut all = Vec::new();
        for ((start, length, turns), other, returns) in blocks {
            for _ in 0..turns {
                all.extend((0..length).map(|index| At(0x1000 + 16 * start + 4 * index)));
            }
            if returns && let Some(At(address)) = all.last().copied() {
                all.pop();
                all.push(Return(address));
            }
            all.extend(other);
        }
        all
    })
}

fn count(happenings: &[Happening]) -> u64 {
    happenings.iter().filter(|one| !matches!(one, Happening::Note(_))).count() as u64
}

proptest! {
    #[test]
    fn the_same_is_the_same(one in happenings(), sizes in proptest::collection::vec(1_usize..50, 2)) {
        let (summary, found) =
            compared_in([&one, &one], [&sizes[..1], &sizes[1..]], &Settings::default());
        prop_assert!(found.is_empty());
        prop_assert_eq!(summary.equal, count(&one));
    }

    #[test]
    fn every_instruction_is_accounted_for(one in happenings(), other in happenings()) {
        let (summary, found) = compared(&one, &other);
        prop_assert!(!summary.stopped);
        let all = |side: usize| summary.equal + summary.only[side] + summary.missing[side];
        prop_assert_eq!([all(0), all(1)], [count(&one), count(&other)]);
        let has_same = found.is_empty();
        let steps = |side: &[Happening]| -> Vec<u64> {
            side.iter().filter_map(|one| match one { At(at) | Return(at) => Some(*at), _ => None }).collect()
        };
        prop_assert!(!has_same || steps(&one) == steps(&other));
    }

    #[test]
    fn batches_of_any_size_give_the_same(
        one in happenings(),
        other in happenings(),
        sizes in proptest::collection::vec(1_usize..300, 2..6),
    ) {
        let whole = compared(&one, &other);
        let cut = compared_in([&one, &other], [&sizes[..1], &sizes[1..]], &Settings::default());
        prop_assert_eq!(whole, cut);
    }

    #[test]
    fn an_interrupt_anywhere_is_found_as_one(
        length in 20_u64..3000,
        place in any::<prop::sample::Index>(),
        handler in 1_u64..2000,
        first in any::<bool>(),
    ) {
        let one = addresses((0..length).map(|index| 0x1000 + 4 * index));
        let at = 1 + place.index(one.len() - 2);
        let mut other = one.clone();
        let mut inserted = vec![IRQ];
        inserted.extend((1..handler).map(|index| At(0x9_0000 + 4 * index)));
        inserted.push(Return(0x9_0000 + 4 * handler));
        other.splice(at..at, inserted);
        let side = usize::from(!first);
        let (summary, found) = if first { compared(&other, &one) } else { compared(&one, &other) };
        prop_assert_eq!(whats(&found), [What::Handler { side, cause: Cause::Arm(0x0E) }]);
        prop_assert_eq!(summary.equal, length);
        prop_assert_eq!(found[0].parts[side].count, handler);
        prop_assert_eq!(found[0].parts[side].number, at as u64);
    }

    #[test]
    fn turns_of_a_loop_anywhere_are_found_as_such(
        before in 0_u64..200,
        period in 1_usize..300,
        turns in 1_usize..20,
        more in 1_usize..200,
        after in 8_u64..100,
    ) {
        let with = |turns: usize| {
            let head = (0..before).map(|index| 0x1000 + 4 * index);
            let body = (0..period as u64).map(|index| 0x4_0000 + 4 * index);
            let tail = (0..after).map(|index| 0x8_0000 + 4 * index);
            addresses(head.chain((0..turns).flat_map(|_| body.clone())).chain(tail))
        };
        let (summary, found) = compared(&with(turns), &with(turns + more));
        prop_assert_eq!(whats(&found), [What::Loop { side: 1, period, turns: more as u64 }]);
        prop_assert_eq!(summary.equal, count(&with(turns)));
    }
}
