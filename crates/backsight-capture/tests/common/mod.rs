//! What several tests of captures share.

use backsight_capture::folder::{Folder, Memory};
use backsight_capture::{Capture, Error};
use std::io::Read;
use std::sync::Arc;

/// A folder in memory.
pub fn folder(files: &[(&str, &[u8])]) -> Memory {
    Memory(files.iter().map(|(path, contents)| ((*path).to_owned(), Arc::from(*contents))).collect())
}

/// A folder of text files in memory.
pub fn text_folder(files: &[(&str, &str)]) -> Memory {
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, text)| (*path, text.as_bytes())).collect();
    folder(&files)
}

/// Opens a capture of text files.
pub fn open(files: &[(&str, &str)]) -> Result<Capture, Error> {
    from(text_folder(files))
}

/// Opens the capture in a folder.
pub fn from(folder: impl Folder + 'static) -> Result<Capture, Error> {
    Capture::from_folder(Arc::new(folder), "capture")
}

/// The contents of a buffer.
pub fn bytes(capture: &Capture, buffer: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    capture.buffers[buffer].open().unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}
