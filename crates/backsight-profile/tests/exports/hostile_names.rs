//! Every format stays well-formed whatever names a program and a capture have.

use std::collections::BTreeMap;

use backsight_profile::Profile;
use backsight_profile::export::{ExportError, ExportOptions, FORMATS};
use backsight_profile::report::{self, ReportOptions};
use backsight_testing::Random;

use super::well_formed::check;
use super::{capture, json, profile_of};

/// Names that mean something to some format.
const NAMES: [&str; 48] = [
    "",
    " ",
    "a b",
    " before",
    "after ",
    "a\tb",
    "a\nb",
    "a\r\nb",
    "a\0b",
    "a\x1b[31mb",
    "\u{7f}\u{9b}31m",
    "a\u{202e}b\u{2066}c\u{200f}\u{61c}",
    "a\u{2028}b\u{2029}c",
    "\u{fffe}\u{ffff}\u{feff}\u{fffd}",
    "a;b;c",
    ";",
    "a\"b'c",
    "\"",
    "\"\"",
    "a,b",
    ",",
    "12,a",
    "12,13,a",
    "7",
    "\\",
    "a\\",
    "\\n\\u0041",
    "(12)",
    "(12) a",
    "(anonymous namespace)::f",
    "std::map<int, int>::operator[](int const&)",
    "#a",
    "[a:3 @ b]",
    "!CFGChecksum: 1",
    "3: 4",
    ":",
    "a:7",
    "a:7 b:8",
    "a 7",
    "// a",
    "end_of_record",
    "a\nend_of_record\nSF:b",
    "<!-- ]]> --> &amp; &lt;&#27;",
    "</script><script>alert(1)</script>",
    "=cmd|calc!A1",
    "%s%n${x}`y`",
    "日本\u{1f600}",
    "/src/a\">\u{1}.c",
];

/// Gives each name another, the same one every time.
fn renamed(profile: &Profile, mut another: impl FnMut() -> String) -> Profile {
    let mut known = BTreeMap::new();
    profile.renamed(&mut |name: &str| known.entry(name.to_owned()).or_insert_with(&mut another).clone())
}

fn check_all(profile: &Profile, title: &str) {
    let options = ExportOptions { title: title.to_owned(), ..ExportOptions::default() };
    for format in FORMATS {
        let mut out = Vec::new();
        match format.write(profile, &options, &mut out) {
            Ok(()) => check(format.name, &out),
            Err(ExportError::Missing(_)) => {}
            Err(ExportError::Io(error)) => panic!("{}: {error}", format.name),
        }
    }
    let options = ReportOptions { title: title.to_owned(), ..ReportOptions::default() };
    let mut page = Vec::new();
    report::write(profile, &options, &mut page).expect("memory takes everything");
    let page = String::from_utf8(page).expect("text");
    for (what, count) in [("<script", 1), ("</script", 1), ("<!--", 0)] {
        let found = page.matches(what).count();
        assert!(found <= count, "{what} is {found} times in the page of {title:?}");
    }
}

#[test]
fn every_format_is_well_formed_with_names_that_mean_something() {
    let profile = profile_of(&capture("calls-riscv64"));
    check_all(&profile, "as it is");
    for first in (0..NAMES.len()).step_by(6) {
        let mut next = NAMES.iter().cycle().skip(first);
        let hostile = renamed(&profile, || (*next.next().expect("they come again")).to_owned());
        check_all(&hostile, NAMES[first]);
    }
    // All by one name, and by very long ones.
    for name in NAMES {
        check_all(&renamed(&profile, || name.to_owned()), name);
    }
    let mut length = 0;
    check_all(
        &renamed(&profile, || {
            length = (length + 997) % 10_000;
            let name = NAMES[length % NAMES.len()];
            "x".chars().chain(name.chars()).cycle().take(length).collect()
        }),
        &"long ".repeat(10_000),
    );
}

#[test]
fn every_format_is_well_formed_with_random_names() {
    let profiles = ["calls-riscv64", "calls-aarch64", "interwork-arm"].map(|name| profile_of(&capture(name)));
    let mut random = Random(37);
    for _ in 0..6 {
        for profile in &profiles {
            let hostile = renamed(profile, || {
                let length = random.below(12);
                let piece = |random: &mut Random| match random.below(4) {
                    0 => NAMES[random.below(NAMES.len() as u64) as usize].to_owned(),
                    1 => char::from(random.below(128) as u8).to_string(),
                    2 => char::from_u32(random.below(0x11_0000) as u32).unwrap_or('?').to_string(),
                    _ => "name".to_owned(),
                };
                (0..length).map(|_| piece(&mut random)).collect()
            });
            check_all(&hostile, "random");
        }
    }
}

#[test]
fn json_has_every_name_as_it_is() {
    let profile = profile_of(&capture("calls-riscv64"));
    let mut next = NAMES.iter().cycle();
    let hostile = renamed(&profile, || (*next.next().expect("they come again")).to_owned());
    let written = json(&hostile, "json");
    let names: Vec<_> = written["functions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    let expected: Vec<_> = hostile.functions.iter().map(|function| &function.name).collect();
    assert_eq!(names, expected);
    assert!(names.len() > 2);
}
