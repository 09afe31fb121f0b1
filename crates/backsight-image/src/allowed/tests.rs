//! Names that lead where they should not.

#![cfg(unix)]

use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use super::*;

/// A folder with a file inside, a file outside, and links.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("backsight-allowed-{}-{number}", std::process::id()));
        fs::create_dir_all(folder.join("given/usr/lib")).unwrap();
        fs::write(folder.join("secret"), "private").unwrap();
        fs::write(folder.join("given/usr/lib/a.so"), "inside").unwrap();
        Self(fs::canonicalize(folder).unwrap())
    }

    fn given(&self) -> PathBuf {
        self.0.join("given")
    }

    fn link(&self, name: &str, target: impl AsRef<Path>) {
        symlink(target, self.given().join(name)).unwrap();
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn read(folder: &GivenFolder, name: &str) -> Result<String, String> {
    let (mut file, _) = folder.open(name).map_err(|error| error.to_string())?;
    let mut text = String::new();
    io::Read::read_to_string(&mut file, &mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

#[test]
fn names_are_looked_up_beneath_the_folder() {
    let scratch = Scratch::new();
    scratch.link("lib", "usr/lib");
    scratch.link("usr/lib/up.so", "../lib/./a.so");
    let absolute = scratch.given().join("usr/lib/a.so");
    scratch.link("whole.so", &absolute);
    let folder = GivenFolder::new(scratch.given());
    for name in ["usr/lib/a.so", "./usr//lib/a.so", "lib/a.so", "usr/lib/up.so", "whole.so"] {
        assert_eq!(read(&folder, name).as_deref(), Ok("inside"), "{name}");
    }
    assert!(read(&folder, "/usr/lib/a.so").unwrap_err().contains("absolute"));
    assert!(read(&folder, "usr/../usr/lib/a.so").unwrap_err().contains("`..`"));
    assert!(read(&folder, "../secret").unwrap_err().contains("`..`"));
    assert!(read(&folder, "usr/lib").unwrap_err().contains("is a directory"));
    assert!(folder.find("usr/lib/b.so").unwrap_err().kind() == io::ErrorKind::NotFound);
}

#[test]
fn links_that_lead_out_are_refused() {
    let scratch = Scratch::new();
    scratch.link("absolute", scratch.0.join("secret"));
    scratch.link("relative", "../secret");
    scratch.link("usr/deep", "../../secret");
    scratch.link("above", "..");
    scratch.link("chain", "above");
    scratch.link("round", "round");
    for folder in [GivenFolder::new(scratch.given()), GivenFolder::root(scratch.given())] {
        for name in ["absolute", "relative", "usr/deep", "above/secret", "chain/secret", "round"] {
            assert!(read(&folder, name).is_err(), "{name} of {folder:?}");
        }
    }
    let said = read(&GivenFolder::new(scratch.given()), "relative").unwrap_err();
    assert!(said.contains("leads out of"), "{said}");
}

#[test]
fn in_the_root_of_a_system_absolute_paths_and_links_begin_there() {
    let scratch = Scratch::new();
    scratch.link("lib", "/usr/lib");
    scratch.link("usr/lib/b.so", "/../../lib/a.so");
    let folder = GivenFolder::root(scratch.given());
    for name in ["/usr/lib/a.so", "/lib/a.so", "/lib/b.so"] {
        assert_eq!(read(&folder, name).as_deref(), Ok("inside"), "{name}");
    }
}

#[test]
fn pipes_and_files_that_the_system_makes_up_are_refused_at_once() {
    let scratch = Scratch::new();
    rustix::fs::mkfifoat(rustix::fs::CWD, scratch.given().join("pipe"), rustix::fs::Mode::RWXU).unwrap();
    let folder = GivenFolder::new(scratch.given());
    assert!(read(&folder, "pipe").unwrap_err().contains("no regular file"));
    let root = GivenFolder::root("/");
    for name in ["/proc/self/environ", "/proc/version", "/dev/zero", "/dev/stdin"] {
        assert!(read(&root, name).is_err(), "{name}");
    }
}

/// A program of one segment and a build ID.
fn elf(id: &[u8]) -> Vec<u8> {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let note = [&[4, 0, 0, 0, id.len() as u8, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0", id].concat();
    let (size, length) = (64 + 2 * 56 + note.len() as u64, note.len() as u64);
    let mut file = b"\x7FELF\x02\x01\x01".to_vec();
    file.resize(16, 0);
    file.extend(words(&[2 | 183 << 16 | 1 << 32, 0x40_0000, 64, 0]));
    file.extend([0, 0, 0, 0, 64, 0, 56, 0, 2, 0, 64, 0, 0, 0, 0, 0]);
    file.extend(words(&[1 | 5 << 32, 0, 0x40_0000, 0x40_0000, size, size, 0x1000]));
    file.extend(words(&[4 | 4 << 32, 176, 0x40_00B0, 0x40_00B0, length, length, 4]));
    [file, note].concat()
}

#[test]
fn files_of_this_machine_need_leave_and_the_recorded_build_id() {
    let scratch = Scratch::new();
    let (program, secret) = (scratch.0.join("program"), scratch.0.join("secret"));
    fs::write(&program, elf(&[0xAB; 20])).unwrap();
    let id = "ab".repeat(20);
    let closed = AllowedFiles::default();
    assert!(closed.host_image(&program, &id).unwrap().is_none(), "nobody allowed it");
    let open = AllowedFiles::default().allow_host(true);
    assert!(open.host_image(&program, &id).unwrap().is_some());
    assert!(open.host_image(&program, "abcd").unwrap_err().to_string().contains("another version"));
    assert!(open.host_image(&program, "").unwrap().is_none(), "nothing says that it is what ran");
    assert!(open.host_image(&secret, &id).unwrap().is_none(), "it is no program");
    assert!(open.host_image(&scratch.given().join("../program"), &id).unwrap().is_none(), "`..`");
    assert!(open.host_image(Path::new("/proc/self/exe"), &id).unwrap().is_none());
    let contents = open.host_image(&program, &id).unwrap().unwrap();
    assert_eq!(contents.file(), None, "what lies beside it is not looked at");
}

#[test]
fn source_is_found_by_its_last_parts_and_only_beneath_its_folders() {
    let scratch = Scratch::new();
    fs::create_dir_all(scratch.given().join("src/.hidden")).unwrap();
    fs::write(scratch.given().join("src/a.c"), "one\ntwo\n").unwrap();
    fs::write(scratch.given().join("src/.hidden/key"), "private").unwrap();
    fs::write(scratch.given().join("src/binary"), "private\0").unwrap();
    scratch.link("src/out.c", "../../secret");
    let folders = SourceFolders::new([scratch.given()]);
    let own = scratch.given().join("src/a.c").display().to_string();
    for name in ["/build/elsewhere/src/a.c", "src/a.c", "x/../src/a.c", "../../src/a.c", &own] {
        let lines = folders.lines(name).unwrap_or_else(|| panic!("{name}"));
        assert_eq!(&*lines, ["one", "two"], "{name}");
        assert_eq!(folders.path(name), Some(scratch.given().join("src/a.c")), "{name}");
    }
    let secret = scratch.0.join("secret").display().to_string();
    let above = format!("{}/../secret", scratch.given().display());
    assert_eq!(folders.path(&"a/".repeat(100_000)), None);
    for name in [&*secret, &above, "../secret", "src/out.c", "src/.hidden/key", "/etc/passwd", "", "src"] {
        assert_eq!(folders.path(name), None, "{name}");
    }
    for name in [
        &*secret,
        &above,
        "../secret",
        "src/out.c",
        "src/.hidden/key",
        "src/binary",
        "/etc/passwd",
        "",
        "src",
    ] {
        assert!(folders.lines(name).is_none(), "{name}");
    }
    assert!(SourceFolders::default().lines(&own).is_none(), "no folder was given");
    assert!(folders.lines(&"a/".repeat(100_000)).is_none());
}
