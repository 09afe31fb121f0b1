//! Any bytes as instructions: each has a text, whatever was before it.

#![no_main]

use backsight_core::{Address, Isa};
use backsight_image::{Disassembler, encoding};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&first, code)) = data.split_first() else { return };
    let isa = [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64][usize::from(first % 5)];
    let mut disassembler = Disassembler::default();
    let mut address = Address(if first & 0x80 == 0 { 0x1000 } else { u64::MAX - 63 });
    let mut rest = code;
    while !rest.is_empty() {
        let one = disassembler.disassemble(isa, rest, address);
        assert!(!one.text.is_empty() && one.size > 0 && usize::from(one.size) <= rest.len());
        assert!(one.with_name(|_| Some("name".to_owned())).starts_with(&one.text));
        assert!(!encoding(isa, &rest[..usize::from(one.size)]).is_empty());
        rest = &rest[usize::from(one.size)..];
        address = address.plus(u64::from(one.size));
    }
});
