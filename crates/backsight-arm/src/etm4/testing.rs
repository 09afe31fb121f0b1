//! What the tests of this module share.

use std::vec::Vec;

use super::Config;

/// A configuration for each thing that changes how a stream is read.
pub(super) fn configurations() -> Vec<Config> {
    let bases: &[&[(&str, &str)]] = &[
        &[],
        &[("version", "ETM4.1"), ("vmid", "32")],
        &[("version", "ETM4.2"), ("vmid", "16"), ("commopt", "0")],
        &[("version", "ETM4.3"), ("profile", "M")],
        &[("version", "ETM4.6"), ("profile", "M"), ("architecture", "v7"), ("TRCIDR2", "0x4")],
        &[("version", "ETE1.0"), ("vmid", "32")],
        &[("version", "ETE1.1"), ("commopt", "0")],
        &[("version", "ETE1.3"), ("timestamp_marker", "1")],
    ];
    let features: &[&[(&str, &str)]] = &[
        &[],
        &[("q_elements", "1"), ("max_spec", "6")],
        &[("conditional", "all"), ("max_spec", "255")],
        &[("data_trace", "1"), ("commopt", "0"), ("max_spec", "20")],
    ];
    let mut all = Vec::new();
    for base in bases {
        for feature in features {
            let mut config = Config::etm4_default();
            for (name, value) in base.iter().chain(*feature) {
                config.set(name, value).unwrap();
            }
            all.push(config);
        }
    }
    all
}
