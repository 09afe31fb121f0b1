//! Work on all cores.

use std::sync::atomic::{AtomicUsize, Ordering};

/// Does some work for each of several things, on as many threads as there are cores, and gives the results in order.
pub(super) fn in_parallel<T: Copy + Send + Sync, R: Send>(
    things: &[T],
    work: impl Fn(T) -> R + Sync,
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let some = || {
        let mut done = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            let Some(&thing) = things.get(number) else { return done };
            done.push((number, work(thing)));
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(things.len());
    let mut done = std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads).map(|_| scope.spawn(some)).collect();
        let mut done = some();
        for other in others {
            match other.join() {
                Ok(some) => done.extend(some),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        done
    });
    done.sort_by_key(|(number, _)| *number);
    done.into_iter().map(|(_, result)| result).collect()
}
