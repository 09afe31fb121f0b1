//! A buffer that wrapped, and whose write pointer is lost.

use std::io::{Cursor, Read};
use std::sync::Arc;

use backsight_capture::seam::{Confidence, Etm4Prober, Prober, find_seam};

use super::{Buffer, Decoding};
use crate::failure::{Failure, Result};

/// Bytes of a frame.
const FRAME: usize = 16;

/// Longest wrapped buffer: it has to be held in memory.
const LONGEST_WRAPPED: u64 = 1 << 32;

/// Finds where the trace of a wrapped buffer begins, and reads it from there.
pub fn unwrap_buffer(buffer: Buffer, notes: &mut Vec<String>) -> Result<Buffer> {
    let mut contents = Vec::new();
    let reader = (buffer.open)()?;
    let count = reader.take(LONGEST_WRAPPED + 1).read_to_end(&mut contents);
    count.map_err(|error| Failure::new(format!("{}: {error}", buffer.name)))?;
    if contents.len() as u64 > LONGEST_WRAPPED {
        return Err(Failure::new(format!("{}: too long to find the start of a wrapped buffer", buffer.name)));
    }
    let seam = find_seam(&contents, |id| match buffer.source(id)?.decoding {
        Decoding::Etm4(config) => Some(Box::new(Etm4Prober::new(&config)) as Box<dyn Prober>),
        _ => None,
    });
    notes.push(format!(
        "buffer {}: the trace seems to begin at frame {} of {} ({}): {}",
        buffer.name,
        seam.frame,
        contents.len() / FRAME,
        confidence_words(seam.confidence),
        seam.reasons.join("; ")
    ));
    let start = (seam.frame * FRAME).min(contents.len());
    contents.rotate_left(start);
    contents.truncate(seam.frames * FRAME);
    let contents: Arc<[u8]> = contents.into();
    Ok(Buffer {
        size: Some(contents.len() as u64),
        open: Box::new(move || Ok(Box::new(Cursor::new(Arc::clone(&contents))))),
        ..buffer
    })
}

fn confidence_words(confidence: Confidence) -> &'static str {
    match confidence {
        Confidence::None => "nothing points anywhere",
        Confidence::Guess => "a guess",
        Confidence::Likely => "likely",
        Confidence::High => "sure",
    }
}
