//! What is reported besides instructions: threads, code made at run time, traps, what enters from outside.

use crate::support;
use crate::support::{assembled, program, quiet};
use backsight_core::{Address, Execution, Trap, TrapKind};
use backsight_sim::{Event, Exit, Hart, Observer, Options, Simulator, Streams, Watch};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Code as somebody knows it who has only the program's file and the events.
#[derive(Default)]
struct Known {
    code: BTreeMap<u64, u8>,
    changes: u64,
    threads: Vec<(u32, u32)>,
    ended: Vec<u32>,
    current: u32,
    next: BTreeMap<u32, Address>,
    per_thread: BTreeMap<u32, u64>,
    traps: Vec<Trap>,
    registers: Vec<Hart>,
}

impl Known {
    fn new(file: &[u8]) -> Self {
        let elf = backsight_sim::Elf::parse(file).unwrap();
        let code = elf
            .segments
            .iter()
            .filter(|segment| segment.flags & 1 != 0)
            .flat_map(|segment| (segment.address..).zip(segment.bytes.iter().copied()))
            .collect();
        Self { code, ..Self::default() }
    }
}

impl Observer for Known {
    fn execution(&mut self, item: Execution) {
        match item {
            Execution::Thread(thread) => {
                assert_ne!(thread, self.current);
                assert!(
                    self.threads.iter().any(|(number, _)| *number == thread) && !self.ended.contains(&thread)
                );
                self.current = thread;
            }
            Execution::Instruction(retired) => {
                let address = retired.address.0;
                let bytes: Vec<u8> =
                    (address..address + u64::from(retired.size)).map(|at| self.code[&at]).collect();
                assert_eq!(bytes, retired.opcode.to_le_bytes()[..usize::from(retired.size)], "{address:#x}");
                if let Some(&next) = self.next.get(&self.current) {
                    assert_eq!(next, retired.address, "thread {}", self.current);
                }
                self.next.insert(self.current, retired.next);
                *self.per_thread.entry(self.current).or_default() += 1;
            }
            Execution::Trap(trap) => {
                assert_eq!(self.next.insert(self.current, trap.handler), Some(trap.return_address));
                self.traps.push(trap);
            }
            _ => {}
        }
    }

    fn event(&mut self, event: Event<'_>) {
        match event {
            Event::ThreadStarts { thread, tid } => self.threads.push((thread, tid)),
            Event::ThreadEnds { thread } => self.ended.push(thread),
            Event::Code { address, bytes } => {
                self.changes += 1;
                self.code.extend((address.0..).zip(bytes.iter().copied()));
            }
            Event::Registers(hart) => self.registers.push(hart.clone()),
            _ => {}
        }
    }
}

fn observed(file: &[u8], watch: Watch) -> (Exit, Known) {
    let mut known = Known::new(file);
    let exit = Simulator::load(file, quiet().0).unwrap().observe(watch, &mut known);
    (exit, known)
}

#[test]
fn each_thread_is_followed_by_itself() {
    let (exit, known) = observed(&program("threads"), Watch::default());
    assert_eq!(exit, Exit::Status(0));
    assert_eq!(known.threads, [(0, 1000), (1, 1001), (2, 1002), (3, 1003)]);
    let mut ended = known.ended.clone();
    ended.sort_unstable();
    assert_eq!(ended, [0, 1, 2, 3]);
    assert!((1..=3).all(|thread| known.per_thread[&thread] > 10_000), "{:?}", known.per_thread);
    assert_eq!(known.changes, 0);
}

#[test]
fn threads_in_pieces_are_the_same_run() {
    let file = program("threads");
    let (exit, whole) = support::items(&file);
    assert_eq!(exit, Exit::Status(0));
    assert!((exit, whole) == support::items_in_pieces(&file, 1_777));
}

#[test]
fn code_made_at_run_time_is_reported_before_it_runs() {
    let (exit, known) = observed(&program("jit"), Watch::default());
    assert_eq!(exit, Exit::Status(0));
    assert!((104..150).contains(&known.changes), "{}", known.changes);
    assert_eq!(known.traps, []);
}

