//! Watches a live stream: `live ADDRESS:PORT PROTOCOL PROGRAM.elf [NAME=VALUE ...]` takes the trace of one source from
//! a socket and says once a second what it executes. Memory does not grow, however long the stream is.

use std::io::Read;
use std::net::TcpListener;
use std::time::Instant;

use backsight::{Event, Item, OpenOptions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let listener = TcpListener::bind(arguments.next().ok_or("which address?")?)?;
    let options = OpenOptions::new().protocol(&arguments.next().ok_or("which protocol?")?);
    let options = options.image(&arguments.next().ok_or("which program?")?);
    let capture = arguments.fold(options, |options, setting| options.config(&setting)).live()?;
    let mut session = capture.execution().session()?;

    println!("listening on {}", listener.local_addr()?);
    let (mut stream, _) = listener.accept()?;
    let mut buffer = vec![0; 1 << 16];
    let mut last = None;
    let mut shown = Instant::now();
    loop {
        let count = stream.read(&mut buffer)?;
        let mut watch = |item: Item<'_, Event>| last = Some(item.value);
        let _ = match count {
            0 => session.finish(&mut watch),
            _ => session.feed(&buffer[..count], &mut watch),
        };
        if count == 0 || shown.elapsed().as_secs() >= 1 {
            let last = last.map_or_else(String::new, |event| event.to_string());
            println!("{}\nlast: {last}", session.summary());
            shown = Instant::now();
        }
        if count == 0 {
            return Ok(());
        }
    }
}
