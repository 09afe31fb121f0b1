//! perf.data files: any bytes after the magic, as a file and as a stream, and any records in a good one.
#![no_main]

use backsight_capture::Capture;
use std::io::Read;

fn open(bytes: Vec<u8>) {
    let Ok(capture) = Capture::from_perf(bytes, "perf.data") else { return };
    for buffer in capture.buffers.iter().take(4) {
        if let Ok(mut stream) = buffer.open() {
            let _ = stream.by_ref().take(1 << 20).read_to_end(&mut Vec::new());
        }
        let increasing = buffer.starts.windows(2).all(|pair| pair[0].offset <= pair[1].offset);
        assert!(increasing, "pieces are in the order of the buffer");
    }
}

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    open([b"PERFILE2", data].concat());
    open([b"2ELIFREP", data].concat());
    // A stream with the description of one trace unit, so that what follows is looked at.
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let unit = [0x4040_4040_4040_4040, 0, 8, 0x40, 0x10, 0x2800_0EA1, 0x4100_F422, 0x2000_1088, 0, 0x8C, 1];
    let info = [words(&[3, 1, 1, 0]), words(&unit)].concat();
    let size = (info.len() as u16 + 8).to_le_bytes();
    let header = [&70_u32.to_le_bytes()[..], &[0, 0], &size].concat();
    open([b"PERFILE2".to_vec(), words(&[16]), header, info, data.to_vec()].concat());
});
