//! Every scheme restores what the bundled programs did.

use backsight_core::{Execution, Isa, RetiredBlocks};
use backsight_sim::{Elf, Observer, Options, Simulator, Streams, Watch};
use backsight_squeeze::container::{Header, Writer};
use backsight_squeeze::lab::run::{Experiment, Set};
use backsight_squeeze::{Code, DataScheme, PRESETS, Packer, Program, Scheme, Section, Unpacker};

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

/// Packs what a program does, block by block as the simulator gives it.
struct Packing {
    packer: Packer,
    blocks: u64,
    single: u64,
}

impl Observer for Packing {
    const BLOCKS: bool = true;

    fn execution(&mut self, item: Execution) {
        self.single += 1;
        assert_eq!(self.packer.push(&item).unwrap(), None);
    }

    fn blocks(&mut self, blocks: &RetiredBlocks<'_>) {
        for block in blocks.iter() {
            if self.packer.push_block(&block) {
                self.blocks += 1;
            } else {
                block.instructions().for_each(|retired| self.execution(Execution::Instruction(retired)));
            }
        }
    }
}

#[test]
fn blocks_are_packed_as_their_instructions_are() {
    for name in ["calls", "isa", "pack", "sort", "threads", "vm"] {
        let file = program(name);
        let items = run(&file, 300_000);
        for scheme in ["btmbp", "esdc", "mix8k"] {
            let scheme = Scheme::preset(scheme).unwrap().with_address_bits(32);
            let packer = || Packer::new(&scheme, DataScheme::default(), code(&file));
            let mut one_by_one = packer();
            items.iter().for_each(|item| assert_eq!(one_by_one.push(item).unwrap(), None));
            let options = Options { streams: Streams::none(), instructions: 300_000, ..Options::default() };
            let mut packing = Packing { packer: packer(), blocks: 0, single: 0 };
            Simulator::load(&file, options).unwrap().observe(Watch::default(), &mut packing);
            assert!(packing.packer.flush() == one_by_one.flush(), "{scheme}, {name}");
            assert!(packing.blocks > packing.single, "{name}: {} and {}", packing.blocks, packing.single);
        }
    }
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

/// A folder with a program, its recorded run, and a list that names both the simulated and the recorded one.
fn set(name: &str) -> Set {
    let folder = std::path::Path::new(env!("CARGO_TARGET_TMPDIR")).join("recorded-runs");
    let _ = std::fs::remove_dir_all(&folder);
    for inner in ["bin", "runs"] {
        std::fs::create_dir_all(folder.join(inner)).unwrap();
    }
    let file = program(name);
    let known = Program::read(&file, 0).unwrap();
    let scheme = Scheme::preset("btmbp").unwrap();
    let header = Header {
        scheme,
        data: DataScheme::default(),
        isa: Isa::Rv64,
        program: name.into(),
        identity: known.identity,
    };
    let mut writer = Writer::new(Vec::new(), &header, known.sections).unwrap();
    run(&file, 300_000).iter().for_each(|item| writer.push(item).unwrap());
    std::fs::write(folder.join("runs/run"), writer.finish().unwrap().0).unwrap();
    std::fs::write(folder.join("bin").join(name), file).unwrap();
    let list = format!("simulated - {name}\nrecorded =runs/run {name}\nmissing =runs/none {name}\n");
    std::fs::write(folder.join("list"), list).unwrap();
    Set::open(&folder).unwrap()
}

#[test]
fn a_recorded_run_is_measured_as_the_simulated_one_is() {
    let set = set("vm");
    let schemes: Vec<_> =
        ["btmbp", "mix1k", "mix8k", "mix1m"].map(|name| Scheme::preset(name).unwrap()).into();
    let experiment = Experiment { schemes: schemes.clone(), data: false, instructions: 200_000 };
    let [simulated, recorded, missing] = &set.cases[..] else { panic!("{:?}", set.cases) };
    let rows = [simulated, recorded].map(|case| set.measure(case, &experiment).unwrap());
    assert_eq!(rows[0].instructions, 200_000);
    assert_eq!(rows[0].instructions, rows[1].instructions);
    assert_eq!(rows[0].outcomes, rows[1].outcomes);
    let speeds = set.speed(recorded, &schemes, (200_000, 1)).unwrap();
    assert!(speeds.iter().flatten().all(|&speed| speed > 0.0));
    assert!(set.replay(recorded, 200_000).unwrap_err().contains("recorded"));
    assert!(set.measure(missing, &experiment).unwrap_err().contains("runs/none"));
}
