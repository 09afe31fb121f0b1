//! Signals: who gets them, and what is known about them until they are delivered.

mod calls;
mod deliver;
mod frame;
pub mod number;

pub use frame::TRAMPOLINE;

use super::Kernel;
use super::errno::Errno;
use super::threads::{PROCESS, State, Wait};
use number::{HARMLESS, SIGKILL, SIGSTOP};
use std::collections::VecDeque;

/// Signals that may wait to be delivered.
const MOST_PENDING: usize = 1024;
/// The highest number.
const LAST: u8 = 64;
/// The first of those that wait as often as they were sent.
const FIRST_QUEUED: u8 = 32;

/// A set: bit n - 1 for signal n.
pub type Set = u64;

/// The set of one signal.
pub const fn set(signal: u8) -> Set {
    1 << (signal.wrapping_sub(1) & 63)
}

/// What can not be blocked.
const UNBLOCKABLE: Set = set(SIGKILL) | set(SIGSTOP);

const SI_USER: i32 = 0;
const SI_KERNEL: i32 = 0x80;
const SI_TKILL: i32 = -6;

/// A signal on its way, and `struct siginfo` as far as it is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Info {
    pub signal: u8,
    bytes: [u8; 48],
}

impl Info {
    fn new(signal: u8, code: i32, rest: &[u8]) -> Self {
        let mut bytes = [0; 48];
        bytes[..4].copy_from_slice(&u32::from(signal).to_le_bytes());
        bytes[8..12].copy_from_slice(&code.to_le_bytes());
        bytes[16..16 + rest.len()].copy_from_slice(rest);
        Self { signal, bytes }
    }

    /// Sent by this process: its number and its user's.
    fn sent(signal: u8, code: i32) -> Self {
        let mut rest = [0; 8];
        rest[..4].copy_from_slice(&PROCESS.to_le_bytes());
        rest[4..].copy_from_slice(&1000u32.to_le_bytes());
        Self::new(signal, code, &rest)
    }

    /// An instruction did something about this address.
    fn fault(signal: u8, code: i32, address: u64) -> Self {
        Self::new(signal, code, &address.to_le_bytes())
    }
}

/// Signals that wait to be delivered.
#[derive(Clone, Default)]
pub struct Queue(VecDeque<Info>);

impl Queue {
    /// The signals in it.
    pub fn set(&self) -> Set {
        self.0.iter().fold(0, |all, info| all | set(info.signal))
    }

    fn push(&mut self, info: Info) -> Result<(), Errno> {
        let waits = info.signal < FIRST_QUEUED && self.0.iter().any(|other| other.signal == info.signal);
        if waits {
            return Ok(());
        }
        if self.0.len() >= MOST_PENDING {
            return Err(Errno::AGAIN);
        }
        self.0.push_back(info);
        Ok(())
    }

    /// Takes the signal of the lowest number among `wanted`; of several, the first that was sent.
    fn take(&mut self, wanted: Set) -> Option<Info> {
        let found = self.0.iter().enumerate().filter(|(_, info)| wanted & set(info.signal) != 0);
        let (index, _) = found.min_by_key(|(_, info)| info.signal)?;
        self.0.remove(index)
    }

    fn drop_signal(&mut self, signal: u8) {
        self.0.retain(|info| info.signal != signal);
    }
}

const SA_SIGINFO_FLAGS: u64 = 0xFFFF_FFFF;
const SA_ONSTACK: u64 = 0x0800_0000;
const SA_RESTART: u64 = 0x1000_0000;
const SA_NODEFER: u64 = 0x4000_0000;
const SA_RESETHAND: u64 = 0x8000_0000;
const SIG_DEFAULT: u64 = 0;
const SIG_IGNORE: u64 = 1;

/// What a program wants to be done about a signal: `struct sigaction` of the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Action {
    handler: u64,
    flags: u64,
    mask: Set,
}

impl Action {
    fn is_ignored(&self, signal: u8) -> bool {
        self.handler == SIG_IGNORE || self.handler == SIG_DEFAULT && HARMLESS & set(signal) != 0
    }
}

/// The stack that handlers may ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AlternateStack {
    start: u64,
    size: u64,
    /// `SS_DISABLE`, `SS_AUTODISARM`.
    flags: u32,
}

const SS_ONSTACK: u32 = 1;
const SS_DISABLE: u32 = 2;
const SS_AUTODISARM: u32 = 1 << 31;

impl Default for AlternateStack {
    fn default() -> Self {
        Self { start: 0, size: 0, flags: SS_DISABLE }
    }
}

impl AlternateStack {
    fn contains(&self, sp: u64) -> bool {
        sp > self.start && sp.wrapping_sub(self.start) <= self.size
    }

    fn is_disabled(&self) -> bool {
        self.flags & SS_DISABLE != 0 || self.size == 0
    }
}

/// The signals of one thread.
#[derive(Clone, Default)]
pub struct ThreadSignals {
    pub blocked: Set,
    pub pending: Queue,
    stack: AlternateStack,
    /// What is blocked again when the system call under way has ended.
    saved: Option<Set>,
}

impl ThreadSignals {
    /// Those of a thread that this one starts.
    pub fn of_new_thread(&self) -> Self {
        Self { blocked: self.blocked, ..Self::default() }
    }
}

/// The signals of the process.
pub struct ProcessSignals {
    actions: [Action; LAST as usize + 1],
    pub pending: Queue,
}

impl Default for ProcessSignals {
    fn default() -> Self {
        Self { actions: [Action::default(); LAST as usize + 1], pending: Queue::default() }
    }
}

impl ProcessSignals {
    fn action(&self, signal: u8) -> Action {
        self.actions.get(usize::from(signal)).copied().unwrap_or_default()
    }
}

impl Kernel {
    /// Sends a signal to a thread, or to the process.
    fn send(&mut self, thread: Option<usize>, info: Info) -> Result<(), Errno> {
        let blocked = |index: usize| self.threads.list[index].signals.blocked & set(info.signal) != 0;
        let held_back = thread.map_or_else(|| (0..self.threads.list.len()).all(blocked), blocked);
        if self.signals.action(info.signal).is_ignored(info.signal) && !held_back {
            return Ok(());
        }
        match thread {
            Some(index) => self.threads.list[index].signals.pending.push(info),
            None => self.signals.pending.push(info),
        }
    }

    /// The kernel sends a signal to the current thread.
    pub(super) fn raise(&mut self, signal: u8) {
        // If there are too many already, one more makes no difference.
        let _ = self.send(Some(self.threads.current), Info::sent(signal, SI_USER));
    }

    /// The kernel sends a signal to the process.
    pub(super) fn raise_for_process(&mut self, signal: u8) {
        let _ = self.send(None, Info::new(signal, SI_KERNEL, &[]));
    }

    /// Is there a signal that the thread does not block?
    pub(super) fn has_signal(&self, index: usize) -> bool {
        let signals = &self.threads.list[index].signals;
        let accepted = match self.threads.list[index].state {
            State::Waiting(Wait::Signal { accepted, .. }) => accepted,
            _ => 0,
        };
        (signals.pending.set() | self.signals.pending.set()) & (!signals.blocked | accepted) != 0
    }
}
