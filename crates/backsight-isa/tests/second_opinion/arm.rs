use backsight_core::Isa;
use backsight_isa::{Class, a32, t32};

use crate::{Opinion, Text, compare, sample, tools};

/// A32 with condition AL, and T32 outside of IT blocks: mnemonics have no condition but in B<c>.
fn judge(text: &Text) -> Opinion {
    let mnemonic = text.mnemonic.trim_end_matches(".w").trim_end_matches(".n");
    let operands = text.operands.as_str();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| mnemonic.starts_with(prefix));
    let to_pc = text.first_operand() == "pc";
    let list_has_pc = operands.split(['{', '}']).nth(1).is_some_and(|list| list.contains("pc"));
    match mnemonic {
        "b" => Opinion::direct(text),
        "le" if !operands.contains("lr") => Opinion::direct(text),
        "bl" => Opinion::direct(text).with(|flags| flags.link = true),
        "blx" if operands.contains("0x") => Opinion::direct(text).with(|flags| flags.link = true),
        "cbz" | "cbnz" | "le" | "letp" | "wls" => {
            Opinion::direct(text).with(|flags| flags.conditional = true)
        }
        _ if starts(&["wlstp"]) => Opinion::direct(text).with(|flags| flags.conditional = true),
        "beq" | "bne" | "bhs" | "bcs" | "blo" | "bcc" | "bmi" | "bpl" | "bvs" | "bvc" | "bhi" | "bls"
        | "bge" | "blt" | "bgt" | "ble" => Opinion::direct(text).with(|flags| flags.conditional = true),
        "bx" | "bxns" => Opinion::indirect().with(|flags| flags.returns = operands == "lr"),
        "bxaut" => Opinion::indirect().with(|flags| flags.returns = operands.contains(", lr,")),
        "blx" | "blxns" => Opinion::indirect().with(|flags| flags.link = true),
        "bxj" => Opinion::indirect(),
        "eret" => Opinion::indirect().with(|flags| flags.exception_return = true),
        "tbb" | "tbh" => Opinion::indirect().with(|flags| flags.load = true),
        "isb" => Opinion::class(Class::Isb),
        "dsb" | "dmb" | "ssbb" | "pssbb" | "dfb" => Opinion::class(Class::DataBarrier),
        "wfi" | "wfe" => Opinion::class(Class::Wait),
        "mcr" => coprocessor(operands),
        "swp" | "swpb" => Opinion::access(true, true),
        _ if starts(&["rfe"]) => {
            Opinion::indirect().with(|flags| (flags.exception_return, flags.load) = (true, true))
        }
        "ldr" if to_pc => Opinion::indirect().with(|flags| {
            flags.load = true;
            flags.returns = operands.starts_with("pc, [sp], #") && !operands.contains('-');
        }),
        "pop" if list_has_pc => Opinion::indirect().with(|flags| (flags.load, flags.returns) = (true, true)),
        _ if starts(&["ldm"]) && list_has_pc => Opinion::indirect().with(|flags| {
            flags.load = true;
            flags.exception_return = operands.ends_with('^');
            flags.returns = matches!(mnemonic, "ldm" | "ldmia" | "ldmfd")
                && operands.starts_with("sp!")
                && !flags.exception_return;
        }),
        _ if to_pc && data_processing(mnemonic) => Opinion::indirect().with(|flags| {
            flags.exception_return = mnemonic.ends_with('s');
            flags.returns = mnemonic == "mov" && operands == "pc, lr";
        }),
        _ if starts(&["ld", "vld", "pop", "vpop", "fldm", "vlldm"]) => Opinion::access(true, false),
        _ if starts(&["st", "vst", "push", "vpush", "srs", "fstm", "vlstm"]) => Opinion::access(false, true),
        _ => Opinion::default(),
    }
}

fn data_processing(mnemonic: &str) -> bool {
    const NAMES: [&str; 18] = [
        "and", "eor", "sub", "rsb", "add", "adc", "sbc", "rsc", "orr", "mov", "bic", "mvn", "lsl", "lsr",
        "asr", "ror", "rrx", "orn",
    ];
    let plain = if mnemonic.len() > 3 { mnemonic.trim_end_matches('s') } else { mnemonic };
    NAMES.contains(&plain) || plain == "adr"
}

