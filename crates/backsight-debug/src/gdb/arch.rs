//! What gdb is told of an architecture: its registers, and how they are numbered.
//!
//! `<osabi>none</osabi>` keeps gdb from stepping in software, out of registers that are not there. RISC-V has registers for floating
//! point even where a program has none: gdb refuses a program for double floats without them. Two registers of our own are known at every moment: the number of the
//! instruction (`$moment`), and how many calls are under way (`$calls`), by which the unwinder knows where in the stack a frame is.

use std::fmt::Write as _;

use backsight::core::Isa;

use crate::replay::Register;

/// An architecture as gdb names them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arch {
    Aarch64,
    Arm,
    Riscv32,
    Riscv64,
}

/// What a register holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Holds {
    /// The program counter.
    Pc,
    /// Zero, always.
    Zero,
    /// The number of the instruction.
    Moment,
    /// How many calls are under way.
    Calls,
    /// What somebody has to know.
    Value(Register),
    /// What nobody asks for.
    Nothing,
}

/// A register, in the order of the packet that has all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// The number that gdb gives it.
    pub number: u64,
    pub name: &'static str,
    pub bytes: usize,
    pub holds: Holds,
}

#[rustfmt::skip]
const A64: [&str; 32] = [
    "x0", "x1", "x2", "x3", "x4", "x5", "x6", "x7", "x8", "x9", "x10", "x11", "x12", "x13", "x14", "x15", "x16", "x17", "x18", "x19",
    "x20", "x21", "x22", "x23", "x24", "x25", "x26", "x27", "x28", "x29", "x30", "sp",
];

#[rustfmt::skip]
const A32: [&str; 15] =
    ["r0", "r1", "r2", "r3", "r4", "r5", "r6", "r7", "r8", "r9", "r10", "r11", "r12", "sp", "lr"];

#[rustfmt::skip]
const RV: [&str; 32] = [
    "zero", "ra", "sp", "gp", "tp", "t0", "t1", "t2", "fp", "s1", "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "s2", "s3", "s4", "s5",
    "s6", "s7", "s8", "s9", "s10", "s11", "t3", "t4", "t5", "t6",
];

#[rustfmt::skip]
const RV_FLOAT: [&str; 32] = [
    "ft0", "ft1", "ft2", "ft3", "ft4", "ft5", "ft6", "ft7", "fs0", "fs1", "fa0", "fa1", "fa2", "fa3", "fa4", "fa5", "fa6", "fa7", "fs2",
    "fs3", "fs4", "fs5", "fs6", "fs7", "fs8", "fs9", "fs10", "fs11", "ft8", "ft9", "ft10", "ft11",
];

/// The registers of a feature, by the number of the first.
fn named(
    first: u64,
    names: &'static [&'static str],
    bytes: usize,
    dwarf: u16,
) -> impl Iterator<Item = Entry> {
    (first..).zip(names).map(move |(number, name)| {
        let register = Register(dwarf + (number - first) as u16);
        let holds = if *name == "zero" { Holds::Zero } else { Holds::Value(register) };
        Entry { number, name, bytes, holds }
    })
}

fn one(number: u64, name: &'static str, bytes: usize, holds: Holds) -> Entry {
    Entry { number, name, bytes, holds }
}

