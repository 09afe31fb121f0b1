//! `record`, `encode` and the captures that come with the repository.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::support::{Scratch, assert_same, backsight, program, record, run};
use backsight_core::Execution;
use backsight_run::retired::RetiredReader;

fn complaint(arguments: &[&str]) -> (i32, String) {
    let output = run(arguments);
    (output.status.code().expect("an exit status"), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn bundled_captures_tell_what_was_executed() {
    for name in ["calls-riscv64", "calls-aarch64", "interwork-arm"] {
        let capture = backsight_testing::repository().join("testdata/captures").join(name);
        let told = backsight(&["flow", "--format", "pcs", "--strict"], &capture);
        let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
        assert_eq!(truth.lines().count(), 40_000, "{name}");
        assert_same(&told, &truth, name);
    }
}

#[test]
fn what_the_program_prints_passes_through() {
    let scratch = Scratch::new("prints");
    let capture = scratch.path("capture.zip").display().to_string();
    let output = run(&["record", "-o", &capture, "--", &program("riscv64", "pack")]);
    let expected = backsight_testing::repository().join("testdata/programs/expected/pack");
    assert_eq!(output.stdout, std::fs::read(expected).expect("a bundled file"));
    let summary = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && summary.contains("ended with status 0"), "{summary}");
    assert!(summary.contains(&format!("backsight flow {capture} --calls")), "{summary}");
    assert!(backsight(&["flow", "--format", "text"], capture.as_ref()).contains("_start"));
    assert!(!scratch.path("capture.zip.part").exists());
}

#[test]
fn what_cannot_be_recorded_is_refused_with_the_reason() {
    let scratch = Scratch::new("refused");
    let capture = scratch.path("capture").display().to_string();
    let text = scratch.path("text");
    std::fs::write(&text, "no program").expect("a file");
    let text = text.display().to_string();
    let rv = std::fs::read(program("riscv64", "sort")).expect("a bundled program");
    let cut = scratch.path("cut");
    std::fs::write(&cut, &rv[..100]).expect("a file");
    let cut = cut.display().to_string();
    let (rv, a64) = (program("riscv64", "sort"), program("aarch64", "sort"));
    let cases: [(&[&str], i32, &str); 6] = [
        (&["--", &text], 1, "no ELF file; only programs for riscv64, aarch64 or arm run here"),
        (&["--", &cut], 1, "truncated"),
        (&["--", "no-such-program"], 1, "No such file"),
        (&["--target", "arm", "--", &a64], 2, "is a program for aarch64"),
        (&["--unit", "etm4", "--", &rv], 2, "which etrace and ntrace can trace"),
        (&["--config", "colour=1", "--", &rv], 2, "unknown parameter"),
    ];
    for (arguments, status, reason) in cases {
        let (code, said) = complaint(&[&["record", "-o", &capture], arguments].concat());
        assert!(code == status && said.contains(reason), "{arguments:?}: {code} {said}");
        assert!(!std::path::Path::new(&capture).exists(), "{arguments:?} left a capture");
    }
    let (code, said) = complaint(&["record", "-o", &text, "--", &rv]);
    assert!(code == 1 && said.contains("exists"), "{said}");
}

#[test]
fn a_run_can_be_encoded_again_by_another_unit() {
    let scratch = Scratch::new("encode");
    let first = scratch.path("first");
    assert!(record(&first, &["--truth", "--limit", "50000"], &[&program("riscv64", "vm")]));
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &first);
    let (input, image) = (first.display().to_string(), program("riscv64", "vm"));
    let stream = first.join("truth.retired").display().to_string();
    let again = scratch.path("again");
    let other = scratch.path("other");
    let (again_name, other_name) = (again.display().to_string(), other.display().to_string());
    let config = ["--config", "branch_prediction=1", "--config", "implicit_return=1"];
    let (code, said) = complaint(&[&["encode", &input, "-o", &again_name], &config[..]].concat());
    assert_eq!(code, 0, "{said}");
    let (code, said) = complaint(&["encode", &stream, "-o", &other_name, "--image", &image]);
    assert_eq!(code, 0, "{said}");
    for capture in [&again, &other] {
        assert_same(&backsight(&["flow", "--format", "pcs", "--strict"], capture), &truth, "encoded");
    }
}

