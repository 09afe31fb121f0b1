//! Counts the instructions of each function: `functions CAPTURE [PROGRAM.elf ...]`.

use std::collections::BTreeMap;
use std::io::Read;

use backsight_arm::etm4::Decoder;
use backsight_arm::frame::{Batch, Demultiplexer};
use backsight_capture::{Capture, SourceConfig};
use backsight_core::{AddressSpace, Located};
use backsight_flow::Event;
use backsight_flow::etm4::Follower;
use backsight_image::Image;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let capture = Capture::open(arguments.next().ok_or("which capture?")?)?;
    let mut image = Image::new();
    for dump in &capture.memory {
        let path = dump.file.location().ok_or("a folder is needed, not an archive")?;
        image.add_dump(path, dump.offset, dump.length, dump.address, dump.space)?;
    }
    for program in arguments {
        image.add_elf(program, None, AddressSpace::ANY)?;
    }

    let mut counts: BTreeMap<String, u64> = BTreeMap::new();
    let mut count = |event: Located<Event>| {
        if let Event::Range(range) = event.value {
            let symbol = image.symbolise(AddressSpace::ANY, range.start);
            let name = symbol.map_or_else(|| "?".to_owned(), |symbol| symbol.name.to_string());
            *counts.entry(name).or_default() += u64::from(range.instructions);
        }
    };
    for (number, buffer) in capture.buffers.iter().enumerate() {
        let mut units = Vec::new();
        for source in capture.sources_of(number) {
            if let SourceConfig::Etm4(config) = &source.config {
                units.push((source.id, Decoder::new(config), Follower::new(config, &image)));
            }
        }
        let mut bytes = Vec::new();
        buffer.open()?.read_to_end(&mut bytes)?;
        Demultiplexer::new(buffer.framing).feed(&bytes, &mut |batch| {
            if let Batch::Data { id, bytes, .. } = batch {
                let mine = units.iter_mut().filter(|(unit, ..)| !id.is_source() || *unit == Some(id));
                for (_, decoder, follower) in mine {
                    decoder.feed(bytes, &mut |packet| follower.push(packet, &mut count));
                }
            }
        });
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    for (name, count) in counts {
        println!("{count:12}  {name}");
    }
    Ok(())
}
