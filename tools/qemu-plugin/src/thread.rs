//! The stream of one thread of the program.

use std::io;
use std::sync::atomic::{AtomicPtr, AtomicU32, Ordering, compiler_fence};

use crate::event::{CUT, event};
use crate::tail::{CAPACITY, Tail};
use crate::{recorder, system};

/// QEMU gives the number of an ended thread to a later one: streams are numbered by start order instead.
static STARTED: AtomicU32 = AtomicU32::new(0);

/// More threads at a time than this are not recorded.
const MOST: usize = 1 << 16;
static THREADS: [AtomicPtr<Thread>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];

/// A thread and its unwritten bytes.
pub struct Thread {
    pub number: u32,
    tail: Tail,
    /// Bytes that may stand in the tail; 0 until the thread itself has run.
    limit: u32,
    thread_id: u32,
    /// The system call being made.
    pub call: SystemCall,
}

/// A system call, its first arguments, and what was read from memory while it was made.
#[derive(Clone, Copy, Default)]
pub struct SystemCall {
    pub number: i64,
    pub arguments: [u64; 6],
    /// The handler that it would install.
    pub handler: Option<u64>,
}

/// Starts a stream for the thread that QEMU calls `index`.
pub fn start(index: u32) -> Option<&'static mut Thread> {
    let slot = THREADS.get(index as usize)?;
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    match Thread::new(number) {
        Ok(thread) => slot.store(Box::into_raw(Box::new(thread)), Ordering::Release),
        Err(error) => {
            eprintln!("backsight: no memory to record thread {number}: {error}");
            return None;
        }
    }
    get(index)
}

/// The thread that QEMU calls `index`. Only that thread's own callbacks ask for it, one at a time.
#[inline]
pub fn get(index: u32) -> Option<&'static mut Thread> {
    let thread = THREADS.get(index as usize)?.load(Ordering::Relaxed);
    // SAFETY: null, or a box that only `end` takes away, on the same thread.
    unsafe { thread.as_mut() }
}

/// In a forked child: only the thread that forked goes on. The others are in the parent; what they had stays unused.
pub fn keep_only(thread_id: u32) -> Option<&'static mut Thread> {
    let mut kept = None;
    for (index, slot) in THREADS.iter().enumerate().take(started() as usize + 1) {
        match get(index as u32) {
            Some(thread) if thread.thread_id == thread_id => kept = Some(thread),
            _ => slot.store(std::ptr::null_mut(), Ordering::Release),
        }
    }
    if let Some(thread) = &mut kept {
        thread.thread_id = system::thread_id();
        // The call that made the child returns here too, and is no call of this stream.
        thread.call = SystemCall { number: -1, ..SystemCall::default() };
    }
    kept
}

/// How many threads have been started.
pub fn started() -> u32 {
    STARTED.load(Ordering::Relaxed)
}

/// Ends the stream of a thread.
pub fn end(index: u32) {
    let Some(slot) = THREADS.get(index as usize) else { return };
    let thread = slot.swap(std::ptr::null_mut(), Ordering::AcqRel);
    if thread.is_null() {
        return;
    }
    // SAFETY: came from a box, and nobody finds it any more.
    let thread = unsafe { Box::from_raw(thread) };
    if thread.number == 0 {
        // Translated code may still count in the header of the first thread.
        thread.tail.retire();
        std::mem::forget(thread);
    } else {
        thread.tail.remove();
    }
}

/// Calls `visit` with every thread.
pub fn for_each(mut visit: impl FnMut(&'static mut Thread)) {
    for index in 0..THREADS.len().min(started() as usize + 1) as u32 {
        if let Some(thread) = get(index) {
            visit(thread);
        }
    }
}

impl Thread {
    fn new(number: u32) -> io::Result<Self> {
        let tail = recorder().tails.tail(number)?;
        Ok(Self { number, tail, limit: 0, thread_id: 0, call: SystemCall::default() })
    }

    /// Where translated code counts the watched instructions that have begun.
    pub fn begun(&self) -> *mut u64 {
        // SAFETY: the header lives as long as the thread; only the address is taken.
        unsafe { &raw mut (*self.tail.header()).begun }
    }

    /// One more watched instruction has begun.
    #[inline]
    pub fn count(&mut self) {
        // SAFETY: the header is ours.
        unsafe { (*self.tail.header()).begun += 1 };
    }

    /// A block with this many watched instructions begins. If fewer than expected have begun in the block
    /// before, something stopped it.
    #[inline]
    pub fn block(&mut self, number: u32, watched: u32) {
        // A full buffer waits for the reader, and the program may be killed then: the header still is that of the block before.
        self.reserve(2);
        let header = self.tail.header();
        // SAFETY: the header is ours. Translated code counts in it between two calls, hence volatile.
        unsafe {
            let begun = (&raw const (*header).begun).read_volatile();
            if begun != (*header).expected {
                self.push(&[event(CUT, begun as u32)]);
            }
            (*header).block = self.tail.position() + u64::from(self.tail.fill());
            // Killed from here on, and before the number stands there: a reader sees that this block has not begun.
            compiler_fence(Ordering::Release);
            (&raw mut (*header).begun).write_volatile(0);
            (*header).expected = u64::from(watched);
        }
        self.push(&[number]);
    }

    /// Makes sure of the room for so many words.
    #[inline]
    fn reserve(&mut self, words: u32) {
        if self.tail.fill() + 4 * words > self.limit {
            self.make_room();
        }
    }

    /// Appends words that belong together.
    #[inline]
    pub fn push<const N: usize>(&mut self, words: &[u32; N]) {
        self.reserve(N as u32);
        // SAFETY: an array of words is an array of bytes; targets and hosts here are little-endian.
        let bytes = unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), 4 * N) };
        self.tail.append(bytes);
    }

    /// Appends bytes that belong together, rounded up to whole words.
    pub fn push_bytes(&mut self, bytes: &[u8]) {
        let padding = bytes.len().next_multiple_of(4) - bytes.len();
        if self.tail.fill() as usize + bytes.len() + padding > self.limit as usize {
            self.make_room();
        }
        self.tail.append(bytes);
        self.tail.append(&[0; 3][..padding]);
    }

    #[cold]
    fn make_room(&mut self) {
        if self.limit == 0 {
            self.limit = CAPACITY;
            self.thread_id = system::thread_id();
        }
        self.flush();
    }

    /// Writes everything out.
    pub fn flush(&mut self) {
        match recorder().output() {
            Some(mut output) => output.write_chunk(self.number, self.thread_id, &mut self.tail),
            None => self.tail.clear(),
        }
    }

    /// Everything is written: nothing is to be read from the tail.
    pub fn retire(&mut self) {
        self.tail.retire();
    }

    /// Cuts the thread off from its file: in a forked child.
    pub fn make_private(&mut self) {
        self.tail.make_private();
    }
}
