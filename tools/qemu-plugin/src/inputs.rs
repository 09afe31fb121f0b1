//! What comes to a program from outside: what system calls return, and what they write to its memory.
//!
//! The kernel writes where the arguments of a call point to; how much, the call's number, its arguments and its result
//! tell. A call that is not in the tables here writes nothing, as far as this plugin knows.

use crate::Recorder;
use crate::calls::{FAILED, MAP_ANONYMOUS};
use crate::event::{CLEARED, RESULT, WRITTEN, event};
use crate::system;
use crate::target::{self, Target};
use crate::thread::Thread;

/// Bytes in one record: several fit a chunk.
const PIECE: usize = 1 << 14;
const MADV_DONTNEED: u64 = 4;
/// Vectors of one call.
const MOST_VECTORS: u64 = 1024;

/// How much a call writes at a pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    /// Always as many bytes.
    Bytes(u64),
    /// As many as it returns, times a number.
    Result(u64),
    /// As many as an argument says, times a number.
    Argument(usize, u64),
    /// As many as the 32-bit number says that an argument points to.
    Pointed(usize),
    /// As many as it returns, spread over the vectors at the pointer, whose number is an argument.
    Vectors(usize),
    /// As many as it returns, into the buffers of a message; with address, control data and flags of the message.
    Message,
    /// What the request of `ioctl` says.
    Ioctl,
    /// Sets of so many descriptors as an argument says, one bit each.
    Sets(usize),
}
use Size::*;

/// The pointers of a call: which argument, and how much is written there. Null pointers are left alone.
type Writes = &'static [(usize, Size)];

/// Everything that a call wrote, and what it returned.
pub fn record(thread: &mut Thread, recorder: &Recorder, result: i64) {
    let value = result as u64;
    if !FAILED.contains(&result) {
        succeeded(thread, recorder, value);
    }
    thread.push(&[event(RESULT, 0), value as u32, (value >> 32) as u32]);
}

fn succeeded(thread: &mut Thread, recorder: &Recorder, value: u64) {
    let call = thread.call;
    let [first, second, third, fourth, ..] = call.arguments;
    match recorder.target.call(call.number) {
        target::Call::Map { .. } if fourth & MAP_ANONYMOUS != 0 => cleared(thread, value, second),
        target::Call::Advise if third == MADV_DONTNEED => cleared(thread, first, second),
        _ => {}
    }
    let writes = match recorder.target {
        Target::Arm => arm(call.number),
        Target::Aarch64 | Target::Riscv64 => generic(call.number, recorder.target),
    };
    for &(pointer, size) in writes {
        let call = Call { recorder, arguments: call.arguments, result: value };
        call.each(pointer, size, &mut |address, length| written(thread, recorder, address, length));
    }
}

/// A call that succeeded.
pub struct Call<'a> {
    pub recorder: &'a Recorder,
    pub arguments: [u64; 6],
    pub result: u64,
}

impl Call<'_> {
    /// Calls `visit` with the address and length of everything that goes through one pointer.
    pub fn each(&self, pointer: usize, size: Size, visit: &mut impl FnMut(u64, u64)) {
        let Self { recorder, arguments, result } = self;
        let address = arguments[pointer];
        if address == 0 {
            return;
        }
        match size {
            Bytes(bytes) => visit(address, bytes),
            Result(unit) => visit(address, result.saturating_mul(unit)),
            Argument(argument, unit) => visit(address, arguments[argument].saturating_mul(unit)),
            Pointed(argument) => visit(address, recorder.number_at(arguments[argument], 4).unwrap_or(0)),
            Vectors(count) => self.vectors(address, arguments[count], visit),
            Sets(count) => visit(address, arguments[count].div_ceil(64).saturating_mul(8)),
            Ioctl => {
                // TCGETS, TIOCGPGRP, TIOCGWINSZ, FIONREAD.
                let bytes = match arguments[1] as u32 {
                    0x5401 => 36,
                    0x540F | 0x541B => 4,
                    0x5413 => 8,
                    _ => 0,
                };
                visit(address, bytes);
            }
            Message => self.message(address, visit),
        }
    }

    fn vectors(&self, vectors: u64, count: u64, visit: &mut impl FnMut(u64, u64)) {
        let pointer = self.recorder.target.pointer() as u64;
        let mut left = self.result;
        for number in 0..count.min(MOST_VECTORS) {
            let entry = vectors.wrapping_add(2 * pointer * number);
            let buffer = self.recorder.pointer_at(entry);
            let length = self.recorder.pointer_at(entry.wrapping_add(pointer));
            let (Some(buffer), Some(length), 1..) = (buffer, length, left) else { return };
            visit(buffer, length.min(left));
            left -= length.min(left);
        }
    }

    /// A `msghdr`: name and its length, vectors and their number, control data and its length, flags.
    fn message(&self, header: u64, visit: &mut impl FnMut(u64, u64)) {
        let pointer = self.recorder.target.pointer() as u64;
        let field = |index: u64| self.recorder.pointer_at(header.wrapping_add(index * pointer)).unwrap_or(0);
        visit(header, 7 * pointer);
        if field(0) != 0 {
            visit(field(0), field(1) & 0xFFFF_FFFF);
        }
        self.vectors(field(2), field(3), visit);
        if field(4) != 0 {
            visit(field(4), field(5));
        }
    }
}

