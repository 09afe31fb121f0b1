//! Watches a live stream: `live ADDRESS:PORT PROGRAM.elf [NAME=VALUE ...]` takes the trace of one ETMv4 from a
//! socket and says once a second what it executes. Memory does not grow, however long the stream is.

use std::io::Read;
use std::net::TcpListener;
use std::time::Instant;

use backsight_arm::etm4::{Config, Decoder};
use backsight_core::AddressSpace;
use backsight_flow::etm4::{Follower, Options};
use backsight_image::Image;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let listener = TcpListener::bind(arguments.next().ok_or("which address?")?)?;
    let mut image = Image::new();
    image.add_elf(arguments.next().ok_or("which program?")?, None, AddressSpace::ANY)?;
    let mut config = Config::etm4_default();
    for setting in arguments {
        let (name, value) = setting.split_once('=').ok_or("settings are NAME=VALUE")?;
        config.set(name, value).map_err(|error| format!("{setting}: {error}"))?;
    }

    println!("listening on {}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    let options = Options { cached_blocks: 1 << 16, ..Options::default() };
    let mut decoder = Decoder::new(&config);
    let mut follower = Follower::with_options(&config, &image, options);
    let mut buffer = vec![0; 1 << 16];
    let mut last = None;
    let mut told = Instant::now();
    loop {
        let count = stream.read(&mut buffer)?;
        let mut watch = |event: backsight_core::Located<_>| last = Some(event);
        if count == 0 {
            decoder.finish(&mut |packet| follower.push(packet, &mut watch));
            follower.finish(&mut watch);
        } else {
            decoder.feed(&buffer[..count], &mut |packet| follower.push(packet, &mut watch));
        }
        if count == 0 || told.elapsed().as_secs() >= 1 {
            let statistics = follower.statistics();
            println!(
                "{} instructions, {} exceptions, {} gaps; last: {}",
                statistics.instructions,
                statistics.exceptions,
                statistics.gaps.total(),
                last.map_or_else(String::new, |event| event.value.to_string())
            );
            told = Instant::now();
        }
        if count == 0 {
            return Ok(());
        }
    }
}
