//! `backsight rtl`: hardware is written.

use std::fs;

use crate::support::{Scratch, line};

#[test]
fn a_decoder_is_written_for_the_trace_unit_and_the_width_that_were_asked_for() {
    let scratch = Scratch::new();
    let folder = scratch.path("decoder");
    let arguments = format!("rtl etm4 -o {} --lanes 3 --config version=ETE1.1", folder.display());
    assert!(line(&arguments).done().err.contains("files in"));
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
    assert!(read("etm4_pkg.sv").contains("localparam logic ETE = 1'b1;"));
    assert!(read("coresight_etm4.sv").contains("parameter int LANES = 3"));
    assert!(!read("etm4_header.sv").contains('@'), "nothing is left open");
    assert!(read("Makefile").contains("etm4_header.sv"));
}

#[test]
fn the_parallel_prefix_form_is_written_if_asked_for() {
    let scratch = Scratch::new();
    let folder = scratch.path("decoder");
    line(&format!("rtl etm4 -o {} --form prefix", folder.display())).done();
    let read = |name: &str| fs::read_to_string(folder.join(name)).expect("a file");
    assert!(read("etm4_decoder.sv").contains("parameter int LANES = 8"));
    assert!(read("Makefile").contains("etm4_stream_prefix.sv"));
    assert!(!folder.join("etm4_stream_chain.sv").exists());
    assert!(!read("tb_etm4.sv").contains("//@"), "marks of forms are taken away");
}

#[test]
fn widths_and_settings_that_do_not_exist_are_refused() {
    let scratch = Scratch::new();
    let folder = scratch.path("decoder");
    let refused = |arguments: &str, why: &str| {
        line(&format!("rtl etm4 -o {} {arguments}", folder.display())).wrong_use(why);
    };
    refused("--lanes 0", "1 to 16");
    refused("--lanes 17", "1 to 16");
    refused("--form prefix --lanes 4", "8 or 16");
    refused("--form tree", "chain, prefix");
    refused("--config flavour=1", "flavour=1");
    refused("--config version", "KEY=VALUE");
    assert!(!folder.exists(), "nothing is written then");
}
