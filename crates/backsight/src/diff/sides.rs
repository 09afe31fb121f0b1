//! Comparing captures: each side is read on a thread of its own.

use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use super::{Difference, Settings, Summary, compare};
use crate::decode::{Decode, Execution};
use crate::moments::{Moments, Window};
use crate::steps::{Batch, Read, read};
use crate::{Result, Source};

/// Batches that may wait.
const MOST_BATCHES: usize = 16;

/// A side of a comparison.
#[derive(Clone)]
pub struct Side<'s, 'c> {
    /// The moments of its capture.
    pub moments: &'s Moments<'c>,
    /// How it is decoded.
    pub decode: Decode<'c, Execution>,
    /// The source.
    pub source: &'s Source,
    /// The hart of it; `None`: the first that is met.
    pub hart: Option<u16>,
    /// The part of it.
    pub window: Window,
}

impl Side<'_, '_> {
    fn read(self, sender: &SyncSender<Batch>) -> Result<Read> {
        let mut hand_over = |batch| match sender.send(batch) {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        };
        read(self.moments, &self.decode, (self.source, self.hart), self.window, false, &mut hand_over)
    }
}

/// What another thread reads.
struct Received(Receiver<Batch>);

impl Iterator for Received {
    type Item = Batch;

    fn next(&mut self) -> Option<Batch> {
        self.0.recv().ok()
    }
}

/// Compares a hart of a capture with one of another.
///
/// # Errors
/// As [`Moments::take`].
pub fn compare_sides(
    sides: [Side<'_, '_>; 2],
    settings: &Settings,
    each: &mut dyn FnMut(&Difference) -> ControlFlow<()>,
) -> Result<(Summary, [Read; 2])> {
    std::thread::scope(|scope| {
        let [one, other] = sides.map(|side| {
            let (sender, receiver) = sync_channel(MOST_BATCHES);
            let thread = scope.spawn(move || side.read(&sender));
            (Received(receiver), thread)
        });
        let summary = compare(one.0, other.0, settings, each);
        let [one, other] = [one.1, other.1].map(|thread| match thread.join() {
            Ok(read) => read,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        Ok((summary, [one?, other?]))
    })
}
