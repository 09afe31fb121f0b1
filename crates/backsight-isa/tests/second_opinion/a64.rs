use backsight_core::Isa;
use backsight_isa::{Class, a64};

use crate::{Opinion, Text, compare, sample, tools};

fn judge(text: &Text) -> Opinion {
    let mnemonic = text.mnemonic.as_str();
    let starts = |prefixes: &[&str]| prefixes.iter().any(|prefix| mnemonic.starts_with(prefix));
    let operation = mnemonic.get(2..).unwrap_or_default();
    let atomic = ["add", "clr", "eor", "set", "smax", "smin", "umax", "umin"];
    match mnemonic {
        "b" => Opinion::direct(text),
        "bl" => Opinion::direct(text).with(|flags| flags.link = true),
        "cbz" | "cbnz" | "tbz" | "tbnz" => Opinion::direct(text).with(|flags| flags.conditional = true),
        _ if starts(&["b.", "bc."]) => Opinion::direct(text).with(|flags| flags.conditional = true),
        _ if starts(&["blr"]) => Opinion::indirect().with(|flags| flags.link = true),
        _ if starts(&["bra"]) || mnemonic == "br" => Opinion::indirect(),
        _ if starts(&["eret"]) => Opinion::indirect().with(|flags| flags.exception_return = true),
        _ if starts(&["ret"]) => Opinion::indirect().with(|flags| flags.returns = true),
        "isb" => Opinion::class(Class::Isb),
        "dsb" | "dmb" | "ssbb" | "pssbb" | "dfb" => Opinion::class(Class::DataBarrier),
        "wfi" | "wfe" | "wfit" | "wfet" => Opinion::class(Class::Wait),
        "tstart" => Opinion::class(Class::TransactionStart),
        _ if starts(&["prf", "rprf"]) => Opinion::default(),
        _ if starts(&["cas", "swp", "cpy"]) => Opinion::access(true, true),
        _ if starts(&["setp", "setm", "sete", "setgp", "setgm", "setge"]) => Opinion::access(false, true),
        _ if starts(&["ld", "st"]) && atomic.iter().any(|name| operation.starts_with(name)) => {
            Opinion::access(true, true)
        }
        _ if starts(&["ld"]) => Opinion::access(true, false),
        _ if starts(&["st", "gcsst"]) => Opinion::access(false, true),
        _ => Opinion::default(),
    }
}

#[test]
fn capstone_agrees_about_a64() {
    let opcodes = sample::near(&a64::TABLE, 400_000);
    compare(Isa::A64, tools::capstone(Isa::A64, opcodes), judge, |_, _| false);
}

#[test]
#[ignore = "needs objdump for aarch64"]
fn objdump_agrees_about_a64() {
    let opcodes = sample::near(&a64::TABLE, 4_000_000);
    compare(Isa::A64, tools::objdump(opcodes), judge, |_, _| false);
}
