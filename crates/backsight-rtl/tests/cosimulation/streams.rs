//! Streams to simulate: random, damaged, and from captures that were not made here.

use std::fmt::Write;
use std::fs;
use std::path::Path;

use backsight_arm::etm4::Config;
use backsight_arm::frame::{Chunk, Deframer, Framing};
use backsight_testing::Random;

const ASYNC: [u8; 12] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x80];

/// A stream of at least so many bytes that has every header, every length of every field, and bad packets.
pub fn random(random: &mut Random, length: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    // What a search has to pass over.
    for _ in 0..random.below(30) {
        bytes.push([0, 0, 0x80, random.next() as u8][random.below(4) as usize]);
    }
    while bytes.len() < length {
        match random.below(40) {
            0 | 1 => bytes.extend(ASYNC),
            // An Async that is too short or too long.
            2 => {
                bytes.extend(vec![0; random.below(15) as usize]);
                bytes.push([0x80, 0x03, random.next() as u8][random.below(3) as usize]);
            }
            // A Trace Info.
            3 => {
                bytes.extend([1, random.next() as u8 & 0x1F, random.next() as u8, random.next() as u8 & 0x7F])
            }
            // A context, so that addresses are in AArch64 state now and then.
            4 => bytes.extend([0x81, random.next() as u8 & 0x3F]),
            // A timestamp of all its nine bytes, with and without a cycle count.
            5 => {
                bytes.push(2 | random.next() as u8 & 1);
                bytes.extend((0..8).map(|_| random.next() as u8 | 0x80));
                bytes.extend([random.next() as u8, random.next() as u8 & 0x7F]);
            }
            _ => bytes.push(random.next() as u8),
        }
        // A payload: few bits, any bits, continuation bits set for long.
        let mask = [0x00, 0x7F, 0xFF][random.below(3) as usize];
        let set = if random.below(3) == 0 { 0x80 } else { 0 };
        for _ in 0..random.below(12) {
            bytes.push(random.next() as u8 & mask | set);
        }
    }
    bytes
}

/// A stream in pieces, bytes lost between them.
pub fn cut(random: &mut Random, bytes: &[u8], pieces: u64) -> Vec<Vec<u8>> {
    let mut all = vec![bytes.to_vec()];
    for _ in 1..pieces {
        let longest = all.iter().map(Vec::len).max().unwrap_or_default();
        let at = all.iter().position(|piece| piece.len() == longest).unwrap_or_default();
        let piece = all.remove(at);
        let end = random.below(piece.len() as u64 + 1) as usize;
        let begin = (end + random.below(9) as usize).min(piece.len());
        all.insert(at, piece[begin..].to_vec());
        all.insert(at, piece[..end].to_vec());
    }
    all
}

/// The words of a testbench that say so: pieces of a stream with gaps between them, in as many lanes. With holes, lanes and
/// words are empty by chance.
pub fn words(pieces: &[Vec<u8>], lanes: usize, mut holes: Option<&mut Random>) -> String {
    let mut text = String::new();
    for (index, piece) in pieces.iter().enumerate() {
        let mut gap = index > 0;
        let mut rest = &piece[..];
        while !rest.is_empty() || gap {
            let (mut keep, mut data) = (0u32, 0u128);
            for lane in 0..lanes {
                let hole = holes.as_mut().is_some_and(|random| random.below(4) == 0);
                if let (false, Some((&byte, after))) = (hole, rest.split_first()) {
                    keep |= 1 << lane;
                    data |= u128::from(byte) << (8 * lane);
                    rest = after;
                }
            }
            writeln!(text, "{} {keep:x} {data:x}", u8::from(gap)).expect("a string takes all");
            gap = false;
        }
    }
    text
}

/// The configuration of a trace source in a snapshot, from its file.
pub fn config(file: &Path) -> Config {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let mut config = if text.contains("type=ETE") { Config::ete_default() } else { Config::etm4_default() };
    for (name, value) in text.lines().filter_map(|line| line.split_once('=')) {
        let name = name.split('(').next().unwrap_or_default().trim();
        let value = value.trim().trim_start_matches("0x");
        if let (true, Ok(value)) = (name.starts_with("TRC"), u32::from_str_radix(value, 16)) {
            config
                .set_register(name, value)
                .unwrap_or_else(|error| panic!("{}: {name}: {error}", file.display()));
        }
    }
    config
}

/// The bytes of one source of a capture in frames, in pieces where frames say that bytes are missing.
pub fn source(capture: &[u8], id: u8) -> Vec<Vec<u8>> {
    let mut pieces = vec![Vec::new()];
    let mut take = |chunk: Chunk<'_>| match chunk {
        Chunk::Data { id: from, bytes, .. } if from.get() == id => pieces.last_mut().unwrap().extend(bytes),
        Chunk::Discontinuity { .. } => pieces.push(Vec::new()),
        _ => {}
    };
    let mut deframer = Deframer::new(Framing::Coresight);
    deframer.feed(capture, &mut take);
    deframer.finish(&mut take);
    pieces
}

/// The words of a testbench of frames that say so: the frames of a memory buffer, for one source.
pub fn frames(buffer: &[u8], id: u8) -> String {
    let mut text = String::new();
    for frame in buffer.as_chunks::<16>().0 {
        writeln!(text, "0 {id:x} {:032x}", u128::from_le_bytes(*frame)).expect("a string takes all");
    }
    text
}

/// Damages frames: IDs that no source has, barriers, other sources, bits that flip.
pub fn damage_frames(random: &mut Random, buffer: &mut [u8]) {
    for frame in buffer.as_chunks_mut::<16>().0 {
        match random.below(60) {
            0 => frame[2 * random.below(8) as usize] = 0xFF,
            1 => frame.copy_from_slice(&[0xFF, 0xFF, 0xFF, 0x7F].repeat(4)),
            2 => frame[2 * random.below(8) as usize] = random.next() as u8 | 1,
            3 => frame[random.below(16) as usize] ^= 1 << random.below(8),
            4 => frame[15] = random.next() as u8,
            _ => {}
        }
    }
}
