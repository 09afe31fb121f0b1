//! Asks independent disassemblers what instructions do, and compares.
//!
//! Capstone is built into the tests. `objdump` of binutils, which knows newer A64, is asked by a test that is ignored
//! by default, since it needs the cross tools: `cargo test -p backsight-isa --test second_opinion -- --ignored`. What a disassembler
//! does not know counts as no opinion; where both have one and they differ, either we are wrong or there is a rule
//! in an `excused` function that says why not.

mod a64;
mod arm;
mod riscv;
mod sample;
mod tools;

use backsight_core::{Address, Isa};
use backsight_isa::{Class, Flags, Instruction};

/// Where all sampled instructions are.
const AT: Address = Address(0x4000_0000);

/// One line of disassembly.
struct Text {
    mnemonic: String,
    operands: String,
    /// How far behind [`AT`] the disassembler saw it.
    place: u64,
}

impl Text {
    /// The number behind the last blank, comma or hash: the target of a branch.
    fn target(&self) -> Option<Address> {
        let words = self.operands.split(['<', ';']).next()?.trim();
        let last = words.rsplit([' ', ',', '#']).next()?;
        let digits = last.strip_prefix("0x").unwrap_or(last);
        let seen = u64::from_str_radix(digits, 16).ok()?;
        Some(Address(seen.wrapping_sub(self.place)))
    }

    fn first_operand(&self) -> &str {
        self.operands.split([',', ' ']).next().unwrap_or_default()
    }
}

/// What the disassembler's text says about control flow.
#[derive(Debug, Default, PartialEq, Eq)]
struct Opinion {
    class: Class,
    flags: Flags,
    target: Option<Address>,
}

impl Opinion {
    fn of(instruction: &Instruction) -> Self {
        let direct = instruction.class == Class::DirectBranch;
        Self {
            class: instruction.class,
            flags: Flags { undefined: false, ..instruction.flags },
            target: direct.then_some(instruction.target),
        }
    }

    fn class(class: Class) -> Self {
        Self { class, ..Self::default() }
    }

    fn direct(text: &Text) -> Self {
        Self { target: text.target(), ..Self::class(Class::DirectBranch) }
    }

    fn indirect() -> Self {
        Self::class(Class::IndirectBranch)
    }

    fn access(load: bool, store: bool) -> Self {
        Self { flags: Flags { load, store, ..Flags::NONE }, ..Self::default() }
    }

    fn with(mut self, set: impl FnOnce(&mut Flags)) -> Self {
        set(&mut self.flags);
        self
    }
}

/// Compares opinions on many opcodes, and prints the first differences of each kind of instruction.
fn compare(
    isa: Isa,
    texts: impl Iterator<Item = (u32, Option<Text>)>,
    judge: impl Fn(&Text) -> Opinion,
    excused: impl Fn(u32, &Text) -> bool,
) {
    let (mut asked, mut known) = (0u64, 0u64);
    let mut differences = std::collections::BTreeMap::<String, (u64, String)>::new();
    for (opcode, text) in texts {
        asked += 1;
        let Some(text) = text else { continue };
        known += 1;
        let ours = Opinion::of(&sample::classify(isa, opcode));
        let theirs = judge(&text);
        if ours != theirs && !excused(opcode, &text) {
            let first = format!("{opcode:08x} {} {}\n  {ours:?}\n  {theirs:?}", text.mnemonic, text.operands);
            differences.entry(text.mnemonic).or_insert((0, first)).0 += 1;
        }
    }
    println!("{isa}: {asked} opcodes, {known} known to the disassembler");
    for (count, first) in differences.values() {
        println!("{count} times: {first}");
    }
    assert!(differences.is_empty(), "{} kinds of instructions differ", differences.len());
    assert!(known > asked / 20, "the disassembler knows next to nothing: {known} of {asked}");
}
