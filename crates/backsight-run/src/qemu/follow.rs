//! One thread: from the words of its stream to what it executed.
//!
//! A block's last instruction is known in full only when the next block begins, so the follower is
//! always one block late. Where the next block does not follow from the last, the kernel was in between:
//! a system call, a fault, a signal.

use backsight_core::{Access, Address, BlockStep, Execution, Input, Isa, Retired, Trap, TrapKind};

use super::Damage;
use super::block::{End, TranslatedBlock, TranslatedBlocks};
use crate::{Observation, Target};

/// Blocks that run before they are handed out.
const UNREPORTED: usize = 256;
/// More accesses of one instruction than this are refused.
const MOST_ACCESSES: usize = 4096;

/// What all threads of a program share.
#[derive(Debug)]
pub struct Process {
    pub target: Target,
    pub blocks: TranslatedBlocks,
    /// Blocks that run to their end are handed out as such.
    pub gives_blocks: bool,
    /// Those that ran and were not handed out yet.
    unreported: Vec<BlockStep>,
    /// Handlers of the signals 0 to 64.
    pub handlers: [u64; 65],
    /// Instructions handed out.
    pub instructions: u64,
    /// Traps handed out.
    pub traps: u64,
}

/// What was said about a block after it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum After {
    #[default]
    Nothing,
    Cut(u32),
    SystemCall,
    SignalReturn,
    Restart,
}

/// The place of a thread in the program.
#[derive(Debug, Default)]
pub struct ThreadReader {
    block: Option<u32>,
    /// How many of its instructions were handed out.
    done: usize,
    /// The last instruction, a system call, was handed out with what the call brought.
    called: bool,
    after: After,
    /// Accesses of the instruction at an index of the block, until it is known to have retired.
    held: Vec<Access>,
    held_by: usize,
}

// Signals whose cause is an instruction.
const SIGILL: usize = 4;
const SIGTRAP: usize = 5;
const SIGBUS: usize = 7;
const SIGFPE: usize = 8;
const SIGSEGV: usize = 11;

/// Causes, as the architectures number them: exception types of Arm trace packets, `mcause` of RISC-V.
struct Causes {
    call: u32,
    memory: u32,
    instruction: u32,
    breakpoint: u32,
    interrupt: u32,
}

impl Target {
    const fn causes(self) -> Causes {
        match self {
            // Call, data fault, trap, instruction debug, IRQ.
            Self::Aarch64 | Self::Arm => {
                Causes { call: 2, memory: 12, instruction: 3, breakpoint: 6, interrupt: 14 }
            }
            // Environment call from U, load page fault, illegal instruction, breakpoint, supervisor timer.
            Self::Riscv64 => Causes { call: 8, memory: 13, instruction: 2, breakpoint: 3, interrupt: 5 },
        }
    }
}

impl Process {
    pub fn new(target: Target, gives_blocks: bool) -> Self {
        let blocks = TranslatedBlocks::new(target);
        Self {
            target,
            blocks,
            gives_blocks,
            unreported: Vec::new(),
            handlers: [0; 65],
            instructions: 0,
            traps: 0,
        }
    }

