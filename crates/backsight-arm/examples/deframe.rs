//! Takes a capture of CoreSight frames apart into one raw file for each source:
//! `cargo run --release -p backsight-arm --example deframe -- CAPTURE FOLDER [coresight|tpiu|tpiu-hsync|dstream]`

use std::collections::BTreeMap;
use std::error::Error;
use std::fs;
use std::path::PathBuf;

use backsight_arm::frame::{Chunk, Deframer, Framing};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: deframe CAPTURE FOLDER [coresight|tpiu|tpiu-hsync|dstream]";
    let capture = fs::read(arguments.next().ok_or(usage)?)?;
    let folder = PathBuf::from(arguments.next().ok_or(usage)?);
    let framing = match arguments.next() {
        Some(name) => Framing::from_name(&name).ok_or(usage)?,
        None => Framing::Coresight,
    };
    let mut streams: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    let mut deframer = Deframer::new(framing);
    let mut sink = |chunk: Chunk<'_>| {
        if let Chunk::Data { id, bytes, .. } = chunk {
            streams.entry(id.get()).or_default().extend_from_slice(bytes);
        }
    };
    deframer.feed(&capture, &mut sink);
    deframer.finish(&mut sink);
    fs::create_dir_all(&folder)?;
    for (id, bytes) in &streams {
        fs::write(folder.join(format!("{id:02x}.bin")), bytes)?;
        println!("{id:#04x}: {} bytes", bytes.len());
    }
    Ok(())
}
