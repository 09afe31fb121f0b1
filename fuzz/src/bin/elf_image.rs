//! Any bytes as a file of code: headers, segments, symbols and debug information may all be wrong.

#![no_main]

use std::path::Path;

use backsight_core::{Address, AddressSpace};
use backsight_image::{Code, Image};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let mut image = Image::new();
    let _ =
        image.add_elf_contents(Path::new("fuzz"), data.to_vec(), Some(Address(0x1000)), AddressSpace::ANY);
    let _ = image.add_dump_contents(
        Path::new("dump"),
        data.to_vec(),
        3,
        None,
        Address(0x1800),
        AddressSpace::EL1N,
    );
    let regions: Vec<_> =
        image.regions(AddressSpace::EL1N).map(|region| (region.start, region.last)).collect();
    for (start, last) in regions.into_iter().take(16) {
        for address in [start, last] {
            assert!(image.bytes_at(AddressSpace::EL1N, address).is_some_and(|bytes| !bytes.is_empty()));
            image.symbolise(AddressSpace::EL1N, address);
            image.source_line(AddressSpace::EL1N, address);
        }
    }
    image.functions().for_each(drop);
});
