//! Forked children.
//!
//! A child has all of the parent's memory and files, and must touch none of what is shared. Where children are recorded
//! too, the connection for the child is made before the fork, so that the listener knows of it however quick both are;
//! the child then begins a stream of its own, with all blocks and mappings that it has from its parent.

use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::thread::{self, Thread};
use crate::{calls, recorder, system};

/// The connection for a child that is being made.
static CONNECTION: Mutex<Option<OwnedFd>> = Mutex::new(None);
/// The thread that forks, as the operating system numbers it.
static FORKING: AtomicU32 = AtomicU32::new(0);

/// The program is about to fork.
pub extern "C" fn before() {
    let recorder = recorder();
    let Some(socket) = recorder.children.as_ref().filter(|_| !recorder.is_abandoned()) else { return };
    FORKING.store(system::thread_id(), Ordering::Relaxed);
    let connection = UnixStream::connect(socket).map(|socket| system::out_of_the_way(socket.into()));
    if let Ok(mut waiting) = CONNECTION.lock() {
        *waiting = connection.ok();
    }
}

/// The child has its copy of the connection.
pub extern "C" fn in_parent() {
    if let Ok(mut waiting) = CONNECTION.lock() {
        *waiting = None;
    }
}

/// This is the child.
pub extern "C" fn in_child() {
    let recorder = recorder();
    if recorder.is_abandoned() {
        return;
    }
    let forking = FORKING.load(Ordering::Relaxed);
    let connection = CONNECTION.try_lock().ok().and_then(|mut waiting| waiting.take());
    thread::for_each(Thread::make_private);
    // Another thread may have held a lock when the child was made: then its holder is not here to let go of it.
    let mut output = recorder.output.try_lock().ok();
    let descriptor = recorder.descriptor.swap(-1, Ordering::Relaxed);
    match &mut output {
        Some(output) => output.abandon(),
        None if descriptor >= 0 => system::close(descriptor),
        None => {}
    }
    let goes_on = connection.zip(output).filter(|_| calls::is_free());
    let Some((connection, mut output)) = goes_on else {
        return recorder.abandoned.store(true, Ordering::Relaxed);
    };
    recorder.descriptor.store(connection.as_raw_fd(), Ordering::Relaxed);
    output.begin_child(connection, recorder.target);
    drop(output);
    match thread::keep_only(forking) {
        Some(thread) => calls::inherited(thread, recorder),
        None => recorder.abandoned.store(true, Ordering::Relaxed),
    }
}
