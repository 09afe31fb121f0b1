//! System calls about signals.

use super::{
    Action, AlternateStack, Info, LAST, SA_SIGINFO_FLAGS, SI_TKILL, SI_USER, SS_AUTODISARM, SS_DISABLE,
    SS_ONSTACK, UNBLOCKABLE, set,
};
use crate::linux::Kernel;
use crate::linux::errno::Errno;
use crate::linux::threads::{PROCESS, Wait};

/// Bytes of a set of signals.
const SET_SIZE: u64 = 8;
/// The least that an alternate stack has.
const SMALLEST_STACK: u64 = 2048;

fn signal(number: u64) -> Result<u8, Errno> {
    u8::try_from(number).ok().filter(|&signal| signal <= LAST).ok_or(Errno::INVAL)
}

impl Kernel {
    fn load_word(&mut self, address: u64) -> Result<u64, Errno> {
        Ok(self.memory.load::<8>(address)?)
    }

    /// `kill`: a process, or a group of processes that has one.
    pub(in crate::linux) fn kill(&mut self, process: u64, number: u64) -> Result<u64, Errno> {
        let signal = signal(number)?;
        let own = PROCESS as i32;
        if ![0, -1, own, -own].contains(&(process as i32)) {
            return Err(Errno::SRCH);
        }
        if signal != 0 {
            self.send(None, Info::sent(signal, SI_USER))?;
        }
        Ok(0)
    }

    /// `tkill`, `tgkill`: one thread.
    pub(in crate::linux) fn kill_thread(
        &mut self,
        process: u64,
        tid: u64,
        number: u64,
    ) -> Result<u64, Errno> {
        let signal = signal(number)?;
        if tid as i32 <= 0 || process as i32 <= 0 {
            return Err(Errno::INVAL);
        }
        let thread =
            self.threads.find(tid as u32).filter(|_| process as u32 == PROCESS).ok_or(Errno::SRCH)?;
        if signal != 0 {
            self.send(Some(thread), Info::sent(signal, SI_TKILL))?;
        }
        Ok(0)
    }

    /// `rt_sigqueueinfo`, and with a thread `rt_tgsigqueueinfo`.
    pub(in crate::linux) fn queue_signal(
        &mut self,
        process: u64,
        tid: Option<u64>,
        number: u64,
        address: u64,
    ) -> Result<u64, Errno> {
        let signal = signal(number)?;
        let mut info = Info::sent(signal, SI_USER);
        self.memory.read(address, &mut info.bytes)?;
        info.bytes[..4].copy_from_slice(&u32::from(signal).to_le_bytes());
        if process as u32 != PROCESS {
            return Err(Errno::SRCH);
        }
        let thread = match tid {
            Some(tid) => Some(self.threads.find(tid as u32).ok_or(Errno::SRCH)?),
            None => None,
        };
        if signal != 0 {
            self.send(thread, info)?;
        }
        Ok(0)
    }

    /// `rt_sigaction`.
    pub(in crate::linux) fn signal_action(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let [number, new, old, size, ..] = a;
        let signal = signal(number)?;
        if signal == 0 || size != SET_SIZE || new != 0 && UNBLOCKABLE & set(signal) != 0 {
            return Err(Errno::INVAL);
        }
        let before = self.signals.action(signal);
        if new != 0 {
            let action = Action {
                handler: self.load_word(new)?,
                flags: self.load_word(new.wrapping_add(8))? & SA_SIGINFO_FLAGS,
                mask: self.load_word(new.wrapping_add(16))? & !UNBLOCKABLE,
            };
            if let Some(slot) = self.signals.actions.get_mut(usize::from(signal)) {
                *slot = action;
            }
            if action.is_ignored(signal) {
                self.signals.pending.drop_signal(signal);
                for thread in &mut self.threads.list {
                    thread.signals.pending.drop_signal(signal);
                }
            }
        }
        if old != 0 {
            let words = [before.handler, before.flags, before.mask].map(u64::to_le_bytes);
            self.memory.write(old, words.as_flattened())?;
        }
        Ok(0)
    }

