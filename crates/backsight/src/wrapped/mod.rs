//! A buffer that wrapped, and whose write pointer is lost.

mod search;
#[cfg(test)]
mod tests;

use std::io::{Cursor, Read};
use std::sync::Arc;

use backsight_capture::Error;
use backsight_core::{Budget, Door};

use crate::capture::Buffer;
use crate::{Result, error};
use search::{Confidence, Prober, find_start};

/// Bytes of a frame.
const FRAME: usize = 16;

/// Finds where the trace of a wrapped buffer begins, and reads it from there. The buffer has to be held in memory: a file may be
/// of any size, a pipe of that which `budget` allows.
pub(crate) fn unwrap(buffer: Buffer, budget: Option<u64>, notes: &mut Vec<String>) -> Result<Buffer> {
    let budget = Budget::of(Door::Wrapped, budget, buffer.size.unwrap_or(0));
    let mut contents = Vec::new();
    let read = buffer.open()?.take(budget.limit().saturating_add(1)).read_to_end(&mut contents);
    read.map_err(|error| Error::io(buffer.name(), &error))?;
    if let Err(why) = budget.take(contents.len() as u64) {
        let what =
            format!("buffer {}: too long to search it for the start of the trace: {why}", buffer.name());
        return Err(error::Error::Misuse(what));
    }
    let start = find_start(&contents, |id| Some(Prober::new(buffer.source(id)?.decoding().packets()?)));
    notes.push(format!(
        "buffer {}: the trace seems to begin at frame {} of {} ({}): {}",
        buffer.name,
        start.frame,
        contents.len() / FRAME,
        words(start.confidence),
        start.reasons.join("; ")
    ));
    let first = (start.frame * FRAME).min(contents.len());
    contents.rotate_left(first);
    contents.truncate(start.frames * FRAME);
    let contents: Arc<[u8]> = contents.into();
    Ok(Buffer {
        size: Some(contents.len() as u64),
        open: Arc::new(move |position| {
            let mut reader = Cursor::new(Arc::clone(&contents));
            reader.set_position(position);
            Ok(Box::new(reader))
        }),
        ..buffer
    })
}

fn words(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::None => "nothing points anywhere",
        Confidence::Guess => "a guess",
        Confidence::Likely => "likely",
        Confidence::High => "sure",
    }
}
