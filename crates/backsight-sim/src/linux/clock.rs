//! Time: clocks, sleeping, interval timers.
//!
//! Times inside the kernel are nanoseconds since the program started. With the repeatable clock an instruction takes
//! one, and nobody sleeps: when all threads wait, time goes on to where one of them continues.

use super::Kernel;
use super::errno::Errno;
use super::signals::number::{SIGALRM, SIGPROF, SIGVTALRM};
use super::system::words;
use super::threads::Wait;
use crate::simulator::Clock;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

/// When every run takes place: 2020-09-13 12:26:40 UTC.
const EPOCH: u64 = 1_600_000_000;
pub const NANOSECONDS: u64 = 1_000_000_000;
/// Ticks of the `time` register: 10 MHz, as many boards have.
const TICK: u64 = 100;

const CLOCK_REALTIME: u64 = 0;
const CLOCK_REALTIME_COARSE: u64 = 5;
const CLOCK_TAI: u64 = 11;
const TIMER_ABSTIME: u64 = 1;

/// The time of a process.
pub struct Time {
    kind: Clock,
    /// Instructions retired so far.
    pub retired: u64,
    /// Nanoseconds in which nothing ran.
    idle: u64,
    started: Instant,
    /// Nanoseconds from 1970 to the start.
    epoch: u64,
}

impl Time {
    /// Starts now.
    pub fn new(kind: Clock) -> Self {
        let epoch = match kind {
            Clock::Instructions => EPOCH * NANOSECONDS,
            Clock::Host => {
                SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_nanos() as u64)
            }
        };
        Self { kind, retired: 0, idle: 0, started: Instant::now(), epoch }
    }

    /// Which clock it is.
    pub fn kind(&self) -> Clock {
        self.kind
    }

    /// Nanoseconds since the start.
    pub fn elapsed(&self) -> u64 {
        match self.kind {
            Clock::Instructions => self.retired.wrapping_add(self.idle),
            Clock::Host => self.started.elapsed().as_nanos() as u64,
        }
    }

    /// Nanoseconds since 1970.
    pub fn now(&self) -> u64 {
        self.epoch.wrapping_add(self.elapsed())
    }

    /// Nothing ran for this long.
    pub fn pass(&mut self, nanoseconds: u64) {
        self.idle = self.idle.saturating_add(nanoseconds);
    }

    /// The `time` register.
    pub fn ticks(&self) -> u64 {
        match self.kind {
            Clock::Instructions => self.elapsed() / TICK,
            Clock::Host => self.now() / TICK,
        }
    }
}

/// An interval timer: when it goes off next, and how long after that again (0: never).
#[derive(Clone, Copy, Debug, Default)]
pub struct Timer {
    next: Option<u64>,
    interval: u64,
}

/// Real time, time of the program, time of the program and the kernel for it.
const TIMER_SIGNALS: [u8; 3] = [SIGALRM, SIGVTALRM, SIGPROF];

impl Kernel {
    /// A `struct timespec` or, with a unit of 1,000, `struct timeval`, in nanoseconds.
    fn load_time(&mut self, address: u64, unit: u64) -> Result<u64, Errno> {
        let seconds = self.memory.load::<8>(address)?;
        let rest = self.memory.load::<8>(address.wrapping_add(8))?;
        if rest >= NANOSECONDS / unit || seconds > i64::MAX as u64 {
            return Err(Errno::INVAL);
        }
        Ok(seconds.saturating_mul(NANOSECONDS).saturating_add(rest * unit))
    }

    /// Writes a `struct timespec` unless the program passed no address for it.
    pub(super) fn put_time(&mut self, address: u64, nanoseconds: u64) -> Result<u64, Errno> {
        self.put(address, &words(&[nanoseconds / NANOSECONDS, nanoseconds % NANOSECONDS]))
    }

    /// When a timeout that begins now is over; `None` for no timeout.
    pub(super) fn deadline_after(&mut self, timeout: u64) -> Result<Option<u64>, Errno> {
        if timeout == 0 {
            return Ok(None);
        }
        let length = self.load_time(timeout, 1)?;
        Ok(Some(self.clock.elapsed().saturating_add(length)))
    }

