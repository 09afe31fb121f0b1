//! Both forms say the same where packets begin: proved with yosys and its abc for every short stream.

use std::fs;
use std::path::Path;
use std::process::Command;

use backsight_arm::etm4::Config;
use backsight_rtl::etm4::Form;

use crate::files;
use crate::simulator::{is_installed, run, write};

const LANES: u8 = 8;

/// Words after the Async whose bytes are free.
const WORDS: u32 = 1;

/// Cycles that are looked at: all stages, and the words that they look ahead at.
const FRAMES: u32 = 60 + WORDS;

/// What the proof needs of a design, in the order in which tools need it.
const SOURCES: &str = "etm4_pkg.sv etm4_header.sv etm4_prefix_pkg.sv word_delay.sv word_window.sv word_queue.sv steps.sv \
    delay.sv etm4_sections.sv etm4_lengths.sv etm4_search.sv etm4_stream_prefix.sv etm4_stream_chain.sv boundaries.sv";

#[test]
#[ignore = "minutes: tests/rtl/run"]
fn chain_and_prefix_begin_packets_at_the_same_bytes() {
    if !is_installed("yosys") || !is_installed("yosys-abc") {
        return;
    }
    let config = Config::etm4_default();
    let mut sources = files(Form::Prefix, LANES, config);
    let chain = files(Form::Chain, LANES, config);
    sources.extend(chain.into_iter().filter(|file| file.name == "etm4_stream_chain.sv"));
    let folder = write("formal", &sources);
    let miter = include_str!("boundaries.sv");
    let miter = miter.replace("parameter int WORDS = 1", &format!("parameter int WORDS = {WORDS}"));
    fs::write(folder.join("boundaries.sv"), miter).unwrap();

    let found = prove(&folder);
    assert!(found.contains(&format!("No output asserted in {FRAMES} frames")), "{found}");
    println!("the same for all streams of {} bytes after an Async", WORDS * u32::from(LANES));

    // The proof can fail: a skip map that is off by one is noticed.
    let map = folder.join("etm4_stream_prefix.sv");
    let text = fs::read_to_string(&map).unwrap();
    assert!(text.contains("o >= 5'(N)"));
    fs::write(&map, text.replace("o >= 5'(N)", "o > 5'(N)")).unwrap();
    let found = prove(&folder);
    assert!(found.contains("was asserted in frame"), "{found}");
}

/// What abc says of so many cycles.
fn prove(folder: &Path) -> String {
    let script = format!(
        "read_verilog -sv {SOURCES}; prep -top boundaries; flatten; opt -fast; memory -nordff; opt -fast; techmap; opt -fast; \
         setundef -zero -undriven; dffunmap; aigmap; setundef -zero; opt_clean; write_aiger -zinit miter.aig"
    );
    run(Command::new("yosys").args(["-q", "-p", &script]).current_dir(folder));
    let bounded = format!("read_aiger miter.aig; bmc3 -F {FRAMES} -T 600");
    run(Command::new("yosys-abc").args(["-c", &bounded]).current_dir(folder))
}
