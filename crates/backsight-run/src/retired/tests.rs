//! Both directions against each other, and against damage.

use super::{RetiredError, RetiredReader, RetiredWriter};
use backsight_core::{
    Access, Address, Context, Execution, ExecutionSink, Input, Isa, Retired, RetiredBlock, Security, Trap,
    TrapKind,
};
use proptest::prelude::*;

fn written(items: &[Execution]) -> Vec<u8> {
    let mut writer = RetiredWriter::new(Vec::new(), Isa::Rv64).unwrap();
    for item in items {
        writer.push(item).unwrap();
    }
    writer.finish().unwrap()
}

fn read(file: &[u8]) -> (Vec<Execution>, Result<(), RetiredError>) {
    let mut items = Vec::new();
    let result = RetiredReader::new(file).and_then(|mut reader| reader.read(&mut |item| items.push(item)));
    (items, result)
}

/// Collects items; blocks are checked against what they promise.
#[derive(Default)]
struct Collected {
    items: Vec<Execution>,
    blocks: std::collections::HashMap<u64, Vec<Retired>>,
    /// Instructions that came in blocks.
    in_blocks: usize,
}

impl ExecutionSink for Collected {
    fn item(&mut self, item: Execution) {
        self.items.push(item);
    }

    fn block(&mut self, block: &RetiredBlock<'_>) {
        assert_eq!(self.blocks.entry(block.number).or_insert(block.code.to_vec()), block.code);
        let (before, _) = block.split_last().unwrap();
        assert!(before.iter().all(|retired| retired.taken && retired.next == retired.end()));
        self.items.extend(block.instructions().map(Execution::Instruction));
        self.in_blocks += block.code.len();
    }
}

/// The items, and how many instructions came in blocks.
fn read_as_blocks(file: &[u8], most: usize) -> (Vec<Execution>, usize) {
    let mut reader = RetiredReader::new(file).unwrap();
    let mut collected = Collected::default();
    while reader.read_blocks(most, &mut collected).unwrap() {}
    (collected.items, collected.in_blocks)
}

fn isa() -> impl Strategy<Value = Isa> {
    prop_oneof![Just(Isa::A64), Just(Isa::A32), Just(Isa::T32), Just(Isa::Rv32), Just(Isa::Rv64)]
}

/// Few addresses and targets, so that instructions come again; and now and then anything at all.
fn address() -> impl Strategy<Value = Address> {
    prop_oneof![9 => (0u64..24).prop_map(|n| Address(0x1_0000 + 2 * n)), 1 => any::<u64>().prop_map(Address)]
}

fn retired() -> impl Strategy<Value = Execution> {
    let cycle = prop_oneof![4 => Just(0u64), 1 => 0u64..50, 1 => any::<u64>()];
    let opcode = prop_oneof![3 => 0u32..3, 1 => any::<u32>()];
    let next = prop_oneof![3 => Just(None), 1 => address().prop_map(Some)];
    (address(), next, cycle, opcode, any::<bool>(), isa(), any::<bool>()).prop_map(
        |(address, next, cycle, opcode, wide, isa, taken)| {
            let size = if wide { 4 } else { 2 };
            let next = next.unwrap_or(address.plus(u64::from(size)));
            Execution::Instruction(Retired { address, next, cycle, opcode, size, isa, taken })
        },
    )
}

fn item() -> impl Strategy<Value = Execution> {
    let access = (address(), any::<u64>(), 1u8..=8, any::<bool>(), any::<bool>()).prop_map(
        |(address, value, size, store, known)| {
            Execution::Access(Access { address, value, size, store, known })
        },
    );
    let context = (any::<u8>(), any::<bool>(), any::<Option<u32>>(), any::<Option<u64>>()).prop_map(
        |(level, wide, vmid, context_id)| {
            let security = if wide { Security::Realm } else { Security::NonSecure };
            Execution::Context(Context {
                vmid,
                context_id,
                ..if wide { Context::riscv(level, true) } else { Context::arm(level, security, wide) }
            })
        },
    );
    let trap = (any::<bool>(), any::<u32>(), any::<u64>(), address(), address(), 0u64..9).prop_map(
        |(interrupt, cause, value, return_address, handler, cycle)| {
            let kind = if interrupt { TrapKind::Interrupt } else { TrapKind::Exception };
            Execution::Trap(Trap { kind, cause, value, return_address, handler, cycle })
        },
    );
    let input = (0u8..12, address(), any::<u64>()).prop_map(|(size, address, value)| {
        Execution::Input(match size {
            0 => Input::Result(value),
            9 => Input::Counter(value),
            10 => Input::Register { number: value as u16, value },
            11 => Input::Cleared { address, length: value },
            _ => Input::Memory { address, value: value >> (64 - 8 * u32::from(size)), size },
        })
    });
    prop_oneof![
        20 => retired(),
        2 => access,
        1 => input,
        1 => context,
        1 => trap,
        1 => any::<u32>().prop_map(Execution::Thread),
        1 => Just(Execution::Gap),
    ]
}

