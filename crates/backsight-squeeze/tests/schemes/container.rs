//! Files: what was written comes back; what is damaged, truncated or of another program is refused where it is wrong.

use crate::support::{Program, Random};
use backsight_core::{Execution, Isa, Retired, RetiredBlock};
use backsight_sim::{Options, Simulator, Streams};
use backsight_squeeze::container::{ContainerError, Header, Reader, Writer};
use backsight_squeeze::{DataScheme, PRESETS, Scheme};
use std::collections::HashMap;

/// Stands for a program's file.
const IDENTITY: u64 = 42;

fn items(seed: u64) -> (Program, Vec<Execution>) {
    let mut random = Random::new(seed);
    let program = Program::new(&mut random, 100, 0x10000);
    let items = program.run(&mut random, 2000, 60);
    (program, items)
}

fn header(scheme: Scheme, with_program: bool) -> Header {
    let (program, identity) = if with_program { ("a".into(), IDENTITY) } else { (String::new(), 0) };
    Header { scheme, data: DataScheme::default(), isa: Isa::Rv64, program, identity }
}

fn write(scheme: Scheme, program: Option<&Program>, items: &[Execution]) -> Vec<u8> {
    let sections = program.map_or_else(Vec::new, Program::sections);
    let mut writer = Writer::new(Vec::new(), &header(scheme, program.is_some()), sections).unwrap();
    items.iter().for_each(|item| writer.push(item).unwrap());
    writer.finish().unwrap().0
}

fn read(file: &[u8], program: Option<&Program>) -> (Vec<Execution>, Result<(), ContainerError>) {
    let mut items = Vec::new();
    let program = program
        .map(|program| backsight_squeeze::Program { identity: IDENTITY, sections: program.sections() });
    let done =
        Reader::new(file, program.as_ref()).and_then(|mut reader| reader.read(&mut |item| items.push(item)));
    (items, done)
}

#[test]
fn every_scheme_comes_back_with_and_without_the_program() {
    for (name, scheme) in PRESETS {
        let (program, items) = items(1);
        for program in [None, Some(&program)] {
            let file = write(*scheme, program, &items);
            let (back, done) = read(&file, program);
            assert!(done.is_ok(), "{name}: {done:?}");
            assert!(back == items, "{name}");
        }
    }
    let empty = write(PRESETS[0].1, None, &[]);
    assert!(matches!(read(&empty, None), (items, Ok(())) if items.is_empty()));
}

/// Straight pieces of a run with a number for each that was seen.
fn write_blocks(scheme: Scheme, program: Option<&Program>, items: &[Execution]) -> (Vec<u8>, usize) {
    let sections = program.map_or_else(Vec::new, Program::sections);
    let mut writer = Writer::new(Vec::new(), &header(scheme, program.is_some()), sections).unwrap();
    let mut numbers: HashMap<Vec<(u64, u32)>, u64> = HashMap::new();
    let mut blocks = 0;
    let mut rest = items;
    while let Some(first) = rest.first() {
        let straight = rest
            .iter()
            .map_while(|item| match item {
                Execution::Instruction(retired) => Some(*retired),
                _ => None,
            })
            .take_while(|retired| retired.next == retired.end() && retired.taken && retired.cycle == 0);
        let mut code: Vec<_> = straight.collect();
        let follow = code.windows(2).take_while(|pair| pair[0].next == pair[1].address).count();
        code.truncate(follow + 1);
        // Where the last one led is another matter.
        if let Some(Execution::Instruction(last)) = rest.get(code.len()).filter(|_| !code.is_empty())
            && code.last().is_some_and(|before| before.next == last.address)
            && last.cycle == 0
        {
            code.push(Retired { next: last.end(), taken: true, ..*last });
        }
        if code.len() < 2 {
            writer.push(first).unwrap();
            rest = &rest[1..];
            continue;
        }
        let Execution::Instruction(last) = rest[code.len() - 1] else { unreachable!() };
        rest = &rest[code.len()..];
        // Numbers that share a slot of what a writer remembers.
        let number = (numbers.len() as u64 % 3) << 12 | numbers.len() as u64;
        let key = code.iter().map(|retired| (retired.address.0, retired.opcode)).collect();
        let number = *numbers.entry(key).or_insert(number);
        blocks += 1;
        writer.push_block(&RetiredBlock { number, code: &code, next: last.next, taken: last.taken }).unwrap();
    }
    (writer.finish().unwrap().0, blocks)
}

#[test]
fn blocks_give_the_same_file_as_their_instructions_one_by_one() {
    let mut random = Random::new(7);
    for seed in 0..60 {
        let program = Program::new(&mut random, 20 + 3 * seed, 0x10000);
        let odd = [0, 20, 300][seed % 3];
        let mut items = program.run(&mut random, 3000, odd);
        // The code changes on the way.
        let other = Program::new(&mut random, 100, 0x10000);
        items.extend(other.run(&mut random, 500, odd));
        items.extend(program.run(&mut random, 500, odd));
        // Cycles of blocks are not known.
        for item in &mut items {
            if let Execution::Instruction(retired) = item {
                retired.cycle = 0;
            }
        }
        for name in ["base", "btmbp", "esdc", "mix1k"] {
            let scheme = Scheme::preset(name).unwrap();
            for program in [None, Some(&program)] {
                let one_by_one = write(scheme, program, &items);
                let (in_blocks, blocks) = write_blocks(scheme, program, &items);
                assert!(in_blocks == one_by_one, "{name}, program {seed}");
                assert!(blocks > 100, "{blocks} blocks");
            }
        }
    }
}