#[test]
fn a_converted_recording_still_has_its_truth() {
    let scratch = Scratch::new("convert-truth");
    let (recorded, converted) = (scratch.path("recorded"), scratch.path("converted.zip"));
    assert!(record(&recorded, &["--truth", "--limit", "5000"], &[&program("riscv64", "calls")]));
    let names = [&recorded, &converted].map(|path| path.display().to_string());
    let (code, said) = complaint(&["convert", &names[0], "--output", &names[1]]);
    assert_eq!(code, 0, "{said}");
    let truth = |capture| backsight(&["flow", "--truth", "--format", "pcs"], capture);
    assert_same(&truth(&converted), &truth(&recorded), "converted");
}

#[test]
fn loads_stores_and_results_of_system_calls_are_kept_on_demand_and_change_nothing_else() {
    let scratch = Scratch::new("accesses");
    let (plain, data) = (scratch.path("plain"), scratch.path("data"));
    let options = |truth| ["--limit", "50000", truth];
    assert!(record(&plain, &options("--truth"), &[&program("riscv64", "pack")]));
    assert!(record(&data, &options("--truth=accesses"), &[&program("riscv64", "pack")]));
    let trace = |capture: &std::path::Path| std::fs::read(capture.join("trace.bin")).expect("trace");
    assert!(trace(&plain) == trace(&data), "the trace differs");
    let counted = |capture: &std::path::Path| {
        let file = std::fs::File::open(capture.join("truth.retired")).expect("the truth");
        let (mut instructions, mut accesses, mut inputs) = (0, 0, 0);
        let mut reader = RetiredReader::new(file).expect("a stream");
        reader
            .read(&mut |item| match item {
                Execution::Instruction(_) => instructions += 1,
                Execution::Access(access) => accesses += u32::from(access.known),
                Execution::Input(_) => inputs += 1,
                _ => {}
            })
            .expect("a whole stream");
        (instructions, accesses, inputs)
    };
    assert_eq!(counted(&plain), (50_000, 0, 0));
    let (instructions, accesses, inputs) = counted(&data);
    assert!(
        instructions == 50_000 && accesses > 5_000 && inputs > 60,
        "{accesses} accesses, {inputs} inputs"
    );
    let (input, again) = (data.display().to_string(), scratch.path("again"));
    let (code, said) = complaint(&["encode", "--truth", &input, "-o", &again.display().to_string()]);
    assert_eq!(code, 0, "{said}");
    assert_eq!(counted(&again), counted(&data), "encode keeps what there is");
    assert!(trace(&again) == trace(&data));
}

#[test]
fn several_instructions_a_cycle_leave_the_same_trace() {
    let scratch = Scratch::new("retire");
    let single = scratch.path("recorded");
    assert!(record(&single, &["--truth", "--limit", "40000"], &[&program("riscv64", "calls")]));
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &single);
    let trace = |capture: &std::path::Path| std::fs::read(capture.join("trace.bin")).expect("trace");
    let input = single.display().to_string();
    for shape in ["single", "branches:2", "blocks:4", "branches:2/4", "blocks:2+serial"] {
        let capture = scratch.path(&shape.replace('/', "-"));
        let name = capture.display().to_string();
        let (code, said) = complaint(&["encode", &input, "-o", &name, "--retire", shape]);
        assert!(code == 0 && said.contains(" cycles: ") && said.contains("blocks"), "{shape}: {said}");
        assert!(trace(&capture) == trace(&single), "{shape}: the packets differ");
        assert_same(&backsight(&["flow", "--format", "pcs", "--strict"], &capture), &truth, shape);
    }
    let capture = scratch.path("wrong").display().to_string();
    let (code, said) = complaint(&["encode", &input, "-o", &capture, "--retire", "blocks:0"]);
    assert!(code == 2 && said.contains("branches:N"), "{said}");
    let a64 = program("aarch64", "sort");
    let (code, said) = complaint(&["record", "-o", &capture, "--retire", "blocks:2", "--", &a64]);
    assert!(code == 2 && said.contains("--retire"), "{said}");
}

