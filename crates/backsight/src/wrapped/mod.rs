//! A buffer that wrapped, and whose write pointer is lost.

mod search;
#[cfg(test)]
mod tests;

use std::io::{Cursor, Read};
use std::sync::Arc;

use backsight_capture::Error;

use crate::capture::Buffer;
use crate::{Result, error};
use search::{Confidence, Prober, find_start};

/// Bytes of a frame.
const FRAME: usize = 16;

/// Longest wrapped buffer: it has to be held in memory.
const LONGEST: u64 = 1 << 32;

/// Finds where the trace of a wrapped buffer begins, and reads it from there.
pub(crate) fn unwrap(buffer: Buffer, notes: &mut Vec<String>) -> Result<Buffer> {
    let mut contents = Vec::new();
    let read = buffer.open()?.take(LONGEST + 1).read_to_end(&mut contents);
    read.map_err(|error| Error::io(buffer.name(), &error))?;
    if contents.len() as u64 > LONGEST {
        let name = buffer.name();
        let what =
            format!("buffer {name}: {LONGEST} bytes are the most that the start of the trace is searched in");
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
