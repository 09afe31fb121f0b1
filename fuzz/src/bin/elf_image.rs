//! Any bytes as a file of code: headers, segments, symbols and debug information may all be wrong. Then memory is
//! patched and unmapped as the bytes say.

#![no_main]

use std::path::Path;

use backsight_core::{Address, AddressSpace};
use backsight_image::{Budget, Code, Image, Naming};

const ANY: AddressSpace = AddressSpace::ANY;
const EL1N: AddressSpace = AddressSpace::EL1N;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut image = Image::new();
    image.set_budget(Budget::new(64 << 20));
    let file = backsight_image::Contents::from(data.to_vec());
    let _ = image.add_elf_contents(Path::new("fuzz"), file.clone(), Some(Address(0x1000)), ANY);
    let _ = image.add_elf_contents(Path::new("fuzz"), file.clone(), None, ANY.in_process(1));
    let _ = image.add_debug_contents(Path::new("debug"), file.clone());
    let _ = image.add_dump_contents(Path::new("dump"), file, 3, None, Address(0x1800), EL1N);
    for space in [EL1N, EL1N.in_process(1)] {
        look(&image, space, true);
    }
    for change in data.chunks_exact(4).take(64) {
        let space = if change[0] & 1 == 0 { ANY } else { EL1N.in_process(u32::from(change[0] >> 6)) };
        let address = Address(0x1000 + u64::from(change[1]) * 8);
        if change[0] & 2 == 0 {
            let touched = image.patch(space, address, vec![change[2]; usize::from(change[3]) + 1]).unwrap();
            assert_eq!((touched.start, touched.last.0 - address.0), (address, u64::from(change[3])));
            assert_eq!(image.bytes_at(space, address).map(|bytes| bytes[0]), Some(change[2]));
        } else {
            image.unmap(space, address, u64::from(change[3]));
        }
    }
    look(&image, EL1N.in_process(1), false);
    image.functions().for_each(drop);
    image.problems();
});

/// Asks everything about the ends of every region. Code that came from files has a name; what was patched in has none.
fn look(image: &Image, space: AddressSpace, is_from_files: bool) {
    let regions: Vec<_> = image.regions(space).map(|region| (region.start, region.last)).collect();
    for (start, last) in regions.into_iter().take(16) {
        for address in [start, last] {
            assert!(image.bytes_at(space, address).is_some_and(|bytes| !bytes.is_empty()));
            image.symbolise(space, address);
            image.source_line(space, address);
            image.frames(space, address);
            let described = image.describe(space, address, Naming::Demangled);
            assert!(described.is_some() || !is_from_files);
        }
    }
}
