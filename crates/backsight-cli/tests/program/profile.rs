//! `profile` and `report`: every format, what is missing and what to do about it, wrong options.

use std::path::PathBuf;

use crate::support::{Run, Scratch, backsight, edit, line};

fn capture(name: &str) -> PathBuf {
    backsight_testing::repository().join("testdata/captures").join(name)
}

/// Runs `profile` or `report` on a bundled capture.
fn on(name: &str, rest: &str) -> Run {
    let (command, options) = rest.split_once(' ').unwrap_or((rest, ""));
    line(&format!("{command} {} {options}", capture(name).display()))
}

/// The names of formats, as the help lists them.
fn formats() -> Vec<String> {
    let help = line("profile --help").done().out;
    let (_, list) = help.split_once("--format <FORMAT>").expect("the option");
    let (list, _) = list.split_once("--weight").expect("the next option");
    let names = list.lines().filter_map(|line| line.trim().strip_prefix("- ")?.split(':').next());
    names.map(str::to_owned).collect()
}

#[test]
fn every_format_that_the_help_lists_is_written_and_nothing_else_is_printed() {
    let scratch = Scratch::new();
    let formats = formats();
    assert!(formats.len() >= 24, "{formats:?}");
    for format in formats {
        let file = scratch.path(&format);
        let run = on("calls-aarch64", &format!("profile --format {format} -o {}", file.display())).done();
        assert!(run.out.is_empty(), "{format}: {}", run.out);
        assert!(run.err.contains("instructions"), "{format}: the summary is missing: {}", run.err);
        let size = std::fs::metadata(&file).expect("a file").len();
        assert!(size > 20, "{format}: {size} bytes");
    }
}

#[test]
fn tables_to_read_name_functions_branches_and_loops() {
    let run = on("calls-aarch64", "profile --top 3 --paths 4").done();
    for expected in [
        "40000 instructions in ",
        "function",
        "hardest to predict",
        "iterations per entry",
        "the last 4 branches",
        "(calls)",
    ] {
        assert!(run.out.contains(expected), "expected `{expected}` in {}", run.out);
    }
}

#[test]
fn a_capture_merged_with_itself_counts_twice_and_half_of_that_is_the_first() {
    let once = on("calls-riscv64", "profile --format blocks --quiet").done().out;
    let path = capture("calls-riscv64").display().to_string();
    let twice = on("calls-riscv64", &format!("profile --format blocks --quiet --merge {path}")).done().out;
    let counts = |table: &str| -> Vec<u64> {
        let rows = table.lines().skip(1);
        rows.filter_map(|row| row.split(',').nth(3)?.parse().ok()).collect()
    };
    assert_eq!(counts(&twice), counts(&once).iter().map(|count| 2 * count).collect::<Vec<_>>());
    let halved = on("calls-riscv64", &format!("profile --format blocks --quiet --merge {path} --scale 0.5"))
        .done()
        .out;
    assert_eq!(counts(&halved), counts(&once));
}

#[test]
fn windows_of_every_instruction_are_everything_and_rare_ones_are_less() {
    let table =
        |options: &str| on("calls-aarch64", &format!("profile --format edges --quiet {options}")).done().out;
    let total = |table: &str| -> u64 {
        let rows = table.lines().skip(1);
        rows.filter_map(|row| row.split(',').nth(3)?.parse::<u64>().ok()).sum()
    };
    let exact = total(&table(""));
    assert_eq!(total(&table("--sample 1")), exact);
    let rare = total(&table("--sample 1000:8"));
    assert!(rare > 0 && rare < exact / 4, "{rare} of {exact}");
    let read = on("calls-aarch64", "profile --sample 1000:8 --top 1").done().out;
    assert!(read.contains("in 40 windows"), "{read}");
}

