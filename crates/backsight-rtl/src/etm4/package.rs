//! `etm4_pkg`: the configuration of the trace unit and the numbers that modules share.

use backsight_arm::etm4::{Config, Part, ROWS};

use super::meaning::FLAGS;
use super::text::capitals;

/// The bits of an entry of `etm4_header`, from bit 0 on.
const ENTRY: [(&str, u8); 16] = [
    ("WHY", 3),
    ("PAYLOAD", 1),
    ("LEFT", 12),
    ("STOP", 1),
    ("LIMIT", 1),
    ("EXTENSION", 1),
    ("INFO", 1),
    ("EXCEPTION", 1),
    ("CONTROL", 1),
    ("THEN_NUMBER", 1),
    ("THEN_RESULT", 1),
    ("THEN_COUNT", 1),
    ("THEN_INFO", 1),
    ("PLACE", 4),
    ("IDS", 12),
    ("SECTIONS", 3),
];

/// The text of the package.
pub fn package(config: &Config) -> String {
    let mut at = 0;
    let mut entry = String::new();
    for (name, width) in ENTRY {
        entry += &format!("    localparam int E_{name} = {at};\n");
        at += width;
    }
    entry += &format!("    localparam int E_TWO = {at};\n    localparam int ENTRY = {};\n", at + 1);
    let kinds: String = kinds()
        .iter()
        .map(|(name, number)| format!("    localparam logic [5:0] KIND_{name} = 6'd{number};\n"))
        .collect();
    let flags: String = FLAGS
        .iter()
        .enumerate()
        .map(|(bit, (name, words))| {
            format!(
                "    localparam int M_{name} = {};  // {words}\n    localparam logic [FLAGS-1:0] {name} = 1 << {bit};\n",
                bit + 6
            )
        })
        .collect();
    let left = |part: Part| format!("12'h{:03x}", 1 << (part.longest() - 1));
    include_str!("sv/etm4_pkg.in")
        .replace("@CONFIGURATION@", &config.words().to_string())
        .replace("@VMID_BYTES@", &config.vmid_bytes().to_string())
        .replace("@CID_BYTES@", &config.context_id_bytes().to_string())
        .replace("@HAS_COMMIT@", if config.commit_mode1() { "1'b0" } else { "1'b1" })
        .replace("@ETE@", if config.is_ete() { "1'b1" } else { "1'b0" })
        .replace("@ENTRY@\n", &entry)
        .replace("@KINDS@\n", &kinds)
        .replace("@FLAG_COUNT@", &FLAGS.len().to_string())
        .replace("@FLAGS@\n", &flags)
        .replace("@LEFT_NUMBER@", &left(Part::NUMBER))
        .replace("@LEFT_COUNT@", &left(Part::COUNT))
        .replace("@LEFT_RESULT@", &left(Part::Result))
}

/// The kinds of packets with their numbers, each once.
fn kinds() -> Vec<(String, u8)> {
    let mut all: Vec<(String, u8)> =
        ROWS.iter().map(|row| (capitals(&format!("{:?}", row.kind)), row.kind as u8)).collect();
    all.sort_by_key(|&(_, number)| number);
    all.dedup();
    all
}