/// A loop of `length` instructions, `times` times around.
fn looping(length: u64, times: u64) -> Vec<Execution> {
    let mut items = Vec::new();
    for _ in 0..times {
        for n in 0..length {
            let address = Address(0x1000 + 4 * n);
            let next = if n + 1 == length { Address(0x1000) } else { address.plus(4) };
            items.push(Execution::Instruction(Retired {
                address,
                next,
                cycle: 0,
                opcode: n as u32,
                size: 4,
                isa: Isa::A64,
                taken: true,
            }));
        }
    }
    items
}

/// Straight-line code: some of it overlaps, some lies where other code was, some takes the slots of other code.
fn code() -> impl Strategy<Value = Vec<Retired>> {
    let start = prop_oneof![6 => 0u64..20, 1 => Just(1 << 16), 1 => Just(3 << 16), 1 => Just(0x1_FF80 / 2)];
    let size = prop_oneof![Just(2u8), Just(4)];
    let instructions = proptest::collection::vec((size, 0u32..2), 1..300);
    let length = prop_oneof![6 => 1usize..8, 1 => 1usize..300];
    (start, instructions, length).prop_map(|(start, instructions, length)| {
        let mut address = Address(0x1_0000 + 2 * start);
        let straight = |(size, opcode): (u8, u32)| {
            let next = address.plus(size.into());
            let retired = Retired { address, next, cycle: 0, opcode, size, isa: Isa::Rv64, taken: true };
            address = next;
            retired
        };
        instructions.into_iter().take(length).map(straight).collect()
    })
}

/// What is executed: a block of some number and where it led, or something else.
#[derive(Clone, Debug)]
enum Step {
    Block { number: prop::sample::Index, next: Option<prop::sample::Index>, taken: bool },
    Item(Execution),
}

/// Blocks mostly lead to the beginning of a block.
fn step() -> impl Strategy<Value = Step> {
    let next = proptest::option::weighted(0.8, any::<prop::sample::Index>());
    let block = (any::<prop::sample::Index>(), next, proptest::bool::weighted(0.8))
        .prop_map(|(number, next, taken)| Step::Block { number, next, taken });
    prop_oneof![30 => block, 1 => item().prop_map(Step::Item)]
}

/// Steps by blocks as a file, and their items. `follow`: each block is the one that the last one led to.
fn written_by_blocks(codes: &[Vec<Retired>], steps: &[Step], follow: bool) -> (Vec<u8>, Vec<Execution>) {
    let mut writer = RetiredWriter::new(Vec::new(), Isa::Rv64).unwrap();
    let mut items = Vec::new();
    let mut led_to = 0;
    for step in steps {
        let (number, next, taken) = match step {
            Step::Block { number, next, taken } => (number, next, *taken),
            Step::Item(item) => {
                writer.push(item).unwrap();
                items.push(*item);
                continue;
            }
        };
        let number = if follow { led_to } else { number.index(codes.len()) };
        let code = &codes[number];
        led_to = next.map_or(number, |next| next.index(codes.len()));
        let next = if taken { codes[led_to][0].address } else { code[code.len() - 1].end() };
        // Numbers that share what a writer remembers of blocks.
        let number = (number as u64) << 11;
        let block = RetiredBlock { number, code, next, taken };
        writer.push_block(&block).unwrap();
        items.extend(block.instructions().map(Execution::Instruction));
    }
    (writer.finish().unwrap(), items)
}

/// Gives one byte at a time.
struct Slow<'a>(&'a [u8]);

