//! What the tests of several crates share: finding the corpus, golden files, a small random source.

#![forbid(unsafe_code)]

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::{fmt, fs};

/// The folder of captures that this project did not make: `BACKSIGHT_CORPUS`, else `../shared/corpus` beside
/// the checkout. Where there is none, says so and gives `None`: the test then has nothing to check.
pub fn corpus() -> Option<PathBuf> {
    let folder = match std::env::var_os("BACKSIGHT_CORPUS") {
        Some(folder) => PathBuf::from(folder),
        None => repository().join("../shared/corpus"),
    };
    if folder.is_dir() {
        return Some(folder);
    }
    skipped(format_args!("no corpus at {} (set BACKSIGHT_CORPUS)", folder.display()));
    None
}

/// Says that a test, or a part of one, was skipped, and why: `skipped: TEST: WHY`, TEST being `PROGRAM::path::of::the_test`. It
/// is said past the test harness, which keeps what tests that pass print. `.ci/check-skips` compares these lines with the list of
/// tests that may be skipped.
pub fn skipped(why: impl fmt::Display) {
    let program = std::env::current_exe().unwrap_or_default();
    let thread = std::thread::current();
    let line = announcement(&program, thread.name().unwrap_or("?"), &why.to_string());
    // With standard error closed there is nobody to tell.
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The line that says it. Cargo puts a hash behind the names of programs, and the harness calls threads like their tests.
fn announcement(program: &Path, test: &str, why: &str) -> String {
    let program = program.file_stem().unwrap_or_default().to_string_lossy();
    let program = program.rsplit_once('-').map_or(&*program, |(name, _)| name);
    let why: Vec<&str> = why.lines().map(str::trim).collect();
    format!("skipped: {program}::{test}: {}\n", why.join(" "))
}

/// The root of the checkout.
pub fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The QEMU plugin: the file that `BACKSIGHT_QEMU_PLUGIN` names, else the one that this checkout built. Where there is
/// none, tests that record under QEMU say so.
pub fn qemu_plugin() -> Option<PathBuf> {
    let built = repository().join("tools/qemu-plugin/target/release/libbacksight_qemu.so");
    let named = std::env::var_os("BACKSIGHT_QEMU_PLUGIN").map(PathBuf::from);
    named.or(Some(built)).filter(|plugin| plugin.is_file())
}

/// The contents of a gzip file.
///
/// # Panics
/// If the file cannot be read: for tests only.
pub fn gunzip(path: &Path) -> Vec<u8> {
    let file = fs::File::open(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let mut contents = Vec::new();
    flate2::read::GzDecoder::new(file)
        .read_to_end(&mut contents)
        .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    contents
}

/// Compares `actual` with the golden file at `path` (relative to the checkout). `BLESS=1` writes it instead.
///
/// # Panics
/// If they differ.
pub fn assert_golden(path: &str, actual: &str) {
    let file = repository().join(path);
    if std::env::var_os("BLESS").is_some() {
        if let Some(folder) = file.parent() {
            fs::create_dir_all(folder).expect("golden folder");
        }
        fs::write(&file, actual).expect("golden file");
        return;
    }
    let expected = fs::read_to_string(&file)
        .unwrap_or_else(|error| panic!("{}: {error} (BLESS=1 makes it)", file.display()));
    if expected == actual {
        return;
    }
    let line = expected.lines().zip(actual.lines()).take_while(|(e, a)| e == a).count();
    panic!(
        "{path} differs at line {}:\n  expected: {}\n  actual:   {}\n(BLESS=1 accepts the new text)",
        line + 1,
        expected.lines().nth(line).unwrap_or("<end>"),
        actual.lines().nth(line).unwrap_or("<end>"),
    );
}

/// A small, fast, repeatable source of random numbers for tests (splitmix64).
#[derive(Clone, Debug)]
pub struct Random(pub u64);

impl Random {
    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends, and needs no adapters")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `bound`; `bound` is not 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_names_the_test_and_is_one_line() {
        let said = announcement(
            Path::new("/target/debug/deps/arm-0123456789abcdef"),
            "etm4::a_test",
            "no\n  QEMU\n",
        );
        assert_eq!(said, "skipped: arm::etm4::a_test: no QEMU\n");
    }
}