    /// The time of a deadline that is given as an absolute time; `None` for none.
    pub(super) fn deadline_at(&mut self, address: u64, real: bool) -> Result<Option<u64>, Errno> {
        if address == 0 {
            return Ok(None);
        }
        let time = self.load_time(address, 1)?;
        Ok(Some(if real { time.saturating_sub(self.clock.epoch) } else { time }))
    }

    /// `nanosleep`, `clock_nanosleep`.
    pub(super) fn sleep(&mut self, clock: u64, flags: u64, request: u64, rest: u64) -> Result<u64, Errno> {
        let real = matches!(clock, CLOCK_REALTIME | CLOCK_REALTIME_COARSE | CLOCK_TAI);
        let absolute = flags & TIMER_ABSTIME != 0;
        let deadline =
            if absolute { self.deadline_at(request, real)? } else { self.deadline_after(request)? };
        let deadline = deadline.ok_or(Errno::FAULT)?;
        if deadline <= self.clock.elapsed() {
            return Ok(0);
        }
        Err(self.wait(Wait::Sleep { deadline, rest: if absolute { 0 } else { rest } }))
    }

    /// `clock_gettime`.
    pub(super) fn clock_time(&mut self, clock: u64, address: u64) -> Result<u64, Errno> {
        // Clocks of a process or a thread have numbers that are negative.
        let time = match clock {
            CLOCK_REALTIME | CLOCK_REALTIME_COARSE | CLOCK_TAI => self.clock.now(),
            1..=9 => self.clock.elapsed(),
            _ if (clock as i32) < 0 => self.clock.elapsed(),
            _ => return Err(Errno::INVAL),
        };
        self.put_time(address, time)
    }

    /// The time of each interval timer.
    fn timer_clocks(&self) -> [u64; 3] {
        [self.clock.elapsed(), self.clock.retired, self.clock.retired]
    }

    /// `getitimer`.
    pub(super) fn get_timer(&mut self, number: u64, address: u64) -> Result<u64, Errno> {
        let number = usize::try_from(number).ok().filter(|&number| number < 3).ok_or(Errno::INVAL)?;
        let Timer { next, interval } = self.timers[number];
        let left = next.map_or(0, |next| next.saturating_sub(self.timer_clocks()[number]).max(1000));
        let fields = [interval, left].map(|time| [time / NANOSECONDS, time % NANOSECONDS / 1000]);
        self.put(address, &words(fields.as_flattened()))
    }

    /// `setitimer`.
    pub(super) fn set_timer(&mut self, number: u64, new: u64, old: u64) -> Result<u64, Errno> {
        self.get_timer(number, old)?;
        let (interval, first) = if new == 0 {
            (0, 0)
        } else {
            (self.load_time(new, 1000)?, self.load_time(new.wrapping_add(16), 1000)?)
        };
        let number = number as usize % 3;
        let next = (first > 0).then(|| self.timer_clocks()[number].saturating_add(first));
        self.timers[number] = Timer { next, interval };
        self.replayable &= next.is_none();
        Ok(0)
    }

    /// Is a timer running?
    pub(super) fn has_timers(&self) -> bool {
        self.timers.iter().any(|timer| timer.next.is_some())
    }

    /// When the timer of real time goes off.
    pub(super) fn next_timer(&self) -> Option<u64> {
        self.timers[0].next
    }

    /// Sends the signals of the timers whose time has come.
    pub(super) fn fire_timers(&mut self) {
        let clocks = self.timer_clocks();
        for (number, now) in clocks.into_iter().enumerate() {
            let timer = &mut self.timers[number];
            if timer.next.is_none_or(|next| next > now) {
                continue;
            }
            // Those that were missed are missed.
            timer.next = (timer.interval > 0).then(|| now.saturating_add(timer.interval));
            self.raise_for_process(TIMER_SIGNALS[number]);
        }
    }
}
