//! Data addresses and load values of the bundled programs come back, and programs run again from their load values.

use backsight_core::{Execution, Retired};
use backsight_sim::{Elf, Exit, Options, Simulator, Streams};
use backsight_squeeze::data::adac::Adac;
use backsight_squeeze::data::addresses::{AddressCompressor, AddressDecompressor, Addresses, Packing};
use backsight_squeeze::data::replay::{RecordingWriter, replay};
use backsight_squeeze::data::values::ValueCache;

const PROGRAMS: [&str; 6] = ["calls", "isa", "pack", "sort", "threads", "vm"];

fn program(name: &str) -> Vec<u8> {
    let path = backsight_testing::repository().join("testdata/programs/riscv64").join(name);
    std::fs::read(path).unwrap()
}

fn simulator(file: &[u8], most: u64) -> Simulator {
    let options =
        Options { streams: Streams::none(), host_files: false, instructions: most, ..Options::default() };
    Simulator::load(file, options).unwrap()
}

/// Each instruction with the address it refers to.
fn references(items: &[Execution]) -> Vec<(Retired, Option<u64>)> {
    let mut all: Vec<(Retired, Option<u64>)> = Vec::new();
    for item in items {
        match item {
            Execution::Instruction(retired) => all.push((*retired, None)),
            Execution::Access(access) => all.last_mut().unwrap().1 = Some(access.address.0),
            _ => {}
        }
    }
    all
}

#[test]
fn addresses_of_the_bundled_programs_come_back() {
    let adac = Adac::adaptive(16);
    for name in PROGRAMS {
        let mut items = Vec::new();
        simulator(&program(name), 200_000).run_with_accesses(&mut |item| items.push(item));
        let references = references(&items);
        for filtered in [false, true] {
            for packing in
                [Packing::Plain, Packing::Nexus, Packing::Adac(adac), Packing::Adac(Adac::fixed(16, 8))]
            {
                let build = Addresses { filtered, packing, address_bits: 64 };
                assert_eq!(build.check(), Ok(()));
                let mut compressor = AddressCompressor::new(build);
                references.iter().for_each(|(retired, address)| compressor.push(retired, *address));
                assert!(!filtered || compressor.filtered > compressor.references / 3, "{name}");
                let (forgotten, bytes, bits) = compressor.take();
                let decompressor = AddressDecompressor::new(build);
                let mut decompressor = decompressor.next_part(&forgotten, &bytes, bits).unwrap();
                for (number, (retired, address)) in references.iter().enumerate() {
                    let back = decompressor.next(retired, address.is_some());
                    assert_eq!(back, Ok(*address), "{name}, instruction {number}, {build:?}");
                }
            }
        }
    }
}

#[test]
fn programs_run_again_from_their_load_values_alone() {
    let mut replayed = 0;
    for name in PROGRAMS {
        let file = program(name);
        let most = 3_000_000;
        let mut values = Vec::new();
        simulator(&file, most).record(&mut |value| values.push(value), &mut |_| {});
        let mut first = simulator(&file, most);
        let begin = first.hart().clone();
        let mut writer = RecordingWriter::new(ValueCache::dedicated(8192), values.into_iter());
        let mut items = Vec::new();
        let exit = first.run_with_accesses(&mut |item| {
            writer.push(&item);
            items.push(item);
        });
        // Threads take turns, which a list of values does not tell.
        if !first.is_replayable() {
            continue;
        }
        replayed += 1;
        let (recording, _) = writer.finish();
        let elf = Elf::parse(&file).unwrap();
        let mut expected = items.iter();
        let mut wrong = 0u64;
        let (_, hart) =
            replay(&elf, begin, &recording, &mut |item| wrong += u64::from(expected.next() != Some(&item)));
        assert_eq!((wrong, expected.next()), (0, None), "{name}, which {exit}");
        assert_eq!(hart.floats(), first.hart().floats(), "{name}");
        if exit == Exit::Limit {
            assert_eq!(&hart, first.hart(), "{name}");
        } else {
            // The last system call never returned.
            assert_eq!(hart.integers(), first.hart().integers(), "{name}");
        }
    }
    assert!(replayed >= 5, "{replayed} programs");
}
