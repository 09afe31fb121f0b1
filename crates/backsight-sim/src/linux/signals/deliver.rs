//! Delivery: a signal that a thread does not block becomes a call of its handler, or ends the process.

use super::frame::{self, Restored};
use super::number::{SIGBUS, SIGILL, SIGSEGV, SIGTRAP};
use super::{
    Info, SA_NODEFER, SA_ONSTACK, SA_RESETHAND, SA_RESTART, SIG_DEFAULT, SIG_IGNORE, SS_AUTODISARM,
    UNBLOCKABLE, set,
};
use crate::environment::After;
use crate::fault::{Cause, Fault};
use crate::hart::Hart;
use crate::linux::Kernel;
use crate::linux::errno::Errno;
use crate::linux::threads::Wait;
use crate::simulator::Exit;

const SP: u8 = 2;
const A0: u8 = 10;
/// Bytes of ECALL.
const ECALL: u64 = 4;

/// Why control goes to a handler.
enum Reason {
    /// The instruction at `pc` faulted.
    Fault(Fault),
    /// A signal came between two instructions.
    Signal,
}

impl Kernel {
    /// The current thread is about to continue: delivers what is pending for it.
    pub(in crate::linux) fn return_to_program(&mut self, hart: &mut Hart) -> After {
        while let Some(info) = self.next_signal() {
            let action = self.signals.action(info.signal);
            if action.is_ignored(info.signal) {
                continue;
            }
            if action.handler == SIG_DEFAULT {
                return self.end_process(Exit::Signal(info.signal));
            }
            if self.enter_handler(hart, &info, Reason::Signal).is_err() {
                return self.end_process(Exit::Signal(SIGSEGV));
            }
        }
        if let Some(blocked) = self.thread().signals.saved.take() {
            self.thread().signals.blocked = blocked;
        }
        self.report_registers(hart);
        After::Continue
    }

    fn next_signal(&mut self) -> Option<Info> {
        let wanted = !self.thread().signals.blocked;
        self.thread().signals.pending.take(wanted).or_else(|| self.signals.pending.take(wanted))
    }

    /// A signal ends the wait of the current thread: its system call fails, or is made again after the handler.
    pub(in crate::linux) fn interrupt_wait(&mut self, hart: &mut Hart, wait: Wait) -> After {
        let signals = &self.thread().signals;
        let (own, wanted) = (signals.pending.set() & !signals.blocked, !signals.blocked);
        let pending = if own != 0 { own } else { self.signals.pending.set() & wanted };
        let first = self.signals.action(pending.trailing_zeros() as u8 + 1);
        let progress = self.thread().progress;
        let argument = hart.x(A0);
        if let Wait::Sleep { deadline, rest } = wait {
            let left = deadline.saturating_sub(self.clock.elapsed());
            // A bad address changes nothing about the interruption.
            let _ = self.put_time(rest, left);
        }
        let result = if progress > 0 { Ok(progress) } else { Err(Errno::INTR) };
        self.complete(hart, result);
        if progress == 0 && wait.restarts() && first.flags & SA_RESTART != 0 && first.handler > SIG_IGNORE {
            let end = hart.pc;
            hart.pc = end.wrapping_sub(ECALL);
            hart.set_x(A0, argument);
            self.report_call(end, hart.pc);
        }
        self.return_to_program(hart)
    }

    /// `rt_sigtimedwait` takes a signal without a handler, if one is there that it accepts.
    pub(in crate::linux) fn take_accepted_signal(&mut self, hart: &mut Hart, wait: Wait) -> Option<After> {
        let Wait::Signal { accepted, info: address, .. } = wait else {
            return None;
        };
        let taken =
            self.thread().signals.pending.take(accepted).or_else(|| self.signals.pending.take(accepted))?;
        let result = self.give_info(address, &taken);
        self.complete(hart, result);
        Some(self.return_to_program(hart))
    }

