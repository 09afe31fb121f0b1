//! Following execution: views, filters, names, damaged images, threads.

use std::fs;

use backsight_arm::etm4::synthetic::WorstCase;
use backsight_arm::etm4::{Atoms, Config, Encoder, Is, Packet, TraceInfo};
use backsight_arm::frame::Framing;
use backsight_core::Address;

use crate::support::{
    FIRST_CONFIG, Scratch, backsight_reading, first, first_stream, framed, line, synthetic, words,
};

fn pcs(arguments: &str) -> Vec<u64> {
    let out = line(&format!("flow FIRST --format pcs --quiet {arguments}")).done().out;
    let number = |line: &str| u64::from_str_radix(line.trim_start_matches("0x"), 16).expect("an address");
    out.lines().map(number).collect()
}

#[test]
fn a_range_filter_keeps_the_instructions_inside_it() {
    let all = pcs("");
    let inside = |address: &u64| (0x40_0018..0x40_0020).contains(address);
    let expected: Vec<u64> = all.iter().copied().filter(inside).collect();
    assert!(!expected.is_empty() && expected.len() < all.len());
    assert_eq!(pcs("--range 0x400018..0x400020"), expected);
    assert_eq!(pcs("--range ..0x400018 --range 0x400018..").len(), all.len());
    assert!(pcs("--range 0x500000..").is_empty());
}

#[test]
fn context_filters_and_windows_by_time_keep_what_ran_then() {
    let all = pcs("");
    assert_eq!(pcs("--context 0x2a"), all);
    assert!(pcs("--context 0x2b").is_empty());
    let some = pcs("--from t0x100000002 --to t0x100000800");
    assert!(!some.is_empty() && some.len() < all.len());
    assert_eq!([pcs("--to t0x100000800"), pcs("--from t0x100000800")].concat(), all);
}

#[test]
fn functions_are_named_filtered_and_indented() {
    // The bundled code has no symbols: give it to the linker's own format, an ELF file with two functions.
    let scratch = Scratch::new();
    let elf = scratch.file("code.elf", elf_with_symbols(b"inner"));
    let elf = elf.display();
    let text = line(&format!("flow FIRST --quiet --image {elf}")).done().out;
    assert!(text.contains(" outer") && text.contains(" inner+0x"), "{text}");
    let inner = pcs(&format!("--image {elf} --function inner"));
    let expected: Vec<u64> = pcs("").into_iter().filter(|address| *address >= 0x40_0018).collect();
    assert_eq!(inner, expected);
    let calls = line(&format!("flow FIRST --quiet --calls --image {elf}")).done().out;
    assert!(calls.lines().any(|line| line.starts_with("0x10  outer  ")), "{calls}");
    assert!(calls.lines().any(|line| line.starts_with("0x10    inner  ")), "{calls}");
}

