//! The comparison can fail: changes of what is emitted are noticed.

use backsight_rtl::SourceFile;
use backsight_rtl::etrace::Options;
use backsight_testing::Random;

use crate::configurations::{configuration, lossless, rv64};
use crate::output::Output;
use crate::simulator::{Simulation, Simulator};
use crate::{assert_same, files, software, stimulus};

/// A change of text of the emitted files: the file, what is there and what takes its place.
type Mutation = (&'static str, &'static str, &'static str);

/// Each of these changes is noticed.
fn assert_noticed(name: &str, options: &Options, blocks: usize, mutations: &[Mutation]) {
    if !Simulator::Icarus.is_there() {
        return;
    }
    let inputs = stimulus::random_blocks(&mut Random(21), &options.unit.params, blocks);
    let expected = software::bytes(&options.unit, &inputs);
    let lines = stimulus::block_lines(&inputs);
    let simulate = |name: &str, files: &[SourceFile]| {
        Output::of(&Simulation::build(Simulator::Icarus, name, &["BLOCKS"], files).run(&lines)).bytes
    };
    assert_same(&simulate(&format!("{name}-unchanged"), &files(options)), &expected, name);
    let mut unnoticed = Vec::new();
    for (index, &(file, from, to)) in mutations.iter().enumerate() {
        let mut files = files(options);
        let file = files.iter_mut().find(|emitted| emitted.name == file).expect("a file of the design");
        assert!(file.text.contains(from), "{}: {from}", file.name);
        file.text = file.text.replacen(from, to, 1);
        if simulate(&format!("{name}-mutation{index}"), &files) == expected {
            unnoticed.push(to);
        }
    }
    assert!(unnoticed.is_empty(), "not noticed: {unnoticed:#?}");
}

#[test]
fn a_mutation_of_each_emitted_constant_is_noticed() {
    let mutations = [
        ("te_pkg.sv", "int ECAUSE = 5", "int ECAUSE = 6"),
        ("te_pkg.sv", "int LSB = 1", "int LSB = 0"),
        ("te_pkg.sv", "int PRIV = 2", "int PRIV = 3"),
        ("te_pkg.sv", "FULL_ADDRESS = 1'b0", "FULL_ADDRESS = 1'b1"),
        ("te_pkg.sv", "IMPLICIT_EXCEPTION = 1'b0", "IMPLICIT_EXCEPTION = 1'b1"),
        ("te_pkg.sv", "SIJUMP = 1'b0", "SIJUMP = 1'b1"),
        ("te_pkg.sv", "SHALLOW = 1'b0", "SHALLOW = 1'b1"),
        ("te_pkg.sv", "RESYNC_LIMIT = 5'd8", "RESYNC_LIMIT = 5'd9"),
        ("te_pkg.sv", "int RESYNC = 1", "int RESYNC = 3"),
        ("te_pkg.sv", "HEADER = 3'd0", "HEADER = 3'd2"),
        ("te_pkg.sv", "COUNTED = 5'd0", "COUNTED = 5'd1"),
        ("te_pkg.sv", "SYNC_ZEROS = 32", "SYNC_ZEROS = 31"),
        ("te_pkg.sv", "SYNC_PERIOD = 4096", "SYNC_PERIOD = 512"),
        ("te_pkg.sv", "SUPPORT = 64'h000000000000000f", "SUPPORT = 64'h000000000000010f"),
        ("te_pkg.sv", "STATUS_AT = 6", "STATUS_AT = 7"),
        ("te_pkg.sv", "ITYPE_RETURN = 4'd13", "ITYPE_RETURN = 4'd12"),
        ("te_pkg.sv", "itype == 4'd14", "itype == 4'd15"),
        ("te_payload.sv", "a_map[14:0], counted", "a_map[14:1], 1'b0, counted"),
        ("te_payload_length.sv", "5'(i + 1)", "5'(i)"),
        ("te_branch_map.sv", "5'd31", "5'd30"),
    ];
    assert_noticed("constants", &lossless(rv64()), 900, &mutations);
}

#[test]
fn a_mutation_of_each_table_that_a_decoder_keeps_too_is_noticed() {
    let predictor = [
        ("te_pkg.sv", "BRANCH_PREDICTION = 1'b1", "BRANCH_PREDICTION = 1'b0"),
        ("te_pkg.sv", "int PREDICTOR = 3", "int PREDICTOR = 2"),
        ("te_pkg.sv", "MOST_COUNTED = 32'd268435456", "MOST_COUNTED = 32'd9"),
        ("te_predictor.sv", "INITIAL = 2'b01", "INITIAL = 2'b00"),
        ("te_known.sv", "if (forget)", "if (1'b0)"),
        ("te_predictor.sv", "predicted != last ? taken : predicted", "taken"),
        ("te_branches.sv", "all && (correct || !push)", "correct || !push"),
        ("te_branches.sv", "are_counted && !correct", "are_counted && 1'b0"),
    ];
    let cache = [
        ("te_pkg.sv", "JUMP_CACHE = 1'b1", "JUMP_CACHE = 1'b0"),
        ("te_pkg.sv", "int CACHE = 5", "int CACHE = 2"),
        ("te_known.sv", "if (forget)", "if (1'b0)"),
        ("te_jump_cache.sv", "targets[index] == target", "1'b1"),
        ("te_payload_index.sv", "count[0] && map[0]", "1'b0"),
        ("te_payload.sv", "bytes >= index_bytes", "bytes > index_bytes"),
        ("te_priority.sv", "waiting && !as_index", "waiting"),
    ];
    let returns = [
        ("te_pkg.sv", "IMPLICIT_RETURN = 1'b1", "IMPLICIT_RETURN = 1'b0"),
        ("te_pkg.sv", "int STACK = 2", "int STACK = 3"),
        ("te_pkg.sv", "ITYPE_INFERABLE_CALL = 4'd9", "ITYPE_INFERABLE_CALL = 4'd15"),
        ("te_pkg.sv", "ITYPE_UNINFERABLE_CALL = 4'd8", "ITYPE_UNINFERABLE_CALL = 4'd15"),
        ("te_return_stack.sv", "known != MOST", "known != '1"),
        ("te_return_stack.sv", "forget ? '0 : depth", "depth"),
        ("te_returns.sv", "|| irets != '0 && !(prev_valid && prev_plain)", ""),
        ("te_returns.sv", "|| prev_valid && prev_wrong", ""),
        ("te_priority.sv", "assign restart = wrong &&", "assign restart = 1'b0 &&"),
    ];
    let all = [
        ("te_pkg.sv", "KEEP_TABLES = 1'b1", "KEEP_TABLES = 1'b0"),
        ("te_pkg.sv", "int CALLS = 7", "int CALLS = 4"),
        ("te_pkg.sv", "int SUBFORMAT = 2", "int SUBFORMAT = 1"),
        ("te_pkg.sv", "int IRETS = 8", "int IRETS = 7"),
        ("te_return_stack.sv", "count != '1", "count != '0"),
        ("te_returns.sv", "irets_now == '1", "irets_now == 8'hfe"),
    ];
    assert_noticed("predictor", &configuration("predictor"), 1200, &predictor);
    assert_noticed("cache", &configuration("cache"), 1500, &cache);
    assert_noticed("returns", &configuration("returns"), 900, &returns);
    assert_noticed("tables", &configuration("tables"), 800, &all);
}
