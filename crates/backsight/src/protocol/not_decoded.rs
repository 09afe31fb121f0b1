//! Protocols that captures name and that nobody decodes here yet: their sources are named and passed over.

use super::{IdRegister, Names};

const ETM_ID: IdRegister = IdRegister { names: &["ETMTRACEIDR"], lowest_bit: 0 };
const ETM_REGISTERS: &[&str] = &["ETMCR", "ETMIDR", "ETMCCER"];

/// Their names.
pub(super) const NAMES: &[Names] = &[
    // The data trace of an ETMv4 is the second stream of the trace unit.
    Names {
        name: "etm4-data",
        formats: &["etm4", "etm4-data", "etm4_data"],
        stream: 1,
        format: "ETM4.0",
        id_register: Some(IdRegister { names: &["TRCTRACEIDR"], lowest_bit: 0 }),
        ..Names::PLAIN
    },
    Names {
        name: "etm3",
        formats: &["etm3"],
        format: "ETM3.5",
        id_register: Some(ETM_ID),
        needed_registers: ETM_REGISTERS,
        ..Names::PLAIN
    },
    Names {
        name: "ptm",
        formats: &["ptm", "ptm1", "pft", "pft1"],
        format: "PFT1.1",
        id_register: Some(ETM_ID),
        needed_registers: ETM_REGISTERS,
        ..Names::PLAIN
    },
];
