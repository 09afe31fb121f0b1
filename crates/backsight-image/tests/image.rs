//! Memory from files and dumps.

mod common;

use std::path::Path;

use backsight_core::{Address, AddressSpace};
use backsight_image::{Code, Contents, ElfKind, Image, ImageSpec};
use common::headers::{ET_DYN, Header};
use proptest::prelude::*;

const ANY: AddressSpace = AddressSpace::ANY;

fn add(image: &mut Image, file: Vec<u8>, load: Option<u64>) -> Result<ElfKind, String> {
    let elf = image.add_elf_contents(Path::new("made"), file, load.map(Address), ANY);
    elf.map(|elf| elf.kind).map_err(|error| error.to_string())
}

fn byte_at(image: &Image, address: u64) -> Option<u8> {
    image.bytes_at(ANY, Address(address)).map(|bytes| bytes[0])
}

#[test]
fn segments_lie_at_their_addresses_in_every_kind_of_file() {
    for (wide, big) in [(false, false), (false, true), (true, false), (true, true)] {
        let header = Header { wide, big, ..Header::new(&[(0x8000, 0x100, 0x40), (0x9000, 0x180, 0x10)]) };
        let mut image = Image::new();
        assert_eq!(add(&mut image, header.file(0x200), None), Ok(ElfKind::Fixed));
        assert_eq!(image.bytes_at(ANY, Address(0x8010)).map(<[u8]>::len), Some(0x30));
        assert_eq!(byte_at(&image, 0x8010), Some(0x10));
        assert_eq!(byte_at(&image, 0x9001), Some(0x81));
        assert_eq!(byte_at(&image, 0x7FFF), None);
        assert_eq!(byte_at(&image, 0x8040), None, "memory behind the bytes of the file is not known");
    }
}

#[test]
fn a_relocatable_file_moves_and_a_fixed_one_stays() {
    let mut header = Header::new(&[(0x1000, 0x100, 0x40)]);
    let mut image = Image::new();
    assert_eq!(add(&mut image, header.file(0x200), Some(0x5000)), Ok(ElfKind::Fixed));
    assert_eq!((byte_at(&image, 0x1000), byte_at(&image, 0x6000)), (Some(0), None));
    header.kind = ET_DYN;
    assert_eq!(add(&mut image, header.file(0x200), Some(0x5000)), Ok(ElfKind::Relocatable));
    assert_eq!(byte_at(&image, 0x6000), Some(0));
}

#[test]
fn addresses_of_a_32_bit_file_wrap_at_32_bits() {
    let header = Header { wide: false, kind: ET_DYN, ..Header::new(&[(0xFFFF_F000, 0x100, 0x40)]) };
    let mut image = Image::new();
    assert!(add(&mut image, header.file(0x200), Some(0x2000)).is_ok());
    assert_eq!(byte_at(&image, 0x1000), Some(0));
}

#[test]
fn what_is_added_later_hides_what_was_there() {
    let mut image = Image::new();
    image.add_bytes(vec![1; 16], Address(0x100), ANY).unwrap();
    image.add_bytes(vec![2; 4], Address(0x104), ANY).unwrap();
    assert_eq!(image.bytes_at(ANY, Address(0x100)), Some(&[1; 4][..]));
    assert_eq!(image.bytes_at(ANY, Address(0x104)), Some(&[2; 4][..]));
    assert_eq!(image.bytes_at(ANY, Address(0x108)), Some(&[1; 8][..]));
    assert_eq!(image.regions(ANY).count(), 3);
}

#[test]
fn each_space_sees_its_own_memory() {
    let mut image = Image::new();
    image.add_bytes(vec![1; 8], Address(0), AddressSpace::ANY_S).unwrap();
    image.add_bytes(vec![2; 8], Address(4), AddressSpace::EL1N).unwrap();
    assert_eq!(image.bytes_at(AddressSpace::EL3, Address(4)), Some(&[1; 4][..]));
    assert_eq!(image.bytes_at(AddressSpace::EL1N, Address(4)), Some(&[2; 8][..]));
    assert_eq!(image.bytes_at(AddressSpace::EL1N, Address(0)), None);
    assert_eq!(image.bytes_at(AddressSpace::EL2N, Address(4)), None);
    assert_eq!(image.bytes_at(AddressSpace::ANY, Address(8)), Some(&[2; 4][..]), "any space that has it");
}

#[test]
fn an_opcode_may_lie_across_two_pieces() {
    let mut image = Image::new();
    image.add_bytes(vec![1, 2], Address(0), ANY).unwrap();
    image.add_bytes(vec![3], Address(2), ANY).unwrap();
    assert_eq!(image.opcode_at(ANY, Address(0)), ([1, 2, 3, 0], 3));
    assert_eq!(image.opcode_at(ANY, Address(3)), ([0; 4], 0));
}

