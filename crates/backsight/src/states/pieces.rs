//! The lines of a log, read on several threads.
//!
//! A log is cut where an instruction with its time begins: what comes from there on does not depend on the lines before. Pieces are read at
//! the same time, and handed on in their order.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, PoisonError};

use backsight_core::{Located, Resume as _};
use backsight_tarmac::{Config, Decoder, Packet};

use crate::capture::BLOCK;
use crate::{Buffer, Result};

/// Bytes that wait for a place to cut: then they are cut anywhere.
const MOST_WAITING: usize = 1 << 23;

/// Lines of a log, one after the other.
pub(super) struct Lines<'l> {
    /// Offset of the first.
    pub offset: u64,
    /// They do not depend on what came before.
    pub begins_anew: bool,
    pub packets: &'l [Located<Packet>],
}

/// Gives the lines of a log in their order, in pieces of about so many bytes, read on up to so many threads, until somebody has enough.
pub(super) fn read(
    buffer: &Buffer,
    config: &Config,
    (threads, size): (usize, usize),
    each: &mut dyn FnMut(&Lines<'_>) -> Result<ControlFlow<()>>,
) -> Result {
    let (mut given, mut flow) = (Ok(()), ControlFlow::Continue(()));
    let mut take = |lines: &Lines<'_>| {
        if flow.is_continue() {
            flow = each(lines).unwrap_or_else(|error| {
                given = Err(error);
                ControlFlow::Break(())
            });
        }
        flow
    };
    let (jobs, queue) = channel();
    let queue = Mutex::new(queue);
    let mut order = Order {
        jobs: (threads > 1).then_some(jobs),
        most: 2 * threads,
        waiting: VecDeque::new(),
        decoder: Decoder::new(config),
        packets: Vec::new(),
        each: &mut take,
    };
    let reading = std::thread::scope(|scope| {
        for _ in 0..if threads > 1 { threads } else { 0 } {
            scope.spawn(|| work(&queue, config));
        }
        let mut gathering = Gathering { bytes: Vec::new(), offset: 0, begins_anew: true };
        let reading = buffer.read_blocks(0, false, &mut |block| {
            block.chunks(size.clamp(1, BLOCK)).try_for_each(|bytes| gathering.feed(bytes, &mut order))
        });
        if reading.is_ok() {
            let _ = order.push(Piece { is_last: true, ..gathering.take(None) });
            while let Some(waiting) = order.waiting.pop_front() {
                let _ = order.hand_on(waiting);
            }
        }
        // Threads end when there is nobody to ask them.
        order.jobs = None;
        order.waiting.clear();
        reading
    });
    reading.and(given)
}

struct Piece {
    offset: u64,
    begins_anew: bool,
    is_last: bool,
    bytes: Vec<u8>,
}

/// A piece that was read, and the decoder after it.
struct Done {
    offset: u64,
    begins_anew: bool,
    packets: Vec<Located<Packet>>,
    decoder: Decoder,
}

/// The bytes of a piece, until they are enough.
struct Gathering {
    bytes: Vec<u8>,
    offset: u64,
    begins_anew: bool,
}

impl Gathering {
    fn feed(&mut self, block: &[u8], order: &mut Order<'_>) -> ControlFlow<()> {
        self.bytes.extend_from_slice(block);
        let cut = order.decoder.last_sync(&self.bytes, 1);
        if cut.is_none() && self.bytes.len() < MOST_WAITING {
            return ControlFlow::Continue(());
        }
        order.push(self.take(cut))
    }

    /// The bytes up to a cut, or all.
    fn take(&mut self, cut: Option<usize>) -> Piece {
        let rest = cut.map_or_else(Vec::new, |cut| self.bytes.split_off(cut));
        let bytes = std::mem::replace(&mut self.bytes, rest);
        let &mut Self { offset, begins_anew, .. } = self;
        self.offset += bytes.len() as u64;
        self.begins_anew = cut.is_some();
        Piece { offset, begins_anew, is_last: false, bytes }
    }
}

/// A piece whose turn has not come.
enum Waiting {
    /// Somebody reads it.
    There(Receiver<Done>),
    /// It depends on what comes before.
    Here(Piece),
}

/// Hands pieces on in their order.
struct Order<'e> {
    jobs: Option<Sender<(Piece, Sender<Done>)>>,
    most: usize,
    waiting: VecDeque<Waiting>,
    decoder: Decoder,
    packets: Vec<Located<Packet>>,
    each: &'e mut dyn FnMut(&Lines<'_>) -> ControlFlow<()>,
}

impl Order<'_> {
    fn push(&mut self, piece: Piece) -> ControlFlow<()> {
        let Some(jobs) = self.jobs.as_ref() else { return self.hand_on(Waiting::Here(piece)) };
        let waiting = if piece.begins_anew && !piece.is_last {
            let (reply, done) = channel();
            // Nobody takes it only where everything is over.
            let _ = jobs.send((piece, reply));
            Waiting::There(done)
        } else {
            Waiting::Here(piece)
        };
        self.waiting.push_back(waiting);
        while self.waiting.len() > self.most
            && let Some(first) = self.waiting.pop_front()
        {
            self.hand_on(first)?;
        }
        ControlFlow::Continue(())
    }

    fn hand_on(&mut self, waiting: Waiting) -> ControlFlow<()> {
        match waiting {
            Waiting::There(done) => {
                let Ok(Done { offset, begins_anew, packets, decoder }) = done.recv() else {
                    return ControlFlow::Break(());
                };
                self.decoder = decoder;
                (self.each)(&Lines { offset, begins_anew, packets: &packets })
            }
            Waiting::Here(Piece { offset, begins_anew, is_last, bytes }) => {
                let packets = &mut self.packets;
                packets.clear();
                self.decoder.feed(&bytes, &mut |packet| packets.push(packet));
                if is_last {
                    self.decoder.finish(&mut |packet| packets.push(packet));
                }
                (self.each)(&Lines { offset, begins_anew, packets })
            }
        }
    }
}

fn work(queue: &Mutex<Receiver<(Piece, Sender<Done>)>>, config: &Config) {
    loop {
        let job = queue.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((Piece { offset, begins_anew, bytes, .. }, reply)) = job else { return };
        let mut decoder = Decoder::new(config).starting_at(offset);
        let mut packets = Vec::with_capacity(bytes.len() / 40);
        decoder.feed(&bytes, &mut |packet| packets.push(packet));
        // Where nobody waits for it, everything is over.
        let _ = reply.send(Done { offset, begins_anew, packets, decoder });
    }
}

/// Bytes of a block that is read at once.
const _: () = assert!(BLOCK < MOST_WAITING);
