//! Images that are shortened while they are in use.

#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Write;
use std::process::Stdio;

use crate::support::{FIRST_CONFIG, Scratch, command, first, first_stream, run_of, words};

/// A dump of so many bytes with the code of the bundled capture at its beginning.
fn image(scratch: &Scratch, size: u64) -> String {
    let code = std::fs::read(first().join("code0.bin")).expect("code");
    let path = scratch.file("image", code);
    File::options().write(true).open(&path).and_then(|file| file.set_len(size)).expect("size");
    path.display().to_string()
}

/// Starts `flow` of standard input, shortens the image when it was opened, and then sends the trace.
fn flow_of_a_shrinking_image(size: u64) -> crate::support::Run {
    let scratch = Scratch::new();
    let image = image(&scratch, size);
    let line = format!("flow - --framing raw {FIRST_CONFIG} --image {image}@0x400000");
    let mut child = command(&words(&line)).stdin(Stdio::piped()).spawn().expect("the program starts");
    let mut input = child.stdin.take().expect("its standard input");
    // The file is open or mapped once, and then in memory.
    let maps = format!("/proc/{}/maps", child.id());
    let reads = format!("/proc/{}/io", child.id());
    let was_opened = || {
        let mapped = std::fs::read_to_string(&maps).unwrap_or_default().contains(&image);
        let read = std::fs::read_to_string(&reads).unwrap_or_default();
        let count = read.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse::<u64>().ok());
        // An image is read twice, once to see whether it can be used. Its code is at its beginning.
        mapped || count.is_some_and(|count| size < 1 << 26 && count > size + size / 2)
    };
    while !was_opened() && child.try_wait().expect("its status").is_none() {
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    File::create(&image).expect("shortened");
    // It may have ended.
    let _ = input.write_all(&first_stream());
    drop(input);
    run_of(child.wait_with_output().expect("it ends"))
}

#[test]
fn an_image_that_was_read_may_be_shortened() {
    let run = flow_of_a_shrinking_image(32 << 20).done();
    assert!(run.out.contains("0x400000") && !run.out.contains("gap: no code"), "{}", run.out);
}

#[test]
fn a_large_image_that_is_shortened_is_an_error_in_words() {
    let run = flow_of_a_shrinking_image(80 << 20);
    assert_eq!(run.status, 1, "{run:?}");
    assert!(run.err.contains("was shortened"), "{run:?}");
}
