//! Requests that are under way: each may be given up, because a newer one came in its place, or because it takes too long.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

struct Entry {
    number: u64,
    slot: String,
    until: Instant,
    flag: Arc<AtomicBool>,
}

/// All that are under way.
#[derive(Default)]
pub(crate) struct Running {
    list: Mutex<Vec<Entry>>,
    next: AtomicU64,
}

/// One that is under way, until it is dropped.
pub(crate) struct Ticket<'r> {
    running: &'r Running,
    number: u64,
    /// Set once nobody waits for it any more.
    pub flag: Arc<AtomicBool>,
}

impl Running {
    /// One begins, and takes the place of the one before it in its slot, if it has one.
    pub fn begin(&self, slot: &str, most: Duration) -> Ticket<'_> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let flag = Arc::<AtomicBool>::default();
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        for before in list.iter().filter(|one| !slot.is_empty() && one.slot == slot) {
            before.flag.store(true, Ordering::Relaxed);
        }
        list.push(Entry {
            number,
            slot: slot.to_owned(),
            until: Instant::now() + most,
            flag: Arc::clone(&flag),
        });
        Ticket { running: self, number, flag }
    }

    /// Gives up those that take too long.
    pub fn give_up_late(&self) {
        let now = Instant::now();
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().filter(|one| one.until <= now).for_each(|one| one.flag.store(true, Ordering::Relaxed));
    }

    /// Gives up all.
    pub fn give_up(&self) {
        let list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.iter().for_each(|one| one.flag.store(true, Ordering::Relaxed));
    }
}

impl Ticket<'_> {
    pub fn is_given_up(&self) -> bool {
        self.flag.load(Ordering::Relaxed)
    }
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        let mut list = self.running.list.lock().unwrap_or_else(PoisonError::into_inner);
        list.retain(|one| one.number != self.number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_newer_request_of_a_slot_takes_the_place_of_the_one_before() {
        let running = Running::default();
        let long = Duration::from_secs(1_000);
        let (one, other, free) =
            (running.begin("a", long), running.begin("b", long), running.begin("", long));
        let newer = running.begin("a", long);
        assert!(one.is_given_up() && !other.is_given_up() && !newer.is_given_up());
        drop(running.begin("", long));
        assert!(!free.is_given_up());
        let late = running.begin("c", Duration::ZERO);
        running.give_up_late();
        assert!(late.is_given_up() && !other.is_given_up());
    }
}
