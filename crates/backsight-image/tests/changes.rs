//! Memory that changes, and that processes see differently.

use std::path::Path;

use backsight_core::{Address, AddressSpace};
use backsight_image::{Change, Code, Image, Naming};
use backsight_testing::Random;

const ANY: AddressSpace = AddressSpace::ANY;

fn seen(image: &Image, space: AddressSpace, address: u64) -> (u8, usize) {
    image.bytes_at(space, Address(address)).map_or((0, 0), |bytes| (bytes[0], bytes.len()))
}

#[test]
fn code_of_a_process_is_seen_by_that_process_only() {
    let mut image = Image::new();
    image.add_bytes(vec![1; 16], Address(0x1000), ANY.in_process(1)).unwrap();
    image.add_bytes(vec![2; 16], Address(0x1000), ANY.in_process(2)).unwrap();
    image.add_bytes(vec![9; 64], Address(0x1008), ANY).unwrap();
    assert_eq!(seen(&image, ANY.in_process(1), 0x1000), (1, 16));
    assert_eq!(seen(&image, ANY.in_process(2), 0x100F), (2, 1));
    assert_eq!(seen(&image, ANY.in_process(2), 0x1010), (9, 56));
    assert_eq!(seen(&image, ANY.in_process(3), 0x1008), (9, 64));
    assert_eq!(seen(&image, ANY, 0x1000), (0, 0), "nobody knows whose");
    let el1 = AddressSpace::EL1N.in_process(1);
    assert_eq!(seen(&image, el1, 0x1000), (1, 16));
    assert_eq!(image.regions(ANY.in_process(1)).count(), 2);
    assert_eq!(image.regions(ANY).count(), 1);
    assert!(image.remove_process(1));
    assert_eq!(seen(&image, el1, 0x1000), (0, 0));
}

#[test]
fn names_and_lines_follow_the_process() {
    let file = backsight_testing::repository().join("testdata/programs/aarch64/calls");
    let bytes = std::fs::read(&file).unwrap();
    let mut image = Image::new();
    image.add_elf(&file, None, ANY.in_process(1)).unwrap();
    image.add_dump_contents(&file, bytes, 0, Some(0x1000), Address(0x7000_0000), ANY.in_process(2)).unwrap();
    let name = |process, address| {
        let symbol = image.symbolise(ANY.in_process(process), Address(address));
        symbol.map(|symbol| symbol.name)
    };
    assert_eq!(name(1, 0x40_0144), Some("hanoi"));
    assert_eq!(name(2, 0x7000_0144), Some("hanoi"));
    assert_eq!((name(2, 0x40_0144), name(0, 0x40_0144)), (None, None));
    assert!(image.source_line(ANY.in_process(1), Address(0x40_0144)).is_some());
    assert_eq!(image.source_line(ANY.in_process(2), Address(0x40_0144)), None);
}

#[test]
fn a_patch_hides_code_and_keeps_names() {
    let file = backsight_testing::repository().join("testdata/programs/aarch64/calls");
    let mut image = Image::new();
    image.add_elf(&file, None, ANY).unwrap();
    let hanoi = image.functions().find(|function| function.name == "hanoi").unwrap().start;
    let change = image.patch(ANY, hanoi, vec![7; 4]).unwrap();
    assert_eq!(change, Change { space: ANY, start: hanoi, last: hanoi.plus(3) });
    assert_eq!(seen(&image, ANY, hanoi.0), (7, 4));
    assert_eq!(image.describe(ANY, hanoi, Naming::Demangled).as_deref(), Some("hanoi"));
    // For one process only.
    image.patch(ANY.in_process(5), hanoi, vec![8; 4]).unwrap();
    assert_eq!((seen(&image, ANY, hanoi.0), seen(&image, ANY.in_process(5), hanoi.0)), ((7, 4), (8, 4)));
    assert_eq!(image.symbolise(ANY.in_process(5), hanoi).unwrap().name, "hanoi");
    assert!(
        image.patch(ANY, hanoi, vec![]).is_err() && image.patch(ANY, Address(u64::MAX), vec![0; 2]).is_err()
    );
}

#[test]
fn unmapping_reports_what_it_touched() {
    let mut image = Image::new();
    let one = ANY.in_process(1);
    image.add_bytes(vec![9; 0x100], Address(0x1000), ANY).unwrap();
    image.add_bytes(vec![1; 0x20], Address(0x1010), one).unwrap();
    let change = image.unmap(one, Address(0x1020), 0x1000).unwrap();
    assert_eq!((change.start, change.last), (Address(0x1020), Address(0x201F)));
    assert_eq!(seen(&image, one, 0x1010), (1, 0x10));
    assert_eq!(seen(&image, one, 0x1020), (9, 0xE0), "what all see is there again");
    assert_eq!(image.unmap(one, Address(0x1020), 0x1000), None, "nothing is left");
    assert_eq!(image.unmap(ANY, Address(0x1000), 0), None);
    assert!(image.unmap(ANY, Address(0x1000), u64::MAX).is_some());
    assert_eq!(seen(&image, one, 0x1020), (0, 0));
}

#[test]
fn ten_thousand_dumps_are_found_again() {
    let mut image = Image::new();
    let mut random = Random(11);
    let mut order: Vec<u64> = (0..10_000).collect();
    for place in (1..order.len()).rev() {
        order.swap(place, random.below(place as u64 + 1) as usize);
    }
    for &number in &order {
        let bytes = number.to_le_bytes().to_vec();
        image.add_dump_contents(Path::new("dump"), bytes, 0, None, Address(number * 16), ANY).unwrap();
    }
    for number in 0..10_000 {
        assert_eq!(image.bytes_at(ANY, Address(number * 16)), Some(&number.to_le_bytes()[..]));
        assert_eq!(image.bytes_at(ANY, Address(number * 16 + 8)), None);
        let (module, offset) = image.module_at(ANY, Address(number * 16 + 3)).unwrap();
        assert_eq!((module.range().0, offset), (Address(number * 16), 3));
    }
}

#[test]
fn one_file_in_many_places_is_one_file() {
    let file = backsight_testing::repository().join("testdata/programs/riscv64/calls");
    let mut image = Image::new();
    for process in 1..=200 {
        image.add_elf(&file, None, ANY.in_process(process)).unwrap();
    }
    let mut names = image
        .functions()
        .filter(|function| function.name == "hanoi")
        .map(|function| function.mangled.as_ptr());
    let first = names.next().unwrap();
    assert_eq!(names.filter(|&name| name == first).count(), 199, "all have the same table of symbols");
}
