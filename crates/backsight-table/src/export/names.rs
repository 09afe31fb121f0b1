//! Names of captures in the names of folders.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use super::manifest;

/// Longest name of a capture.
const MOST_BYTES: usize = 120;

/// A text as a part of the name of a folder, as Hive writes it: whatever is neither a letter, a digit, `-`, `_` nor a dot
/// within the name is a percent sign and two hexadecimal digits. So no name leads out of its folder.
pub fn encoded(text: &str) -> String {
    let mut name = String::new();
    for byte in text.bytes() {
        match byte {
            b'.' if name.is_empty() => name.push_str("%2E"),
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' => name.push(byte.into()),
            _ => {
                // A text takes everything.
                let _ = write!(name, "%{byte:02X}");
            }
        }
        if name.len() >= MOST_BYTES {
            break;
        }
    }
    if name.is_empty() { "%00".to_owned() } else { name }
}

/// Names of captures, no two of which are the same. A capture is named after its file or folder; where another capture has
/// that name, here or in what was exported before, a number that depends on its path is added.
#[derive(Debug)]
pub struct CaptureNames {
    manifests: PathBuf,
    taken: BTreeMap<String, PathBuf>,
}

impl CaptureNames {
    /// Names beside those that have manifests in this folder.
    pub fn new(manifests: &Path) -> Self {
        Self { manifests: manifests.to_owned(), taken: BTreeMap::new() }
    }

    /// The name of the capture at a path.
    pub fn name(&mut self, path: &Path) -> String {
        let absolute = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let base = absolute.file_name().unwrap_or(absolute.as_os_str()).to_string_lossy().into_owned();
        let base = encoded(&base);
        let digest = crc32fast::hash(absolute.as_os_str().as_encoded_bytes());
        let mut name = base.clone();
        let mut round = 0_u32;
        while self.is_taken(&name, &absolute) {
            name = format!("{base}-{:08x}", digest.wrapping_add(round));
            round += 1;
        }
        self.taken.insert(name.clone(), absolute);
        name
    }

    fn is_taken(&self, name: &str, path: &Path) -> bool {
        if let Some(taken) = self.taken.get(name) {
            return taken != path;
        }
        let before = manifest::capture_of(&self.manifests.join(format!("{name}.json")));
        before.is_some_and(|before| before != path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for (text, expected) in [
            ("boot-17", "boot-17"),
            ("..", "%2E."),
            ("../../etc", "%2E.%2F..%2Fetc"),
            (".hidden", "%2Ehidden"),
            ("a=b c", "a%3Db%20c"),
            ("é", "%C3%A9"),
            ("", "%00"),
            ("trace.zip", "trace.zip"),
        ] {
            assert_eq!(encoded(text), expected);
        }
        assert!(encoded(&"x".repeat(1000)).len() <= MOST_BYTES);
    }

    #[test]
    fn two_captures_of_one_name_are_told_apart() {
        let mut names = CaptureNames::new(Path::new("/nonexistent"));
        let one = names.name(Path::new("/a/capture"));
        let other = names.name(Path::new("/b/capture"));
        assert_eq!(one, "capture");
        assert!(other.starts_with("capture-") && other.len() == "capture-".len() + 8, "{other}");
        assert_eq!(names.name(Path::new("/a/capture")), one);
    }
}