#[test]
fn a_buffer_that_is_too_small_loses_trace_and_says_so() {
    let scratch = Scratch::new("fifo");
    let vm = program("riscv64", "vm");
    let recorded = |name: &str, fifo: &str| {
        let capture = scratch.path(name);
        let target = capture.display().to_string();
        let limits = ["--truth", "--limit", "60000", "--config", fifo];
        let (code, said) = complaint(&[&["record", "-o", &target], &limits[..], &["--", &vm]].concat());
        assert_eq!(code, 0, "{said}");
        let lines = |arguments: &[&str]| backsight(arguments, &capture).lines().count();
        let told = lines(&["flow", "--format", "pcs"]);
        let (strict, _) = complaint(&["flow", "--quiet", "--strict", "-o", "/dev/null", &target]);
        (said, told, lines(&["flow", "--truth", "--format", "pcs"]), strict)
    };
    let (said, told, truth, strict) = recorded("small", "fifo=64:2");
    assert!(said.contains("trace was lost"), "{said}");
    assert!((1..truth).contains(&told) && strict == 1, "{told} of {truth}, {strict}");
    let (said, told, truth, strict) = recorded("large", "fifo=1000000:2");
    assert!(said.contains("large enough"), "{said}");
    assert_eq!((told, strict), (truth, 0));
}

#[test]
fn a_commit_log_can_be_encoded() {
    let scratch = Scratch::new("log");
    let log = scratch.path("log");
    // li a0, 2; addi a0, a0, -1; bnez a0, -4; ret, at 0x1000.
    let lines = [
        (0x1000, "00200513"),
        (0x1004, "fff50513"),
        (0x1008, "fe051ee3"),
        (0x1004, "fff50513"),
        (0x1008, "fe051ee3"),
        (0x100c, "00008067"),
    ];
    let text: String =
        lines.iter().map(|(pc, opcode)| format!("core   0: 3 {pc:#018x} (0x{opcode})\n")).collect();
    std::fs::write(&log, text).expect("a file");
    let code = scratch.path("code.bin");
    let bytes: Vec<u8> = [0x0020_0513_u32, 0xFFF5_0513, 0xFE05_1EE3, 0x0000_8067]
        .iter()
        .flat_map(|opcode| opcode.to_le_bytes())
        .collect();
    std::fs::write(&code, bytes).expect("a file");
    let capture = scratch.path("capture");
    let (status, said) = complaint(&[
        "encode",
        &log.display().to_string(),
        "-o",
        &capture.display().to_string(),
        "--image",
        &format!("{}@0x1000", code.display()),
    ]);
    assert_eq!(status, 0, "{said}");
    let told = backsight(&["flow", "--format", "pcs"], &capture);
    assert_eq!(told, "0x1000\n0x1004\n0x1008\n0x1004\n0x1008\n0x100c\n");
}

/// A signal, as Ctrl-C sends it, ends the program and leaves a capture that is complete up to then.
#[test]
#[cfg(unix)]
fn an_interrupt_leaves_a_valid_capture() {
    let scratch = Scratch::new("interrupt");
    let capture = scratch.path("capture");
    let mut child = Command::new(env!("CARGO_BIN_EXE_backsight"))
        .args(["record", "--truth", "-o", &capture.display().to_string(), "--"])
        .args([&program("riscv64", "sort"), "1000000"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("the program that was built");
    let begun = Instant::now();
    let trace = scratch.path("capture.part/trace.bin");
    while std::fs::metadata(&trace).map_or(0, |file| file.len()) == 0
        && begun.elapsed() < Duration::from_secs(60)
    {
        std::thread::sleep(Duration::from_millis(10));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(killed.success());
    assert_eq!(child.wait().expect("it ends").code(), Some(130));
    let told = backsight(&["flow", "--format", "pcs", "--strict"], &capture);
    let truth = backsight(&["flow", "--truth", "--format", "pcs"], &capture);
    assert!(truth.lines().count() > 1000);
    assert_same(&told, &truth, "interrupted");
}
