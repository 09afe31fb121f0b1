//! RISC-V trace units as `record` and `encode` program them, and what their traces tell.

mod support;

use support::{Scratch, backsight, program, record, run};

const PROGRAMS: [&str; 5] = ["calls", "isa", "pack", "sort", "vm"];

fn addresses(listing: &str) -> Vec<u64> {
    listing.lines().map(support::hexadecimal).collect()
}

/// What is told, and what was executed.
fn recorded(scratch: &Scratch, name: &str, settings: &[&str]) -> (Vec<u64>, Vec<u64>) {
    let capture = scratch.path(name);
    let mut options = vec!["--truth", "--limit", "60000"];
    options.extend(settings);
    assert!(record(&capture, &options, &[&program("riscv64", name)]));
    let told = run(&["flow", "--format", "pcs", &capture.display().to_string()]);
    let summary = String::from_utf8_lossy(&told.stderr);
    // Nothing is wrong but what the dialect hides.
    for gaps in summary.lines().filter_map(|line| line.split_once(" gaps: ")) {
        assert!(gaps.1 == format!("{} path unknown", gaps.0), "{name}: {summary}");
    }
    assert!(told.status.success() && summary.contains(" 0 bad"), "{name}: {summary}");
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
    std::fs::remove_dir_all(&capture).expect("a capture");
    (addresses(&String::from_utf8_lossy(&told.stdout)), addresses(&truth))
}

/// Every told instruction was executed, in this order; gives the places of those that were not told.
fn untold(told: &[u64], truth: &[u64], what: &str) -> Vec<usize> {
    let mut missing = Vec::new();
    let mut rest = told.iter().peekable();
    for (place, address) in truth.iter().enumerate() {
        if rest.next_if_eq(&address).is_none() {
            missing.push(place);
        }
    }
    assert_eq!(rest.next(), None, "{what}: told, but not executed then");
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
        ] {
            let (told, truth) = recorded(&scratch, name, settings);
            let missing = untold(&told, &truth, name);
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
