//! Futexes: words of memory that threads wait at.

use super::Kernel;
use super::errno::Errno;
use super::threads::{State, Wait};

const WAIT: u64 = 0;
const WAKE: u64 = 1;
const REQUEUE: u64 = 3;
const CMP_REQUEUE: u64 = 4;
const WAKE_OP: u64 = 5;
const WAIT_BITSET: u64 = 9;
const WAKE_BITSET: u64 = 10;
const CLOCK_REALTIME: u64 = 256;
/// `FUTEX_PRIVATE_FLAG` and `FUTEX_CLOCK_REALTIME`.
const FLAGS: u64 = 128 | CLOCK_REALTIME;

const WAITERS: u32 = 0x8000_0000;
const OWNER_DIED: u32 = 0x4000_0000;
const TID: u32 = 0x3FFF_FFFF;
/// Locks of a thread that ended which are looked at.
const MOST_LOCKS: u64 = 2048;

impl Kernel {
    /// `futex`.
    pub(super) fn futex(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let [address, operation, value, fourth, other, last] = a;
        if !address.is_multiple_of(4) {
            return Err(Errno::INVAL);
        }
        let most = usize::try_from(value as u32).unwrap_or(usize::MAX);
        match operation & !FLAGS {
            WAIT => {
                let deadline = self.deadline_after(fourth)?;
                self.wait_at(address, value as u32, u32::MAX, deadline)
            }
            WAIT_BITSET => {
                let deadline = self.deadline_at(fourth, operation & CLOCK_REALTIME != 0)?;
                self.wait_at(address, value as u32, last as u32, deadline)
            }
            WAKE => Ok(self.wake(address, most, u32::MAX)),
            WAKE_BITSET if last as u32 == 0 => Err(Errno::INVAL),
            WAKE_BITSET => Ok(self.wake(address, most, last as u32)),
            CMP_REQUEUE if self.word(address)? != last as u32 => Err(Errno::AGAIN),
            REQUEUE | CMP_REQUEUE => {
                let woken = self.wake(address, most, u32::MAX);
                let moved = self.requeue(address, other, fourth as u32 as usize);
                Ok(if operation & !FLAGS == REQUEUE { woken } else { woken + moved })
            }
            WAKE_OP => self.wake_and_modify(address, most, other, fourth as u32 as usize, last as u32),
            _ => Err(self.missing.feature("futex with priority inheritance, or of an unknown kind")),
        }
    }

    fn word(&mut self, address: u64) -> Result<u32, Errno> {
        Ok(self.memory.load::<4>(address)? as u32)
    }

    fn wait_at(&mut self, address: u64, value: u32, bits: u32, deadline: Option<u64>) -> Result<u64, Errno> {
        if bits == 0 {
            return Err(Errno::INVAL);
        }
        if self.word(address)? != value {
            return Err(Errno::AGAIN);
        }
        Err(self.wait(Wait::Futex { address, bits, deadline }))
    }

    /// The threads that wait at a word, the first to wait first.
    fn waiters(&self, at: u64, wakes: u32) -> Vec<usize> {
        let waits = |index: &usize| {
            matches!(self.threads.list[*index].state, State::Waiting(Wait::Futex { address, bits, .. })
                if address == at && bits & wakes != 0)
        };
        let mut waiters: Vec<usize> = (0..self.threads.list.len()).filter(waits).collect();
        waiters.sort_by_key(|&index| self.threads.list[index].order);
        waiters
    }

    /// Wakes up to `most` threads that wait at a word: how many there were.
    pub(super) fn wake(&mut self, address: u64, most: usize, bits: u32) -> u64 {
        let waiters = self.waiters(address, bits);
        let woken = waiters.len().min(most);
        for &index in &waiters[..woken] {
            self.threads.list[index].state = State::Woken(0);
        }
        woken as u64
    }

    /// Up to `most` threads wait at another word from now on: how many there were.
    fn requeue(&mut self, from: u64, to: u64, most: usize) -> u64 {
        let waiters = self.waiters(from, u32::MAX);
        let moved = waiters.len().min(most);
        for &index in &waiters[..moved] {
            if let State::Waiting(Wait::Futex { address, .. }) = &mut self.threads.list[index].state {
                *address = to;
            }
        }
        moved as u64
    }

    /// `FUTEX_WAKE_OP`: changes the second word, wakes at the first, and at the second if its old value says so.
    fn wake_and_modify(
        &mut self,
        first: u64,
        most_first: usize,
        second: u64,
        most_second: usize,
        encoded: u32,
    ) -> Result<u64, Errno> {
        let sign_extended = |field: u32| ((field << 20) as i32 >> 20) as u32;
        let (operand, compared) = (sign_extended(encoded >> 12 & 0xFFF), sign_extended(encoded & 0xFFF));
        // The operand may be the number of a bit.
        let operand = if encoded >> 31 != 0 { 1u32.wrapping_shl(operand) } else { operand };
        let old = self.word(second)?;
        let new = match encoded >> 28 & 7 {
            0 => operand,
            1 => old.wrapping_add(operand),
            2 => old | operand,
            3 => old & !operand,
            4 => old ^ operand,
            _ => return Err(Errno::NOSYS),
        };
        self.memory.write(second, &new.to_le_bytes())?;
        let (old, compared) = (old as i32, compared as i32);
        let also = match encoded >> 24 & 0xF {
            0 => old == compared,
            1 => old != compared,
            2 => old < compared,
            3 => old <= compared,
            4 => old > compared,
            5 => old >= compared,
            _ => return Err(Errno::NOSYS),
        };
        let woken = self.wake(first, most_first, u32::MAX);
        Ok(woken + if also { self.wake(second, most_second, u32::MAX) } else { 0 })
    }

    /// Marks the locks that the current thread holds as those of a dead owner. A list that makes no sense ends.
    pub(super) fn release_robust_locks(&mut self) {
        let (head, tid) = (self.thread().robust_list, self.thread().tid);
        if head == 0 {
            return;
        }
        let Some([first, offset, pending]) = self.words(head) else { return };
        let mut entry = first;
        for _ in 0..MOST_LOCKS {
            if entry == head {
                break;
            }
            // The next entry is read before the lock is let go: its owner may change it.
            let next = self.words::<1>(entry & !1);
            if entry != pending {
                self.release_robust_lock(entry.wrapping_add(offset), tid);
            }
            let Some([next]) = next else { break };
            entry = next;
        }
        if pending != 0 {
            self.release_robust_lock(pending.wrapping_add(offset), tid);
        }
    }

    fn words<const N: usize>(&mut self, address: u64) -> Option<[u64; N]> {
        let mut words = [0; N];
        for (number, word) in (0..).zip(&mut words) {
            *word = self.memory.load::<8>(address.wrapping_add(number * 8)).ok()?;
        }
        Some(words)
    }

    fn release_robust_lock(&mut self, address: u64, tid: u32) {
        let Ok(word) = self.word(address & !3) else { return };
        if word & TID != tid {
            return;
        }
        if self.memory.write(address & !3, &(word & WAITERS | OWNER_DIED).to_le_bytes()).is_ok()
            && word & WAITERS != 0
        {
            self.wake(address & !3, 1, u32::MAX);
        }
    }
}