#[test]
fn handlers_are_reached_and_left_by_traps() {
    let (exit, known) = observed(&program("signals"), Watch { accesses: false, external: true });
    assert_eq!(exit, Exit::Status(0));
    let count =
        |kind, cause| known.traps.iter().filter(|trap| (trap.kind, trap.cause) == (kind, cause)).count();
    // Load, store, illegal instruction, breakpoint; and as many returns as handlers.
    let faults: Vec<u32> = known
        .traps
        .iter()
        .filter(|trap| trap.kind == TrapKind::Exception && trap.cause != 8)
        .map(|trap| trap.cause)
        .collect();
    assert_eq!(faults, [13, 15, 2, 3]);
    assert_eq!(count(TrapKind::Interrupt, 5) + faults.len(), count(TrapKind::Exception, 8));
    assert_eq!(known.changes, 1, "the code that handlers return to");
    assert!(known.registers.len() > known.traps.len());
}

#[test]
fn a_store_into_the_block_that_executes_it_changes_what_comes_next() {
    // auipc a1, 0; lw a2, 28(a1); sw a2, 16(a1); nop; li a0, 1 (replaced); li a7, 93; ecall; li a0, 2
    let code = [
        0x0000_0597,
        0x01C5_A603,
        0x00C5_A823,
        0x0000_0013,
        0x0010_0513,
        0x05D0_0893,
        0x0000_0073,
        0x0020_0513,
    ];
    let (exit, known) = observed(&assembled(&code), Watch { accesses: true, external: true });
    assert_eq!(exit, Exit::Status(2));
    assert!(known.changes > 0);
}

/// An input that never comes.
struct Never;

impl Read for Never {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        panic!("read although it was not ready");
    }
}

/// read(0, sp, 1), exit(result)
const READ: [u32; 7] = [0x0000_0513, 0x0001_0593, 0x0010_0613, 0x03F0_0893, 0x73, 0x05D0_0893, 0x73];

#[test]
fn a_program_that_waits_for_input_can_be_interrupted_and_goes_on() {
    let interrupt = Arc::new(AtomicBool::new(false));
    let looks = Arc::new(AtomicU32::new(0));
    let streams = {
        let (interrupt, looks) = (Arc::clone(&interrupt), Arc::clone(&looks));
        Streams {
            input: Box::new(io::Cursor::new(b"x")),
            input_ready: Box::new(move |_| match looks.fetch_add(1, Ordering::Relaxed) {
                3 => {
                    interrupt.store(true, Ordering::Relaxed);
                    false
                }
                look => look > 3,
            }),
            ..Streams::none()
        }
    };
    let options = Options { streams, interrupt: Arc::clone(&interrupt), ..quiet().0 };
    let mut simulator = Simulator::load(&assembled(&READ), options).unwrap();
    assert_eq!(simulator.run(&mut |_| {}), Exit::Interrupted);
    assert_eq!(simulator.retired(), 5);
    interrupt.store(false, Ordering::Relaxed);
    assert_eq!(simulator.run(&mut |_| {}), Exit::Status(1));
    assert_eq!(simulator.run(&mut |_| panic!("it has ended")), Exit::Status(1));
}

#[test]
fn input_that_does_not_come_does_not_block_an_interrupt() {
    let interrupt = Arc::new(AtomicBool::new(false));
    let ready = |wait: Duration| {
        std::thread::sleep(wait);
        false
    };
    let streams = Streams { input: Box::new(Never), input_ready: Box::new(ready), ..Streams::none() };
    let options = Options { streams, interrupt: Arc::clone(&interrupt), ..quiet().0 };
    let mut simulator = Simulator::load(&assembled(&READ), options).unwrap();
    let stopper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(100));
        interrupt.store(true, Ordering::Relaxed);
    });
    let start = Instant::now();
    assert_eq!(simulator.run(&mut |_| {}), Exit::Interrupted);
    assert!(start.elapsed() >= Duration::from_millis(90), "{:?}", start.elapsed());
    stopper.join().unwrap();
}

#[test]
fn a_sleep_takes_no_time_and_passes_on_the_clock() {
    // sp -= 32; *sp = 3600, 0; nanosleep(sp, 0); clock_gettime(1, sp); a0 = *sp / 60; exit(a0)
    let code = [
        0xFE01_0113,
        0x0000_1537,
        0xE105_0513,
        0x00A1_3023,
        0x0001_3423,
        0x0001_0513,
        0x0000_0593,
        0x0650_0893,
        0x73,
        0x0010_0513,
        0x0001_0593,
        0x0710_0893,
        0x73,
        0x0001_3503,
        0x03C0_0593,
        0x02B5_5533,
        0x05D0_0893,
        0x73,
    ];
    let start = Instant::now();
    assert_eq!(support::run(&assembled(&code)).0, Exit::Status(60));
    assert!(start.elapsed() < Duration::from_secs(60));
}