    /// Hands out the blocks that ran. Nothing else may be handed out before.
    pub fn report_blocks(&mut self, sink: &mut (impl FnMut(Observation<'_>) + ?Sized)) {
        if !self.unreported.is_empty() {
            sink(Observation::Blocks(&self.blocks.retired(&self.unreported)));
            self.unreported.clear();
        }
    }

    /// The cause of an exception that led to `handler`, if one of its signals is that of an instruction.
    fn fault_to(&self, handler: u64, may_fault: bool) -> Option<u32> {
        let causes = self.target.causes();
        let is = |signal: usize| {
            let at = self.handlers[signal];
            at > 1 && (if self.target == Target::Arm { at & !1 } else { at }) == handler
        };
        if may_fault && (is(SIGSEGV) || is(SIGBUS)) {
            return Some(causes.memory);
        }
        if is(SIGTRAP) {
            return Some(causes.breakpoint);
        }
        (is(SIGILL) || is(SIGFPE)).then_some(causes.instruction)
    }

    /// Can the last instruction of a block have led to `next`, and was it taken then? And the instruction set there, if
    /// that tells it.
    #[inline(always)]
    fn leads_to(&self, block: &TranslatedBlock, next: u64) -> (Option<bool>, Option<Isa>) {
        match block.end {
            End::Plain => ((next == block.end_address).then_some(true), block.isa),
            End::Direct { target, target_isa, conditional } => {
                if next == target && !(conditional && target == block.end_address) {
                    (Some(true), Some(target_isa))
                } else {
                    ((conditional && next == block.end_address).then_some(false), block.isa)
                }
            }
            End::Indirect { conditional } => {
                if conditional && next == block.end_address {
                    (Some(false), block.isa)
                } else if self.blocks.last_may_fault(block) && self.fault_to(next, true).is_some() {
                    (None, None)
                } else {
                    (Some(true), self.target.isa())
                }
            }
            End::Helper => (None, None),
        }
    }

    /// The instruction set of a handler, where it can be told.
    fn handler_isa(&self, address: u64) -> Option<Isa> {
        if self.target != Target::Arm {
            return self.target.isa();
        }
        let handler = self.handlers.iter().find(|&&handler| handler > 1 && handler & !1 == address)?;
        Some(if handler & 1 == 1 { Isa::T32 } else { Isa::A32 })
    }

    fn trap(
        &mut self,
        kind: TrapKind,
        cause: u32,
        return_address: u64,
        handler: u64,
        sink: &mut impl FnMut(Execution),
    ) {
        self.traps += 1;
        sink(Execution::Trap(Trap {
            kind,
            cause,
            value: 0,
            return_address: Address(return_address),
            handler: Address(handler),
            cycle: 0,
        }));
    }

    fn interrupt(&mut self, return_address: u64, handler: u64, sink: &mut impl FnMut(Execution)) {
        self.trap(TrapKind::Interrupt, self.target.causes().interrupt, return_address, handler, sink);
    }
}

impl ThreadReader {
    /// Is there a block that was not handed out in full?
    pub fn is_busy(&self) -> bool {
        self.block.is_some()
    }

    /// Takes words as long as each is a known block, to which the one before it led by itself. Gives how many it took.
    pub fn known_blocks(
        &mut self,
        words: &[[u8; 4]],
        process: &mut Process,
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> usize {
        let is_rare = self.after != After::Nothing || !self.held.is_empty() || self.done > 0;
        let Some(mut number) = self.block.filter(|_| process.gives_blocks && !is_rare) else { return 0 };
        let Ok(mut block) = process.blocks.get(number) else { return 0 };
        let mut taken = 0;
        for word in words {
            let word = u32::from_le_bytes(*word);
            let Ok(next) = process.blocks.get(word) else { break };
            let (Some(is_taken), Some(_)) = (process.leads_to(block, next.address).0, next.isa) else {
                break;
            };
            process.instructions += u64::from(block.count);
            let step = BlockStep { next: Address(next.address), code: number, taken: is_taken };
            process.unreported.push(step);
            (number, block) = (word, next);
            taken += 1;
            if process.unreported.len() >= UNREPORTED {
                break;
            }
        }
        if taken > 0 {
            self.block = Some(number);
            self.called = false;
        }
        if process.unreported.len() >= UNREPORTED {
            process.report_blocks(sink);
        }
        taken
    }

    /// A block begins.
    #[inline]
    pub fn block(
        &mut self,
        number: u32,
        process: &mut Process,
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<(), Damage> {
        let next = process.blocks.get(number)?;
        let (address, is_settled) = (next.address, next.isa.is_some());
        let mut isa = process.target.isa();
        if let Some(previous) = self.block {
            isa = self.complete(previous, address, process, sink)?;
        }
        if !is_settled {
            process.blocks.settle_arrival(number, isa);
        }
        self.block = Some(number);
        self.done = 0;
        self.called = false;
        self.after = After::Nothing;
        Ok(())
    }

    /// Hands out the rest of a block, after which control came to `next`. Gives the instruction set there, if the way
    /// there tells it.
    #[inline]
    fn complete(
        &mut self,
        number: u32,
        next: u64,
        process: &mut Process,
        sink: &mut (impl FnMut(Observation<'_>) + ?Sized),
    ) -> Result<Option<Isa>, Damage> {
        let block = process.blocks.get(number)?;
        let is_rare = self.after != After::Nothing || !self.held.is_empty() || block.end == End::Helper;
        if process.gives_blocks && !is_rare && self.done == 0 {
            let (follows, isa) = process.leads_to(block, next);
            if let Some(taken) = follows {
                process.instructions += u64::from(block.count);
                process.unreported.push(BlockStep { next: Address(next), code: number, taken });
                if process.unreported.len() >= UNREPORTED {
                    process.report_blocks(sink);
                }
                return Ok(isa);
            }
        }
        let block = *block;
        process.report_blocks(sink);
        let sink = &mut |item| sink(Observation::Execution(item));
        if is_rare {
            return self.complete_rare(&block, next, process, sink);
        }
        let last = self.hand_out_before_last(&block, process, sink);
        Ok(self.last(&block, last, next, process, sink))
    }

    /// Hands out the instructions before the last, which it gives.
    #[inline]
    fn hand_out_before_last(
        &mut self,
        block: &TranslatedBlock,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) -> Retired {
        let instructions = process.blocks.instructions(block);
        let last = instructions.len() - 1;
        if self.done < last {
            for &retired in &instructions[self.done..last] {
                sink(Execution::Instruction(retired));
            }
            process.instructions += (last - self.done) as u64;
            self.done = last;
        }
        process.blocks.instructions(block)[last]
    }

    /// The last instruction, without a system call: where did it lead?
    #[inline]
    fn last(
        &mut self,
        block: &TranslatedBlock,
        last: Retired,
        next: u64,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) -> Option<Isa> {
        let (follows, isa) = process.leads_to(block, next);
        match follows {
            Some(taken) => {
                self.retire(Retired { next: Address(next), taken, ..last }, process, sink);
                isa
            }
            None => {
                self.signal(block, last, next, process, sink);
                process.handler_isa(next)
            }
        }
    }

    /// Control left the last instruction for somewhere that it does not lead to.
    #[cold]
    fn signal(
        &mut self,
        block: &TranslatedBlock,
        last: Retired,
        next: u64,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) {
        let may_fault = process.blocks.last_may_fault(block);
        let fault =
            if matches!(block.end, End::Direct { .. }) { None } else { process.fault_to(next, may_fault) };
        if let Some(cause) = fault {
            self.held.clear();
            return process.trap(TrapKind::Exception, cause, last.address.0, next, sink);
        }
        if next == last.address.0 && may_fault {
            // QEMU begins it again, in a way that can complete.
            return self.held.clear();
        }
        let (taken, goes_on) = match block.end {
            End::Direct { target, conditional: false, .. } => (true, target),
            // Whether it was taken shows only when the handler returns, if ever: not taken leads somewhere, too.
            End::Direct { .. } => (false, block.end_address),
            _ => (true, block.end_address),
        };
        self.retire(Retired { next: Address(goes_on), taken, ..last }, process, sink);
        process.interrupt(goes_on, next, sink);
    }

    #[inline]
    fn retire(&mut self, retired: Retired, process: &mut Process, sink: &mut impl FnMut(Execution)) {
        process.instructions += 1;
        sink(Execution::Instruction(retired));
        if !self.held.is_empty() {
            self.hand_out_held(sink);
        }
    }

    #[cold]
    fn hand_out_held(&mut self, sink: &mut impl FnMut(Execution)) {
        for access in self.held.drain(..) {
            sink(Execution::Access(access));
        }
    }

    #[cold]
    fn complete_rare(
        &mut self,
        block: &TranslatedBlock,
        next: u64,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) -> Result<Option<Isa>, Damage> {
        if let After::Cut(begun) = self.after {
            return self.cut(block, begun, Some(next), process, sink);
        }
        if block.end == End::Helper {
            self.held.clear();
            sink(Execution::Gap);
            return Ok(None);
        }
        self.progress(block, process.blocks.instructions(block).len() - 1, process, sink)?;
        let last = self.hand_out_before_last(block, process, sink);
        if self.after == After::Nothing {
            return Ok(self.last(block, last, next, process, sink));
        }
        if !self.called {
            self.retire(last, process, sink);
        }
        let end = block.end_address;
        let call = process.target.causes().call;
        match self.after {
            After::SignalReturn => {
                process.trap(TrapKind::Exception, call, end, next, sink);
                return Ok(process.target.isa());
            }
            After::Restart => {
                let again = last.address.0;
                process.trap(TrapKind::Exception, call, end, again, sink);
                if next != again {
                    process.interrupt(again, next, sink);
                    return Ok(process.handler_isa(next));
                }
            }
            _ => {
                // The simulator of Backsight shows ECALL as an instruction like others; so it is here.
                if process.target != Target::Riscv64 {
                    process.trap(TrapKind::Exception, call, end, end, sink);
                }
                if next != end {
                    process.interrupt(end, next, sink);
                    return Ok(process.handler_isa(next));
                }
            }
        }
        Ok(block.isa)
    }

    /// The block stopped at a watched instruction, which did not retire.
    #[cold]
    fn cut(
        &mut self,
        block: &TranslatedBlock,
        begun: u32,
        next: Option<u64>,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) -> Result<Option<Isa>, Damage> {
        let stop = process.blocks.watched(block, begun).ok_or(Damage::EventContents(1))?;
        self.progress(block, stop, process, sink)?;
        self.held.clear();
        let instructions = process.blocks.instructions(block);
        for &retired in instructions.get(self.done..stop).unwrap_or_default() {
            process.instructions += 1;
            sink(Execution::Instruction(retired));
        }
        let at = instructions[stop].address.0;
        let Some(next) = next else { return Ok(None) };
        if next == at {
            // QEMU begins it again, in a way that can complete.
            return Ok(block.isa);
        }
        let cause = process.fault_to(next, true).unwrap_or(process.target.causes().memory);
        process.trap(TrapKind::Exception, cause, at, next, sink);
        Ok(process.handler_isa(next))
    }

    /// The instruction at `index` is being executed: those before it have retired.
    fn progress(
        &mut self,
        block: &TranslatedBlock,
        index: usize,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) -> Result<(), Damage> {
        let instructions = process.blocks.instructions(block);
        if index < self.done || index >= instructions.len() {
            return Err(Damage::EventContents(2));
        }
        if self.held.is_empty() || self.held_by == index {
            return Ok(());
        }
        let holder = self.held_by;
        for &retired in instructions.get(self.done..=holder).unwrap_or_default() {
            process.instructions += 1;
            sink(Execution::Instruction(retired));
        }
        self.done = holder + 1;
        self.hand_out_held(sink);
        Ok(())
    }

    /// A load or store of the instruction at `index`, at most 8 bytes.
    pub fn access(
        &mut self,
        index: usize,
        access: Access,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) -> Result<(), Damage> {
        let block =
            *self.block.ok_or(Damage::EventContents(2)).and_then(|block| process.blocks.get(block))?;
        self.progress(&block, index, process, sink)?;
        if self.held.len() >= MOST_ACCESSES {
            return Err(Damage::EventContents(2));
        }
        self.held_by = index;
        self.held.push(access);
        Ok(())
    }

    /// Something that the system call at the end of the block brought: its instruction has retired.
    pub fn input(
        &mut self,
        input: Input,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) -> Result<(), Damage> {
        if !self.call(process, sink)? {
            return Err(Damage::EventContents(10));
        }
        sink(Execution::Input(input));
        Ok(())
    }

    /// The system call at the end of the block did something: its instruction has retired. False if there is none.
    pub fn call(&mut self, process: &mut Process, sink: &mut impl FnMut(Execution)) -> Result<bool, Damage> {
        let (After::SystemCall, Some(number)) = (self.after, self.block) else { return Ok(false) };
        if !self.called {
            let block = *process.blocks.get(number)?;
            self.progress(&block, process.blocks.instructions(&block).len() - 1, process, sink)?;
            let last = self.hand_out_before_last(&block, process, sink);
            self.retire(last, process, sink);
            self.called = true;
        }
        Ok(true)
    }

    /// An event that qualifies the block before it.
    pub fn event(&mut self, kind: u32, argument: u32) -> Result<(), Damage> {
        self.block.ok_or(Damage::EventContents(kind))?;
        self.after = match kind {
            1 => After::Cut(argument),
            3 => After::SignalReturn,
            4 => After::Restart,
            _ => After::SystemCall,
        };
        Ok(())
    }

    /// The stream of the thread ends: hands out what is known to have retired. `begun` says how many watched instructions
    /// of the newest block began, where that is not all of them.
    pub fn finish(
        &mut self,
        begun: Option<u32>,
        process: &mut Process,
        sink: &mut impl FnMut(Execution),
    ) -> Result<(), Damage> {
        let Some(number) = self.block.take() else { return Ok(()) };
        let block = *process.blocks.get(number)?;
        let cut = match self.after {
            After::Cut(begun) => Some(begun),
            After::Nothing => begun,
            _ => None,
        };
        if let Some(begun) = cut {
            return self.cut(&block, begun, None, process, sink).map(drop);
        }
        if block.end == End::Helper {
            return Ok(());
        }
        self.progress(&block, process.blocks.instructions(&block).len() - 1, process, sink)?;
        let last = self.hand_out_before_last(&block, process, sink);
        let completed = block.end == End::Plain && !process.blocks.last_may_fault(&block);
        if !self.called && (completed || self.after != After::Nothing) {
            self.retire(last, process, sink);
        }
        self.called = false;
        self.held.clear();
        self.after = After::Nothing;
        Ok(())
    }
}
