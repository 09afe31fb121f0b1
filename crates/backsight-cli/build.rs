//! Finds out which commit is built, for `backsight --version`. Where the sources are not a checkout (an archive, a copy
//! in another repository) or Git is not installed, the version alone is shown.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let version = std::env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let version = match commit() {
        Some(commit) => format!("{version} ({commit})"),
        None => version,
    };
    println!("cargo::rustc-env=BACKSIGHT_VERSION={version}");
}

/// The short hash and the date of the commit that is checked out.
fn commit() -> Option<String> {
    // The log of HEAD grows with each commit and each checkout; a repository without it has HEAD at least.
    for file in ["logs/HEAD", "HEAD"] {
        let path = git(&["rev-parse", "--git-path", file])?;
        if Path::new(&path).exists() {
            println!("cargo::rerun-if-changed={path}");
            break;
        }
    }
    // A copy of the sources inside of another repository is no part of that.
    git(&["ls-files", "--error-unmatch", "build.rs"])?;
    git(&["log", "-1", "--format=%h %cs", "--abbrev=10"])
}

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    (output.status.success()).then(|| text.trim().to_owned())
}
