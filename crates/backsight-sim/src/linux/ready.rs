//! Waiting for descriptors: `ppoll` and `pselect6`.

use super::Kernel;
use super::errno::Errno;
use super::files::{MOST, Ready};
use super::threads::Wait;
use std::time::Duration;

const POLLIN: u16 = 1;
const POLLOUT: u16 = 4;
const POLLERR: u16 = 8;
const POLLHUP: u16 = 0x10;
const POLLNVAL: u16 = 0x20;
/// `POLLRDNORM`, `POLLWRNORM`: the same as `POLLIN`, `POLLOUT`.
const POLLRDNORM: u16 = 0x40;
const POLLWRNORM: u16 = 0x100;

fn poll_bits(ready: Ready) -> u16 {
    let mut bits = 0;
    for (is, bit) in [
        (ready.read, POLLIN | POLLRDNORM),
        (ready.write, POLLOUT | POLLWRNORM),
        (ready.error, POLLERR),
        (ready.hang_up, POLLHUP),
    ] {
        bits |= if is { bit } else { 0 };
    }
    bits
}

/// The sets of `pselect6`: those to read from, those to write to, those with exceptional conditions.
type Sets = [Vec<u8>; 3];

fn is_in(set: &[u8], fd: usize) -> bool {
    set.get(fd / 8).is_some_and(|byte| byte >> (fd % 8) & 1 != 0)
}

fn put_in(set: &mut [u8], fd: usize) {
    if let Some(byte) = set.get_mut(fd / 8) {
        *byte |= 1 << (fd % 8);
    }
}

impl Kernel {
    /// Nothing is ready: waits, unless the time is over.
    fn wait_for_ready(&mut self, timeout: u64, host: Option<u64>) -> Result<u64, Errno> {
        let deadline = match self.thread().deadline {
            Some(deadline) => Some(deadline),
            None => self.deadline_after(timeout)?,
        };
        if deadline.is_some_and(|deadline| deadline <= self.clock.elapsed()) {
            return Ok(0);
        }
        self.thread().deadline = deadline;
        Err(self.wait(Wait::Again { deadline, host, restarts: false }))
    }

    /// `ppoll`.
    pub(super) fn poll(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let [list, count, timeout, mask, mask_size, _] = a;
        if count > MOST as u64 {
            return Err(Errno::INVAL);
        }
        self.mask_while_waiting(mask, mask_size)?;
        let mut found = 0;
        let mut host = None;
        for number in 0..count {
            let entry = list.wrapping_add(number * 8);
            let fd = self.memory.load::<4>(entry)? as i32;
            let wanted = self.memory.load::<2>(entry.wrapping_add(4))? as u16;
            let bits = if fd < 0 {
                0
            } else {
                let fd = fd as u64;
                match self.files.ready(fd, Duration::ZERO) {
                    Ok(ready) => {
                        if wanted & (POLLIN | POLLRDNORM) != 0 && self.files.waits_for_host(fd) {
                            host = host.or(Some(fd));
                        }
                        poll_bits(ready) & (wanted | POLLERR | POLLHUP)
                    }
                    Err(_) => POLLNVAL,
                }
            };
            self.memory.write(entry.wrapping_add(6), &bits.to_le_bytes())?;
            found += u64::from(bits != 0);
        }
        if found > 0 { Ok(found) } else { self.wait_for_ready(timeout, host) }
    }

    fn descriptor_sets(&mut self, addresses: &[u64], bytes: usize) -> Result<Sets, Errno> {
        let mut sets = Sets::default();
        for (set, &address) in sets.iter_mut().zip(addresses) {
            if address != 0 {
                set.resize(bytes, 0);
                self.memory.read(address, set)?;
            }
        }
        Ok(sets)
    }

    /// `pselect6`.
    pub(super) fn select(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let [count, read, write, except, timeout, mask] = a;
        if count > MOST as u64 {
            return Err(Errno::INVAL);
        }
        if mask != 0 {
            let address = self.memory.load::<8>(mask)?;
            let size = self.memory.load::<8>(mask.wrapping_add(8))?;
            self.mask_while_waiting(address, size)?;
        }
        let bytes = (count as usize).div_ceil(64) * 8;
        let sets = self.descriptor_sets(&[read, write, except], bytes)?;
        let mut found: Sets = std::array::from_fn(|_| vec![0; bytes]);
        let mut total = 0;
        let mut host = None;
        for fd in 0..count as usize {
            if !sets.iter().any(|set| is_in(set, fd)) {
                continue;
            }
            let ready = self.files.ready(fd as u64, Duration::ZERO)?;
            for (number, is) in [(0, ready.read || ready.hang_up), (1, ready.write || ready.error)] {
                if is && is_in(&sets[number], fd) {
                    put_in(&mut found[number], fd);
                    total += 1;
                }
            }
            if is_in(&sets[0], fd) && self.files.waits_for_host(fd as u64) {
                host = host.or(Some(fd as u64));
            }
        }
        if total == 0 {
            total = self.wait_for_ready(timeout, host)?;
        }
        for (address, set) in [read, write, except].into_iter().zip(&found) {
            if address != 0 {
                self.memory.write(address, set)?;
            }
        }
        Ok(total)
    }
}
