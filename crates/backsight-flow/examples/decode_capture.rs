//! Decodes the ETMv4 and ETE sources of a capture: `decode_capture CAPTURE`.

use std::io::Read;

use backsight_arm::etm4::Decoder;
use backsight_arm::frame::{Chunk, Deframer, Framing};
use backsight_capture::{Capture, SourceConfig};
use backsight_flow::etm4::Follower;
use backsight_image::Image;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let capture = Capture::open(std::env::args().nth(1).ok_or("which capture?")?)?;
    let mut image = Image::new();
    for dump in &capture.memory {
        let path = dump.file.location().ok_or("a folder is needed, not an archive")?;
        image.add_dump(path, dump.offset, dump.length, dump.address, dump.space)?;
    }
    for (number, buffer) in capture.buffers.iter().enumerate() {
        for source in capture.sources_of(number) {
            let SourceConfig::Etm4(config) = &source.config else { continue };
            let mut bytes = Vec::new();
            buffer.open()?.read_to_end(&mut bytes)?;
            let mut decoder = Decoder::new(config);
            let mut follower = Follower::new(config, &image);
            let mut print =
                |event: backsight_core::Located<_>| println!("{:8} {}", event.offset, event.value);
            let raw = buffer.framing == Framing::Raw;
            Deframer::new(buffer.framing).feed(&bytes, &mut |chunk| match chunk {
                Chunk::Data { id, bytes, .. } if raw || source.id == Some(id) => {
                    decoder.feed(bytes, &mut |packet| follower.push(packet, &mut print));
                }
                _ => {}
            });
            follower.finish(&mut print);
        }
    }
    Ok(())
}
