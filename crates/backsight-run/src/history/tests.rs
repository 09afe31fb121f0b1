//! States that are kept, and damaged recordings.

use super::*;
use crate::retired::RetiredWriter;
use backsight_core::{Access, Door, Input, Retired};

/// addi a0, a0, 1
const ADDI: u32 = 0x0015_0513;
/// sd a0, 0(sp)
const SD: u32 = 0x00A1_3023;
/// ld a1, 0(sp)
const LD: u32 = 0x0001_3583;

fn instruction(address: u64, opcode: u32) -> Execution {
    Execution::Instruction(Retired {
        address: Address(address),
        next: Address(address + 4),
        cycle: 0,
        opcode,
        size: 4,
        isa: Isa::Rv64,
        taken: true,
    })
}

fn access(address: u64, value: u64, store: bool) -> Execution {
    Execution::Access(Access { address: Address(address), value, size: 8, store, known: true })
}

fn register(number: u16, value: u64) -> Execution {
    Execution::Input(Input::Register { number, value })
}

/// Counts a0 up from 0, and stores it each time at another place of the stack.
fn counting(turns: u64) -> Vec<Execution> {
    let mut items = vec![register(2, 0x8000), register(10, 0)];
    for turn in 0..turns {
        let sp = 0x8000 + turn % 0x1000 * 8;
        items.push(register(2, sp));
        items.extend([instruction(0x1000, ADDI), instruction(0x1004, SD), access(sp, turn + 1, true)]);
        items.extend([instruction(0x1008, LD), access(sp, turn + 1, false)]);
        // A jump back that the recording does not show.
    }
    items
}

fn history(items: &[Execution], budget: &Budget) -> History {
    let mut builder = HistoryBuilder::new(Isa::Rv64, &[], budget).unwrap();
    items.iter().for_each(|item| builder.push(item).unwrap());
    builder.finish().unwrap()
}

#[test]
fn any_moment_is_the_same_however_few_states_are_kept() {
    const TURNS: u64 = 200_000;
    let items = counting(TURNS);
    let roomy = Budget::new(1 << 30);
    // A quarter of it is for states.
    let narrow = Budget::new(8 << 20);
    for budget in [&roomy, &narrow] {
        let mut history = history(&items, budget);
        assert_eq!((history.instructions(), history.disagreements()), (3 * TURNS, 0));
        let mut moment = 3 * TURNS;
        for step in [1, 7, 65_537, 3, 300_000, 2, 1, 1, 99_991, 11] {
            moment -= step;
            let turn = moment / 3;
            let at = history.at(moment);
            let a0 = turn + u64::from(!moment.is_multiple_of(3));
            assert_eq!((at.register(10), at.instructions()), (Some(a0), moment));
            assert_eq!(at.next(), Some(Address(0x1000 + moment % 3 * 4)));
            // The last turn that is over wrote its number.
            let place = 0x8000 + (turn - 1) % 0x1000 * 8;
            let mut bytes = [None; 8];
            at.memory(place, &mut bytes);
            assert_eq!(bytes.map(Option::unwrap), turn.to_le_bytes(), "moment {moment}");
        }
    }
}

#[test]
fn a_budget_that_is_too_small_is_an_error_that_names_the_option() {
    let items = counting(100_000);
    let budget = Budget::new(1 << 16);
    let mut builder = HistoryBuilder::new(Isa::Rv64, &[], &budget).unwrap();
    let error = items.iter().try_for_each(|item| builder.push(item)).unwrap_err();
    assert!(error.to_string().contains("--budget"), "{error}");
    let part = InitialMemory { address: 0, bytes: &[], length: u64::MAX };
    assert!(HistoryBuilder::new(Isa::Rv64, &[part], &budget).is_err());
}

#[test]
fn what_is_not_known_stays_unknown_and_what_follows_from_it_too() {
    let budget = Budget::of(Door::History, None, 0);
    // add a2, a0, a1: a0 is never given.
    let items = [register(11, 5), instruction(0x1000, 0x00B5_0633), instruction(0x1004, ADDI)];
    let mut history = history(&items, &budget);
    let end = history.at(u64::MAX);
    assert_eq!(
        (end.register(12), end.register(10), end.register(11), end.register(0)),
        (None, None, Some(5), Some(0))
    );
    assert_eq!((end.next(), end.instructions(), end.byte(0x8000)), (None, 2, None));
}

