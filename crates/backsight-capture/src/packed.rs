//! Files that are compressed, read as what is in them.

use std::io::{self, BufRead, BufReader, Read};

use flate2::bufread::MultiGzDecoder;
use ruzstd::decoding::StreamingDecoder;

use crate::Error;
use crate::folder::{FileRef, Folder};
use std::sync::Arc;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    Gzip,
    Zstd,
}

impl Packing {
    fn of(start: &[u8]) -> Option<Self> {
        match start {
            [0x1F, 0x8B, 8, ..] => Some(Self::Gzip),
            [0x28, 0xB5, 0x2F, 0xFD, ..] => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// Is this the beginning of a file that [`unpacked`] reads?
pub fn is_packed(start: &[u8]) -> bool {
    Packing::of(start).is_some()
}

/// What is in a reader whose first bytes are these: unpacked, if it is compressed by gzip or Zstandard. Memory is bounded by
/// the window of the compression.
pub fn unpacking(start: Vec<u8>, rest: impl Read + Send + 'static) -> Box<dyn Read + Send> {
    let packing = Packing::of(&start);
    let all = io::Cursor::new(start).chain(rest);
    match packing {
        Some(Packing::Gzip) => Box::new(MultiGzDecoder::new(BufReader::new(all))),
        Some(Packing::Zstd) => Box::new(Zstd::Between(BufReader::new(all))),
        None => Box::new(all),
    }
}

/// The file itself, or, if it is compressed by gzip or Zstandard, what is in it.
///
/// # Errors
/// If it cannot be read.
pub fn unpacked(file: FileRef) -> Result<FileRef, Error> {
    if !file.can_reopen() {
        return Ok(file);
    }
    let mut start = Vec::new();
    let read = file.open()?.take(4).read_to_end(&mut start);
    read.map_err(|error| Error::io(file.to_string(), &error))?;
    if !is_packed(&start) {
        return Ok(file);
    }
    let path = file.path().to_owned();
    Ok(FileRef::of(Arc::new(Packed(file)), path))
}

/// What is in a compressed file.
#[derive(Debug)]
struct Packed(FileRef);

impl Folder for Packed {
    fn open(&self, _path: &str) -> io::Result<Box<dyn Read + Send>> {
        let mut packed = self.0.open().map_err(io::Error::other)?;
        let mut start = Vec::new();
        packed.by_ref().take(4).read_to_end(&mut start)?;
        Ok(unpacking(start, packed))
    }

    fn length(&self, _path: &str) -> io::Result<Option<u64>> {
        Ok(None)
    }

    fn files(&self) -> Vec<String> {
        vec![self.0.path().to_owned()]
    }

    fn describe(&self, _path: &str) -> String {
        self.0.to_string()
    }
}

/// Frames of Zstandard, one after the other.
enum Zstd<R: Read> {
    Between(BufReader<R>),
    Within(Box<StreamingDecoder<BufReader<R>, ruzstd::decoding::FrameDecoder>>),
    Ended,
}

impl<R: Read> Read for Zstd<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match std::mem::replace(self, Self::Ended) {
                Self::Ended => return Ok(0),
                Self::Between(mut rest) => {
                    if rest.fill_buf()?.is_empty() {
                        return Ok(0);
                    }
                    let frame = StreamingDecoder::new(rest);
                    *self = Self::Within(Box::new(frame.map_err(io::Error::other)?));
                }
                Self::Within(mut frame) => match frame.read(buffer)? {
                    0 if !buffer.is_empty() => *self = Self::Between(frame.into_inner()),
                    count => {
                        *self = Self::Within(frame);
                        return Ok(count);
                    }
                },
            }
        }
    }
}
