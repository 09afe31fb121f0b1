//! System calls about the process, time and the machine.

use super::Kernel;
use super::errno::Errno;
use crate::memory::Memory;
use crate::simulator::Clock;
use std::time::{SystemTime, UNIX_EPOCH};

/// When every run takes place: 2020-09-13 12:26:40 UTC.
const EPOCH: u64 = 1_600_000_000;
const NANOSECONDS: u64 = 1_000_000_000;
/// The process, its thread and its user.
const PROCESS: u64 = 1000;
/// Ticks of the `time` register: 10 MHz, as many boards have.
const TICK: u64 = 100;

fn words(values: &[u64]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

impl Kernel {
    /// Nanoseconds since 1970.
    fn now(&self, retired: u64) -> u64 {
        match self.clock {
            Clock::Instructions => (EPOCH * NANOSECONDS).wrapping_add(self.elapsed(retired)),
            Clock::Host => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
            }
        }
    }

    /// Nanoseconds since the program started, one per instruction.
    fn elapsed(&self, retired: u64) -> u64 {
        retired.wrapping_add(self.slept)
    }

    /// The `time` register.
    pub fn ticks(&self, retired: u64) -> u64 {
        match self.clock {
            Clock::Instructions => self.elapsed(retired) / TICK,
            Clock::Host => self.now(retired) / TICK,
        }
    }

    /// Sends a signal: which one ends the program, if one does.
    pub(super) fn kill(&mut self, number: u64, a: [u64; 6]) -> Result<Option<u8>, Errno> {
        // kill(pid, signal), tkill(tid, signal), tgkill(pid, tid, signal)
        let (process, signal) = if number == 131 { (a[1], a[2]) } else { (a[0], a[1]) };
        if signal > 64 {
            return Err(Errno::INVAL);
        }
        if process != PROCESS && !(number == 129 && process as i32 == 0) {
            return Err(Errno::SRCH);
        }
        // Child, continue, urgent data and window size do nothing by default.
        let harmless = matches!(signal, 0 | 17 | 18 | 23 | 28);
        let ignored = self.ignored >> (signal % 64) & 1 != 0 && !matches!(signal, 9 | 19);
        Ok(if harmless || ignored { None } else { Some(signal as u8) })
    }

    pub(super) fn serve_system(
        &mut self,
        memory: &mut Memory,
        retired: u64,
        number: u64,
        a: [u64; 6],
    ) -> Result<u64, Errno> {
        match number {
            96 | 172 | 178 => Ok(PROCESS),
            173 => Ok(1),
            174..=177 => Ok(1000),
            // sched_yield, sigaltstack, rt_sigprocmask, prctl, madvise
            124 | 132 | 135 | 167 | 233 => Ok(0),
            166 => Ok(0o22),
            98 => self.futex(memory, a),
            101 => self.sleep(memory, a[0]),
            115 => self.sleep(memory, a[2]),
            113 => self.clock_time(memory, retired, a),
            114 => self.put(memory, a[1], &words(&[0, 1])),
            123 => self.affinity(memory, a),
            134 => self.signal_action(memory, a),
            153 => self.times(memory, retired, a[0]),
            160 => self.system_name(memory, a[0]),
            165 => self.usage(memory, retired, a[1]),
            169 => {
                let now = self.now(retired);
                self.put(memory, a[0], &words(&[now / NANOSECONDS, now % NANOSECONDS / 1000]))
            }
            179 => self.system_information(memory, retired, a[0]),
            163 => self.limits(memory, a[1]),
            261 => self.limits(memory, a[3]),
            278 => self.random_bytes(memory, a),
            // Known, and rightly missing: set_robust_list, clone, hwprobe, membarrier, statx, rseq, clone3.
            99 | 220 | 258 | 283 | 291 | 293 | 435 => Err(Errno::NOSYS),
            _ => {
                *self.unknown.entry(number).or_default() += 1;
                Err(Errno::NOSYS)
            }
        }
    }

    /// Writes a result unless the program passed no place for it.
    fn put(&mut self, memory: &mut Memory, address: u64, bytes: &[u8]) -> Result<u64, Errno> {
        if address != 0 {
            memory.write(address, bytes)?;
        }
        Ok(0)
    }

    fn clock_time(&mut self, memory: &mut Memory, retired: u64, a: [u64; 6]) -> Result<u64, Errno> {
        let time = match (a[0], self.clock) {
            (0 | 5, _) | (1..=7, Clock::Host) => self.now(retired),
            (1..=7, Clock::Instructions) => self.elapsed(retired),
            _ => return Err(Errno::INVAL),
        };
        self.put(memory, a[1], &words(&[time / NANOSECONDS, time % NANOSECONDS]))
    }

    /// Nobody waits: the clock goes on by the time asked for.
    fn sleep(&mut self, memory: &mut Memory, request: u64) -> Result<u64, Errno> {
        let seconds = u64::from_le_bytes(memory.load(request)?);
        let rest = u64::from_le_bytes(memory.load(request.wrapping_add(8))?);
        if rest >= NANOSECONDS || seconds > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        self.slept = self.slept.wrapping_add(seconds.wrapping_mul(NANOSECONDS)).wrapping_add(rest);
        Ok(0)
    }

    /// With one thread nobody can be woken, and waiting for a value that is there would last for ever.
    fn futex(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        const WAIT: u64 = 0;
        const WAIT_BITSET: u64 = 9;
        match a[1] & 0x7F {
            WAIT | WAIT_BITSET => {
                let value = u32::from_le_bytes(memory.load(a[0])?);
                if value == a[2] as u32 { Err(Errno(110)) } else { Err(Errno::AGAIN) }
            }
            _ => Ok(0),
        }
    }

    fn affinity(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        if a[1] < 8 {
            return Err(Errno::INVAL);
        }
        memory.write(a[2], &words(&[1]))?;
        Ok(8)
    }

    fn signal_action(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        const IGNORE: u64 = 1;
        let [signal, new, old, ..] = a;
        if !(1..=64).contains(&signal) || (matches!(signal, 9 | 19) && new != 0) {
            return Err(Errno::INVAL);
        }
        let bit = 1 << (signal % 64);
        let before = if self.ignored & bit != 0 { IGNORE } else { 0 };
        if new != 0 {
            let handler = u64::from_le_bytes(memory.load(new)?);
            if handler == IGNORE { self.ignored |= bit } else { self.ignored &= !bit }
        }
        // Handler, flags, mask.
        self.put(memory, old, &words(&[before, 0, 0]))
    }

    fn times(&mut self, memory: &mut Memory, retired: u64, address: u64) -> Result<u64, Errno> {
        let ticks = self.elapsed(retired) / (NANOSECONDS / 100);
        self.put(memory, address, &words(&[ticks, 0, 0, 0]))?;
        Ok(ticks)
    }

    fn system_name(&mut self, memory: &mut Memory, address: u64) -> Result<u64, Errno> {
        let mut bytes = Vec::new();
        for text in ["Linux", "backsight", "6.1.0", "#1", "riscv64", "(none)"] {
            let mut field = [0; 65];
            field[..text.len()].copy_from_slice(text.as_bytes());
            bytes.extend(field);
        }
        memory.write(address, &bytes)?;
        Ok(0)
    }

    fn usage(&mut self, memory: &mut Memory, retired: u64, address: u64) -> Result<u64, Errno> {
        let time = self.elapsed(retired);
        let mut usage = [0; 18];
        usage[0] = time / NANOSECONDS;
        usage[1] = time % NANOSECONDS / 1000;
        self.put(memory, address, &words(&usage))
    }

    fn system_information(&mut self, memory: &mut Memory, retired: u64, address: u64) -> Result<u64, Errno> {
        let mut information = [0; 14];
        information[0] = self.elapsed(retired) / NANOSECONDS;
        information[4] = 1 << 30;
        information[5] = 1 << 29;
        // One process; memory is counted in bytes.
        information[10] = 1;
        information[13] = 1;
        self.put(memory, address, &words(&information))
    }

    fn limits(&mut self, memory: &mut Memory, address: u64) -> Result<u64, Errno> {
        self.put(memory, address, &words(&[8 << 20, u64::MAX]))
    }

    fn random_bytes(&mut self, memory: &mut Memory, a: [u64; 6]) -> Result<u64, Errno> {
        let count = a[1].min(256) as usize;
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            // splitmix64
            self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            let mut z = self.random;
            z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
            bytes.extend((z ^ (z >> 31)).to_le_bytes());
        }
        memory.write(a[0], &bytes[..count])?;
        Ok(count as u64)
    }
}
