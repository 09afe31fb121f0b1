//! Any bytes as an instruction of any instruction set.

#![no_main]

use backsight_core::{Address, Isa};
use backsight_isa::{Class, classify, rv};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((address, code)) = data.split_first_chunk() else { return };
    let address = Address(u64::from_le_bytes(*address));
    for isa in [Isa::A64, Isa::A32, Isa::T32, Isa::Rv32, Isa::Rv64] {
        let Some(instruction) = classify(isa, code, address) else { continue };
        assert!(usize::from(instruction.size) <= code.len());
        assert!(instruction.class == Class::DirectBranch || instruction.target == Address(0));
        assert!(isa == Isa::T32 || instruction.it_count == 0);
        assert!(!instruction.flags.link || instruction.is_branch());
    }
    let Some(opcode) = rv::opcode(code) else { return };
    for set in [rv::Set::RV32, rv::Set { zcmp: true, zcmt: true, ..rv::Set::RV32 }] {
        let decoded = rv::decode(set, opcode, address);
        assert!(!decoded.is_uninferable() || decoded.instruction.class == Class::IndirectBranch);
        assert_eq!(decoded.sequential_target(set, &decoded, address), None);
    }
});
