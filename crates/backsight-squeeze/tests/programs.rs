//! Every scheme restores what the bundled programs did.

use backsight_core::{Execution, Isa};
use backsight_sim::{Elf, Options, Simulator, Streams};
use backsight_squeeze::{Code, DataScheme, PRESETS, Packer, Section, Unpacker};

fn program(name: &str) -> Vec<u8> {
    let path = backsight_testing::repository().join("testdata/programs/riscv64").join(name);
    std::fs::read(path).unwrap()
}

fn code(file: &[u8]) -> Code {
    let elf = Elf::parse(file).unwrap();
    let sections = elf
        .segments
        .iter()
        .filter(|segment| segment.flags & 1 != 0)
        .map(|segment| Section { address: segment.address, bytes: segment.bytes.to_vec() });
    Code::new(Isa::Rv64, sections.collect())
}

fn run(file: &[u8], most: u64) -> Vec<Execution> {
    let options = Options { streams: Streams::none(), instructions: most, ..Options::default() };
    let mut simulator = Simulator::load(file, options).unwrap();
    let mut items = Vec::new();
    simulator.run(&mut |item| items.push(item));
    items
}

#[test]
fn every_preset_restores_the_bundled_programs() {
    for name in ["calls", "isa", "pack", "sort", "threads", "vm"] {
        let file = program(name);
        let items = run(&file, 300_000);
        for (scheme_name, scheme) in PRESETS {
            let scheme = scheme.with_address_bits(32);
            let mut packer = Packer::new(&scheme, DataScheme::default(), code(&file));
            for item in &items {
                assert_eq!(packer.push(item).unwrap(), None);
            }
            let chunk = packer.flush();
            assert!(chunk.code.is_empty(), "all code is in the file");
            let mut expected = items.iter();
            let mut wrong = 0;
            let mut unpacker = Unpacker::new(&scheme, DataScheme::default(), code(&file));
            unpacker.unpack(&chunk, &mut |item| wrong += u32::from(expected.next() != Some(&item))).unwrap();
            assert_eq!((wrong, expected.next()), (0, None), "{scheme_name}, {name}");
        }
    }
}
