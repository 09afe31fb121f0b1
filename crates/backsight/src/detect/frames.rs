//! CoreSight frames whose beginning nobody knows.

use std::collections::BTreeMap;

use backsight_arm::frame::{Chunk, Counts, Deframer, Framing, find_alignment};
use backsight_core::TraceId;

/// Bytes that frames are searched in.
const SEARCHED: usize = 1 << 15;
/// Sources of a buffer that are looked at: those with the most bytes.
const SOURCES: usize = 6;
/// Longest header that is believed to be one.
const LONGEST_HEADER: usize = 4096;
const FRAME: usize = 16;
const FULL_SYNC: [u8; 4] = [0xFF, 0xFF, 0xFF, 0x7F];

/// Frames that were taken apart.
pub(super) struct Taken {
    pub framing: Framing,
    /// Bytes before the first frame.
    pub skip: usize,
    /// The bytes of the sources that have most of them.
    pub sources: BTreeMap<TraceId, Vec<u8>>,
    /// Bytes that no such source has, and that are no part of the frames themselves.
    pub foreign: u64,
    /// Bytes of the frames themselves, and of padding.
    pub own: u64,
}

/// The ways to take bytes apart that are worth a closer look.
pub(super) fn ways(bytes: &[u8]) -> Vec<Taken> {
    let mut ways = Vec::new();
    if bytes.windows(4).filter(|window| *window == FULL_SYNC).take(2).count() == 2 {
        let ported = [Framing::Tpiu, Framing::TpiuHsync, Framing::Dstream];
        ways.extend(ported.into_iter().filter_map(|framing| take(framing, 0, bytes)));
    }
    let searched = &bytes[..bytes.len().min(SEARCHED)];
    if bytes.len() >= 2 * FRAME {
        let likely = find_alignment(searched, |_| 0).into_iter();
        ways.extend(likely.filter_map(|alignment| take(Framing::Coresight, alignment.offset, bytes)));
    }
    ways
}

/// Takes frames apart; `None` if what they name is no set of sources.
fn take(framing: Framing, offset: usize, bytes: &[u8]) -> Option<Taken> {
    let (counts, sources) = demultiplex(framing, bytes.get(offset..)?);
    let data: u64 = counts.sources().map(|(_, bytes)| bytes).sum();
    let mut by_size: Vec<(TraceId, u64)> = counts.sources().collect();
    by_size.sort_by_key(|&(_, bytes)| std::cmp::Reverse(bytes));
    by_size.truncate(SOURCES);
    let kept: u64 = by_size.iter().map(|&(_, bytes)| bytes).sum();
    // Nonsense names all IDs alike.
    if data == 0 || kept * 10 < data * 8 {
        return None;
    }
    let is_kept = |id: TraceId| by_size.iter().any(|&(kept, _)| kept == id);
    let skip = offset + if framing == Framing::Coresight { header(&bytes[offset..], is_kept) } else { 0 };
    let (counts, sources) = match skip == offset {
        true => (counts, sources),
        false => demultiplex(framing, &bytes[skip..]),
    };
    let kept: u64 = sources.iter().filter(|(id, _)| is_kept(**id)).map(|(_, bytes)| bytes.len() as u64).sum();
    let own = counts.ids + counts.frames + counts.sync + counts.footers + counts.padding();
    let all = (bytes.len() - skip) as u64;
    Some(Taken {
        framing,
        skip,
        foreign: all.saturating_sub(kept + own) + counts.nonzero_padding,
        own,
        sources: sources.into_iter().filter(|(id, _)| is_kept(*id)).collect(),
    })
}

fn demultiplex(framing: Framing, bytes: &[u8]) -> (Counts, BTreeMap<TraceId, Vec<u8>>) {
    let mut sources: BTreeMap<TraceId, Vec<u8>> = BTreeMap::new();
    let mut deframer = Deframer::new(framing);
    let mut sink = |chunk: Chunk<'_>| {
        if let Chunk::Data { id, bytes, .. } = chunk
            && id.is_source()
        {
            sources.entry(id).or_default().extend_from_slice(bytes);
        }
    };
    deframer.feed(bytes, &mut sink);
    deframer.finish(&mut sink);
    (deframer.counts().clone(), sources)
}

/// Bytes before the first of four frames that name only sources which have data: a header that somebody wrote before them.
fn header(bytes: &[u8], is_source: impl Fn(TraceId) -> bool) -> usize {
    let names_sources = |frame: &[u8]| {
        let mut ids = frame[..15].iter().step_by(2).filter(|&&byte| byte & 1 != 0).map(|&byte| byte >> 1);
        ids.all(|id| id == 0 || id == 0x7B || id == 0x7D || is_source(TraceId::new(id)))
    };
    let frames: Vec<bool> = bytes.chunks_exact(FRAME).map(names_sources).collect();
    let first = frames.windows(4).position(|four| four.iter().all(|&good| good)).unwrap_or(0);
    let length = first * FRAME;
    if length <= LONGEST_HEADER && length * 4 <= bytes.len() { length } else { 0 }
}
