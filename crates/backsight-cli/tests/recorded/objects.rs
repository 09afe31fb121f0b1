//! Files that are not linked, as kernel modules are: execution is followed through them as through the linked program.

use std::fs;
use std::process::Command;

use crate::support::{Scratch, assert_same, backsight, record, run};

const FIRST: &str = "
int second(int);
static void leave(int c) { register long a0 asm(\"a0\") = c, a7 asm(\"a7\") = 93;
  asm volatile(\"ecall\" :: \"r\"(a0), \"r\"(a7)); }
__attribute__((noinline)) int step(int n) { int s = 0; for (int i = 0; i < n; i++) s += i * n ^ s; return s; }
void _start(void) { volatile int r = 0; for (int i = 0; i < 20; i++) r += step(i) + second(i); leave(r & 0); }
";
const SECOND: &str = "int second(int x) { return x > 7 ? x * 3 : x + 1; }";

fn tool(scratch: &Scratch, line: &str) -> Option<String> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next()?);
    let output = command.args(words).current_dir(scratch.path("")).output().ok()?;
    assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).ok()
}

/// Where a symbol of the program is.
fn address(symbols: &str, name: &str) -> String {
    let line = symbols.lines().find(|line| line.ends_with(&format!(" {name}"))).expect("a symbol");
    format!("0x{}", line.split_whitespace().next().unwrap_or_default())
}

#[test]
fn files_that_are_not_linked_are_followed_as_the_program_that_was_linked_of_them() {
    let scratch = Scratch::new("objects");
    fs::write(scratch.path("first.c"), FIRST).expect("source");
    fs::write(scratch.path("second.c"), SECOND).expect("source");
    let compiled = tool(
        &scratch,
        "riscv64-linux-gnu-gcc -c -O1 -mno-relax -ffreestanding -fno-pie -ffunction-sections first.c second.c",
    );
    if compiled.is_none() {
        backsight_testing::skipped("riscv64-linux-gnu-gcc is not installed (Debian: gcc-riscv64-linux-gnu)");
        return;
    }
    tool(&scratch, "riscv64-linux-gnu-ld --no-relax -Ttext=0x20000 -o program first.o second.o")
        .expect("linked");
    let symbols = tool(&scratch, "riscv64-linux-gnu-nm program").expect("symbols");
    let capture = scratch.path("capture");
    assert!(record(&capture, &["--truth"], &[&scratch.path("program").display().to_string()]));
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
    // Without the code that it brings along.
    let contents = fs::read_to_string(capture.join("contents.ini")).expect("contents");
    let sections: Vec<&str> = contents.split("\n[").filter(|section| section.starts_with("trace]")).collect();
    let contents = format!("[{}\n", sections.first().expect("a section"));
    fs::write(capture.join("contents.ini"), contents).expect("contents");
    fs::remove_dir_all(capture.join("code")).expect("code");
    let first = format!("{}@0x20000", scratch.path("first.o").display());
    let second = format!("{}@{}", scratch.path("second.o").display(), address(&symbols, "second"));
    let told =
        backsight(&["flow", "--format", "pcs", "--strict", "--image", &second, "--image", &first], &capture);
    assert_same(&told, &truth, "linked to one another");
    // Without the second one its calls are gaps, and no branch to themselves.
    let output = run(&["flow", "--disasm", "--image", &first, &capture.display().to_string()]);
    let (out, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(out.contains("gap: no code at") && out.contains("<step>"), "{out}");
    assert!(said.contains("1 of its branches") && said.contains("second"), "{said}");
}
