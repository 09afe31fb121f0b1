//! What a decoder needs beside the trace: which code was where, and what the operating system did.
//!
//! The thread that makes a program run finds it out; the thread that writes trace writes it down before the trace that
//! needs it. So whenever recording is interrupted, what is there can be decoded.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use backsight_capture::LONGEST_LOG;
use backsight_capture::events::{Item, PatchCode, Record};

use super::code::RecordedCode;
use crate::Error;

/// Bytes of an event in a log, and in memory, without its code and names.
const EVENT: u64 = 128;

/// What is known so far.
pub struct RecordedSoFar {
    /// Code.
    pub code: RecordedCode,
    /// Events, in order.
    records: Vec<Record>,
    /// Bytes that they take in a log, about.
    size: u64,
    /// An event that is not complete: code that is being run for the first time.
    pub growing: Option<Record>,
    /// Contexts have the numbers of threads.
    pub thread_ids: bool,
}

impl RecordedSoFar {
    /// The events, as far as there are any.
    pub fn records(&self) -> impl Iterator<Item = &Record> {
        self.records.iter().chain(&self.growing)
    }

    /// Logs events.
    pub fn log(&mut self, records: impl IntoIterator<Item = Record>) -> Result<(), Error> {
        for record in records {
            self.size += EVENT + in_log(&record.item);
            // Nobody could read a longer log.
            if self.size > LONGEST_LOG {
                return Err(Error::LongLog { events: self.records.len() as u64, longest: LONGEST_LOG });
            }
            self.records.push(Record { line: self.records.len() as u32 + 1, ..record });
        }
        Ok(())
    }
}

/// Bytes of an item that depend on what it says.
fn in_log(item: &Item) -> u64 {
    match item {
        Item::Patch(patch) => match &patch.code {
            PatchCode::Inline(bytes) => 2 * bytes.len() as u64,
            _ => 0,
        },
        Item::Mapping(_, mapping) => mapping.image.as_ref().map_or(0, |image| image.len() as u64),
        _ => 0,
    }
}

/// The same, for both threads.
#[derive(Clone)]
pub struct SharedKnown {
    known: Arc<Mutex<RecordedSoFar>>,
    /// How often it changed.
    changes: Arc<AtomicU64>,
}

impl SharedKnown {
    /// Nothing is known but this code.
    pub fn new(code: RecordedCode) -> Self {
        let known = RecordedSoFar { code, records: Vec::new(), size: 0, growing: None, thread_ids: false };
        // The first description is of what is known at the beginning.
        Self { known: Arc::new(Mutex::new(known)), changes: Arc::new(AtomicU64::new(1)) }
    }

    /// How often it changed.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// Adds to it. Trace that needs what is added must come to its writer later.
    pub fn change<R>(&self, act: impl FnOnce(&mut RecordedSoFar) -> R) -> R {
        let result = self.look(act);
        self.changes.fetch_add(1, Ordering::Release);
        result
    }

    /// Looks at it.
    pub fn look<R>(&self, act: impl FnOnce(&mut RecordedSoFar) -> R) -> R {
        act(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
