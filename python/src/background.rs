//! Work that takes long: it is done on a thread of its own, without the lock of the interpreter, while the calling thread
//! looks every so often whether the user has pressed Ctrl-C.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;

use crate::error;

/// How often to look.
const INTERVAL: Duration = Duration::from_millis(50);

/// A request to stop that several threads share.
#[derive(Clone, Debug, Default)]
pub struct StopFlag(Arc<AtomicBool>);

impl StopFlag {
    /// One that is shared already.
    pub fn of(flag: Arc<AtomicBool>) -> Self {
        Self(flag)
    }

    /// Requests to stop.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// The flag itself.
    pub fn shared(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0)
    }
}

/// Values that another thread makes, a few of them ahead of the thread that takes them.
pub struct Produced<T> {
    values: Mutex<Receiver<T>>,
    stop: StopFlag,
}

impl<T: Send + 'static> Produced<T> {
    /// Lets `produce` run, which gives values to its argument until that is false.
    pub fn new(
        ahead: usize,
        stop: StopFlag,
        produce: impl FnOnce(&mut dyn FnMut(T) -> bool) + Send + 'static,
    ) -> Self {
        let (sender, values) = sync_channel(ahead);
        std::thread::spawn(move || produce(&mut |value| sender.send(value).is_ok()));
        Self { values: Mutex::new(values), stop }
    }

    /// The next value; none at the end. An exception if the user interrupts: then nothing more comes.
    pub fn next(&self, py: Python<'_>) -> PyResult<Option<T>> {
        loop {
            let received = py.detach(|| {
                let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
                values.recv_timeout(INTERVAL)
            });
            match received {
                Ok(value) => return Ok(Some(value)),
                Err(RecvTimeoutError::Disconnected) => return Ok(None),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(interrupt) = py.check_signals() {
                        self.stop.set();
                        return Err(interrupt);
                    }
                }
            }
        }
    }
}

impl<T> Drop for Produced<T> {
    fn drop(&mut self) {
        self.stop.set();
    }
}

/// Does one thing, and gives its result. If the user interrupts, `stop` is set, the work is waited for, and what it gives is
/// dropped.
pub fn run<T: Send + 'static>(
    py: Python<'_>,
    stop: &StopFlag,
    work: impl FnOnce() -> T + Send + 'static,
) -> PyResult<T> {
    let produced = Produced::new(1, stop.clone(), move |give| {
        give(work());
    });
    match produced.next(py) {
        Ok(Some(result)) => Ok(result),
        Ok(None) => Err(error::failure("internal error: the work ended without a result")),
        Err(interrupt) => {
            // A second interrupt does not wait any more.
            produced.next(py)?;
            Err(interrupt)
        }
    }
}
