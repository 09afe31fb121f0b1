//! Loops are entered and go around as often as the program says, in whatever form the compiler has put them.

mod support;

use std::collections::BTreeMap;
use std::path::Path;

use backsight::Capture;
use backsight_profile::{CountOptions, count};
use support::{Scratch, program, record};

/// Times entered and iterations of the loops of each function, outer ones first.
const EXPECTED: [(&str, &[(u64, u64)]); 11] = [
    ("falls_into", &[(100, 1000)]),
    ("jumps_to_condition", &[(100, 1000)]),
    ("nested", &[(20, 140), (140, 700)]),
    ("nested_at_conditions", &[(20, 140), (140, 700)]),
    ("goes_on_early", &[(30, 360)]),
    ("is_left_early", &[(30, 410)]),
    // Five entries are from `calls_in_condition`. It is left by a test in its first block, as a `while` loop is.
    ("returns_inside", &[(17, 66)]),
    ("calls_others", &[(40, 800)]),
    ("recursive", &[(121, 363)]),
    ("maybe_never", &[(30, 60)]),
    ("calls_in_condition", &[(1, 5)]),
];

fn check(path: &Path, what: &str) {
    let capture = Capture::open(path).expect("a capture");
    let (profile, _) = count(&capture, capture.execution(), &CountOptions::default()).expect("a profile");
    let mut loops: BTreeMap<&str, Vec<(u64, u64)>> = BTreeMap::new();
    for found in profile.loops() {
        let function = &profile.functions[found.function as usize];
        loops.entry(&function.name).or_default().push((found.entries, found.iterations));
        let start = function.start.expect("a function with a name");
        assert!((start..start + function.size).contains(&found.address), "{what}: {found:?}");
    }
    for (name, expected) in EXPECTED {
        assert_eq!(loops.get(name).map(Vec::as_slice), Some(expected), "{what}: {name}");
    }
}

#[test]
fn loops_of_riscv_are_entered_and_go_around_as_the_program_says() {
    let scratch = Scratch::new("loops-riscv64");
    for unit in ["etrace", "ntrace"] {
        let capture = scratch.path(unit);
        assert!(record(&capture, &program("riscv64", "loops"), unit, &[], u64::MAX));
        check(&capture, unit);
    }
}

#[test]
fn loops_of_arm_are_entered_and_go_around_as_the_program_says() {
    let scratch = Scratch::new("loops-arm");
    for (target, unit) in [("aarch64", "etm4"), ("arm", "ptm"), ("arm", "etm3")] {
        let capture = scratch.path(unit);
        if !record(&capture, &program(target, "loops"), unit, &[], u64::MAX) {
            return;
        }
        check(&capture, unit);
    }
}