#[test]
fn code_that_changes_is_followed() {
    let (program, mut all) = items(3);
    let mut random = Random::new(4);
    let other = Program::new(&mut random, 100, 0x10000);
    all.extend(other.run(&mut random, 1000, 0));
    let file = write(PRESETS[13].1, Some(&program), &all);
    let (back, done) = read(&file, Some(&program));
    assert!(done.is_ok() && back == all, "{done:?}");
}

#[test]
fn another_program_or_none_is_refused() {
    let (program, items) = items(2);
    let file = write(PRESETS[13].1, Some(&program), &items);
    assert!(matches!(read(&file, None).1, Err(ContainerError::NoProgram { .. })));
    let other = backsight_squeeze::Program { identity: IDENTITY + 1, sections: program.sections() };
    let refused = Reader::new(&file[..], Some(&other)).err();
    assert!(matches!(refused, Some(ContainerError::OtherProgram { .. })));
    assert!(matches!(read(b"not such a file", None).1, Err(ContainerError::NotAContainer)));
    assert!(matches!(read(b"BS", None).1, Err(ContainerError::NotAContainer)));
}

#[test]
fn a_file_that_ends_early_is_reported_wherever_it_ends() {
    let (program, items) = items(5);
    let file = write(PRESETS[9].1, Some(&program), &items);
    for length in 8..file.len() {
        let (back, done) = read(&file[..length], Some(&program));
        assert!(matches!(done, Err(ContainerError::Truncated { .. })), "{length}: {done:?}");
        assert!(items.starts_with(&back));
    }
}

#[test]
fn every_flipped_bit_is_noticed() {
    let (program, items) = items(6);
    for preset in [1, 6, 9, 13, 15] {
        let file = write(PRESETS[preset].1, Some(&program), &items[..300]);
        for bit in 0..file.len() * 8 {
            let mut bad = file.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            let (_, done) = read(&bad, Some(&program));
            assert!(done.is_err(), "bit {bit} of {}", PRESETS[preset].0);
        }
    }
}

/// A run of a bundled program with its loads and stores, and what enters from outside.
fn with_accesses(name: &str) -> Vec<Execution> {
    let path = backsight_testing::repository().join("testdata/programs/riscv64").join(name);
    let options =
        Options { streams: Streams::none(), host_files: false, instructions: 150_000, ..Options::default() };
    let mut items = Vec::new();
    let mut simulator = Simulator::load(&std::fs::read(path).unwrap(), options).unwrap();
    simulator.run_with_accesses(&mut |item| items.push(item));
    items
}

#[test]
fn loads_and_stores_come_back_in_few_bits() {
    for name in ["calls", "isa", "pack", "sort", "threads", "vm"] {
        let items = with_accesses(name);
        let file = write(PRESETS[13].1, None, &items);
        let (back, done) = read(&file, None);
        assert!(done.is_ok() && back == items, "{name}: {done:?}");
        let accesses = items.iter().filter(|item| matches!(item, Execution::Access(_))).count();
        assert!(file.len() * 8 < accesses * 12, "{name}: {} bytes for {accesses} accesses", file.len());
    }
}

#[test]
fn accesses_that_no_instruction_should_have_come_back() {
    let mut random = Random::new(7);
    for name in ["sort", "isa"] {
        let mut items = Vec::new();
        for item in with_accesses(name).into_iter().take(60_000) {
            let Execution::Access(mut access) = item else {
                items.push(item);
                continue;
            };
            match random.below(40) {
                0 => continue,
                1 => access.size = 1 + random.below(8) as u8,
                2 => access.store = !access.store,
                3 => access.known = false,
                4 => access.value = random.next() << 13,
                5 => access.address.0 ^= random.next(),
                6 => items.extend([Execution::Access(access); 3]),
                7 => items.push(Execution::Gap),
                _ => {}
            }
            items.push(Execution::Access(access));
        }
        let file = write(PRESETS[13].1, None, &items);
        let (back, done) = read(&file, None);
        assert!(done.is_ok() && back == items, "{name}: {done:?}");
    }
}

#[test]
fn every_flipped_bit_of_accesses_is_noticed() {
    let items = with_accesses("calls");
    let file = write(PRESETS[13].1, None, &items[..2000]);
    for bit in (0..file.len() * 8).step_by(7) {
        let mut bad = file.clone();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(read(&bad, None).1.is_err(), "bit {bit}");
    }
}

#[test]
fn a_file_of_a_scheme_that_is_no_longer_built_so_is_refused_with_the_reason() {
    let (_, items) = items(2);
    let file = write(Scheme::parse("mix1k").unwrap(), None, &items);
    // The description of an older build, in a header of the same length with its checksum.
    let at = file.windows(6).position(|bytes| bytes == b"table=").unwrap();
    let mut older = file.clone();
    older[at..at + 6].copy_from_slice(b"tables");
    let header = 10
        + 1
        + if file[10] < 0x80 {
            usize::from(file[10])
        } else {
            (usize::from(file[10] & 0x7F) | usize::from(file[11]) << 7) + 1
        };
    let mut crc = flate2::Crc::new();
    crc.update(&older[..header]);
    older[header..header + 4].copy_from_slice(&crc.sum().to_le_bytes());
    let Err(why) = Reader::new(&older[..], None) else { panic!("it was read") };
    assert!(matches!(why, ContainerError::Scheme(_)), "{why}");
    assert!(why.to_string().contains("not known here"), "{why}");
}
