//! The streams of a program and of the children that it forks, read as they come.
//!
//! Every process sends a stream of its own. Whichever has something is read next, so what is handed out changes between
//! processes; threads of all of them are numbered together.

use std::io::{self, Read};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::thread::{self, Scope};
use std::time::Duration;

use backsight_core::{Execution, RetiredBlocks};

use super::{Damage, StreamError, StreamReader, Summary};
use crate::{Observation, Stop};

const POLL: Duration = Duration::from_millis(5);
const BUFFER: usize = 1 << 18;
/// Processes at a time: a program that forks for ever must not take all of the machine.
const MOST_PROCESSES: usize = 256;
/// Buffers that wait for a slow reader, of all streams together.
const WAITING: usize = 4;

/// What a stream brings.
enum News {
    Bytes(Vec<u8>),
    Ends(io::Result<()>),
}

/// A piece of a stream; `None`: its end.
type Piece = Option<Vec<u8>>;

/// One process.
#[derive(Default)]
struct ProcessStream {
    reader: StreamReader,
    pid: Option<u32>,
    /// The number that each of its threads has among those of all.
    threads: Vec<u32>,
    /// The thread that its items belong to.
    current: Option<u32>,
    has_ended: bool,
}

impl ProcessStream {
    fn new(gives_blocks: bool) -> Self {
        let reader = if gives_blocks { StreamReader::with_blocks() } else { StreamReader::new() };
        Self { reader, ..Self::default() }
    }
}

/// The streams of all processes.
#[derive(Default)]
pub struct ProcessStreams {
    /// Blocks are handed out as such.
    gives_blocks: bool,
    /// The program as its user calls it, and where it is.
    program: PathBuf,
    canonical: Option<PathBuf>,
    streams: Vec<ProcessStream>,
    threads: u32,
    /// The stream that was read last.
    last: Option<usize>,
    /// What came of streams whose process has the number of one that has not ended: it takes its place.
    waiting: Vec<(usize, Piece)>,
}

impl ProcessStreams {
    /// Of no process yet. The program is called as its user does. With `gives_blocks`, code that ran from its beginning to
    /// its end is handed out as a block.
    pub fn new(program: &Path, gives_blocks: bool) -> Self {
        let (program, canonical) = (program.to_owned(), program.canonicalize().ok());
        Self { gives_blocks, program, canonical, ..Self::default() }
    }

