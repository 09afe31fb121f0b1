//! What the kernel writes to memory, kept for those who want to repeat a run without it.

/// A change of memory that no store made, or code that was not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// The kernel wrote these bytes.
    Written(u64, Vec<u8>),
    /// From, to: zero now, or gone.
    Cleared(u64, u64),
    /// Code that is about to be executed.
    Code(u64, Vec<u8>),
}

/// Changes in the order in which they happened.
#[derive(Default)]
pub struct External {
    watched: bool,
    changes: Vec<Change>,
}

impl External {
    /// Keeps changes from now on.
    pub fn watch(&mut self) {
        self.watched = true;
    }

    /// The kernel wrote.
    pub fn written(&mut self, address: u64, bytes: &[u8]) {
        if self.watched {
            self.changes.push(Change::Written(address, bytes.to_vec()));
        }
    }

    /// `start..end` is zero, or gone.
    pub fn cleared(&mut self, start: u64, end: u64) {
        if self.watched && start < end {
            self.changes.push(Change::Cleared(start, end));
        }
    }

    /// The changes since the last call.
    pub fn take(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }
}
