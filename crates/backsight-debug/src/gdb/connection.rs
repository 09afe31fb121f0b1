//! Connections: bytes in, bytes out.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;

use super::server::Server;
use crate::replay::Replay;

/// Blocks of bytes that may wait.
const MOST_WAITING: usize = 64;

/// Waits for one connection to a port of this machine, which nobody else can come to; `say` is told the number of the port, which
/// the system chooses for 0.
///
/// # Errors
/// If the port cannot be had.
pub fn listen(port: u16, say: impl FnOnce(u16)) -> io::Result<TcpStream> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))?;
    say(listener.local_addr()?.port());
    let (stream, _) = listener.accept()?;
    // Answers are short, and each is waited for.
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Serves a walk until the debugger goes away.
///
/// # Errors
/// If nothing can be written, or bytes or code cannot be read at the beginning.
pub fn serve(
    replay: &mut Replay<'_>,
    input: impl Read + Send + 'static,
    output: impl Write,
) -> backsight::Result<()> {
    serve_streams(replay, Box::new(input), Box::new(output))
}

fn serve_streams(
    replay: &mut Replay<'_>,
    input: Box<dyn Read + Send>,
    output: Box<dyn Write + '_>,
) -> backsight::Result<()> {
    let stop = replay.stop_flag();
    let (sender, receiver) = sync_channel(MOST_WAITING);
    let (is_busy, is_closed) = (Arc::<AtomicBool>::default(), Arc::<AtomicBool>::default());
    let of_reader = (stop.clone(), is_busy.clone(), is_closed.clone());
    // It ends with the connection; where that stays open, with the program.
    std::thread::spawn(move || {
        let (stop, is_busy, is_closed) = of_reader;
        let mut input = input;
        let mut bytes = vec![0; 1 << 12];
        loop {
            let count = match input.read(&mut bytes) {
                Ok(0) => break,
                Ok(count) => count,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => break,
            };
            let block = bytes[..count].to_vec();
            if is_busy.load(Ordering::SeqCst) && block.contains(&3) {
                stop.store(true, Ordering::SeqCst);
            }
            if sender.send(block).is_err() {
                return;
            }
        }
        // Nobody waits for the answer any more.
        is_closed.store(true, Ordering::SeqCst);
        stop.store(true, Ordering::SeqCst);
    });
    let mut server = Server::new(replay, output)?;
    for block in receiver {
        is_busy.store(true, Ordering::SeqCst);
        let outcome = server.take(&block);
        is_busy.store(false, Ordering::SeqCst);
        stop.store(is_closed.load(Ordering::SeqCst), Ordering::SeqCst);
        match outcome {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) if error.kind() == ErrorKind::BrokenPipe => break,
            Err(error) => {
                return Err(backsight::Error::Absent(format!("the debugger cannot be answered: {error}")));
            }
        }
    }
    Ok(())
}
