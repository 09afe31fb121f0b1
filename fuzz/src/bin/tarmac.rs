//! Tarmac logs: any bytes, with any options. The first bytes choose the options and the cuts, the rest is the log: packets do not
//! depend on the cuts, every byte is accounted for, and what follows the packets takes them all.
#![no_main]

use backsight::OpenOptions;
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
    let summary = capture.execution().threads(1).run(|_| {}).expect("a log in memory");
    assert_eq!(summary.accounting().total(), bytes.len() as u64);
});
