//! The disassemblers.

use std::process::{Command, Stdio};

use backsight_core::Isa;
use capstone::Capstone;
use capstone::arch::{BuildsCapstone, BuildsCapstoneExtraMode, arm, arm64, riscv};

use crate::{AT, Text, sample};

fn engine(isa: Isa) -> Capstone {
    let engine = match isa {
        Isa::A64 => Capstone::new().arm64().mode(arm64::ArchMode::Arm).build(),
        Isa::A32 => Capstone::new()
            .arm()
            .mode(arm::ArchMode::Arm)
            .extra_mode([arm::ArchExtraMode::V8].into_iter())
            .build(),
        Isa::ThumbEe | Isa::Jazelle => panic!("no disassembler here knows {isa}"),
        Isa::T32 => Capstone::new()
            .arm()
            .mode(arm::ArchMode::Thumb)
            .extra_mode([arm::ArchExtraMode::V8].into_iter())
            .build(),
        Isa::Rv32 => Capstone::new()
            .riscv()
            .mode(riscv::ArchMode::RiscV32)
            .extra_mode([riscv::ArchExtraMode::RiscVC].into_iter())
            .build(),
        Isa::Rv64 => Capstone::new()
            .riscv()
            .mode(riscv::ArchMode::RiscV64)
            .extra_mode([riscv::ArchExtraMode::RiscVC].into_iter())
            .build(),
    };
    engine.expect("capstone has this instruction set")
}

/// Asks Capstone about each opcode.
pub fn capstone(isa: Isa, opcodes: impl Iterator<Item = u32>) -> impl Iterator<Item = (u32, Option<Text>)> {
    let engine = engine(isa);
    opcodes.map(move |opcode| {
        let bytes = sample::bytes(isa, opcode);
        let found = engine.disasm_count(&bytes, AT.0, 1).expect("capstone runs");
        let text = found.iter().next().filter(|found| found.bytes().len() == bytes.len()).map(|found| Text {
            mnemonic: found.mnemonic().unwrap_or_default().to_owned(),
            operands: found.op_str().unwrap_or_default().to_owned(),
            place: 0,
        });
        (opcode, text)
    })
}

/// Asks `objdump` about each A64 opcode. It gets them in one file, one behind the other.
pub fn objdump(opcodes: impl Iterator<Item = u32>) -> impl Iterator<Item = (u32, Option<Text>)> {
    let opcodes: Vec<u32> = opcodes.collect();
    let path = std::env::temp_dir().join(format!("backsight-opcodes-{}", std::process::id()));
    let bytes: Vec<u8> = opcodes.iter().flat_map(|opcode| opcode.to_le_bytes()).collect();
    std::fs::write(&path, bytes).expect("writing opcodes");
    let output = Command::new("aarch64-linux-gnu-objdump")
        .args(["-D", "-z", "-b", "binary", "-m", "aarch64", "--adjust-vma", &AT.to_string()])
        .arg(&path)
        .stderr(Stdio::inherit())
        .output()
        .expect("objdump runs");
    std::fs::remove_file(&path).expect("removing opcodes");
    let listing = String::from_utf8(output.stdout).expect("objdump prints text");
    let mut texts: Vec<Option<Text>> = opcodes.iter().map(|_| None).collect();
    for text in listing.lines().filter_map(parse) {
        let place = text.place as usize / 4;
        texts[place] = Some(text);
    }
    opcodes.into_iter().zip(texts)
}

/// Address with a colon, opcode, mnemonic and operands, with tabs between them.
fn parse(line: &str) -> Option<Text> {
    let mut fields = line.split('\t');
    let place = u64::from_str_radix(fields.next()?.trim().strip_suffix(':')?, 16).ok()?.checked_sub(AT.0)?;
    let mnemonic = fields.nth(1)?.trim().to_owned();
    let operands = fields.next().unwrap_or_default().split("//").next().unwrap_or_default().trim().to_owned();
    let unknown = mnemonic.starts_with('.') || mnemonic.contains("undefined");
    (!unknown).then_some(Text { mnemonic, operands, place })
}
