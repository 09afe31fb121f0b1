//! Debug information names files: `report` shows lines out of folders that the user gave, and of no other file.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::support::{Scratch, record, run};

const SECRET: &str = "-----BEGIN PRIVATE KEY-----";

/// A program whose debug information says that a function was written in `named`, and the rest in `main.c`.
fn build(scratch: &Scratch, named: &str) -> bool {
    let source = format!(
        "static void leave(int c) {{ register long a0 asm(\"a0\") = c, a7 asm(\"a7\") = 93;\n\
         asm volatile(\"ecall\" :: \"r\"(a0), \"r\"(a7)); }}\n\
         #line 1 \"{named}\"\n\
         __attribute__((noinline)) int leak(int n) {{ int s = 0; for (int i = 0; i < n; i++) s += i * n ^ s; return s; }}\n\
         #line 6 \"main.c\"\n\
         void _start(void) {{ volatile int r = 0; for (int i = 0; i < 50; i++) r += leak(i); leave(r & 0); }}\n"
    );
    fs::write(scratch.path("main.c"), source).expect("source");
    let compiler = "riscv64-linux-gnu-gcc";
    let mut command = Command::new(compiler);
    command.args(["-g", "-O1", "-static", "-nostdlib", "-ffreestanding", "-o", "program", "main.c"]);
    let built = command.current_dir(scratch.path("")).status().is_ok_and(|status| status.success());
    if !built {
        backsight_testing::skipped(format_args!(
            "{compiler} is not installed (Debian: gcc-riscv64-linux-gnu)"
        ));
    }
    built
}

fn page(scratch: &Scratch, capture: &Path, options: &[&str]) -> (String, String) {
    let (capture, page) = (capture.display().to_string(), scratch.path("page.html"));
    let path = page.display().to_string();
    let output = run(&[&["report", &capture, "-o", &path], options].concat());
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    (fs::read_to_string(page).expect("a page"), said)
}

#[test]
fn lines_of_files_that_debug_information_names_are_shown_out_of_given_folders_only() {
    let scratch = Scratch::new("source-lines");
    fs::create_dir_all(scratch.path("secret")).expect("folder");
    fs::create_dir_all(scratch.path("src")).expect("folder");
    fs::write(scratch.path("secret/id_rsa"), format!("{SECRET}\n")).expect("a file");
    for (number, named) in
        [scratch.path("secret/id_rsa").display().to_string(), "secret/id_rsa".to_owned()].iter().enumerate()
    {
        if !build(&scratch, named) {
            return;
        }
        fs::copy(scratch.path("main.c"), scratch.path("src/main.c")).expect("source");
        let program = scratch.path("program").display().to_string();
        for name in [format!("capture-{number}"), format!("capture-{number}.zip")] {
            let capture = scratch.path(&name);
            assert!(record(&capture, &[], &[&program]));
            let (shown, said) = page(&scratch, &capture, &[]);
            assert!(!shown.contains(SECRET) && !shown.contains("volatile int r"), "{named}");
            assert!(said.contains("--source FOLDER") && shown.contains("--source FOLDER"), "{said}");
            let (shown, _) =
                page(&scratch, &capture, &["--source", &scratch.path("src").display().to_string()]);
            assert!(!shown.contains(SECRET) && shown.contains("volatile int r"), "{named}");
            let out =
                run(&["flow", "--disasm", "--source", "--limit", "200", &capture.display().to_string()]);
            assert!(!String::from_utf8_lossy(&out.stdout).contains(SECRET), "{named}");
        }
    }
    let wrong =
        run(&["report", &scratch.path("capture-0").display().to_string(), "--source", "/no/such/folder"]);
    assert_eq!(wrong.status.code(), Some(1));
}
