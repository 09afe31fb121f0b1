//! Frames from any carrier: every byte is counted once, and any split gives the same.
#![no_main]

use backsight_arm::frame::{
    Batch, Chunk, Deframer, Demultiplexer, Framing, find_alignment, find_port_alignment,
};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Some((&choice, stream)) = data.split_first() else { return };
    let framing = Framing::ALL[usize::from(choice) % Framing::ALL.len()];
    let cut = 1 + usize::from(choice) / Framing::ALL.len();

    let mut whole = Vec::new();
    let mut deframer = Deframer::new(framing);
    let mut collect = |chunk: Chunk<'_>| {
        if let Chunk::Data { id, index, bytes } = chunk {
            whole.extend(bytes.iter().zip(index..).map(|(&byte, index)| (id, index, byte)));
        }
    };
    deframer.feed(stream, &mut collect);
    deframer.finish(&mut collect);
    assert_eq!(deframer.counts().total(), stream.len() as u64);

    let mut split = Vec::new();
    let mut demultiplexer = Demultiplexer::new(framing);
    for piece in stream.chunks(cut) {
        demultiplexer.feed(piece, &mut |batch| {
            if let Batch::Data { id, bytes, runs } = batch {
                let mut run = 0;
                for (place, &byte) in bytes.iter().enumerate() {
                    if runs.get(run + 1).is_some_and(|next| next.at as usize == place) {
                        run += 1;
                    }
                    split.push((id, runs[run].index + place as u64 - u64::from(runs[run].at), byte));
                }
            }
        });
    }
    demultiplexer.finish(&mut |_| {});
    assert_eq!(split, whole);
    assert_eq!(demultiplexer.counts(), deframer.counts());

    find_port_alignment(stream);
    if stream.len() < 4096 {
        find_alignment(stream, |_| 0);
    }
});
