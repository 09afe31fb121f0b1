//! RISC-V trace units as `record` and `encode` program them, and what their traces tell.

use crate::support;
use std::fs::File;
use std::path::Path;

use crate::support::{Scratch, backsight, program, record, run};
use backsight_core::Execution;
use backsight_riscv::ingress::{Block, Builder, Ctype, Ingress};
use backsight_run::retired::RetiredReader;

const PROGRAMS: [&str; 5] = ["calls", "isa", "pack", "sort", "vm"];

fn addresses(listing: &str) -> Vec<u64> {
    listing.lines().map(support::hexadecimal).collect()
}

/// What is decoded, and what was executed.
fn recorded(scratch: &Scratch, name: &str, settings: &[&str]) -> (Vec<u64>, Vec<u64>) {
    let capture = scratch.path(name);
    let mut options = vec!["--truth", "--limit", "60000"];
    options.extend(settings);
    assert!(record(&capture, &options, &[&program("riscv64", name)]));
    let decoded = run(&["flow", "--format", "pcs", &capture.display().to_string()]);
    let summary = String::from_utf8_lossy(&decoded.stderr);
    // Nothing is wrong but what the dialect hides.
    for gaps in summary.lines().filter_map(|line| line.split_once(" gaps: ")) {
        assert!(gaps.1 == format!("{} path unknown", gaps.0), "{name}: {summary}");
    }
    assert!(decoded.status.success() && summary.contains(" 0 bad"), "{name}: {summary}");
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
    std::fs::remove_dir_all(&capture).expect("a capture");
    (addresses(&String::from_utf8_lossy(&decoded.stdout)), addresses(&truth))
}

/// Every decoded instruction was executed, in this order; gives the places of those that were not decoded.
fn missing_from(decoded: &[u64], truth: &[u64], what: &str) -> Vec<usize> {
    let mut missing = Vec::new();
    let mut rest = decoded.iter().peekable();
    for (place, address) in truth.iter().enumerate() {
        if rest.next_if_eq(&address).is_none() {
            missing.push(place);
        }
    }
    assert_eq!(rest.next(), None, "{what}: decoded, but not executed then");
    missing
}

#[test]
fn the_encoder_of_the_thesis_hides_only_what_leads_to_the_end_of_a_block() {
    let scratch = Scratch::new("seed");
    for name in PROGRAMS {
        for settings in [
            &["--config", "algorithm=seed"][..],
            &["--config", "algorithm=seed", "--config", "resync=20", "--config", "framing=reference"],
            &["--config", "algorithm=seed", "--config", "full_address=1", "--retire", "blocks:2"],
            &["--config", "algorithm=seed", "--config", "resync=500:cycles", "--retire", "branches:2"],
        ] {
            let (decoded, truth) = recorded(&scratch, name, settings);
            let missing = missing_from(&decoded, &truth, name);
            // What is missing lies together, behind a jump: nothing in it goes anywhere.
            let is_straight = |&place: &usize| truth[place + 1].wrapping_sub(truth[place]) <= 4;
            assert!(missing.iter().all(is_straight), "{name} {settings:?}");
            // An interpreter goes through a table at every turn; others return to where they were called from.
            let most = if name == "vm" { truth.len() * 3 / 4 } else { truth.len() / 20 };
            assert!(missing.len() < most, "{name}: {} of {}", missing.len(), truth.len());
        }
    }
}