fn cleared(thread: &mut Thread, address: u64, length: u64) {
    let [[a, b], [c, d]] = [address, length].map(|number| [number as u32, (number >> 32) as u32]);
    thread.push(&[event(CLEARED, 0), a, b, c, d]);
}

/// Writes down what is in memory now.
fn written(thread: &mut Thread, recorder: &Recorder, address: u64, length: u64) {
    let Some(base) = recorder.base() else { return };
    let mut buffer = [0; PIECE];
    let mut done = 0;
    while done < length {
        let wanted = (length - done).min(PIECE as u64) as usize;
        let at = address.wrapping_add(done);
        let read = system::read_memory(base.wrapping_add(at), &mut buffer[..wanted]);
        if read == 0 {
            return;
        }
        let mut record = Vec::with_capacity(12 + read);
        record.extend_from_slice(&event(WRITTEN, read as u32).to_le_bytes());
        record.extend_from_slice(&at.to_le_bytes());
        record.extend_from_slice(&buffer[..read]);
        thread.push_bytes(&record);
        done += read as u64;
    }
}

/// Calls of AArch64 and RV64, by Linux's generic numbers.
fn generic(number: i64, target: Target) -> Writes {
    match number {
        17 => &[(0, Result(1))],                                           // getcwd
        22 => &[(1, Result(16))],                                          // epoll_pwait
        29 => &[(2, Ioctl)],                                               // ioctl
        43 | 44 => &[(1, Bytes(120))],                                     // statfs, fstatfs
        59 => &[(0, Bytes(8))],                                            // pipe2
        61 | 63 | 67 => &[(1, Result(1))],                                 // getdents64, read, pread64
        65 | 69 | 286 => &[(1, Vectors(2))],                               // readv, preadv, preadv2
        71 => &[(2, Bytes(8))],                                            // sendfile
        72 => &[(1, Sets(0)), (2, Sets(0)), (3, Sets(0)), (4, Bytes(16))], // pselect6
        73 => &[(0, Argument(1, 8)), (2, Bytes(16))],                      // ppoll
        78 => &[(2, Result(1))],                                           // readlinkat
        79 => &[(2, Bytes(128))],                                          // newfstatat
        80 => &[(1, Bytes(128))],                                          // fstat
        95 => &[(2, Bytes(128)), (4, Bytes(144))],                         // waitid
        102 => &[(1, Bytes(32))],                                          // getitimer
        103 => &[(2, Bytes(32))],                                          // setitimer
        113 | 114 => &[(1, Bytes(16))],                                    // clock_gettime, clock_getres
        123 => &[(2, Result(1))],                                          // sched_getaffinity
        132 => &[(1, Bytes(24))],                                          // sigaltstack
        134 if target == Target::Riscv64 => &[(2, Bytes(24))],             // rt_sigaction, without a restorer
        134 => &[(2, Bytes(32))],                                          // rt_sigaction
        135 => &[(2, Argument(3, 1))],                                     // rt_sigprocmask
        136 => &[(0, Argument(1, 1))],                                     // rt_sigpending
        137 => &[(1, Bytes(128))],                                         // rt_sigtimedwait
        148 | 150 => &[(0, Bytes(4)), (1, Bytes(4)), (2, Bytes(4))],       // getresuid, getresgid
        153 => &[(0, Bytes(32))],                                          // times
        158 => &[(1, Result(4))],                                          // getgroups
        160 => &[(0, Bytes(390))],                                         // uname
        163 => &[(1, Bytes(16))],                                          // getrlimit
        165 => &[(1, Bytes(144))],                                         // getrusage
        168 => &[(0, Bytes(4)), (1, Bytes(4))],                            // getcpu
        169 => &[(0, Bytes(16)), (1, Bytes(8))],                           // gettimeofday
        179 => &[(0, Bytes(112))],                                         // sysinfo
        199 => &[(3, Bytes(8))],                                           // socketpair
        202 | 204 | 205 | 242 => &[(1, Pointed(2)), (2, Bytes(4))], // accept, getsockname, getpeername, accept4
        207 => &[(1, Result(1)), (4, Pointed(5)), (5, Bytes(4))],   // recvfrom
        209 => &[(3, Pointed(4)), (4, Bytes(4))],                   // getsockopt
        212 => &[(1, Message)],                                     // recvmsg
        260 => &[(1, Bytes(4)), (3, Bytes(144))],                   // wait4
        261 => &[(3, Bytes(16))],                                   // prlimit64
        278 => &[(0, Result(1))],                                   // getrandom
        291 => &[(4, Bytes(256))],                                  // statx
        _ => &[],
    }
}

