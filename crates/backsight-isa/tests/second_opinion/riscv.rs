use backsight_core::Isa;
use backsight_isa::{Class, Flags};

use crate::{AT, Opinion, Text, compare, sample, tools};

/// Branches are printed with the distance to their target.
fn direct(text: &Text) -> Opinion {
    let last = text.operands.rsplit([' ', ',']).next().unwrap_or_default();
    let negative = last.starts_with('-');
    let digits = last.trim_start_matches('-');
    let distance = match digits.strip_prefix("0x") {
        Some(hex) => i64::from_str_radix(hex, 16),
        None => digits.parse(),
    };
    let target = distance.ok().map(|distance| AT.offset(if negative { -distance } else { distance }));
    Opinion { target, ..Opinion::class(Class::DirectBranch) }
}

fn judge(text: &Text) -> Opinion {
    let mnemonic = text.mnemonic.trim_start_matches("c.");
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| mnemonic.starts_with(prefix));
    let compressed = text.mnemonic.starts_with("c.");
    match mnemonic {
        "beq" | "bne" | "blt" | "bge" | "bltu" | "bgeu" | "beqz" | "bnez" | "blez" | "bgez" | "bltz"
        | "bgtz" => direct(text).with(|flags| flags.conditional = true),
        "j" => direct(text),
        "jal" => {
            let links = text.first_operand() != "zero";
            direct(text).with(|flags| flags.link = links)
        }
        "ret" => Opinion::indirect().with(|flags| flags.returns = true),
        "jr" | "jalr" => jump_register(text, compressed),
        "mret" | "sret" | "uret" | "dret" => Opinion::indirect().with(|flags| flags.exception_return = true),
        "fence" | "fence.tso" => Opinion::class(Class::DataBarrier),
        "fence.i" => Opinion::class(Class::Isb),
        "wfi" => Opinion::class(Class::Wait),
        "lb" | "lh" | "lw" | "ld" | "lbu" | "lhu" | "lwu" | "flw" | "fld" | "flq" | "fldsp" | "lwsp"
        | "ldsp" | "flwsp" => Opinion::access(true, false),
        "sb" | "sh" | "sw" | "sd" | "fsw" | "fsd" | "fsq" | "fsdsp" | "swsp" | "sdsp" | "fswsp" => {
            Opinion::access(false, true)
        }
        _ if starts(&["lr."]) => Opinion::access(true, false),
        _ if starts(&["sc."]) => Opinion::access(false, true),
        _ if starts(&["amo"]) => Opinion::access(true, true),
        _ => Opinion::default(),
    }
}

fn jump_register(text: &Text, compressed: bool) -> Opinion {
    let registers: Vec<&str> = text
        .operands
        .split([',', ' ', '(', ')'])
        .filter(|word| word.starts_with(char::is_alphabetic))
        .collect();
    let one_operand = if text.mnemonic.ends_with("jalr") { "ra" } else { "zero" };
    let (rd, rs1) = match registers.as_slice() {
        [rs1] => (one_operand, *rs1),
        [rd, rs1, ..] => (*rd, *rs1),
        [] => return Opinion::default(),
    };
    let is_link = |register| matches!(register, "ra" | "t0");
    let flags = Flags {
        link: rd != "zero" && (!is_link(rs1) || is_link(rd)),
        returns: is_link(rs1) && !is_link(rd),
        ..Flags::NONE
    };
    if rs1 == "zero" && !compressed {
        let number = text.operands.split([',', ' ', '(']).find_map(|word| {
            let digits = word.trim_start_matches('-').trim_start_matches("0x");
            let value = if word.contains("0x") { i64::from_str_radix(digits, 16) } else { digits.parse() };
            value.ok().map(|value| if word.starts_with('-') { -value } else { value })
        });
        let target = backsight_core::Address(number.unwrap_or(0) as u64 & !1);
        return Opinion { class: Class::DirectBranch, flags, target: Some(target) };
    }
    Opinion { flags, ..Opinion::indirect() }
}

#[test]
fn capstone_agrees_about_all_compressed_rv64() {
    let opcodes = (0..0x1_0000u32).filter(|opcode| opcode & 3 != 3);
    compare(Isa::Rv64, tools::capstone(Isa::Rv64, opcodes), judge, |_, _| false);
}

#[test]
fn capstone_agrees_about_all_compressed_rv32() {
    let opcodes = (0..0x1_0000u32).filter(|opcode| opcode & 3 != 3);
    compare(Isa::Rv32, tools::capstone(Isa::Rv32, opcodes), judge, |_, _| false);
}

#[test]
fn capstone_agrees_about_rv64() {
    compare(Isa::Rv64, tools::capstone(Isa::Rv64, sample::riscv(300_000)), judge, |_, _| false);
}
