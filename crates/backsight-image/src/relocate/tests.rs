//! Relocatable files that are written here, and linked.

use super::*;

const AARCH64: u16 = 183;
const ARM: u16 = 40;
const RISCV: u16 = 243;

/// Puts numbers together: each with its size in bytes; `None` is the width of addresses.
struct Fields(Vec<u8>, bool);

impl Fields {
    fn put(&mut self, fields: &[(Option<usize>, u64)]) {
        for (size, value) in fields {
            let size = size.unwrap_or(if self.1 { 8 } else { 4 });
            self.0.extend(&value.to_le_bytes()[..size]);
        }
    }
}

/// Name, type, flags, contents, link, info, alignment, size of an entry.
type Section<'a> = (&'a str, u64, u64, &'a [u8], u64, u64, u64, u64);

/// A file with two sections of code, `.text` and `.text.other` with `local` at its offset 4, one of initialisation between
/// them, and relocations of `.text`: offset, type, symbol, addend.
fn object(machine: u16, code: &[u8], relocations: &[(u64, u32, &str, i64)]) -> Vec<u8> {
    let wide = machine != ARM;
    let mut names: Vec<&str> = vec!["start", "local"];
    names.extend(relocations.iter().map(|(_, _, name, _)| *name).filter(|name| *name != "local"));
    let strings = format!("\0{}\0", names.join("\0"));
    let string = |name: &str| strings.find(&format!("\0{name}\0")).map_or(0, |at| at as u64 + 1);
    let mut symbols = Fields(vec![0; if wide { 24 } else { 16 }], wide);
    for name in &names {
        let (section, value) = match *name {
            "start" => (1, 0),
            "local" => (3, 4),
            _ => (0, 0),
        };
        // A global function where it is defined.
        let info = if section == 0 { 0x10 } else { 0x12 };
        let (one, two, four) = (Some(1), Some(2), Some(4));
        match wide {
            true => symbols.put(&[
                (four, string(name)),
                (one, info),
                (one, 0),
                (two, section),
                (None, value),
                (None, 4),
            ]),
            false => symbols.put(&[
                (four, string(name)),
                (None, value),
                (None, 4),
                (one, info),
                (one, 0),
                (two, section),
            ]),
        }
    }
    let mut table = Fields(Vec::new(), wide);
    for (offset, kind, name, addend) in relocations {
        let symbol = names.iter().position(|other| other == name).unwrap() as u64 + 1;
        let info = if wide { symbol << 32 | u64::from(*kind) } else { symbol << 8 | u64::from(*kind) };
        table.put(&[(None, *offset), (None, info)]);
        if wide {
            table.put(&[(None, *addend as u64)]);
        }
    }
    const NAMES: &[u8] = b"\0.text\0.init.text\0.text.other\0.symtab\0.strtab\0.shstrtab\0.rela\0";
    let name_of = |name: &str| {
        NAMES.windows(name.len() + 1).position(|window| window == [name.as_bytes(), b"\0"].concat())
    };
    let (symbol_size, entry_size) = if wide { (24, 24) } else { (16, 8) };
    let sections: [Section<'_>; 7] = [
        (".text", 1, 6, code, 0, 0, 4, 0),
        (".init.text", 1, 6, &[0; 8], 0, 0, 4, 0),
        (".text.other", 1, 6, &[0; 12], 0, 0, 16, 0),
        (".symtab", 2, 0, &symbols.0, 5, 1, 8, symbol_size),
        (".strtab", 3, 0, strings.as_bytes(), 0, 0, 1, 0),
        (".shstrtab", 3, 0, NAMES, 0, 0, 1, 0),
        (".rela", if wide { 4 } else { 9 }, 0, &table.0, 4, 1, 8, entry_size),
    ];
    let header = if wide { 64 } else { 52 };
    let (mut contents, mut headers) = (Vec::new(), Fields(vec![0; if wide { 64 } else { 40 }], wide));
    for (name, kind, flags, bytes, link, info, align, entry) in sections {
        let at = name_of(name).unwrap() as u64;
        let place = (header + contents.len()) as u64;
        headers.put(&[(Some(4), at), (Some(4), kind), (None, flags), (None, 0), (None, place)]);
        headers.put(&[
            (None, bytes.len() as u64),
            (Some(4), link),
            (Some(4), info),
            (None, align),
            (None, entry),
        ]);
        contents.extend_from_slice(bytes);
        contents.resize(contents.len().next_multiple_of(8), 0);
    }
    let mut file =
        Fields(vec![0x7F, b'E', b'L', b'F', if wide { 2 } else { 1 }, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0], wide);
    let two = Some(2);
    file.put(&[(two, 1), (two, machine.into()), (Some(4), 1), (None, 0), (None, 0)]);
    file.put(&[
        (None, (header + contents.len()) as u64),
        (Some(4), 0),
        (two, header as u64),
        (two, 0),
        (two, 0),
    ]);
    file.put(&[(two, if wide { 64 } else { 40 }), (two, 8), (two, 6)]);
    [file.0, contents, headers.0].concat()
}

fn linked(bytes: &[u8], bias: u64) -> Linked {
    let external = |name: &str| (name == "kernel").then_some(bias + 0x1_0000);
    link(Path::new("module.ko"), bytes, bias, &external).unwrap()
}

