//! Where QEMU and its reader meet: a folder with a socket and a file of tails.
//!
//! Only this user can look into it. It is removed as soon as both are open on either side, or, where children connect too, at the end. A reader that was killed before
//! that leaves it; the next one removes it.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

const PREFIX: &str = "backsight-qemu-";
/// Distance of two tails in their file.
const STRIDE: u64 = 1 << 17;
/// A tail is not longer: header and bytes.
const LONGEST_TAIL: usize = 64 + (1 << 16);
/// More tails than threads are not read.
const MOST_TAILS: u64 = (1 << 16) + 1;

/// The folder.
pub struct Rendezvous {
    folder: PathBuf,
    listener: UnixListener,
    tails: File,
}

impl Rendezvous {
    /// A new folder, in memory where there is room for it: the tails in it are written all the time.
    pub fn new() -> io::Result<Self> {
        let memory = Path::new("/dev/shm");
        remove_abandoned(memory);
        Self::inside(memory).or_else(|_| Self::inside(&std::env::temp_dir()))
    }

    fn inside(parent: &Path) -> io::Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let folder = parent.join(format!("{PREFIX}{}-{count}", std::process::id()));
        DirBuilder::new().mode(0o700).create(&folder)?;
        let filled = UnixListener::bind(folder.join("socket")).and_then(|listener| {
            listener.set_nonblocking(true)?;
            let tails = folder.join("tails");
            let tails = OpenOptions::new().read(true).write(true).create_new(true).open(tails)?;
            Ok((listener, tails))
        });
        match filled {
            Ok((listener, tails)) => Ok(Self { folder, listener, tails }),
            Err(error) => {
                let _ = fs::remove_dir_all(&folder);
                Err(error)
            }
        }
    }

    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub fn listener(&self) -> &UnixListener {
        &self.listener
    }

    /// The file of tails, which outlives the folder.
    pub fn tails(&self) -> io::Result<File> {
        self.tails.try_clone()
    }
}

impl Drop for Rendezvous {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Removes folders whose reader is gone.
fn remove_abandoned(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let reader =
            name.to_str().and_then(|name| name.strip_prefix(PREFIX)?.split_once('-')?.0.parse::<u32>().ok());
        if reader.is_some_and(|reader| !Path::new(&format!("/proc/{reader}")).exists()) {
            // Another user's folder stays.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// The tails in a file: definitions first, then threads in start order.
pub fn tails(file: &File) -> Vec<Vec<u8>> {
    let length = file.metadata().map_or(0, |metadata| metadata.len());
    let slots = length.div_ceil(STRIDE).min(MOST_TAILS);
    let mut tails: Vec<_> = (0..slots).filter_map(|slot| tail(file, slot * STRIDE)).collect();
    // The definitions have the highest number of all.
    tails.sort_by_key(|(source, _)| source.wrapping_add(1));
    tails.into_iter().map(|(_, tail)| tail).collect()
}

/// The tail at an offset, and whose it is.
fn tail(file: &File, offset: u64) -> Option<(u32, Vec<u8>)> {
    let mut header = [0; 16];
    file.read_exact_at(&mut header, offset).ok()?;
    let [magic @ .., s0, s1, s2, s3, f0, f1, f2, f3] = header;
    let (source, fill) = (u32::from_le_bytes([s0, s1, s2, s3]), u32::from_le_bytes([f0, f1, f2, f3]));
    if magic != *b"BSQTAIL1" {
        return None;
    }
    let mut tail = vec![0; (64 + fill as usize).min(LONGEST_TAIL)];
    file.read_exact_at(&mut tail, offset).ok()?;
    Some((source, tail))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_whose_reader_is_gone_are_removed_and_others_are_not() {
        let parent = std::env::temp_dir().join(format!("backsight-rendezvous-{}", std::process::id()));
        // No process has such a number.
        let gone = parent.join(format!("{PREFIX}{}-0", u32::MAX));
        let ours = parent.join(format!("{PREFIX}{}-0", std::process::id()));
        let other = parent.join("backsight-notes");
        for folder in [&gone, &ours, &other] {
            fs::create_dir_all(folder).expect("a temporary folder");
        }
        remove_abandoned(&parent);
        assert_eq!([gone.exists(), ours.exists(), other.exists()], [false, true, true]);
        fs::remove_dir_all(parent).expect("a folder of this test");
    }

    #[test]
    fn nothing_stays_of_a_folder_that_was_removed_but_the_tails() {
        let rendezvous = Rendezvous::new().expect("a folder");
        let folder = rendezvous.folder().to_owned();
        assert!(folder.join("socket").exists());
        let file = rendezvous.tails().expect("a file");
        drop(rendezvous);
        assert!(!folder.exists());
        for (slot, source) in [(0u64, u32::MAX), (2, 5), (3, 0)] {
            let header = [b"BSQTAIL1", &[source.to_le_bytes(), 4u32.to_le_bytes()].concat()[..]].concat();
            file.write_all_at(&[&header[..], &[0; 48], &[1, 2, 3, 4]].concat(), slot * STRIDE).expect("room");
        }
        let read = tails(&file);
        let sources: Vec<_> = read.iter().map(|tail| (tail.len(), tail[8])).collect();
        assert_eq!(sources, [(68, 0xFF), (68, 0), (68, 5)]);
    }
}