#[test]
fn what_was_read_before_it_was_written_was_there_from_the_beginning() {
    let budget = Budget::of(Door::History, None, 0);
    let stored = access(0x8000, 9, true);
    let items = [
        register(2, 0x8000),
        register(10, 9),
        instruction(0x1000, LD),
        access(0x8000, 7, false),
        instruction(0x1004, SD),
        stored,
        Execution::Gap,
        instruction(0x1008, LD),
        access(0x8000, 3, false),
    ];
    let mut history = history(&items, &budget);
    let bytes = [3, 2, 1, 0].map(|moment| history.at(moment).byte(0x8000));
    // After the gap, nothing is known until it is read.
    assert_eq!(bytes, [Some(3), None, Some(7), Some(7)]);
    assert_eq!(history.at(0).register(11), None);
    assert_eq!((history.at(1).register(11), history.at(3).register(11)), (Some(7), Some(3)));
    assert_eq!(history.surprises(), 0);
    // Where the load was says what its base register was.
    assert_eq!(history.at(3).register(2), Some(0x8000));
}

#[test]
fn loads_of_what_nobody_was_seen_to_write_are_counted() {
    let loads = |values: &[u64]| {
        let turn = |&value: &u64| [instruction(0x1000, LD), access(0x8000, value, false)];
        let items: Vec<Execution> =
            [register(2, 0x8000)].into_iter().chain(values.iter().flat_map(turn)).collect();
        history(&items, &Budget::of(Door::History, None, 0)).surprises()
    };
    assert_eq!((loads(&[7, 7, 7]), loads(&[7, 8, 8, 7])), (0, 2));
}

#[test]
fn the_file_of_another_program_is_not_believed() {
    let budget = Budget::of(Door::History, None, 0);
    let items = [register(2, 0x8000), instruction(0x1000, LD), access(0x8000, 7, false)];
    for (byte, other) in [(7, false), (8, true)] {
        let part = InitialMemory { address: 0x8000, bytes: &[byte], length: 16 };
        let mut builder = HistoryBuilder::new(Isa::Rv64, &[part], &budget).unwrap();
        items.iter().for_each(|item| builder.push(item).unwrap());
        let mut history = builder.finish().unwrap();
        assert_eq!(history.is_other_program(), other);
        assert_eq!(history.at(0).byte(0x8000), Some(7));
        assert_eq!(history.at(0).byte(0x800F), if other { None } else { Some(0) });
    }
}

#[test]
fn a_recording_without_data_gives_no_memory() {
    let budget = Budget::of(Door::History, None, 0);
    let part = InitialMemory { address: 0x8000, bytes: &[1], length: 1 };
    let mut builder = HistoryBuilder::new(Isa::Rv64, &[part], &budget).unwrap();
    [instruction(0x1000, SD), instruction(0x1004, LD)].iter().for_each(|item| builder.push(item).unwrap());
    let mut history = builder.finish().unwrap();
    assert!(!history.has_data());
    assert_eq!((history.at(0).byte(0x8000), history.at(2).register(11)), (None, None));
}

#[test]
fn registers_are_forgotten_where_execution_contradicts_the_recording() {
    let budget = Budget::of(Door::History, None, 0);
    let wrong = access(0x8000, 8, true);
    let items = [register(2, 0x8000), register(10, 9), instruction(0x1000, SD), wrong];
    let mut history = history(&items, &budget);
    assert_eq!(history.disagreements(), 1);
    let end = history.at(1);
    assert_eq!((end.register(2), end.register(10), end.byte(0x8000)), (None, None, Some(8)));
    assert_eq!(history.at(0).register(10), Some(9));
}

#[test]
fn threads_have_registers_of_their_own_and_numbers() {
    let budget = Budget::of(Door::History, None, 0);
    let mut items = Vec::new();
    for turn in 0..40_000u64 {
        let thread = turn as u32 % 3;
        items.push(Execution::Thread(thread));
        if turn < 3 {
            items.push(register(10, 100 * u64::from(thread)));
        }
        items.extend([instruction(0x1000, ADDI), instruction(0x1000, ADDI)]);
    }
    let mut history = history(&items, &budget);
    assert_eq!(history.threads().values().sum::<u64>(), 80_000);
    for (thread, instructions) in [(0, 0), (1, 1), (2, 13_333), (0, 26_667), (1, 26_665)] {
        let number = history.number_of(thread, instructions).unwrap();
        let at = history.at(number);
        assert_eq!(at.thread(), thread);
        assert_eq!(at.register(10), Some(100 * u64::from(thread) + instructions), "{thread} {instructions}");
        assert_eq!(history.instructions_of(thread, number), instructions);
    }
    let end = history.number_of(2, 26_666).unwrap();
    assert_eq!(history.at(end).register_of(2, 10), Some(200 + 26_666));
    assert_eq!((history.number_of(2, 26_667), history.number_of(3, 0)), (None, None));
    for thread in 0..4 {
        let count = history.threads().get(&thread).copied().unwrap_or(0);
        assert_eq!(history.instructions_by(thread).count() as u64, count);
    }
}

