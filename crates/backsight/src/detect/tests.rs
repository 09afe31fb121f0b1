use proptest::prelude::*;

use super::*;

fn framed() -> Vec<u8> {
    std::fs::read("../../testdata/captures/calls-aarch64/trace.bin").expect("a bundled capture")
}

fn found(bytes: &[u8]) -> Reading {
    match Detection::of_bytes("bytes", bytes).found {
        Found::Trace(reading) => *reading,
        other => panic!("{other:?}"),
    }
}

#[test]
fn frames_are_found_wherever_they_begin() {
    for header in [0_u8, 1, 7, 16, 34, 100] {
        let before: Vec<u8> = (0..header).map(|byte| byte.wrapping_mul(37) | 0x81).collect();
        let reading = found(&[before, framed()].concat());
        let steps = if header > 0 { vec![Wrapping::Skip(header.into())] } else { Vec::new() };
        assert_eq!(
            (reading.protocol, reading.framing, reading.steps),
            ("etm4", "coresight", steps),
            "{header}"
        );
    }
}

#[test]
fn words_that_are_turned_round_are_turned_back() {
    for size in WORDS {
        let reading = found(&wrapping::swapped(&framed(), size));
        assert_eq!((reading.protocol, reading.steps), ("etm4", vec![Wrapping::Swapped(size)]));
    }
}

#[test]
fn blanks_between_digits_may_be_longer_than_a_byte() {
    let digits: Vec<String> = framed().iter().map(|byte| format!("{byte:02x}")).collect();
    let reading = found(digits.join("\u{85}").as_bytes());
    assert_eq!((reading.protocol, reading.steps), ("etm4", vec![Wrapping::Hexadecimal]));
    Detection::of_bytes("bytes", b"r\t\xC2\x85\xF7*");
}

#[test]
fn the_options_of_a_reading_open_what_was_found() {
    let reading = found(&framed());
    assert_eq!(reading.options(), ["--protocol", "etm4", "--framing", "coresight"]);
    assert_eq!((reading.confidence, reading.also), (Confidence::Certain, Some("ete")));
}

#[test]
fn names_of_files_are_quoted_for_a_shell() {
    let detection = Detection::of_bytes("it's; rm -rf", &[vec![1, 2, 3], framed()].concat());
    let commands = detection.commands("info");
    assert_eq!(commands[0], "tail -c +4 'it'\\''s; rm -rf' > 'it'\\''s; rm -rf.trace'");
    assert_eq!(commands.len(), 2);
}

#[test]
fn what_is_no_trace_is_named() {
    let what = |bytes: &[u8]| Detection::of_bytes("bytes", bytes).what();
    assert_eq!(what(b""), "the file is empty");
    assert!(what(&[0xFF; 100]).contains("0xff"));
    assert!(what(b"\x7FELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x02\0\xB7\0").contains("AArch64"));
    assert!(what(b"once upon a time\x1B[2J").contains("text") && !what(b"a\x1B[2Jb").contains('\x1B'));
    assert!(what(b"PAR1 and more").contains("Parquet"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    #[test]
    fn any_bytes_have_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..1000)) {
        let detection = Detection::of_bytes("bytes", &bytes);
        prop_assert!(!detection.what().is_empty());
        prop_assert_ne!(detection.confidence(), Some(Confidence::Certain), "{}", detection);
    }
}
