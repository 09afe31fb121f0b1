//! Registers that cannot have the values that the metadata gives.

use std::collections::{BTreeMap, BTreeSet};

use super::{Cause, Finding, Severity, listed};
use crate::Capture;

/// What a bus gives where nobody answers: the component had no power or no clock.
const UNANSWERED: u64 = 0xFFFF_FFFF;
/// Registers that decide how packets are read.
const DECIDING: [&str; 12] = [
    "TRCCONFIGR",
    "TRCIDR0",
    "TRCIDR1",
    "TRCIDR2",
    "TRCIDR8",
    "TRCIDR9",
    "TRCIDR12",
    "TRCIDR13",
    "ETMCR",
    "ETMIDR",
    "ETMCCER",
    "TRCDEVARCH",
];

/// Looks for registers that were read without an answer. Buffers of their sources are explained.
pub(super) fn examine(capture: &Capture, explained: &mut BTreeSet<String>, findings: &mut Vec<Finding>) {
    let description = capture.description();
    let mut unanswered: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for source in &description.sources {
        for register in &source.registers {
            let is_deciding = DECIDING.iter().any(|name| register.name.eq_ignore_ascii_case(name));
            if is_deciding && register.value.is_some_and(|value| value & UNANSWERED == UNANSWERED) {
                unanswered.entry(register.name.to_ascii_uppercase()).or_default().push(&source.name);
                let buffers = source.buffers.iter().filter_map(|&number| description.buffers.get(number));
                explained.extend(buffers.map(|buffer| buffer.name.clone()));
            }
        }
    }
    for (register, sources) in unanswered {
        findings.push(Finding::new(
            Severity::Fatal,
            Cause::WrongConfiguration,
            format!("source {}: every bit of {register} is set, which no trace unit has", listed(&sources)),
            "read the registers again while the trace unit has power and its clock runs, or give the value that was programmed with --config",
        ));
    }
}