#[test]
fn what_the_encoder_of_the_thesis_cannot_do_is_refused() {
    let scratch = Scratch::new("seed-refused");
    let capture = scratch.path("capture").display().to_string();
    let settings = ["--config", "algorithm=seed", "--config", "branch_prediction=1", "--"];
    let output = run(&[&["record", "-o", &capture], &settings[..], &[&program("riscv64", "calls")]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("full_address only"), "{said}");
}

#[test]
fn n_trace_tells_what_was_executed_in_every_configuration() {
    let scratch = Scratch::new("ntrace");
    let configurations: [&[&str]; 6] = [
        &[],
        &["mode=branch", "repeat_branch=1", "resync=50"],
        &["return_stack=0", "repeat_branch=1", "timestamps=all"],
        &["history_bits=7", "repeat_history=0", "count_limit=100", "resync=300:halfwords"],
        &["ownership=1", "timestamps=sync", "resync=20", "source=9", "source_bits=6"],
        &["mode=branch", "return_stack=64", "timestamps=all", "ownership=1", "resync=0"],
    ];
    for name in PROGRAMS {
        let whole = scratch.path(name);
        assert!(record(&whole, &["--truth", "--limit", "60000"], &[&program("riscv64", name)]));
        let truth = backsight(&["flow", "--truth", "--format", "pcs"], &whole);
        for settings in configurations {
            let capture = scratch.path("capture");
            let (from, to) = (whole.display().to_string(), capture.display().to_string());
            let mut arguments = vec!["encode", "--quiet", &from, "-o", &to, "--unit", "ntrace"];
            settings.iter().for_each(|setting| arguments.extend(["--config", setting]));
            let output = run(&arguments);
            assert!(output.status.success(), "{settings:?}: {}", String::from_utf8_lossy(&output.stderr));
            let decoded = backsight(&["flow", "--format", "pcs", "--strict"], &capture);
            support::assert_same(&decoded, &truth, &format!("{name} {settings:?}"));
            let packets = backsight(&["packets", "--format", "json", "--strict"], &capture);
            let holds = |word: &str| packets.contains(word);
            assert!(holds("ProgTraceSync") && holds("ProgTraceCorrelation"), "{name} {settings:?}");
            assert_eq!(holds("TSTAMP"), settings.iter().any(|setting| setting.starts_with("timestamps")));
            assert_eq!(holds("PROCESS"), settings.contains(&"ownership=1"), "{name} {settings:?}");
            std::fs::remove_dir_all(&capture).expect("a capture");
        }
    }
}

#[test]
fn an_n_trace_unit_records_filters_and_retires_several_at_once() {
    let scratch = Scratch::new("ntrace-record");
    let capture = scratch.path("capture");
    let settings = ["--unit", "ntrace", "--truth", "--limit", "20000", "--retire", "branches:4"];
    assert!(record(&capture, &settings, &[&program("riscv64", "calls")]));
    let decoded = backsight(&["flow", "--format", "pcs", "--strict"], &capture);
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
    support::assert_same(&decoded, &truth, "recorded");
    assert!(backsight(&["info"], &capture).contains("N-Trace"));
    let (low, high) = (addresses(&truth)[0], addresses(&truth)[0] + 64);
    let inside = |addresses: &[u64]| addresses.iter().any(|address| (low..high).contains(address));
    let filtered = scratch.path("filtered");
    let (from, to) = (capture.display().to_string(), filtered.display().to_string());
    let range = format!("range={low:#x}..{high:#x}");
    let output = run(&["encode", &from, "-o", &to, "--unit", "ntrace", "--config", &range]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected: Vec<u64> =
        blocks(&capture).into_iter().map(|(_, all)| all).filter(|all| inside(all)).flatten().collect();
    assert_eq!(addresses(&backsight(&["flow", "--format", "pcs", "--strict"], &filtered)), expected);
}

/// The blocks of a run, each with the addresses of its instructions.
fn blocks(capture: &Path) -> Vec<(Block, Vec<u64>)> {
    let truth = File::open(capture.join("truth.retired")).expect("the truth");
    let (mut builder, mut blocks, mut addresses) =
        (Builder::new(4, Ctype::Unreported), Vec::new(), Vec::new());
    for item in RetiredReader::new(truth).expect("a stream") {
        let item = item.expect("an item");
        if let Execution::Instruction(retired) = item {
            addresses.push(retired.address.0);
        }
        builder.push(&item, &mut |ingress| match ingress {
            Ingress::Block(block) => blocks.push((block, std::mem::take(&mut addresses))),
            Ingress::Gap => panic!("there is none"),
        });
    }
    builder.finish(&mut |ingress| {
        if let Ingress::Block(block) = ingress {
            blocks.push((block, std::mem::take(&mut addresses)));
        }
    });
    blocks
}

/// Encodes a run again through a filter: what is decoded is what `accepts`, block by block, and every part is begun again.
fn check_filter(run_of: &Path, settings: &[&str], accepts: impl Fn(&[u64]) -> bool) {
    let capture = run_of.with_extension("filtered");
    let (from, to) = (run_of.display().to_string(), capture.display().to_string());
    let mut arguments = vec!["encode", "--quiet", &from, "-o", &to];
    settings.iter().for_each(|setting| arguments.extend(["--config", setting]));
    let output = run(&arguments);
    assert!(output.status.success(), "{settings:?}: {}", String::from_utf8_lossy(&output.stderr));
    let decoded = addresses(&backsight(&["flow", "--format", "pcs", "--strict"], &capture));
    let (mut expected, mut parts, mut inside) = (Vec::new(), 0, false);
    for (_, addresses) in blocks(run_of) {
        let accepted = accepts(&addresses);
        parts += usize::from(accepted && !inside);
        inside = accepted;
        if accepted {
            expected.extend(addresses);
        }
    }
    assert!(decoded == expected, "{settings:?}: {} decoded, {} expected", decoded.len(), expected.len());
    let listing = backsight(&["flow"], &capture);
    let begun = listing.lines().filter(|line| line.contains("trace on")).count();
    assert!(begun == parts && parts > 0, "{settings:?}: {begun} beginnings, {parts} parts");
    std::fs::remove_dir_all(&capture).expect("a capture");
}

#[test]
fn what_an_address_filter_lets_through_is_told_and_nothing_else() {
    let scratch = Scratch::new("filter");
    for name in ["calls", "vm"] {
        let capture = scratch.path(name);
        assert!(record(&capture, &["--truth", "--limit", "20000"], &[&program("riscv64", name)]));
        let mut sorted: Vec<u64> =
            blocks(&capture).into_iter().flat_map(|(_, addresses)| addresses).collect();
        sorted.sort_unstable();
        sorted.dedup();
        let at = |percent: usize| sorted[sorted.len() * percent / 100];
        let (low, middle, high) = (at(20), at(50), at(70));
        let touches = |from: u64, to: u64| {
            move |addresses: &[u64]| addresses.iter().any(|address| (from..to).contains(address))
        };
        check_filter(&capture, &[&format!("range={low:#x}..{middle:#x}")], touches(low, middle));
        check_filter(
            &capture,
            &[&format!("range={low:#x}..{:#x}", low + 8), &format!("range={middle:#x}..{high:#x}")],
            |addresses| touches(low, low + 8)(addresses) || touches(middle, high)(addresses),
        );
        check_filter(
            &capture,
            &[&format!("exclude={low:#x}..{middle:#x}"), "branch_prediction=1", "implicit_return=1"],
            |addresses| !touches(low, middle)(addresses),
        );
        check_filter(&capture, &[&format!("te_iaddr={low:#x}..{middle:#x}")], |addresses| {
            (low..middle).contains(&addresses[0])
        });
    }
}

#[test]
fn privilege_and_cause_are_filtered_too() {
    let scratch = Scratch::new("filter-privilege");
    // User code at 0x1000 that calls the environment; the handler at 0x2000 returns behind it.
    let log = [
        "core   0: 0 0x0000000000001000 (0x00000013)",
        "core   0: exception trap_user_ecall, epc 0x0000000000001004",
        "core   0: 3 0x0000000000002000 (0x00000013)",
        "core   0: 3 0x0000000000002004 (0x30200073)",
        "core   0: 0 0x0000000000001008 (0x00000013)",
        "core   0: 0 0x000000000000100c (0x00000013)",
    ];
    let path = scratch.path("log");
    std::fs::write(&path, log.join("\n") + "\n").expect("a file");
    let nop = 0x13u32.to_le_bytes();
    let user = [nop, 0x73u32.to_le_bytes(), nop, nop].concat();
    let handler = [nop, 0x3020_0073u32.to_le_bytes()].concat();
    let mut images = Vec::new();
    for (address, code) in [(0x1000, user), (0x2000, handler)] {
        let file = scratch.path(&format!("{address:x}.bin"));
        std::fs::write(&file, code).expect("a file");
        images.push(format!("{}@{address:#x}", file.display()));
    }
    for (setting, expected) in [
        ("privilege=u", &[0x1000, 0x1008, 0x100C][..]),
        ("privilege=m,s", &[0x2000, 0x2004]),
        ("0x404=0", &[0x1000, 0x2000, 0x2004, 0x1008, 0x100C]),
        ("ecause=8", &[0x1000, 0x2000, 0x2004]),
        ("ecause=2", &[]),
    ] {
        let capture = scratch.path("capture");
        let (from, to) = (path.display().to_string(), capture.display().to_string());
        let images = ["--image", &images[0], "--image", &images[1]];
        let output = run(&[&["encode", &from, "-o", &to, "--config", setting], &images[..]].concat());
        assert!(output.status.success(), "{setting}: {}", String::from_utf8_lossy(&output.stderr));
        let decoded = addresses(&backsight(&["flow", "--format", "pcs"], &capture));
        assert_eq!(decoded, expected, "{setting}");
        std::fs::remove_dir_all(&capture).expect("a capture");
    }
}
