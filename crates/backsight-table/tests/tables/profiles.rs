//! Profiles of pieces, merged, are the profile of the capture.

use std::collections::BTreeMap;
use std::path::Path;

use backsight::{Capture, OpenOptions};
use backsight_profile::{CountOptions, Profile};
use backsight_table::{Piece, PlanOptions, Wanted, plan};
use backsight_testing::{Random, corpus, skipped};
use proptest::prelude::*;

use crate::support::{Folder, bundled, copy, damage};

/// All that was counted, whatever the numbers of blocks, functions and nodes are. Two sources may have threads of one name.
fn counts(profile: &Profile) -> BTreeMap<String, Vec<String>> {
    let mut all = BTreeMap::<String, Vec<String>>::new();
    let mut add = |key: String, value: String| all.entry(key).or_default().push(value);
    let function = |number: u32| {
        let function = &profile.functions[number as usize];
        let module = profile.module_of(function).expect("a module");
        format!("{}:{:x?} {}", module.name(), function.start, function.name)
    };
    for (one, number) in profile.functions.iter().zip(0..) {
        let counted = (one.size, one.entries, one.instructions, one.cycles, one.certain_cycles);
        add(format!("function {}", function(number)), format!("{counted:?}"));
    }
    let block = |number: u32| {
        let block = &profile.blocks[number as usize];
        format!("{:x}..{:x} {} in {}", block.start, block.end, block.isa, function(block.function))
    };
    for (one, number) in profile.blocks.iter().zip(0..) {
        let counted = (one.count, one.entries, one.cycles, one.certain_cycles);
        let code = (one.instructions, one.class, one.flags, profile.code_of(one));
        add(format!("block {}", block(number)), format!("{counted:?} {code:?}"));
    }
    for edge in &profile.edges {
        let ends = (block(edge.from), block(edge.to), edge.kind);
        add(format!("edge {ends:?}"), edge.count.to_string());
    }
    let mut chains: Vec<String> = Vec::new();
    for (node, number) in profile.calls.iter().zip(0_u32..) {
        let chain = match (node.parent, node.function) {
            (Some(parent), Some(of)) => format!("{} > {}", chains[parent as usize], function(of)),
            _ => {
                let thread = profile.threads.iter().find(|thread| thread.node == number).expect("a thread");
                format!("{} {}", thread.capture, thread.name)
            }
        };
        add(format!("calls {chain}"), format!("{:?}", (node.calls, node.instructions, node.cycles)));
        chains.push(chain);
    }
    add("exceptions".to_owned(), format!("{:?}", profile.exceptions));
    add("totals".to_owned(), format!("{:?}", profile.totals));
    all.values_mut().for_each(|values| values.sort());
    all
}

/// Counts a piece as somebody else would who has nothing but its JSON, and sends what was counted.
fn count_alone(piece: &Piece, capture: &Capture) -> Profile {
    let piece = Piece::from_json(&piece.to_json()).expect("a piece");
    let profile = piece.profile(capture, None).expect("a profile");
    Profile::from_bytes(&profile.to_bytes().expect("bytes")).expect("a profile")
}

/// Checks a capture that is cut wherever it can be. Gives the number of pieces.
fn check(path: &Path, bytes: usize, what: &str, random: &mut Random) -> usize {
    let capture = Capture::open(path).expect("a capture");
    let options = CountOptions { by_core: true, ..CountOptions::default() };
    let whole = backsight_profile::count(&capture, capture.execution(), &options);
    let expected = counts(&whole.expect("a profile").0);
    let pieces = plan(Wanted::Profile, &capture, path, PlanOptions { bytes }).expect("a plan");
    let mut parts: Vec<Profile> = pieces.iter().map(|piece| count_alone(piece, &capture)).collect();
    let mut merged = Profile::default();
    while !parts.is_empty() {
        merged.merge(parts.swap_remove(random.below(parts.len() as u64) as usize));
    }
    let merged = counts(&merged);
    let differs = expected.iter().find(|(key, value)| merged.get(*key) != Some(value));
    let found = differs.map(|(key, _)| merged.get(key));
    assert!(expected == merged, "{what}, pieces of {bytes}: {differs:?}, {found:?}");
    pieces.len()
}

const CUT: [&str; 5] = ["juno_r1_1", "cc1-head", "juno-ret-stck", "ete_spec_1", "q_elem"];

