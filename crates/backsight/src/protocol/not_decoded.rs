//! Protocols that captures name and that nobody decodes here yet: their sources are named and passed over.

use super::{IdRegister, Names};

const ETM_ID: IdRegister = IdRegister { names: &["ETMTRACEIDR"], lowest_bit: 0 };
const ETM_REGISTERS: &[&str] = &["ETMCR", "ETMIDR", "ETMCCER"];

/// Their names.
pub(super) const NAMES: &[Names] = &[
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