/// The barriers of Armv6 are writes to CP15.
fn coprocessor(operands: &str) -> Opinion {
    let plain: String = operands.chars().filter(|c| !matches!(c, '#' | ' ' | '{' | '}')).collect();
    let mut parts = plain.split(',');
    let (coprocessor, opc1) = (parts.next(), parts.next());
    let rest: Vec<&str> = parts.skip(1).collect();
    Opinion::class(match (coprocessor, opc1, rest.as_slice()) {
        (Some("p15" | "15"), Some("0"), ["c7" | "cr7", "c5" | "cr5", "4"]) => Class::Isb,
        (Some("p15" | "15"), Some("0"), ["c7" | "cr7", "c10" | "cr10", "4" | "5"]) => Class::DataBarrier,
        _ => Class::Other,
    })
}

/// Where A32 text and we may differ.
fn excused_a32(opcode: u32, text: &Text) -> bool {
    match text.mnemonic.as_str() {
        // Unpredictable with PC as destination; we take any write to it for a branch.
        "ldrt" | "movw" | "movt" => text.first_operand() == "pc",
        // Unpredictable with SP in the list.
        "pop" => opcode & 0xA000 == 0xA000,
        _ => false,
    }
}

/// Where T32 text and we may differ.
fn excused_t32(opcode: u32, text: &Text) -> bool {
    let mnemonic = text.mnemonic.trim_end_matches(".w");
    // Unpredictable: data processing cannot write PC, loads of less than a word neither.
    let no_branch = data_processing(mnemonic) || mnemonic.starts_with("ldr") && mnemonic != "ldr";
    no_branch && text.first_operand() == "pc"
        // A load relative to PC in A profile is CLRM or VSCCLRM in M profile.
        || opcode & 0xFFFF_2000 == 0xE89F_0000
        || opcode & 0xFFBF_0E00 == 0xEC9F_0A00
        // Multiplies cannot write PC: BXAUT took their place.
        || opcode & 0xFFF0_0FF0 == 0xFB50_0F10
        // Capstone takes any prefix for the prefix of these, EF or FF.
        || opcode >> 29 == 7 && (mnemonic.starts_with("aes") || mnemonic.starts_with("sha"))
}

#[test]
fn capstone_agrees_about_a32() {
    // Other conditions are the same instructions: a test of its own.
    let opcodes = sample::near(&a32::TABLE, 400_000).map(|opcode| match opcode >> 28 {
        0xF => opcode,
        _ => opcode & 0x0FFF_FFFF | 0xE000_0000,
    });
    compare(Isa::A32, tools::capstone(Isa::A32, opcodes), judge, excused_a32);
}

#[test]
fn the_condition_changes_nothing_but_the_conditional_flag() {
    for opcode in sample::near(&a32::TABLE, 100_000).filter(|opcode| opcode >> 28 != 0xF) {
        let mut ours = sample::classify(Isa::A32, opcode);
        assert_eq!(ours.flags.conditional, opcode >> 28 < 0xE);
        ours.flags.conditional = false;
        assert_eq!(ours, sample::classify(Isa::A32, opcode & 0x0FFF_FFFF | 0xE000_0000));
    }
}

#[test]
fn capstone_agrees_about_all_narrow_t32() {
    let opcodes = (0..0xE800).map(|first| first << 16);
    compare(Isa::T32, tools::capstone(Isa::T32, opcodes), judge, |_, _| false);
}

fn wide(count: usize) -> impl Iterator<Item = u32> {
    sample::near(&t32::TABLE, count)
        .map(|opcode| if opcode >> 27 < 0b11101 { opcode | 0xE800_0000 } else { opcode })
}

#[test]
fn capstone_agrees_about_wide_t32() {
    compare(Isa::T32, tools::capstone(Isa::T32, wide(600_000)), judge, excused_t32);
}