/// The bytes at an address of the code.
fn at(linked: &Linked, address: u64, size: u64) -> Option<&[u8]> {
    let inside = |segment: &&ElfSegment| {
        segment.address <= address && address + size <= segment.address + segment.length
    };
    let segment = linked.elf.segments.iter().find(inside)?;
    let offset = (segment.offset + (address - segment.address)) as usize;
    linked.bytes.get(offset..offset + size as usize)
}

fn word(linked: &Linked, address: u64) -> Option<u32> {
    Some(u32::from_le_bytes(at(linked, address, 4)?.try_into().ok()?))
}

fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// `.text` has 32 bytes, so that `.text.other` begins at 32 and `local` is at 36.
const LOCAL: u64 = 36;
const BIAS: u64 = 0xFFFF_8000_0100_0000;

#[test]
fn branches_of_a64_lead_to_their_targets() {
    let code = [
        0x9400_0000,
        0x5400_0000,
        0x9400_0000,
        0x1400_0000,
        0x3600_0000,
        0x9000_0000,
        0x9100_0000,
        0xD503_201F,
    ];
    let relocations = [
        (0, 283, "local", 0),
        (4, 280, "local", 0),
        (8, 283, "printk", 0),
        (12, 282, "kernel", 0),
        (16, 279, "local", 0),
        (20, 275, "kernel", 0),
        (24, 277, "local", 0),
    ];
    let linked = linked(&object(AARCH64, &words(&code), &relocations), BIAS);
    let seen: Vec<_> = (0..8).map(|number| word(&linked, 4 * number)).collect();
    let expected = [
        Some(0x9400_0009),
        Some(0x5400_0100),
        None,
        Some(0x1400_3FFD),
        Some(0x3600_00A0),
        Some(0x9000_0080),
        Some(0x9100_9000),
        Some(0xD503_201F),
    ];
    assert_eq!(seen, expected);
    let problem = linked.problem.unwrap();
    assert!(problem.contains("1 of its branches") && problem.contains("printk"), "{problem}");
    let file = object::File::parse(&*linked.bytes).unwrap();
    assert_eq!(file.symbol_by_name("local").unwrap().address(), LOCAL);
}

#[test]
fn branches_of_rv_lead_to_their_targets() {
    let mut code = words(&[0x97, 0x80E7, 0x6F, 0x63, 0x97, 0x80E7]);
    code.extend([0x01, 0xA0, 0x01, 0xC1, 0x13, 0, 0, 0]);
    let relocations = [
        (0, 19, "local", 0),
        (8, 17, "local", 0),
        (12, 16, "local", 0),
        (16, 18, "printk", 0),
        (24, 45, "local", 0),
        (26, 44, "local", 0),
    ];
    let linked = linked(&object(RISCV, &code, &relocations), BIAS);
    let seen: Vec<_> = (0..8).map(|number| word(&linked, 4 * number)).collect();
    let expected = [
        Some(0x97),
        Some(0x0240_80E7),
        Some(0x01C0_006F),
        Some(0xC63),
        None,
        None,
        Some(0xC509_A031),
        Some(0x13),
    ];
    assert_eq!(seen, expected);
}

#[test]
fn branches_of_a32_and_t32_lead_to_their_targets_and_calls_change_the_instruction_set() {
    // BL, B; BL and B.W of T32; NOPs.
    let code = [0xEBFF_FFFE, 0xEAFF_FFFE, 0xFFFE_F7FF, 0xBFFE_F7FF, 0, 0, 0, 0];
    let relocations = [(0, 28, "local", 0), (4, 29, "printk", 0), (8, 10, "local", 0), (12, 30, "local", 0)];
    let linked = linked(&object(ARM, &words(&code), &relocations), 0x8000_0000);
    let seen: Vec<_> = (0..4).map(|number| word(&linked, 4 * number)).collect();
    assert_eq!(seen, [Some(0xEB00_0007), None, Some(0xE80C_F000), None], "a jump does not");
}

#[test]
fn code_of_initialisation_is_not_placed() {
    let bytes = object(AARCH64, &words(&[0; 8]), &[]);
    let linked = linked(&bytes, 0);
    let sizes: Vec<_> = linked.elf.segments.iter().map(|segment| (segment.address, segment.length)).collect();
    assert_eq!(sizes, [(0, 32), (32, 12)]);
    assert_eq!(linked.problem, None);
}

#[test]
fn a_target_that_is_too_far_away_is_a_hole() {
    let bytes = object(AARCH64, &words(&[0x9400_0000]), &[(0, 283, "kernel", 1 << 30)]);
    let linked = linked(&bytes, 0);
    assert_eq!(word(&linked, 0), None);
}

#[test]
fn damaged_files_are_refused_without_a_panic() {
    let whole = object(AARCH64, &words(&[0x9400_0000; 8]), &[(0, 283, "local", 0), (28, 283, "x", 0)]);
    let try_it = |bytes: &[u8]| drop(link(Path::new("m"), bytes, u64::MAX, &|_| Some(u64::MAX)));
    for end in 0..whole.len() {
        try_it(&whole[..end]);
    }
    for place in 0..whole.len() {
        for value in [0, 0x7F, 0xFF] {
            let mut bytes = whole.clone();
            bytes[place] = value;
            try_it(&bytes);
        }
    }
}
