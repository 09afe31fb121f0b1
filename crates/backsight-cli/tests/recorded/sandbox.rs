//! What a recorded program may do to the machine: needs `riscv64-linux-gnu-gcc`; without it the tests say so.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Scratch, program, record, run};

/// A compiled program of `tests/programs`; `None` without a compiler.
fn compiled(scratch: &Scratch, name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/programs/{name}.c"));
    let program = scratch.path(name);
    let compiler = Command::new("riscv64-linux-gnu-gcc")
        .args(["-static", "-w"])
        .arg(source)
        .arg("-o")
        .arg(&program)
        .output();
    match compiler {
        Ok(output) => {
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            Some(program)
        }
        Err(_) => {
            backsight_testing::skipped("no riscv64-linux-gnu-gcc (Debian: gcc-riscv64-linux-gnu)");
            None
        }
    }
}

/// Folders to read and to write in, beside a secret.
struct Place {
    read: String,
    write: String,
    secret: String,
}

fn place(scratch: &Scratch) -> Place {
    let path = |name: &str| scratch.path(name).display().to_string();
    for folder in ["read", "write"] {
        fs::create_dir_all(scratch.path(folder)).expect("a folder");
    }
    fs::write(scratch.path("secret"), "secret\n").expect("a file");
    fs::write(scratch.path("read/file"), "file\n").expect("a file");
    for (to, name) in [("../secret", "read/link"), ("..", "read/up")] {
        std::os::unix::fs::symlink(to, scratch.path(name)).expect("a link");
    }
    Place { read: path("read"), write: path("write"), secret: path("secret") }
}

/// Runs the program that tries everything: what it printed, and what was said about it.
fn tried(scratch: &Scratch, program: &Path, options: &[&str], place: &Place) -> (String, String) {
    let capture = scratch.path("capture").display().to_string();
    let program = program.display().to_string();
    let arguments = ["--", &program, &place.read, &place.write, &place.secret];
    let output = run(&[&["record", "--force", "-o", &capture], options, &arguments].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    (String::from_utf8(output.stdout).expect("text"), said)
}

#[test]
fn a_sandbox_refuses_everything_but_the_folders_that_are_allowed_and_lists_it() {
    let scratch = Scratch::new("sandbox");
    let Some(host) = compiled(&scratch, "host") else { return };
    let place = place(&scratch);
    let options = ["--allow-read", &place.read, "--allow-write", &place.write];
    let (printed, said) = tried(&scratch, &host, &options, &place);
    let done: Vec<_> =
        printed.lines().filter(|line| !line.ends_with("refused") && !line.is_empty()).collect();
    assert_eq!(done, ["allowed file: file", "write: done"], "{printed}");
    assert_eq!(printed.matches("refused").count(), 14, "{printed}");
    for file in ["read/link", "read/up/secret", "read/../secret"] {
        let words = format!("the sandbox refused to read {:?} (once)", scratch.path(file));
        assert!(said.contains(&words), "{words}: {said}");
    }
    assert!(said.contains(&format!("refused to read {:?} (2 times)", scratch.path("secret"))), "{said}");
    assert!(said.contains(&format!("refused to change {:?} (2 times)", scratch.path("read/file"))), "{said}");
    assert!(scratch.path("write/new").is_file() && fs::symlink_metadata(scratch.path("write/etc")).is_err());
    let (printed, _) = tried(&scratch, &host, &["--sandbox"], &place);
    assert_eq!(printed.matches("refused").count(), 16, "{printed}");
}

#[test]
fn without_a_sandbox_a_program_has_the_rights_of_its_user_but_no_network_and_no_processes() {
    let scratch = Scratch::new("no-sandbox");
    let Some(host) = compiled(&scratch, "host") else { return };
    let (printed, said) = tried(&scratch, &host, &[], &place(&scratch));
    assert_eq!(printed.matches("secret\n").count(), 4, "{printed}");
    for refused in ["network: refused", "kill: refused", "execute: refused"] {
        assert!(printed.contains(refused), "{printed}");
    }
    assert!(!said.contains("the sandbox"), "{said}");
}

#[test]
fn programs_that_lie_in_a_capture_run_in_a_sandbox() {
    let scratch = Scratch::new("sandbox-capture");
    let Some(host) = compiled(&scratch, "host") else { return };
    let place = place(&scratch);
    let capture = scratch.path("sent");
    assert!(record(
        &capture,
        &["--limit", "1000"],
        &[&host.display().to_string(), &place.read, &place.write, &place.secret]
    ));
    let inside = capture.join("code/host");
    let (printed, said) = tried(&scratch, &inside, &[], &place);
    assert!(!printed.contains("secret\n") && said.contains("the sandbox refused"), "{printed} {said}");
    let (printed, _) = tried(&scratch, &inside, &["--no-sandbox"], &place);
    assert!(printed.contains("secret\n"), "{printed}");
}

#[test]
fn under_qemu_a_sandbox_is_refused() {
    let scratch = Scratch::new("sandbox-qemu");
    let capture = scratch.path("capture").display().to_string();
    let calls = program("aarch64", "calls");
    let output = run(&["record", "-o", &capture, "--sandbox", "--", &calls]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(2) && said.contains("holds in the simulator only"), "{said}");
    fs::write(scratch.path("contents.ini"), "").expect("a file");
    fs::copy(&calls, scratch.path("calls")).expect("a file");
    let output = run(&["record", "-o", &capture, "--", &scratch.path("calls").display().to_string()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.code() == Some(1) && said.contains("--no-sandbox if you trust it"), "{said}");
    assert!(!scratch.path("capture").exists() && !scratch.path("capture.part").exists());
}