#[test]
fn samples_of_the_program_counter_are_a_profile() {
    let scratch = Scratch::new();
    let program = backsight_testing::repository().join("testdata/programs/arm/vm");
    // DWT packets: 0x17 and the address, and 0x15 0x00 where the processor slept. The entry point is code.
    let header = std::fs::read(&program).expect("a bundled program");
    let entry = u32::from_le_bytes(header[24..28].try_into().expect("four bytes"));
    let mut bytes = vec![0, 0, 0, 0, 0, 0x80];
    for _ in 0..3 {
        bytes.push(0x17);
        bytes.extend((entry & !1).to_le_bytes());
    }
    bytes.extend([0x15, 0x00, 0x17]);
    bytes.extend(0xFFFF_0000_u32.to_le_bytes());
    let file = scratch.file("itm.bin", &bytes);
    let arguments =
        format!("profile {} --protocol itm --framing raw --image {}", file.display(), program.display());
    let run = line(&arguments).done();
    assert!(run.out.contains("4 samples of the program counter (1 more asleep)"), "{}{}", run.out, run.err);
    assert!(run.out.contains("_start"), "{}", run.out);
    // Without code, addresses are all that is known.
    let run = line(&format!("profile {} --protocol itm --framing raw", file.display())).done();
    assert!(run.out.contains(&format!("75.00             3  {:#x}", entry & !1)), "{}{}", run.out, run.err);
    assert!(run.out.contains("25.00             1  0xffff0000"), "{}", run.out);
}

#[test]
fn functions_are_sorted_as_asked_and_inclusive_costs_have_all_that_they_called() {
    let column = |options: &str, number: usize| -> Vec<f64> {
        let table = on("calls-aarch64", &format!("profile --top 8 {options}")).done().out;
        let rows = table.lines().skip_while(|line| !line.starts_with("self %")).skip(1);
        let rows = rows.take_while(|line| !line.is_empty());
        rows.filter_map(|row| row.split_whitespace().nth(number)?.parse().ok()).collect()
    };
    for (options, number) in [("", 1), ("--sort inclusive", 3), ("--sort calls", 4)] {
        let values = column(options, number);
        assert!(values.len() == 4 && values.is_sorted_by(|one, other| one >= other), "{options}: {values:?}");
    }
    // Everything is called by the first function.
    assert_eq!(column("--sort inclusive", 3)[0], 40_000.0);
    let (own, inclusive) = (column("", 1), column("", 3));
    assert!(own.iter().zip(&inclusive).all(|(own, inclusive)| own <= inclusive));
}

#[test]
fn filters_count_what_flow_lists() {
    let listed = |options: &str| {
        let run = on("calls-aarch64", &format!("flow --format pcs {options}")).done();
        run.out.lines().count()
    };
    for options in ["--function program", "--function ackermann --function start", "--module calls"] {
        let run = on("calls-aarch64", &format!("profile {options}")).done();
        let expected = format!("{} instructions in ", listed(options));
        assert!(run.out.starts_with(&expected), "{options}: expected {expected} in {}", run.out);
    }
    on("calls-aarch64", "profile --function nobody").could_not("nobody");
    // Who called what counts is listed with it.
    let run = on("calls-aarch64", "profile --function ackermann --sort inclusive").done();
    assert!(run.out.contains("  0.00             0   100.00         39963"), "{}", run.out);
    on("calls-aarch64", "profile --sort cycles").could_not("the trace counts none");
    on("calls-aarch64", "profile --context 77").could_not("nothing that was executed is what");
    on("calls-aarch64", "profile --function program --paths 4")
        .wrong_use("--paths takes the whole execution");
}

#[test]
fn what_a_format_needs_and_does_not_find_is_said_with_what_to_do() {
    let run = on("first", "profile --format collapsed").done();
    assert!(run.err.contains("without symbols: give the file that has them with --image"), "{}", run.err);
    on("first", "profile --format llvm").could_not("build the program with -g -fdebug-info-for-profiling");
    on("calls-aarch64", "profile --weight cycles").could_not("record with --config cyclecount=1");
    on("calls-aarch64", "report --weight cycles -o /dev/null").could_not("the trace counts none");
    let run = on("calls-aarch64", "profile --event 0=L1D_CACHE_REFILL").done();
    assert!(run.err.contains("the trace has no packets of it"), "{}", run.err);
}