/// Features: their names, and their registers.
type Features = Vec<(&'static str, Vec<Entry>)>;

impl Arch {
    /// That of an instruction set.
    pub const fn of(isa: Isa) -> Self {
        match isa {
            Isa::A64 => Self::Aarch64,
            Isa::A32 | Isa::T32 | Isa::ThumbEe | Isa::Jazelle => Self::Arm,
            Isa::Rv32 => Self::Riscv32,
            Isa::Rv64 => Self::Riscv64,
        }
    }

    /// What gdb calls it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Aarch64 => "aarch64",
            Self::Arm => "arm",
            Self::Riscv32 => "riscv:rv32",
            Self::Riscv64 => "riscv:rv64",
        }
    }

    /// Does gdb expect to hear of watched memory before the instruction that touches it, and step over that by itself?
    pub const fn stops_before_access(self) -> bool {
        matches!(self, Self::Aarch64 | Self::Arm)
    }

    fn features(self) -> Features {
        let wide = if matches!(self, Self::Aarch64 | Self::Riscv64) { 8 } else { 4 };
        let mut features: Features = match self {
            Self::Aarch64 => {
                let own = [one(32, "pc", 8, Holds::Pc), one(33, "cpsr", 4, Holds::Nothing)];
                vec![("org.gnu.gdb.aarch64.core", named(0, &A64, 8, 0).chain(own).collect())]
            }
            Self::Arm => {
                let own = [one(15, "pc", 4, Holds::Pc), one(25, "cpsr", 4, Holds::Nothing)];
                vec![("org.gnu.gdb.arm.core", named(0, &A32, 4, 0).chain(own).collect())]
            }
            Self::Riscv32 | Self::Riscv64 => {
                let pc = one(32, "pc", wide, Holds::Pc);
                let status = [(66, "fflags", 4097), (67, "frm", 4098), (68, "fcsr", 4099)];
                let status =
                    status.map(|(number, name, dwarf)| one(number, name, 4, Holds::Value(Register(dwarf))));
                vec![
                    ("org.gnu.gdb.riscv.cpu", named(0, &RV, wide, 0).chain([pc]).collect()),
                    ("org.gnu.gdb.riscv.fpu", named(33, &RV_FLOAT, 8, 32).chain(status).collect()),
                ]
            }
        };
        let next = features.last().and_then(|feature| feature.1.last()).map_or(0, |last| last.number + 1);
        let own = [one(next, "moment", 8, Holds::Moment), one(next + 1, "calls", 8, Holds::Calls)];
        features.push(("org.backsight.trace", own.to_vec()));
        features
    }

    /// All registers, in the order of the packet that has them.
    pub fn registers(self) -> Vec<Entry> {
        self.features().into_iter().flat_map(|feature| feature.1).collect()
    }

    /// The target description.
    pub fn description(self) -> String {
        let mut xml = format!(
            "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target version=\"1.0\">\
             <architecture>{}</architecture><osabi>none</osabi>",
            self.name()
        );
        for (feature, registers) in self.features() {
            // Memory takes everything, here and below.
            let _ = write!(xml, "<feature name=\"{feature}\">");
            for Entry { number, name, bytes, holds } in registers {
                let kind = match (holds, name) {
                    (Holds::Pc, _) => " type=\"code_ptr\"",
                    (_, "sp") => " type=\"data_ptr\"",
                    (Holds::Moment | Holds::Calls, _) => " type=\"uint64\" group=\"trace\"",
                    (_, "fflags" | "frm" | "fcsr") => " type=\"int\"",
                    _ if name.starts_with('f') && name != "fp" => " type=\"ieee_double\"",
                    _ => "",
                };
                let bits = 8 * bytes;
                let _ = write!(xml, "<reg name=\"{name}\" bitsize=\"{bits}\" regnum=\"{number}\"{kind}/>");
            }
            xml.push_str("</feature>");
        }
        xml.push_str("</target>");
        xml
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_has_a_number_and_a_name_of_its_own() {
        for arch in [Arch::Aarch64, Arch::Arm, Arch::Riscv32, Arch::Riscv64] {
            let registers = arch.registers();
            assert!(registers.is_sorted_by_key(|entry| entry.number), "{arch:?}");
            let mut numbers: Vec<_> = registers.iter().map(|entry| entry.number).collect();
            let mut names: Vec<_> = registers.iter().map(|entry| entry.name).collect();
            numbers.dedup();
            names.sort_unstable();
            names.dedup();
            assert_eq!((numbers.len(), names.len()), (registers.len(), registers.len()), "{arch:?}");
            for holds in [Holds::Pc, Holds::Moment, Holds::Calls] {
                assert_eq!(registers.iter().filter(|entry| entry.holds == holds).count(), 1);
            }
        }
    }
}