#[test]
fn a_dump_is_a_part_of_a_file() {
    let bytes: Contents = (0..100).collect::<Vec<u8>>().into();
    let mut image = Image::new();
    let name = Path::new("dump.bin");
    let mut dump = |offset, length| {
        image
            .add_dump_contents(name, bytes.clone(), offset, length, Address(0x1000), ANY)
            .map_err(|e| e.to_string())
    };
    assert_eq!(dump(10, Some(5)), Ok(5));
    assert_eq!(dump(90, None), Ok(10));
    assert_eq!(dump(100, None), Ok(0));
    let error = dump(90, Some(11)).unwrap_err();
    assert_eq!(error, "dump.bin: has 0x64 bytes, too few for 0xb at offset 0x5a");
    assert!(dump(200, Some(1)).is_err() && dump(u64::MAX, Some(u64::MAX)).is_err());
    assert_eq!(byte_at(&image, 0x1000), Some(90));
}

#[test]
fn a_dump_beyond_the_top_of_memory_is_refused() {
    let mut image = Image::new();
    assert!(image.add_bytes(vec![0; 5], Address(u64::MAX - 3), ANY).is_err());
    assert!(image.add_bytes(vec![7; 4], Address(u64::MAX - 3), ANY).is_ok());
    assert_eq!(byte_at(&image, u64::MAX), Some(7));
}

#[test]
fn files_that_are_no_images_are_refused_with_a_reason() {
    let good = Header::new(&[(0x8000, 0x100, 0x40)]);
    let cases: [(Vec<u8>, &str); 8] = [
        (vec![], "is no ELF file"),
        (b"\x7FELF".to_vec(), "not a usable ELF file"),
        (good.file(0x200)[..70].to_vec(), "not a usable ELF file"),
        (good.file(0x13F), "is cut off: a segment needs 0x40 bytes at offset 0x100, the file has 0x13f"),
        (Header::new(&[]).file(0x200), "has no loadable segment"),
        (Header::new(&[(0, u64::MAX - 1, 16)]).file(0x200), "is cut off"),
        (Header::new(&[(u64::MAX - 1, 0x100, 16)]).file(0x200), "beyond the end of memory"),
        (Header { kind: 1, ..good.clone() }.file(0x200), "is not linked"),
    ];
    for (file, reason) in cases {
        let mut image = Image::new();
        let error = add(&mut image, file, None).unwrap_err();
        assert!(error.starts_with("made: ") && error.contains(reason), "{error}");
        assert!(image.is_empty());
    }
}

#[test]
fn overlapping_segments_of_one_file_follow_the_order_of_its_headers() {
    let mut image = Image::new();
    let file = Header::new(&[(0x8000, 0x100, 0x40), (0x8020, 0x180, 0x40)]).file(0x200);
    assert!(add(&mut image, file, None).is_ok());
    assert_eq!(byte_at(&image, 0x801F), Some(0x1F));
    assert_eq!(byte_at(&image, 0x8020), Some(0x80));
}

#[test]
fn a_raw_file_needs_an_address() {
    let path = std::env::temp_dir().join(format!("backsight-raw-{}", std::process::id()));
    std::fs::write(&path, [1, 2, 3, 4]).unwrap();
    let mut image = Image::new();
    let mut spec = ImageSpec { file: path.clone(), address: None };
    let error = image.add(&spec, ANY).unwrap_err().to_string();
    assert!(error.contains("say where it was in memory"), "{error}");
    spec.address = Some(Address(0x40));
    image.add(&spec, ANY).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(image.bytes_at(ANY, Address(0x41)), Some(&[2, 3, 4][..]));
}

#[test]
fn an_image_is_shared_between_threads() {
    fn shared<T: Send + Sync>() {}
    shared::<Image>();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn no_damage_to_a_file_does_more_than_an_error(
        flips in prop::collection::vec((0usize..0x100, any::<u8>()), 0..8),
        size in 0usize..0x300,
        wide: bool,
    ) {
        let header = Header { wide, kind: ET_DYN, ..Header::new(&[(0x8000, 0x100, 0x40), (0x9000, 0x180, 0x10)]) };
        let mut file = header.file(0x200);
        for (place, value) in flips {
            file[place] = value;
        }
        file.resize(size, 0);
        let mut image = Image::new();
        if add(&mut image, file, Some(0x1000)).is_ok() {
            for region in image.regions(ANY) {
                prop_assert!(image.bytes_at(ANY, region.start).is_some_and(|bytes| !bytes.is_empty()));
                prop_assert!(image.symbolise(ANY, region.start).is_none());
                image.source_line(ANY, region.last);
            }
        }
    }
}