#[test]
fn a_file_stays_what_it_was_where_the_profile_cannot_be_written_to_it() {
    let scratch = Scratch::new();
    let file = scratch.path("coverage.info");
    std::fs::write(&file, "the last one").expect("a file");
    on("first", &format!("profile --format lcov -o {}", file.display()))
        .could_not("no code that was executed has lines");
    assert_eq!(std::fs::read_to_string(&file).expect("the file"), "the last one");
    // What cannot be opened is refused before anything is counted.
    let nowhere = scratch.path("no-such-folder/profile");
    for command in ["profile --format json", "profile", "report"] {
        let run = on("calls-aarch64", &format!("{command} -o {}", nowhere.display()));
        assert!(!run.err.contains("instructions"), "{}", run.err);
        run.could_not("no-such-folder");
    }
}

#[test]
fn code_that_is_not_there_or_is_another_build_is_said() {
    let scratch = Scratch::new();
    let copy = scratch.copy_of(&capture("first"), "no-code");
    std::fs::remove_file(copy.join("code0.bin")).expect("a file of the capture");
    let run = backsight(&["profile", &copy.display().to_string()]);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.err.contains("code0.bin") || run.err.contains("--image"), "{}", run.err);
    // A file of code that was not executed: nothing can be followed.
    let copy = scratch.copy_of(&capture("first"), "elsewhere");
    edit(&copy.join("cpu_0.ini"), "address=0x", "address=0x7f");
    backsight(&["profile", &copy.display().to_string()]).could_not("give it with --image FILE[@ADDRESS]");
    backsight(&["report", &copy.display().to_string(), "-o", &scratch.path("r.html").display().to_string()])
        .could_not("no instruction could be followed");
}

#[test]
fn wrong_options_are_refused_with_what_would_do() {
    on("first", "profile --format pdf").wrong_use("possible values: llvm");
    on("first", "profile --scale 0").wrong_use("a number above 0");
    on("first", "profile --sample 0").wrong_use("as in 100000:32");
    on("first", "profile --sample 5:x").wrong_use("PERIOD:BRANCHES");
    on("first", "profile --event 4=X").wrong_use("NUMBER from 0 to 3");
    on("first", "profile --event L1D").wrong_use("0=L1D_CACHE_REFILL");
    on("first", "profile --skid 9..8").wrong_use("as in 1..8");
    on("first", "profile --paths 17").wrong_use("1..=16");
    on("first", "profile --weight time").wrong_use("instructions");
    on("calls-aarch64", "profile --format bolt --module nothing").could_not("nothing");
    line("profile no-such-capture").could_not("no-such-capture");
    line("report no-such-capture").could_not("no-such-capture");
}

#[test]
fn a_report_is_one_page_that_needs_nothing_else() {
    let scratch = Scratch::new();
    let file = scratch.path("report.html");
    on("calls-aarch64", &format!("report -o {}", file.display())).done();
    let page = std::fs::read_to_string(&file).expect("the page");
    assert!(page.starts_with("<!doctype html>") || page.starts_with("<!DOCTYPE html>"), "{}", &page[..80]);
    for outside in ["<script src", "<link rel=\"stylesheet\"", "@import", "src=\"http"] {
        assert!(!page.contains(outside), "{outside}");
    }
}

#[test]
fn a_damaged_trace_is_counted_as_far_as_it_goes_and_refused_with_strict() {
    let scratch = Scratch::new();
    let copy = scratch.copy_of(&capture("first"), "damaged");
    let trace = copy.join("trace.bin");
    let mut bytes = std::fs::read(&trace).expect("the trace");
    let middle = bytes.len() / 2;
    bytes[middle..middle + 64].fill(0xFF);
    std::fs::write(&trace, bytes).expect("the trace");
    let path = copy.display().to_string();
    assert!(backsight(&["profile", &path]).done().out.contains("instructions in "));
    backsight(&["profile", &path, "--strict", "-o", "/dev/null"]).could_not("--strict");
}
