//! Protocols that captures name and that nobody decodes here yet: their sources are named and passed over.

use super::{IdRegister, Names};

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
        name: "itm",
        formats: &["itm", "itm1"],
        format: "ITM",
        id_register: Some(IdRegister { names: &["ITMTCR", "CONTROL_REGISTER"], lowest_bit: 16 }),
        ..Names::PLAIN
    },
    Names {
        name: "stm",
        formats: &["stm", "stp", "stp1", "stp2"],
        format: "STP",
        id_register: Some(IdRegister { names: &["STMTCSR"], lowest_bit: 16 }),
        ..Names::PLAIN
    },
];
