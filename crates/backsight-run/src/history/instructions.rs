//! The instructions of one thread, one after the other.

use super::History;
use backsight_core::{Execution, Retired};

/// The instructions of a thread, in their order.
pub struct Instructions<'h> {
    history: &'h mut History,
    thread: u32,
    /// The chunk, by its place among those that have instructions of the thread, and the next item there.
    part: usize,
    item: usize,
    /// The thread that executes there.
    now: Option<u32>,
}

impl History {
    /// The instructions of a thread: none if there is no such thread.
    pub fn instructions_by(&mut self, thread: u32) -> Instructions<'_> {
        Instructions { history: self, thread, part: 0, item: 0, now: None }
    }
}

impl Iterator for Instructions<'_> {
    type Item = Retired;

    fn next(&mut self) -> Option<Retired> {
        loop {
            let &(_, chunk) = self.history.threads.get(&self.thread)?.get(self.part)?;
            let begins_in = self.history.chunks.get(chunk)?.thread;
            let mut now = self.now.unwrap_or(begins_in);
            let items = &self.history.items(chunk).items;
            while let Some(item) = items.get(self.item) {
                self.item += 1;
                match item {
                    Execution::Thread(other) => now = *other,
                    Execution::Instruction(retired) if now == self.thread => {
                        self.now = Some(now);
                        return Some(*retired);
                    }
                    _ => {}
                }
            }
            (self.part, self.item, self.now) = (self.part + 1, 0, None);
        }
    }
}