#[test]
fn accesses_are_found_by_the_thread_that_made_them() {
    let stored = access(0x8000, 9, true);
    let turn = |thread| [Execution::Thread(thread), instruction(0x1000, SD), stored];
    let items: Vec<Execution> = [0, 1, 1, 0, 2].into_iter().flat_map(turn).collect();
    let mut history = history(&items, &Budget::of(Door::History, None, 0));
    let any = Wanted { address: 0x8000, length: 1, reads: false, writes: true, thread: None };
    let mut last = |moment, thread| {
        history.last_access(moment, &Wanted { thread, ..any }).map(|hit| (hit.instruction, hit.thread))
    };
    assert_eq!(
        (last(5, None), last(5, Some(1)), last(2, Some(1))),
        (Some((4, 2)), Some((2, 1)), Some((1, 1)))
    );
    assert_eq!((last(3, Some(0)), last(1, Some(1))), (Some((0, 0)), None));
    let next = history.next_access(1, &Wanted { thread: Some(0), ..any });
    assert_eq!(next.map(|hit| hit.instruction), Some(3));
    assert!((0..5).all(|number| history.access_by(number, &any).is_some()));
    assert_eq!(history.access_by(1, &Wanted { thread: Some(0), ..any }), None);
    assert_eq!(history.access_by(1, &Wanted { address: 0x8008, ..any }), None);
    assert_eq!(history.access_by(5, &any), None);
}

#[test]
fn who_touched_memory_is_found_forwards_and_backwards() {
    let items = counting(150_000);
    let mut history = history(&items, &Budget::new(1 << 30));
    let end = history.instructions();
    let wanted = Wanted { address: 0x8000 + 8 * 5 + 3, length: 2, reads: false, writes: true, thread: None };
    // Turn 5 of each 4096; the store is the second instruction of a turn.
    let turn = (150_000u64 - 6) / 4096 * 4096 + 5;
    let hit = history.last_access(end, &wanted).unwrap();
    assert_eq!(
        (hit.instruction, hit.address, hit.store, hit.system),
        (3 * turn + 1, Address(0x8028), true, false)
    );
    let before = history.last_access(hit.instruction, &wanted).unwrap();
    assert_eq!(before.instruction, 3 * (turn - 4096) + 1);
    assert_eq!(history.next_access(before.instruction + 1, &wanted), Some(hit));
    assert_eq!(history.next_access(hit.instruction + 1, &wanted), None);
    assert_eq!(history.last_access(3 * 5 + 1, &wanted), None);
    let read = Wanted { reads: true, writes: false, ..wanted };
    assert_eq!(history.next_access(0, &read).map(|hit| hit.instruction), Some(3 * 5 + 2));
    let nothing = Wanted { address: 0x9_0000, ..read };
    assert_eq!(history.last_access(end, &nothing), None);
}

#[test]
fn damaged_files_give_an_error_or_a_part_of_the_truth() {
    let items = counting(400);
    let mut writer = RetiredWriter::new(Vec::new(), Isa::Rv64).unwrap();
    items.iter().for_each(|item| writer.push(item).unwrap());
    let file = writer.finish().unwrap();
    let budget = || Budget::of(Door::History, None, 0);
    let read = |bytes: &[u8]| match RetiredReader::new(bytes) {
        Ok(mut reader) => History::read(&mut reader, &[], &budget()).ok(),
        Err(_) => None,
    };
    let mut whole = read(&file).unwrap();
    assert_eq!(whole.truncated(), None);
    for cut in (12..file.len()).step_by(5) {
        let Some(mut part) = read(&file[..cut]) else {
            panic!("a file cut off at {cut} is right as far as it goes")
        };
        assert_eq!(part.truncated(), Some(cut as u64));
        for moment in [0, part.instructions() / 2, part.instructions()] {
            let (known, truth) = (part.at(moment).register(10), whole.at(moment).register(10));
            // What stands before the first instruction belongs to it.
            assert!(known == truth || known.is_none() && part.instructions() == 0, "{cut} {moment}");
        }
    }
    let mut random = backsight_testing::Random(1);
    for _ in 0..500 {
        let mut bytes = file.clone();
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
        if let Some(mut changed) = read(&bytes) {
            // Only one that was also cut off by it, and then it has to be right.
            assert!(changed.truncated().is_some(), "byte {at}");
            let end = changed.instructions().min(whole.instructions());
            for moment in (0..=end).step_by(1 + end as usize / 8) {
                let (known, truth) = (changed.at(moment).register(10), whole.at(moment).register(10));
                assert!(known.is_none() || known == truth, "byte {at}, moment {moment}: {known:?} {truth:?}");
            }
        }
    }
}
