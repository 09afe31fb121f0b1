//! Waves of several harts on one axis.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

use backsight::Capture;
use backsight::decode::{Decode, Execution};
use backsight::moments::Moments;
use backsight::steps::{Read, read};

use super::lane::{self, Following};
use super::{Change, Lane, WaveError, WaveWriter, Waves};

/// Batches of changes that may wait.
const MOST_BATCHES: usize = 8;

/// What became of a hart.
struct Followed {
    read: Read,
    instructions: u64,
    untimed: u64,
    written: Vec<bool>,
}

/// The changes of a hart, as another thread finds them.
struct Changes {
    receiver: Receiver<Vec<Change>>,
    waiting: VecDeque<Change>,
}

impl Changes {
    fn head(&mut self) -> Option<&Change> {
        while self.waiting.is_empty() {
            self.waiting = self.receiver.recv().ok()?.into();
        }
        self.waiting.front()
    }
}

/// Follows all harts, and gives what changes to a writer, in the order of time.
pub(super) fn run<'c>(
    capture: &'c Capture,
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    lanes: &[Lane],
    (following, signals): (&Following<'_>, usize),
    writer: &mut dyn WaveWriter,
) -> Result<Waves, WaveError> {
    let code = capture.code()?;
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        let mut all = Vec::new();
        for lane in lanes {
            let (sender, receiver) = sync_channel(MOST_BATCHES);
            let (code, decode) = (code.seen_by(&lane.source), decode.clone());
            threads.push(scope.spawn(move || {
                follow(lane, moments, &decode, lane::Lane::new(following, code, signals), &sender)
            }));
            all.push(Changes { receiver, waiting: VecDeque::new() });
        }
        let mut waves = Waves::default();
        let mut outcome = Ok(());
        while outcome.is_ok() {
            let heads = all.iter_mut().enumerate();
            let first = heads.filter_map(|(number, lane)| Some((lane.head()?.time, number))).min();
            let Some((_, number)) = first else { break };
            let Some(change) = all[number].waiting.pop_front() else { break };
            waves.changes += 1;
            outcome = writer.change(change.time, number * signals + change.signal as usize, &change.value);
        }
        // Those that still wait to hand something over see that nobody takes it.
        drop(all);
        let mut written = vec![false; following.options.registers.len()];
        for thread in threads {
            let followed = match thread.join() {
                Ok(followed) => followed?,
                Err(panic) => std::panic::resume_unwind(panic),
            };
            waves.instructions += followed.instructions;
            waves.untimed += followed.untimed;
            waves.is_damaged |= followed.read.decoded.bad > 0;
            written.iter_mut().zip(followed.written).for_each(|(any, written)| *any |= written);
        }
        let names = following.options.registers.iter().zip(written);
        waves.absent = names.filter(|(_, written)| !written).map(|(name, _)| name.clone()).collect();
        outcome?;
        writer.finish()?;
        Ok(waves)
    })
}

fn follow<'c>(
    lane: &Lane,
    moments: &Moments<'c>,
    decode: &Decode<'c, Execution>,
    mut changes: lane::Lane<'_, 'c>,
    sender: &SyncSender<Vec<Change>>,
) -> Result<Followed, WaveError> {
    let mut send = |batch| match sender.send(batch) {
        Ok(()) => ControlFlow::Continue(()),
        Err(_) => ControlFlow::Break(()),
    };
    let chosen = (&lane.source, lane.hart);
    let read =
        read(moments, decode, chosen, lane.window, true, &mut |batch| changes.batch(&batch, &mut send))?;
    changes.finish(&mut send);
    let lane::Lane { instructions, untimed, written, .. } = changes;
    Ok(Followed { read, instructions, untimed, written })
}