    /// Describes a signal that was taken; gives its number.
    pub(super) fn give_info(&mut self, address: u64, info: &Info) -> Result<u64, Errno> {
        if address != 0 {
            let mut bytes = [0; 128];
            bytes[..info.bytes.len()].copy_from_slice(&info.bytes);
            self.memory.write(address, &bytes)?;
        }
        Ok(info.signal.into())
    }

    /// An instruction faulted: its handler is called, or the program ends.
    pub(in crate::linux) fn handle_fault(&mut self, hart: &mut Hart, fault: Fault) -> After {
        const MAPPING: i32 = 1;
        const PERMISSION: i32 = 2;
        // Illegal opcode, breakpoint, alignment: the first of each kind.
        const FIRST: i32 = 1;
        let (signal, code, address) = match fault.cause {
            Cause::IllegalInstruction => (SIGILL, FIRST, fault.pc),
            Cause::Breakpoint => (SIGTRAP, FIRST, fault.pc),
            Cause::StoreAddressMisaligned => (SIGBUS, FIRST, fault.value),
            Cause::InstructionPageFault | Cause::LoadPageFault | Cause::StorePageFault => {
                let mapped = self.memory.mappings().at(fault.value).is_some();
                (SIGSEGV, if mapped { PERMISSION } else { MAPPING }, fault.value)
            }
            Cause::OutOfMemory | Cause::EndOfRecording | Cause::CodeWritten => {
                return self.end_by_fault(fault);
            }
        };
        let blocked = self.thread().signals.blocked & set(signal) != 0;
        let info = Info::fault(signal, code, address);
        if blocked
            || self.signals.action(signal).handler <= SIG_IGNORE
            || self.enter_handler(hart, &info, Reason::Fault(fault)).is_err()
        {
            return self.end_by_fault(fault);
        }
        self.return_to_program(hart)
    }

    fn end_by_fault(&mut self, fault: Fault) -> After {
        self.report_fault(&fault, 0);
        self.end_process(Exit::Fault(fault))
    }

    /// Makes the registers those of the handler of a signal.
    fn enter_handler(&mut self, hart: &mut Hart, info: &Info, reason: Reason) -> Result<(), Cause> {
        let action = self.signals.action(info.signal);
        let from = hart.pc;
        let signals = &mut self.threads.list[self.threads.current].signals;
        let stack = signals.stack;
        let sp = hart.x(SP);
        let alternate = action.flags & SA_ONSTACK != 0 && !stack.is_disabled() && !stack.contains(sp);
        let top = if alternate { stack.start.wrapping_add(stack.size) } else { sp };
        let before = Restored { mask: signals.saved.unwrap_or(signals.blocked), stack };
        frame::enter(&mut self.memory, hart, top, info, action.handler, self.trampoline, &before)?;

        signals.saved = None;
        signals.blocked |= action.mask;
        if action.flags & SA_NODEFER == 0 {
            signals.blocked |= set(info.signal);
        }
        signals.blocked &= !UNBLOCKABLE;
        if stack.flags & SS_AUTODISARM != 0 {
            signals.stack = super::AlternateStack::default();
        }
        if action.flags & SA_RESETHAND != 0
            && let Some(action) = self.signals.actions.get_mut(usize::from(info.signal))
        {
            action.handler = SIG_DEFAULT;
        }
        self.replayable = false;
        match reason {
            Reason::Fault(fault) => self.report_fault(&fault, hart.pc),
            Reason::Signal => self.report_interrupt(from, hart.pc),
        }
        Ok(())
    }

    /// `rt_sigreturn`: the handler is done.
    pub(in crate::linux) fn leave_handler(&mut self, hart: &mut Hart) -> After {
        let end = hart.pc;
        let Ok(restored) = frame::leave(&mut self.memory, hart) else {
            return self.end_process(Exit::Signal(SIGSEGV));
        };
        let signals = &mut self.thread().signals;
        signals.blocked = restored.mask & !UNBLOCKABLE;
        signals.stack = restored.stack;
        self.report_call(end, hart.pc);
        self.return_to_program(hart)
    }
}
