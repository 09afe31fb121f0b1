//! Starting threads.

use super::Kernel;
use super::errno::Errno;
use super::report::Report;
use super::threads::Thread;
use crate::hart::Hart;

/// Threads that may be there at a time.
const MOST: usize = 4096;

const A0: u8 = 10;
const SP: u8 = 2;
const TP: u8 = 4;

/// What `clone` is asked for.
struct Clone {
    flags: u64,
    stack: u64,
    parent_tid: u64,
    child_tid: u64,
    tls: u64,
}

const CLONE_VM: u64 = 0x100;
const CLONE_SIGHAND: u64 = 0x800;
const CLONE_THREAD: u64 = 0x1_0000;
const CLONE_SETTLS: u64 = 0x8_0000;
const CLONE_PARENT_SETTID: u64 = 0x10_0000;
const CLONE_CHILD_CLEARTID: u64 = 0x20_0000;
const CLONE_CHILD_SETTID: u64 = 0x100_0000;

impl Kernel {
    /// `clone`.
    pub(super) fn clone_thread(&mut self, hart: &Hart, a: [u64; 6]) -> Result<u64, Errno> {
        let [flags, stack, parent_tid, tls, child_tid, _] = a;
        self.start_thread(hart, &Clone { flags, stack, parent_tid, child_tid, tls })
    }

    /// `clone3`.
    pub(super) fn clone3_thread(&mut self, hart: &Hart, a: [u64; 6]) -> Result<u64, Errno> {
        const SMALLEST: u64 = 64;
        let [address, size, ..] = a;
        if size < SMALLEST {
            return Err(Errno::INVAL);
        }
        let mut fields = [0; SMALLEST as usize];
        self.memory.read(address, &mut fields)?;
        let field = |n: usize| {
            fields.get(n * 8..).and_then(<[u8]>::first_chunk).map_or(0, |&bytes| u64::from_le_bytes(bytes))
        };
        // Flags, pidfd, child and parent TID, signal at exit, stack and its size, TLS.
        let stack = field(5).wrapping_add(field(6));
        let clone =
            Clone { flags: field(0), stack, parent_tid: field(3), child_tid: field(2), tls: field(7) };
        self.start_thread(hart, &clone)
    }

    fn start_thread(&mut self, hart: &Hart, clone: &Clone) -> Result<u64, Errno> {
        const THREAD: u64 = CLONE_VM | CLONE_SIGHAND | CLONE_THREAD;
        let asked = |flag: u64| clone.flags & flag != 0;
        if clone.flags & THREAD != THREAD {
            return Err(self.missing.feature("fork: a second process (clone without CLONE_THREAD)"));
        }
        if self.threads.list.len() >= MOST {
            return Err(Errno::AGAIN);
        }
        let signals = self.thread().signals.of_new_thread();
        let mut thread = Thread::new(self.threads.started, signals);
        let tid = thread.tid.to_le_bytes();
        if asked(CLONE_PARENT_SETTID) {
            self.memory.write(clone.parent_tid, &tid)?;
        }
        if asked(CLONE_CHILD_SETTID) {
            self.memory.write(clone.child_tid, &tid)?;
        }
        thread.clear_tid = if asked(CLONE_CHILD_CLEARTID) { clone.child_tid } else { 0 };
        thread.hart = hart.clone();
        thread.hart.reservation = None;
        thread.hart.set_x(A0, 0);
        if clone.stack != 0 {
            thread.hart.set_x(SP, clone.stack);
        }
        if asked(CLONE_SETTLS) {
            thread.hart.set_x(TP, clone.tls);
        }
        self.threads.started += 1;
        self.replayable = false;
        self.reports.push(Report::ThreadStarts { thread: thread.number, tid: thread.tid });
        let result = u64::from(thread.tid);
        self.threads.list.push(thread);
        Ok(result)
    }
}