    /// Reads from the first connection, and from all that come later if `listener` is given, until all have ended.
    pub fn read(
        &mut self,
        first: UnixStream,
        listener: Option<&UnixListener>,
        stop: &Stop,
        sink: &mut dyn FnMut(Observation<'_>),
    ) -> io::Result<Result<(), StreamError>> {
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(WAITING);
            let mut connections = Connections { scope, sender, listener, taken: Vec::new(), open: 0 };
            connections.add(first);
            let outcome = self.take_news(&mut connections, receiver, stop, sink);
            // A process that still sends then has nobody to send to: it ends.
            connections.close();
            outcome
        })
    }

    fn take_news(
        &mut self,
        connections: &mut Connections<'_, '_>,
        receiver: Receiver<(usize, News)>,
        stop: &Stop,
        sink: &mut dyn FnMut(Observation<'_>),
    ) -> io::Result<Result<(), StreamError>> {
        loop {
            // A child connects before its parent can end: asked first, none is missed.
            connections.accept()?;
            let gives_blocks = self.gives_blocks;
            self.streams.resize_with(connections.taken.len(), || ProcessStream::new(gives_blocks));
            if connections.open == 0 {
                return Ok(Ok(()));
            }
            if connections.open > MOST_PROCESSES {
                let what = Damage::Processes(MOST_PROCESSES as u32);
                return Ok(Err(StreamError { offset: 0, what }));
            }
            let Ok((number, news)) = receiver.recv_timeout(POLL) else { continue };
            match news {
                News::Bytes(bytes) => {
                    if let Err(error) = self.feed(number, bytes, sink) {
                        return Ok(Err(error));
                    }
                }
                News::Ends(ended) => {
                    connections.accept()?;
                    connections.open -= 1;
                    ended?;
                    let is_replaced = self.streams.get(number).is_some_and(|one| one.reader.is_replaced());
                    if number > 0 || is_replaced {
                        if let Err(error) = self.end(number, sink) {
                            return Ok(Err(error));
                        }
                    } else if stop.is_requested() {
                        // The program was ended; its children end when nobody listens to them.
                        return Ok(Ok(()));
                    }
                }
            }
        }
    }

    fn feed(
        &mut self,
        number: usize,
        bytes: Vec<u8>,
        sink: &mut dyn FnMut(Observation<'_>),
    ) -> Result<(), StreamError> {
        if self.waits(number, &bytes) {
            self.waiting.push((number, Some(bytes)));
            return Ok(());
        }
        self.with(number, sink, |reader, sink| reader.feed(&bytes, sink)).unwrap_or(Ok(()))
    }

    /// Is it, or was it before, the beginning of a stream whose process has the number of one that has not ended?
    fn waits(&self, number: usize, bytes: &[u8]) -> bool {
        if self.waiting.iter().any(|(other, _)| *other == number) {
            return true;
        }
        let is_new = self.streams.get(number).is_some_and(|stream| stream.pid.is_none());
        let Some(pid) = pid_of_header(bytes).filter(|_| is_new) else { return false };
        let has_not_ended = |stream: &ProcessStream| stream.pid == Some(pid) && !stream.has_ended;
        self.streams.iter().any(has_not_ended)
    }

    /// A stream has ended: its process is gone, and who waits for its number goes on.
    fn end(&mut self, number: usize, sink: &mut dyn FnMut(Observation<'_>)) -> Result<(), StreamError> {
        if self.waiting.iter().any(|(other, _)| *other == number) {
            self.waiting.push((number, None));
            return Ok(());
        }
        self.finish(number, sink);
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().try_for_each(|(number, piece)| match piece {
            Some(bytes) => self.feed(number, bytes, sink),
            None => self.end(number, sink),
        })
    }

    /// Something that a stream hands out goes on in the numbers of all.
    fn with<R>(
        &mut self,
        number: usize,
        sink: &mut dyn FnMut(Observation<'_>),
        read: impl FnOnce(&mut StreamReader, &mut dyn FnMut(Observation<'_>)) -> R,
    ) -> Option<R> {
        let Self { program, canonical, streams, threads, last, .. } = self;
        // Another program may have taken its place.
        let is_given = |path: &Path| canonical.as_deref().is_none_or(|given| given == path);
        let ProcessStream { reader, pid, threads: own, current, .. } = streams.get_mut(number)?;
        if last.replace(number) != Some(number)
            && let Some(pid) = *pid
        {
            sink(Observation::Process { pid });
            if let Some(current) = *current {
                sink(Observation::Execution(Execution::Thread(current)));
            }
        }
        let mut among_all = |thread: u32| {
            let index = thread as usize;
            // Those of a process stay in the order in which they began, whichever is heard of first.
            while own.len() <= index {
                own.push(*threads);
                *threads += 1;
            }
            own[index]
        };
        let first_number = (number as u64) << 32;
        Some(read(reader, &mut |seen| {
            // Changed where it is: a copy takes longer.
            let mut seen = seen;
            match &mut seen {
                Observation::Blocks(blocks) => {
                    let first_number = first_number | blocks.first_number;
                    return sink(Observation::Blocks(&RetiredBlocks { first_number, ..**blocks }));
                }
                Observation::Map(map) if map.program && is_given(map.path) => map.path = program,
                Observation::ProcessStarts { pid: own } => *pid = Some(*own),
                Observation::Execution(Execution::Thread(thread)) => {
                    *thread = among_all(*thread);
                    *current = Some(*thread);
                }
                Observation::ThreadStarts { thread, .. } | Observation::ThreadEnds { thread } => {
                    *thread = among_all(*thread);
                }
                _ => {}
            }
            sink(seen);
        }))
    }

    /// What QEMU had not sent when the program died.
    pub fn tail(&mut self, bytes: &[u8], sink: &mut dyn FnMut(Observation<'_>)) -> Result<(), StreamError> {
        self.with(0, sink, |reader, sink| reader.tail(bytes, sink)).unwrap_or(Ok(()))
    }

    /// The process of a stream is gone.
    pub fn finish(&mut self, number: usize, sink: &mut dyn FnMut(Observation<'_>)) -> Summary {
        let summary = self.with(number, sink, |reader, sink| reader.finish(sink)).unwrap_or_default();
        if let Some(stream) = self.streams.get_mut(number)
            && let Some(pid) = stream.pid.filter(|_| !std::mem::replace(&mut stream.has_ended, true))
        {
            sink(match stream.reader.is_replaced() {
                true => Observation::ProcessReplaced { pid },
                false => Observation::ProcessEnds { pid },
            });
            // There may be any number of processes, one after the other.
            if number > 0 {
                stream.reader = StreamReader::new();
                stream.threads = Vec::new();
            }
        }
        summary
    }

    /// All processes are gone. Gives what there was of the program itself.
    pub fn finish_all(&mut self, sink: &mut dyn FnMut(Observation<'_>)) -> Summary {
        for number in 1..self.streams.len() {
            if !self.streams[number].has_ended {
                self.finish(number, sink);
            }
        }
        self.finish(0, sink)
    }
}

/// The number of the process in the header of a stream.
fn pid_of_header(bytes: &[u8]) -> Option<u32> {
    bytes.get(12..16)?.first_chunk().map(|pid| u32::from_le_bytes(*pid))
}

/// Takes connections, and has a thread read each.
struct Connections<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    sender: SyncSender<(usize, News)>,
    listener: Option<&'scope UnixListener>,
    /// Those so far, as long as somebody reads them.
    taken: Vec<Weak<UnixStream>>,
    open: usize,
}

impl Connections<'_, '_> {
    /// Takes the connections that wait.
    fn accept(&mut self) -> io::Result<()> {
        let Some(listener) = self.listener else { return Ok(()) };
        loop {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(false)?;
                    self.add(stream);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    /// Nobody reads any more: threads that wait for bytes end.
    fn close(&self) {
        for stream in self.taken.iter().filter_map(Weak::upgrade) {
            // The other side may have closed it.
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    fn add(&mut self, stream: UnixStream) {
        let (sender, number, stream) = (self.sender.clone(), self.taken.len(), Arc::new(stream));
        self.taken.push(Arc::downgrade(&stream));
        self.open += 1;
        self.scope.spawn(move || {
            loop {
                let mut buffer = vec![0; BUFFER];
                let news = match (&*stream).read(&mut buffer) {
                    Ok(0) => News::Ends(Ok(())),
                    Ok(count) => {
                        buffer.truncate(count);
                        News::Bytes(buffer)
                    }
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    // QEMU died with bytes of ours unread, which there are none of: as good as the end.
                    Err(error) if error.kind() == io::ErrorKind::ConnectionReset => News::Ends(Ok(())),
                    Err(error) => News::Ends(Err(error)),
                };
                let is_last = matches!(news, News::Ends(_));
                if sender.send((number, news)).is_err() || is_last {
                    return;
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::qemu::rendezvous::Rendezvous;

    #[test]
    fn more_processes_than_allowed_end_the_recording_though_all_of_them_are_silent() {
        let rendezvous = Rendezvous::new().expect("a folder");
        let socket = std::fs::read_dir(rendezvous.folder()).expect("a folder").filter_map(Result::ok);
        let connect = |path: PathBuf| UnixStream::connect(path).ok();
        let paths: Vec<PathBuf> = socket.map(|entry| entry.path()).collect();
        let path = paths.iter().find(|path| connect(path.to_path_buf()).is_some()).expect("a socket");
        let (first, _other_side) = UnixStream::pair().expect("a connection");
        let outcome = thread::scope(|scope| {
            // More than the listener keeps waiting at a time.
            let children =
                scope.spawn(|| (0..MOST_PROCESSES).filter_map(|_| connect(path.clone())).collect::<Vec<_>>());
            let mut streams = ProcessStreams::new(Path::new("program"), false);
            let outcome = streams.read(first, Some(rendezvous.listener()), &Stop::new(), &mut |_| {});
            drop(children.join());
            outcome
        });
        let error = outcome.expect("connections").expect_err("too many");
        assert_eq!(error.what, Damage::Processes(MOST_PROCESSES as u32));
    }
}
