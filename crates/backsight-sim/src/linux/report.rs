//! What the kernel has to report, until there is somebody to report it to.

use super::Kernel;
use crate::fault::Fault;
use crate::hart::Hart;
use crate::memory::Change;
use crate::observer::{Event, Observer};
use crate::simulator::USER;
use backsight_core::{Address, Execution, Trap, TrapKind};

/// ECALL from user mode.
const ENVIRONMENT_CALL: u32 = 8;
/// The supervisor's timer: what a signal between two instructions is taken for.
const INTERRUPT: u32 = 5;

/// Something to report.
pub enum Report {
    Execution(Execution),
    ThreadStarts { thread: u32, tid: u32 },
    ThreadEnds { thread: u32 },
    Registers(Box<Hart>),
    Time(u64),
    Output { stream: u8, bytes: Box<[u8]> },
}

fn trap(kind: TrapKind, cause: u32, from: u64, to: u64) -> Trap {
    Trap { kind, cause, value: 0, return_address: Address(from), handler: Address(to), cycle: 0 }
}

impl Kernel {
    /// Reports which thread runs, if those who observe do not know it.
    pub(super) fn report_thread(&mut self) {
        let thread = self.thread();
        let number = thread.number;
        let new = !std::mem::replace(&mut thread.context_reported, true);
        if std::mem::replace(&mut self.reported_thread, number) != number {
            self.reports.push(Report::Execution(Execution::Thread(number)));
        }
        if new {
            self.reports.push(Report::Execution(Execution::Context(USER)));
        }
    }

    /// The kernel lets the current thread continue with other registers than it had.
    pub(super) fn report_registers(&mut self, hart: &Hart) {
        self.report_thread();
        if self.external {
            self.reports.push(Report::Registers(Box::new(hart.clone())));
        }
    }

    fn report_trap(&mut self, trap: Trap) {
        self.report_thread();
        self.reports.push(Report::Execution(Execution::Trap(trap)));
    }

    /// An instruction faulted; its handler is at `to`, 0 if there is none.
    pub(super) fn report_fault(&mut self, fault: &Fault, to: u64) {
        self.report_trap(fault.trap(to));
    }

    /// A signal came when `from` was next to be executed; its handler is at `to`.
    pub(super) fn report_interrupt(&mut self, from: u64, to: u64) {
        self.report_trap(trap(TrapKind::Interrupt, INTERRUPT, from, to));
    }

    /// A system call continues elsewhere than after its instruction.
    pub(super) fn report_call(&mut self, from: u64, to: u64) {
        self.report_trap(trap(TrapKind::Exception, ENVIRONMENT_CALL, from, to));
    }

    /// Hands out all reports.
    pub(super) fn hand_out(&mut self, observer: &mut impl Observer) {
        for change in self.memory.take_changes().unwrap_or_default() {
            match &change {
                Change::Written(address, bytes) => {
                    observer.event(Event::Written { address: Address(*address), bytes });
                }
                Change::Cleared(start, end) => {
                    observer.event(Event::Cleared { address: Address(*start), length: end - start });
                }
                Change::Code(address, bytes) => {
                    self.replayable = false;
                    observer.event(Event::Code { address: Address(*address), bytes });
                }
            }
        }
        for report in self.reports.drain(..) {
            match report {
                Report::Execution(item) => observer.execution(item),
                Report::ThreadStarts { thread, tid } => observer.event(Event::ThreadStarts { thread, tid }),
                Report::ThreadEnds { thread } => observer.event(Event::ThreadEnds { thread }),
                Report::Registers(hart) => observer.event(Event::Registers(&hart)),
                Report::Time(time) => observer.event(Event::Time(time)),
                Report::Output { stream, bytes } => observer.event(Event::Output { stream, bytes: &bytes }),
            }
        }
    }
}
