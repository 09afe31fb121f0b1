//! Tarmac logs: any bytes, with any options. The first bytes choose the options and the cuts, the rest is the log: packets do not
//! depend on the cuts, every byte is accounted for, and what follows the packets takes them all.
#![no_main]

use std::sync::Arc;

use backsight::states::{Making, States};
use backsight::{Capture, OpenOptions};
use backsight_core::{Describe as _, Located};
use backsight_tarmac::{Config, Decoder, Packet};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&[flags, cut], bytes)) = data.split_first_chunk() else { return };
    let config = Config { big_endian: flags & 1 != 0, assume_thumb: flags & 2 != 0, cores: flags & 4 != 0 };
    let mut all: Vec<Located<Packet>> = Vec::new();
    let mut decoder = Decoder::new(&config);
    decoder.feed(bytes, &mut |packet| all.push(packet));
    decoder.finish(&mut |packet| all.push(packet));
    assert_eq!(decoder.accounting().total(), bytes.len() as u64, "a byte is not accounted for");
    let mut decoder = Decoder::new(&config);
    let mut at = 0;
    let mut sink = |packet: Located<Packet>| {
        assert_eq!(all.get(at), Some(&packet), "packets depend on how the log is cut");
        packet.value.fields(&mut |field| assert!(!field.name.is_empty()));
        at += 1;
    };
    bytes.chunks(usize::from(cut) % 37 + 1).for_each(|piece| decoder.feed(piece, &mut sink));
    decoder.finish(&mut sink);

    let setting = |key, bit: u8| format!("{key}={}", if flags & bit != 0 { "yes" } else { "no" });
    let options =
        OpenOptions::new().protocol("tarmac").config(&setting("thumb", 2)).config(&setting("cores", 4));
    let endian = if config.big_endian { "endian=big" } else { "endian=little" };
    let capture = options.config(endian).bytes(bytes).expect("options of a log");
    states(&capture, bytes.len() as u64);
    let summary = capture.execution().threads(1).run(|_| {}).expect("a log in memory");
    assert_eq!(summary.accounting().total(), bytes.len() as u64);
});

/// States by an index in small parts are those of a plain pass.
fn states(capture: &Capture, length: u64) {
    let Some((source, buffer)) = capture.log() else { return };
    let index =
        Making { threads: 1, part: 64 }.in_memory(&source, buffer, 1 << 26).expect("room for an index");
    let states = |index| States::new(capture, &source, index).expect("a log in memory");
    let (mut with, mut without) = (states(Some(Arc::new(index))), states(None));
    for offset in [length / 3, length] {
        let known = with.before(offset).expect("a log in memory").clone();
        let plain = without.before(offset).expect("a log in memory");
        for core in plain.cores() {
            assert!(known.registers(core).eq(plain.registers(core)), "registers differ");
        }
        for number in plain.own_lines() {
            let (one, other) = (known.line(number), plain.line(number));
            let byte = |at| (one.byte(at).map(|known| known.0), other.byte(at).map(|known| known.0));
            assert!((0..64).map(byte).all(|(one, other)| one == other), "memory differs");
        }
    }
}
