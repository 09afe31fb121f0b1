//! Names and lines of the example programs.

use std::path::PathBuf;

use backsight_core::{Address, AddressSpace, Isa};
use backsight_image::{Image, Mapping, Naming};
use object::{Object, ObjectSymbol, SymbolKind};

const ANY: AddressSpace = AddressSpace::ANY;

fn program(name: &str) -> PathBuf {
    backsight_testing::repository().join("testdata/programs").join(name)
}

fn open(name: &str) -> Image {
    let mut image = Image::new();
    image.add_elf(program(name), None, ANY).unwrap();
    image
}

fn function(image: &Image, name: &str) -> Address {
    image.functions().find(|function| function.name == name).unwrap_or_else(|| panic!("no {name}")).start
}

#[test]
fn every_byte_of_a_function_has_its_name() {
    for name in ["aarch64/calls", "arm/interwork", "riscv64/vm"] {
        let image = open(name);
        let functions: Vec<_> = image.functions().collect();
        assert!(functions.len() > 8, "{name}");
        for function in functions {
            for offset in [0, function.size / 2, function.size - 1] {
                let symbol = image.symbolise(ANY, function.start.plus(offset)).unwrap();
                assert_eq!((symbol.name, symbol.offset), (function.name, offset), "{name}");
            }
        }
    }
}

#[test]
fn nothing_has_a_name_where_no_function_is() {
    let image = open("aarch64/calls");
    assert_eq!(image.symbolise(ANY, Address(0)), None);
    assert_eq!(image.symbolise(ANY, Address(0x40_0000)), None, "the headers are loaded too");
    assert_eq!(image.symbolise(ANY, Address(u64::MAX)), None);
}

#[test]
fn t32_functions_begin_at_an_even_address() {
    let image = open("arm/interwork");
    for (name, isa) in [("thumb_step", Isa::T32), ("arm_step", Isa::A32)] {
        let start = function(&image, name);
        assert_eq!(start.0 & 1, 0, "{name}");
        assert_eq!(image.mapping(ANY, start), Some(Mapping::Code(isa)), "{name}");
    }
}

#[test]
fn mapping_symbols_are_no_functions() {
    for name in ["aarch64/calls", "arm/interwork", "riscv64/vm"] {
        assert!(open(name).functions().all(|function| !function.name.starts_with('$')), "{name}");
    }
}

#[test]
fn source_lines_are_those_of_the_source() {
    let source = std::fs::read_to_string(program("src/calls.c")).unwrap();
    let line = 1 + source.lines().position(|line| line.contains(" leaf(")).unwrap() as u32;
    for name in ["aarch64/calls", "arm/calls", "riscv64/calls"] {
        let image = open(name);
        let found = image.source_line(ANY, function(&image, "leaf")).unwrap();
        assert!(found.file.ends_with("src/calls.c"), "{name}: {found:?}");
        assert_eq!(found.line, line, "{name}");
    }
    assert_eq!(open("aarch64/calls").source_line(ANY, Address(0)), None);
}

#[test]
fn a_dump_of_an_elf_file_has_the_names_of_the_file() {
    let whole = open("aarch64/calls");
    let start = function(&whole, "hanoi");
    let offset = start.0 - 0x40_0000;
    let mut image = Image::new();
    image.add_dump(program("aarch64/calls"), offset, Some(64), Address(0x7000_0000), ANY).unwrap();
    let symbol = image.symbolise(ANY, Address(0x7000_0004)).unwrap();
    assert_eq!((symbol.name, symbol.offset), ("hanoi", 4));
    assert!(image.source_line(ANY, Address(0x7000_0000)).is_some());
}

#[test]
fn bytes_without_names_take_those_of_a_file_that_covers_them() {
    let mut image = open("aarch64/calls");
    let start = function(&image, "hanoi");
    image.add_bytes(vec![0; 4], start, ANY).unwrap();
    assert_eq!(image.symbolise(ANY, start).unwrap().name, "hanoi");
}

#[test]
fn of_several_rows_for_an_address_debuggers_stop_at_that_of_the_statement() {
    let image = open("aarch64/calls");
    let row = |address: u64| image.source_row(ANY, Address(address)).expect("a row");
    // `return n + 1` begins there, and then a row that is no statement says that the function ends.
    let row_of_return = row(0x40_0118);
    let found = (row_of_return.start, row_of_return.end, row_of_return.line.line, row_of_return.is_statement);
    assert_eq!(found, (Address(0x40_0118), Address(0x40_011C), 8, true));
    assert_eq!(image.source_line(ANY, Address(0x40_0118)).expect("a line").line, 10);
    // In the midst of code, it is that of the row before.
    assert_eq!(row(0x40_0124), row(0x40_0120));
    assert_eq!((row(0x40_0124).line.line, row(0x40_0124).is_statement), (10, false));
    assert_eq!(image.source_row(ANY, Address(0)), None);
}

#[test]
fn a_shifted_file_has_shifted_names_and_lines() {
    let fixed = open("aarch64/calls");
    let start = function(&fixed, "hanoi");
    let mut image = Image::new();
    image.add_elf_shifted(program("aarch64/calls"), 0x1000_0000, ANY).unwrap();
    let moved = start.plus(0x1000_0000);
    assert_eq!(image.symbolise(ANY, moved).unwrap().start, moved);
    assert_eq!(image.source_line(ANY, moved), fixed.source_line(ANY, start));
    assert_eq!(image.symbolise(ANY, start), None);
}

#[test]
fn data_has_a_name_in_words_and_is_no_function() {
    let mut image = Image::new();
    let file = std::fs::read(program("aarch64/vm")).unwrap();
    image.add_elf(program("aarch64/vm"), None, ANY).unwrap();
    let elf = object::File::parse(&*file).unwrap();
    let objects = elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Data && symbol.size() > 1);
    let mut named = 0;
    for symbol in objects {
        let (name, last) = (symbol.name().unwrap(), symbol.size() - 1);
        let words = |offset| image.describe(ANY, Address(symbol.address() + offset), Naming::Demangled);
        // Memory that the file does not have is of no module.
        if let Some(words) = words(last) {
            assert_eq!(words, format!("{name}+{last:#x}"));
            named += 1;
        }
        assert_eq!(image.symbolise(ANY, Address(symbol.address())), None, "{name}");
    }
    assert!(named > 0);
}