#[test]
fn profiles_of_pieces_cut_at_every_place_merge_to_the_profile_of_the_capture() {
    let mut random = Random(21);
    for name in ["calls-aarch64", "first", "calls-riscv64"] {
        check(&bundled(name), 1, name, &mut random);
    }
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let mut pieces = 0;
    for name in CUT {
        let path = corpus.join("opencsd").join(name).join("capture");
        pieces += check(&path, 1, name, &mut random);
        pieces += check(&path, 9_000, name, &mut random);
    }
    assert!(pieces > 100, "{pieces}");
}

#[test]
fn profiles_of_pieces_of_damaged_captures_merge_to_the_profile_of_the_capture() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let (folder, mut random) = (Folder::new("damaged-profiles"), Random(22));
    for name in CUT {
        for round in 0..3 {
            let path = folder.path(&format!("{name}-{round}"));
            copy(&corpus.join("opencsd").join(name).join("capture"), &path);
            damage(&path, &mut random);
            check(&path, 1, &format!("{name}, damaged, {round}"), &mut random);
        }
    }
}

#[test]
fn pieces_that_were_planned_for_rows_are_refused() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let path = corpus.join("opencsd/juno_r1_1/capture");
    let capture = Capture::open(&path).expect("a capture");
    let options = PlanOptions { bytes: 1 };
    let pieces = plan(backsight_table::Table::Ranges, &capture, &path, options).expect("a plan");
    let piece = pieces.iter().find(|piece| piece.start.is_some()).expect("a cut");
    let error = piece.profile(&capture, None).unwrap_err().to_string();
    assert!(error.contains("plan pieces for profiles"), "{error}");
    // What is handed over belongs to the code: with other code, it is refused and not counted wrong.
    let pieces = plan(Wanted::Profile, &capture, &path, options).expect("a plan");
    let text = pieces.iter().find(|piece| piece.start.is_some()).expect("a cut").to_json();
    let broken = text.replace("\"counted\":\"", "\"counted\":\"ff");
    let error = Piece::from_json(&broken).expect("a piece").profile(&capture, None).unwrap_err().to_string();
    assert!(error.contains("does not belong to this source"), "{error}");
    let odd = text.replace("\"counted\":\"", "\"counted\":\"f");
    assert!(Piece::from_json(&odd).unwrap_err().to_string().contains("hexadecimal"));
}

#[test]
fn a_handover_that_was_damaged_is_refused_or_counted_but_never_the_end() {
    let Some(corpus) = corpus() else { return skipped("no corpus") };
    let path = corpus.join("opencsd/juno_r1_1/capture");
    let capture = Capture::open(&path).expect("a capture");
    let pieces = plan(Wanted::Profile, &capture, &path, PlanOptions { bytes: 1 }).expect("a plan");
    let (mut random, mut refused) = (Random(23), 0);
    for piece in pieces.iter().filter(|piece| piece.start.is_some()).take(4) {
        let text = piece.to_json();
        let from = text.find("\"counted\":\"").expect("a handover") + 11;
        let length = text[from..].find('"').expect("its end");
        for _ in 0..50 {
            let mut damaged = text.clone().into_bytes();
            damaged[from + random.below(length as u64) as usize] =
                b"0123456789abcdef"[random.below(16) as usize];
            let damaged = String::from_utf8(damaged).expect("text");
            refused +=
                u32::from(Piece::from_json(&damaged).expect("a piece").profile(&capture, None).is_err());
        }
    }
    assert!(refused > 10, "{refused}");
}

proptest! {
    #[test]
    fn bytes_that_are_no_profile_are_read_or_refused(at in 0_usize..4000, value: u8, length in 0_usize..4000) {
        let capture = OpenOptions::new().open(bundled("calls-aarch64")).expect("a capture");
        let counted = backsight_profile::count(&capture, capture.execution(), &CountOptions::default());
        let mut bytes = counted.expect("a profile").0.to_bytes().expect("bytes");
        let index = 20 + at % (bytes.len() - 20);
        bytes[index] = value;
        let _ = Profile::from_bytes(&bytes[..length.min(bytes.len())]);
        if let Some(mut profile) = Profile::from_bytes(&bytes) {
            profile.merge(profile.clone());
        }
    }
}
