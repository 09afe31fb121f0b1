//! Debug information that asks for more than its size: what is read is bounded, and what is left out is named.

use backsight_image::{Budget, DebugInfo};

const CODE: u64 = 0x1_0000;

/// An ELF file for AArch64 with these sections and nothing else.
fn file(sections: &[(&str, &[u8])]) -> Vec<u8> {
    const HEADER: usize = 64;
    let names: Vec<u8> = sections.iter().flat_map(|(name, _)| [name.as_bytes(), b"\0"].concat()).collect();
    let names = [b"\0", &names[..], b".names\0"].concat();
    let (mut contents, mut headers, mut name) = (vec![0; HEADER], vec![0; HEADER], 1_u32);
    let mut add = |of: &str, kind: u32, data: &[u8]| {
        let place = [0, 0, contents.len() as u64, data.len() as u64, 0, 1, 0].map(u64::to_le_bytes).concat();
        headers.extend([&name.to_le_bytes()[..], &kind.to_le_bytes(), &place].concat());
        contents.extend(data);
        name += of.len() as u32 + 1;
    };
    sections.iter().for_each(|(of, data)| add(of, 1, data));
    add(".names", 3, &names);
    let count = sections.len() as u16 + 2;
    contents[..20].copy_from_slice(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x01\0\xb7\0");
    contents[20] = 1;
    let at = contents.len() as u64;
    contents[40..48].copy_from_slice(&at.to_le_bytes());
    let sizes = [64, 0, 0, 64, count, count - 1].map(u16::to_le_bytes).concat();
    contents[52..64].copy_from_slice(&sizes);
    [contents, headers].concat()
}

/// A unit of DWARF 4 with these entries.
fn unit(entries: &[u8]) -> Vec<u8> {
    let length = 7 + entries.len() as u32;
    [&length.to_le_bytes()[..], &4_u16.to_le_bytes(), &[0; 4], &[8], entries].concat()
}

/// Lines of one file, one for each four bytes of code.
fn line_program(rows: usize) -> Vec<u8> {
    let lengths = [0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1];
    let header = [&[1, 1, 1, 0xFB, 14, 13][..], &lengths, &[0], b"a.c\0\0\0\0\0"].concat();
    let mut program = [&[0, 9, 2][..], &CODE.to_le_bytes()].concat();
    program.resize(program.len() + rows, 0x4B);
    program.extend([2, 4, 0, 1, 1]);
    let rest = [&(header.len() as u32).to_le_bytes()[..], &header, &program].concat();
    [&(rest.len() as u32 + 2).to_le_bytes()[..], &4_u16.to_le_bytes(), &rest].concat()
}

/// Abbreviations: 1 a unit with children, 2 a unit with a line program at 0, 3 a function with a list of ranges,
/// 4 a function with its place, 5 the same of one that was put into another.
const ABBREVIATIONS: &[u8] = &[
    1, 0x11, 1, 0, 0, //
    2, 0x11, 0, 0x10, 0x17, 0, 0, //
    3, 0x2E, 0, 0x55, 0x17, 0, 0, //
    4, 0x2E, 1, 0x31, 0x13, 0x11, 1, 0x12, 7, 0, 0, //
    5, 0x1D, 1, 0x31, 0x13, 0x11, 1, 0x12, 7, 0, 0, //
    0,
];

/// A function, or one that was put into another, that refers to the entry at an offset of its unit.
fn placed(code: u8, origin: u32) -> Vec<u8> {
    [&[code][..], &origin.to_le_bytes(), &CODE.to_le_bytes(), &0x200_u64.to_le_bytes()].concat()
}

/// Where the first entry in a unit is.
const FIRST: u32 = 12;

#[test]
fn a_line_program_that_many_units_share_is_read_once() {
    let rows = 10_000;
    let units = unit(&[2, 0, 0, 0, 0]).repeat(1000);
    let file = file(&[
        (".debug_abbrev", ABBREVIATIONS),
        (".debug_info", &units),
        (".debug_line", &line_program(rows)),
    ]);
    let budget = Budget::default();
    let info = DebugInfo::read(&file, &budget).unwrap();
    assert_eq!(info.line(CODE + 4 * 5000).map(|line| info.file(line.file)), Some("a.c"));
    assert!(budget.used() < 10_000_000, "{} bytes for {rows} rows", budget.used());
}

#[test]
fn functions_that_share_a_list_of_ranges_are_left_out_beyond_the_budget() {
    let ranges: Vec<u8> = (0..1000_u64)
        .flat_map(|number| [CODE + 16 * number, CODE + 16 * number + 8])
        .chain([0, 0])
        .flat_map(u64::to_le_bytes)
        .collect();
    let entries = [vec![1], [3, 0, 0, 0, 0].repeat(300), vec![0]].concat();
    let file = file(&[
        (".debug_abbrev", ABBREVIATIONS),
        (".debug_info", &unit(&entries)),
        (".debug_ranges", &ranges),
    ]);
    let problem = DebugInfo::read(&file, &Budget::new(4 << 20)).unwrap_err().to_string();
    assert!(problem.contains("the ranges of functions: left out"), "{problem}");
    assert!(problem.contains("--budget BYTES"), "{problem}");
    assert!(DebugInfo::read(&file, &Budget::new(64 << 20)).is_ok(), "more may be allowed");
}

#[test]
fn an_entry_with_attributes_without_end_takes_no_more_time_than_the_budget_allows() {
    // An abbreviation of flags that take no byte: each entry is one byte.
    let flags = [0x3F, 0x19].repeat(20_000);
    let abbreviations = [&[1, 0x11, 1, 0, 0, 2, 0x34, 0][..], &flags, &[0, 0, 0]].concat();
    let entries = [vec![1], vec![2; 100_000]].concat();
    let file = file(&[(".debug_abbrev", &abbreviations), (".debug_info", &unit(&entries))]);
    let problem = DebugInfo::read(&file, &Budget::new(64 << 20)).unwrap_err().to_string();
    assert!(problem.contains("the debug information: left out"), "{problem}");
}

#[test]
fn functions_inside_of_each_other_without_end_are_followed_to_a_depth() {
    let inside = placed(5, FIRST).repeat(50_000);
    let entries = [vec![1], placed(4, FIRST), inside].concat();
    let file = file(&[(".debug_abbrev", ABBREVIATIONS), (".debug_info", &unit(&entries))]);
    let info = DebugInfo::read(&file, &Budget::default()).unwrap();
    let depth = info.frames(CODE + 8).len();
    assert!((2..=256).contains(&depth), "{depth}");
}

#[test]
fn functions_that_are_copies_of_each_other_in_a_circle_have_no_name() {
    let size = placed(4, 0).len() as u32;
    let entries =
        [vec![1], placed(4, FIRST + size), placed(5, FIRST + 2 * size), placed(5, FIRST), vec![0; 4]]
            .concat();
    let file = file(&[(".debug_abbrev", ABBREVIATIONS), (".debug_info", &unit(&entries))]);
    let info = DebugInfo::read(&file, &Budget::default()).unwrap();
    let frames = info.frames(CODE);
    assert!(frames.len() == 3 && frames.iter().all(|frame| frame.function.is_empty()), "{frames:?}");
}