/// The bundled code as an ELF file: `outer` at its beginning, another function from 0x400018 on.
pub fn elf_with_symbols(inner: &[u8; 5]) -> Vec<u8> {
    let code = fs::read(first().join("code0.bin")).expect("code");
    let names = [b"\0outer\0".as_slice(), inner, b"\0\0.text\0.symtab\0.strtab\0"].concat();
    let text_at = 0x78_u64;
    let symbols_at = (text_at + code.len() as u64).next_multiple_of(8);
    let names_at = symbols_at + 3 * 24;
    let sections_at = (names_at + names.len() as u64).next_multiple_of(8);
    let mut elf = Vec::new();
    let mut put = |bytes: &[u8]| elf.extend_from_slice(bytes);
    let half = |value: u16| value.to_le_bytes();
    let word = |value: u32| value.to_le_bytes();
    let long = |value: u64| value.to_le_bytes();
    put(b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0");
    put(&[half(2), half(183)].concat());
    put(&word(1));
    put(&[long(0x40_0000), long(64), long(sections_at)].concat());
    put(&word(0));
    put(&[half(64), half(56), half(1), half(64), half(4), half(3)].concat());
    put(&[word(1), word(5)].concat());
    let size = code.len() as u64;
    put(&[long(text_at), long(0x40_0000), long(0x40_0000), long(size), long(size), long(4)].concat());
    put(&code);
    put(&vec![0; (symbols_at - text_at) as usize - code.len()]);
    put(&[0; 24]);
    for (name, start, length) in [(1, 0x40_0000, 0x18), (7, 0x40_0018, size - 0x18)] {
        put(&word(name));
        put(&[0x12, 0, 1, 0]);
        put(&[long(start), long(length)].concat());
    }
    put(&names);
    put(&vec![0; (sections_at - names_at) as usize - names.len()]);
    put(&[0; 64]);
    let mut section =
        |name: u32, kind: u32, flags: u64, address: u64, at: u64, size: u64, link: u32, entry: u64| {
            put(&[word(name), word(kind)].concat());
            put(&[long(flags), long(address), long(at), long(size)].concat());
            put(&[word(link), word(1)].concat());
            put(&[long(8), long(entry)].concat());
        };
    section(14, 1, 6, 0x40_0000, text_at, size, 0, 0);
    section(20, 2, 0, 0, symbols_at, 72, 3, 24);
    section(28, 3, 0, 0, names_at, names.len() as u64, 0, 0);
    elf
}

#[test]
fn threads_do_not_change_the_listing() {
    let stream = synthetic(WorstCase::OneByte, 700_000);
    let other = synthetic(WorstCase::Addresses, 500_000);
    let bytes = framed(Framing::Coresight, &[(0x10, &stream), (0x11, &other), (0x12, &stream)]);
    let run = |threads: u32| {
        let arguments = format!(
            "flow - --protocol etm4 --config TRCCONFIGR=0x11 --framing coresight --format branches --threads {threads}"
        );
        backsight_reading(&words(&arguments), &[&bytes]).done()
    };
    let (one, two, four) = (run(1), run(2), run(4));
    assert!(one.out.len() > 1_000_000);
    assert!(one.out == two.out && one.out == four.out, "the listings differ");
    assert_eq!((&one.err, &one.err), (&two.err, &four.err));
}

#[test]
fn events_are_shown_by_the_names_they_are_given() {
    let mut encoder = Encoder::new(&Config::etm4_default());
    let mut stream = Vec::new();
    let address = Packet::Address(encoder.compress(Address(0x1000), Is::Is0));
    for packet in [
        Packet::Async,
        Packet::TraceInfo(TraceInfo { sections: 1, ..TraceInfo::default() }),
        Packet::TraceOn,
        address,
        Packet::Atoms(Atoms::one(true)),
        Packet::Event(0b0101),
    ] {
        stream.extend_from_slice(encoder.encode(&packet).expect("expressible"));
    }
    let run = |names: &str| {
        let arguments = format!("flow - --protocol etm4 --format branches --quiet {names}");
        backsight_reading(&words(&arguments), &[&stream]).done().out
    };
    let named = run("--event 0=L1D_CACHE_REFILL --event 2=STALL");
    assert!(named.contains("\tL1D_CACHE_REFILL\n") && named.contains("\tSTALL\n"), "{named}");
    let plain = run("");
    assert!(plain.contains("\t0\n") && plain.contains("\t2\n"), "{plain}");
}

#[test]
fn code_that_is_missing_is_said_where_and_the_flow_goes_on() {
    let arguments = words(&format!("flow - {FIRST_CONFIG}"));
    let run = backsight_reading(&arguments, &[&first_stream()]).done();
    assert!(run.out.contains("gap: no code at 0x400000"), "{}", run.out);
    assert!(run.err.contains("gaps"), "{}", run.err);
}

#[test]
fn with_strict_image_nothing_is_listed_behind_strong_evidence() {
    let scratch = Scratch::new();
    let mut code = fs::read(first().join("code0.bin")).expect("code");
    // The first block ends in a call; make it an unconditional branch to itself.
    code[4..8].copy_from_slice(&0x1400_0000_u32.to_le_bytes());
    let wrong = scratch.file("wrong.bin", code);
    let image = format!("--image {}@0x400000", wrong.display());
    let lax = line(&format!("flow FIRST {image}")).done();
    assert!(lax.err.contains("image may not fit") || lax.out.contains("image does not fit"), "{lax:?}");
    let strict = line(&format!("flow FIRST --strict-image {image}")).done();
    assert!(strict.out.len() < lax.out.len());
    line(&format!("flow FIRST --strict-image --strict {image}")).could_not("damaged");
    // With the right code it changes nothing.
    assert_eq!(line("flow FIRST --strict-image").out, line("flow FIRST").out);
}

#[test]
fn a_code_file_that_is_none_is_an_error_that_names_it() {
    let scratch = Scratch::new();
    let garbage = scratch.file("garbage", b"\x7fELF\x02\x01\x01 and then nothing of the kind");
    line(&format!("flow FIRST --image {}", garbage.display())).could_not("garbage");
    let text = scratch.file("text", "not code at all");
    line(&format!("flow FIRST --image {}", text.display())).could_not("text");
    line("flow FIRST --image /nonexistent/program").could_not("/nonexistent/program");
    line(&format!("flow FIRST --image {}", scratch.path("").display())).could_not("");
}