/// Calls of 32-bit Arm.
fn arm(number: i64) -> Writes {
    match number {
        3 | 85 | 141 | 180 | 217 => &[(1, Result(1))], // read, readlink, getdents, pread64, getdents64
        13 => &[(0, Bytes(4))],                        // time
        42 | 359 => &[(0, Bytes(8))],                  // pipe, pipe2
        43 => &[(0, Bytes(16))],                       // times
        54 => &[(2, Ioctl)],                           // ioctl
        77 => &[(1, Bytes(72))],                       // getrusage
        78 => &[(0, Bytes(8)), (1, Bytes(8))],         // gettimeofday
        104 => &[(2, Bytes(16))],                      // setitimer
        105 => &[(1, Bytes(16))],                      // getitimer
        106..=108 => &[(1, Bytes(64))],                // stat, lstat, fstat
        114 => &[(1, Bytes(4)), (3, Bytes(72))],       // wait4
        116 => &[(0, Bytes(64))],                      // sysinfo
        122 => &[(0, Bytes(390))],                     // uname
        140 => &[(3, Bytes(8))],                       // _llseek
        142 => &[(1, Sets(0)), (2, Sets(0)), (3, Sets(0)), (4, Bytes(8))], // _newselect
        145 | 361 => &[(1, Vectors(2))],               // readv, preadv
        168 => &[(0, Argument(1, 8))],                 // poll
        174 => &[(2, Bytes(20))],                      // rt_sigaction
        175 => &[(2, Argument(3, 1))],                 // rt_sigprocmask
        176 => &[(0, Argument(1, 1))],                 // rt_sigpending
        177 => &[(1, Bytes(128))],                     // rt_sigtimedwait
        183 => &[(0, Result(1))],                      // getcwd
        186 => &[(1, Bytes(12))],                      // sigaltstack
        191 => &[(1, Bytes(8))],                       // ugetrlimit
        195..=197 => &[(1, Bytes(104))],               // stat64, lstat64, fstat64
        205 => &[(1, Result(4))],                      // getgroups32
        209 | 211 => &[(0, Bytes(4)), (1, Bytes(4)), (2, Bytes(4))], // getresuid32, getresgid32
        242 => &[(2, Result(1))],                      // sched_getaffinity
        263 | 264 => &[(1, Bytes(8))],                 // clock_gettime, clock_getres
        266 | 267 => &[(2, Argument(1, 1))],           // statfs64, fstatfs64
        285..=287 | 366 => &[(1, Pointed(2)), (2, Bytes(4))], // accept, getsockname, getpeername, accept4
        288 => &[(3, Bytes(8))],                       // socketpair
        291 => &[(1, Result(1))],                      // recv
        292 => &[(1, Result(1)), (4, Pointed(5)), (5, Bytes(4))], // recvfrom
        295 => &[(3, Pointed(4)), (4, Bytes(4))],      // getsockopt
        297 => &[(1, Message)],                        // recvmsg
        327 => &[(2, Bytes(104))],                     // fstatat64
        332 => &[(2, Result(1))],                      // readlinkat
        336 => &[(0, Argument(1, 8)), (2, Bytes(8))],  // ppoll
        345 => &[(0, Bytes(4)), (1, Bytes(4))],        // getcpu
        369 => &[(3, Bytes(16))],                      // prlimit64
        384 => &[(0, Result(1))],                      // getrandom
        397 => &[(4, Bytes(256))],                     // statx
        403 | 406 => &[(1, Bytes(16))],                // clock_gettime64, clock_getres_time64
        _ => &[],
    }
}
