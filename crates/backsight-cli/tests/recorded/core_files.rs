//! ELF core files with trace: a capture that is written as one gives what it gave before, and a broken one is refused.

use crate::support::{Scratch, assert_same, backsight, run};

fn bundled(name: &str) -> std::path::PathBuf {
    backsight_testing::repository().join("testdata/captures").join(name)
}

#[test]
fn a_capture_in_a_core_file_gives_what_it_gave_before() {
    let scratch = Scratch::new("core-file");
    for name in ["calls-aarch64", "calls-riscv64", "interwork-arm"] {
        let core = scratch.path(&format!("{name}.core"));
        backsight(&["convert", "--format", "core", "--output", &core.display().to_string()], &bundled(name));
        let expected = backsight(&["flow", "--format", "pcs"], &bundled(name));
        assert!(expected.lines().count() > 1000, "{name}");
        assert_same(&backsight(&["flow", "--format", "pcs"], &core), &expected, name);
        let packets = backsight(&["packets"], &bundled(name));
        assert!(backsight(&["packets"], &core) == packets, "{name}: the same packets");
        let package = scratch.path(&format!("{name}.package"));
        backsight(&["convert", "--output", &package.display().to_string()], &core);
        assert_same(&backsight(&["flow", "--format", "pcs"], &package), &expected, "and back");
        let findings = run(&["doctor", &core.display().to_string()]);
        let text = String::from_utf8_lossy(&findings.stdout);
        assert!(findings.status.success() && text.contains("nothing is wrong"), "{name}: {text}");
    }
}

#[test]
fn a_core_file_that_was_cut_off_is_refused_or_named_in_words() {
    let scratch = Scratch::new("cut-core-file");
    let core = scratch.path("whole.core");
    let output = core.display().to_string();
    backsight(&["convert", "--format", "core", "--output", &output], &bundled("calls-aarch64"));
    let bytes = std::fs::read(&core).expect("a core file");
    let cut = scratch.path("cut.core");
    for length in [0, 3, 16, 63, 64, 200, bytes.len() / 2, bytes.len() - 1] {
        std::fs::write(&cut, &bytes[..length]).expect("a folder to write to");
        let seen = run(&["flow", "--format", "pcs", &cut.display().to_string()]);
        let complaint = String::from_utf8_lossy(&seen.stderr);
        assert!(!seen.status.success() && !complaint.trim().is_empty(), "{length} bytes: {complaint}");
        assert_eq!(seen.status.code(), Some(1), "{length} bytes: {complaint}");
    }
}