    /// `rt_sigprocmask`.
    pub(in crate::linux) fn signal_mask(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let [how, new, old, size, ..] = a;
        if size != SET_SIZE {
            return Err(Errno::INVAL);
        }
        let before = self.thread().signals.blocked;
        if new != 0 {
            let given = self.load_word(new)?;
            let blocked = match how as u32 {
                0 => before | given,
                1 => before & !given,
                2 => given,
                _ => return Err(Errno::INVAL),
            };
            self.thread().signals.blocked = blocked & !UNBLOCKABLE;
        }
        if old != 0 {
            self.memory.write(old, &before.to_le_bytes())?;
        }
        Ok(0)
    }

    /// `rt_sigpending`.
    pub(in crate::linux) fn pending_signals(&mut self, address: u64, size: u64) -> Result<u64, Errno> {
        let of_process = self.signals.pending.set();
        let signals = &self.thread().signals;
        let bytes = ((signals.pending.set() | of_process) & signals.blocked).to_le_bytes();
        let size = usize::try_from(size).ok().filter(|&size| size <= bytes.len()).ok_or(Errno::INVAL)?;
        self.memory.write(address, &bytes[..size])?;
        Ok(0)
    }

    /// Blocks these signals until the system call under way has ended.
    pub(in crate::linux) fn mask_while_waiting(&mut self, address: u64, size: u64) -> Result<(), Errno> {
        if address == 0 || self.thread().signals.saved.is_some() {
            return Ok(());
        }
        if size != SET_SIZE {
            return Err(Errno::INVAL);
        }
        let mask = self.load_word(address)?;
        let signals = &mut self.thread().signals;
        signals.saved = Some(signals.blocked);
        signals.blocked = mask & !UNBLOCKABLE;
        Ok(())
    }

    /// `rt_sigsuspend`.
    pub(in crate::linux) fn suspend(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        self.mask_while_waiting(a[0], a[1])?;
        Err(self.wait(Wait::Signal { accepted: 0, info: 0, deadline: None }))
    }

    /// `rt_sigtimedwait`.
    pub(in crate::linux) fn wait_for_signal(&mut self, a: [u64; 6]) -> Result<u64, Errno> {
        let [wanted, info, timeout, size, ..] = a;
        if size != SET_SIZE {
            return Err(Errno::INVAL);
        }
        let accepted = self.load_word(wanted)? & !UNBLOCKABLE;
        let deadline = self.deadline_after(timeout)?;
        let taken =
            self.thread().signals.pending.take(accepted).or_else(|| self.signals.pending.take(accepted));
        match taken {
            Some(taken) => self.give_info(info, &taken),
            None => Err(self.wait(Wait::Signal { accepted, info, deadline })),
        }
    }

    /// `sigaltstack`.
    pub(in crate::linux) fn alternate_stack(&mut self, sp: u64, a: [u64; 6]) -> Result<u64, Errno> {
        let [new, old, ..] = a;
        let stack = self.thread().signals.stack;
        let active = !stack.is_disabled() && stack.flags & SS_AUTODISARM == 0 && stack.contains(sp);
        let mut next = stack;
        if new != 0 {
            let start = self.load_word(new)?;
            let flags = self.memory.load::<4>(new.wrapping_add(8))? as u32;
            let size = self.load_word(new.wrapping_add(16))?;
            if active {
                return Err(Errno::PERM);
            }
            next = match flags & !SS_AUTODISARM {
                SS_DISABLE => AlternateStack::default(),
                0 | SS_ONSTACK if size < SMALLEST_STACK => return Err(Errno::NOMEM),
                0 | SS_ONSTACK => AlternateStack { start, size, flags: flags & SS_AUTODISARM },
                _ => return Err(Errno::INVAL),
            };
        }
        if old != 0 {
            let flags = stack.flags | if active { SS_ONSTACK } else { 0 };
            let words = [stack.start, flags.into(), stack.size].map(u64::to_le_bytes);
            self.memory.write(old, words.as_flattened())?;
        }
        self.thread().signals.stack = next;
        Ok(0)
    }
}