impl std::io::Read for Slow<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let count = buffer.len().min(1);
        std::io::Read::read(&mut self.0, &mut buffer[..count])
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read(items in proptest::collection::vec(item(), 0..400)) {
        let file = written(&items);
        let (read, result) = read(&file);
        prop_assert!(result.is_ok(), "{:?}", result);
        prop_assert_eq!(&read, &items);
        let one_by_one: Result<Vec<_>, _> = RetiredReader::new(Slow(&file)).unwrap().collect();
        prop_assert_eq!(one_by_one.unwrap(), &items[..]);
        prop_assert_eq!(read_as_blocks(&file, usize::MAX).0, &items[..]);
        prop_assert_eq!(read_as_blocks(&file, 7).0, items);
    }

    #[test]
    fn blocks_are_written_as_their_instructions_are(
        codes in proptest::collection::vec(code(), 1..10),
        steps in proptest::collection::vec(step(), 0..400),
        follow in any::<bool>(),
    ) {
        let (file, items) = written_by_blocks(&codes, &steps, follow);
        prop_assert!(file == written(&items), "other bytes than for the instructions one by one");
        let (read, result) = read(&file);
        prop_assert!(result.is_ok(), "{:?}", result);
        prop_assert!(read == items, "other instructions than were written");
        let one_by_one: Result<Vec<_>, _> = RetiredReader::new(&file[..]).unwrap().collect();
        prop_assert!(one_by_one.unwrap() == items, "other instructions one by one");
        prop_assert!(read_as_blocks(&file, usize::MAX).0 == items, "other instructions in blocks");
    }

    #[test]
    fn a_damaged_file_says_the_same_in_blocks_as_one_by_one(
        codes in proptest::collection::vec(code(), 1..4),
        steps in proptest::collection::vec(step(), 100..400),
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let (mut file, _) = written_by_blocks(&codes, &steps, true);
        for (at, byte) in changes {
            // The header stays as it is.
            let at = 12 + at.index(file.len() - 12);
            file[at] = byte;
        }
        let one_by_one: Vec<_> = RetiredReader::new(&file[..]).unwrap().map_while(Result::ok).collect();
        let mut collected = Collected::default();
        let mut reader = RetiredReader::new(&file[..]).unwrap();
        while let Ok(true) = reader.read_blocks(1000, &mut collected) {}
        prop_assert!(collected.items == one_by_one, "other items in blocks");
    }

    #[test]
    fn a_file_that_is_cut_off_gives_what_it_has_and_says_so(
        items in proptest::collection::vec(item(), 0..100),
        cut: prop::sample::Index,
    ) {
        let file = written(&items);
        let length = cut.index(file.len());
        let (read, result) = read(&file[..length]);
        prop_assert_eq!(&read[..], &items[..read.len()]);
        match result {
            Err(RetiredError::Truncated { offset }) => prop_assert_eq!(offset, length as u64),
            Err(RetiredError::NotAStream) => prop_assert!(length < 8),
            other => prop_assert!(false, "{other:?}"),
        }
    }

    #[test]
    fn a_damaged_file_is_an_error(
        items in proptest::collection::vec(item(), 1..100),
        at: prop::sample::Index,
        bit in 0u8..8,
    ) {
        let mut file = written(&items);
        let at = at.index(file.len());
        file[at] ^= 1 << bit;
        // The instruction set in the header is for information; it is in the checksum all the same.
        prop_assert!(read(&file).1.is_err());
    }
}

#[test]
fn an_instruction_that_ends_one_block_and_is_inside_another_leaves_both() {
    const NOP: u32 = 0x13;
    let nop = |address: u64, next: u64| {
        let (address, next) = (Address(address), Address(next));
        let (size, isa) = (4, Isa::Rv64);
        Execution::Instruction(Retired { address, next, cycle: 0, opcode: NOP, size, isa, taken: true })
    };
    let (base, exit) = (0x1000, 0x8000);
    let straight = |from: u64, to: u64| (from..to).map(move |n| nop(base + 4 * n, base + 4 * n + 4));
    let mut items = Vec::new();
    // A block is cut after 64 instructions: the one from 0 on ends with instruction 63, that from 10 on goes on after it.
    for from in [0, 0, 10, 10, 0, 10] {
        items.extend(straight(from, 80));
    }
    // Then that instruction goes elsewhere.
    for from in [0, 10, 0, 10] {
        items.extend(straight(from, 63));
        items.extend([nop(base + 4 * 63, exit), nop(exit, base)]);
    }
    let file = written(&items);
    let (read, in_blocks) = read_as_blocks(&file, 1 << 20);
    assert!(read == items && in_blocks > 200, "{in_blocks}");
}

#[test]
fn code_that_comes_again_costs_next_to_nothing() {
    let items = looping(100, 1000);
    let file = written(&items);
    assert!(file.len() < 1000, "{} bytes", file.len());
    assert_eq!(read(&file).0, items);
    let (as_blocks, in_blocks) = read_as_blocks(&file, usize::MAX);
    assert!(as_blocks == items && in_blocks > 99_000, "{in_blocks} instructions in blocks");
}

#[test]
fn sizes_that_do_not_exist_are_refused() {
    let mut writer = RetiredWriter::new(Vec::new(), Isa::Rv64).unwrap();
    let Execution::Instruction(mut retired) = looping(1, 1)[0] else { unreachable!() };
    retired.size = 3;
    assert!(writer.push(&Execution::Instruction(retired)).is_err());
    retired.size = 0;
    retired.address = Address(0);
    assert!(writer.push(&Execution::Instruction(retired)).is_err());
    let access = Access { address: Address(0), value: 0, size: 9, store: false, known: false };
    assert!(writer.push(&Execution::Access(access)).is_err());
}

#[test]
fn other_files_and_versions_are_told_apart() {
    assert!(matches!(RetiredReader::new(&b"\x7FELF"[..]), Err(RetiredError::NotAStream)));
    let mut file = written(&[]);
    file[8] = 9;
    assert!(matches!(RetiredReader::new(&file[..]), Err(RetiredError::Version(9))));
    file[8] = 1;
    file[11] = 40;
    let Err(error) = RetiredReader::new(&file[..]) else { panic!("was read") };
    assert_eq!(error.to_string(), "corrupt at offset 0xb: a table that is too large");
}

#[test]
fn a_full_disk_is_an_error() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        backsight_testing::skipped("no /dev/full");
        return;
    };
    let mut writer = RetiredWriter::new(full, Isa::Rv64).unwrap();
    writer.push(&Execution::Gap).unwrap();
    assert!(writer.finish().is_err());
}
