//! What a bare file holds, and what is wrong with captures.

use backsight_arm::frame::Framing;

use crate::support::{Scratch, backsight, first_stream, framed, line};

/// Frames of one source, with nothing beside them.
fn bare(scratch: &Scratch) -> String {
    let frames = framed(Framing::Coresight, &[(0x10, &first_stream())]);
    scratch.file("trace.bin", frames).display().to_string()
}

#[test]
fn every_command_says_what_a_bare_file_holds_and_how_it_is_read() {
    let scratch = Scratch::new();
    let file = bare(&scratch);
    let options = "--protocol etm4 --framing coresight";
    for command in ["flow", "packets", "profile", "bench"] {
        let run = line(&format!("{command} {file}")).could_not("ETMv4 or ETE in CoreSight frames");
        assert!(run.err.contains(&format!("  backsight info {file} {options}")), "{}", run.err);
    }
    let info = line(&format!("info {file}")).done().out;
    assert!(info.contains("certain") && info.contains("ID 0x10: 349 bytes"), "{info}");
    assert!(info.contains(&format!("backsight flow {file} {options}")), "{info}");
    let json = line(&format!("info {file} --json")).done().out;
    assert!(json.contains(r#""confidence": "certain""#) && json.contains(r#""protocol": "etm4""#), "{json}");
}

#[test]
fn the_exit_status_of_doctor_says_whether_something_is_wrong() {
    let scratch = Scratch::new();
    assert!(line("doctor FIRST").done().out.contains("nothing is wrong"));
    let run = line(&format!("doctor {}", bare(&scratch)));
    assert_eq!((run.status, run.err.as_str()), (3, ""), "{run:?}");
    assert!(run.out.starts_with("problem (bare-file): "), "{}", run.out);
    let run = backsight(&["doctor", env!("CARGO_BIN_EXE_backsight")]);
    assert!(run.status == 3 && run.out.contains("a program or library (ELF"), "{run:?}");
    line("doctor no-such-file").could_not("there is no such file");
    line("doctor FIRST --nonsense").wrong_use("--nonsense");
}

#[test]
fn frames_are_not_measured_where_there_are_none() {
    let scratch = Scratch::new();
    let file = scratch.file("stream.bin", first_stream()).display().to_string();
    line(&format!("bench {file} --protocol etm4 --stage frames")).wrong_use("has no frames to take apart");
}
