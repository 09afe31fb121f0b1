//! Which function serves which system call.

use super::Kernel;
use super::clock::NANOSECONDS;
use super::errno::Errno;
use super::numbers::*;
use super::paths::AT_FDCWD;
use super::system::{USER, words};
use super::threads::PROCESS;
use crate::environment::After;
use crate::hart::Hart;
use crate::simulator::Exit;

const SP: u8 = 2;
const A0: u8 = 10;
const A7: u8 = 17;

impl Kernel {
    /// Does what the registers ask for.
    pub(super) fn call(&mut self, hart: &mut Hart) -> After {
        match hart.x(A7) {
            EXIT => return self.end_thread(hart, hart.x(A0)),
            EXIT_GROUP => return self.end_process(Exit::Status(hart.x(A0) as u8)),
            RT_SIGRETURN => return self.leave_handler(hart),
            _ => {}
        }
        let yields = hart.x(A7) == SCHED_YIELD;
        let result = self.serve_call(hart);
        if result == Err(Errno::WAIT) {
            self.begin_wait();
            return self.schedule(hart, 1);
        }
        self.complete(hart, result);
        if yields { self.schedule(hart, 1) } else { self.return_to_program(hart) }
    }

    /// Serves the call that the registers ask for. [`Errno::WAIT`]: the thread has to wait.
    pub(super) fn serve_call(&mut self, hart: &Hart) -> Result<u64, Errno> {
        let a: [u64; 6] = core::array::from_fn(|n| hart.x(A0 + n as u8));
        match hart.x(A7) {
            CLONE => self.clone_thread(hart, a),
            CLONE3 => self.clone3_thread(hart, a),
            SIGALTSTACK => self.alternate_stack(hart.x(SP), a),
            number => self.serve_files(number, a),
        }
    }

    fn serve_files(&mut self, number: u64, a: [u64; 6]) -> Result<u64, Errno> {
        match number {
            READ => self.read(a[0], a[1], a[2], None),
            WRITE => self.write(a[0], a[1], a[2], None),
            PREAD64 => self.read(a[0], a[1], a[2], Some(a[3])),
            PWRITE64 => self.write(a[0], a[1], a[2], Some(a[3])),
            READV => self.vectors(a[1], a[2], |kernel, to, length, _| kernel.read(a[0], to, length, None)),
            WRITEV => {
                self.vectors(a[1], a[2], |kernel, from, length, _| kernel.write(a[0], from, length, None))
            }
            PREADV => self.vectors(a[1], a[2], |kernel, to, length, done| {
                kernel.read(a[0], to, length, Some(a[3].wrapping_add(done)))
            }),
            PWRITEV => self.vectors(a[1], a[2], |kernel, from, length, done| {
                kernel.write(a[0], from, length, Some(a[3].wrapping_add(done)))
            }),
            SENDFILE => self.copy(a[1], a[2], a[0], 0, a[3]),
            COPY_FILE_RANGE => self.copy(a[0], a[1], a[2], a[3], a[4]),
            LSEEK => self.seek(a[0], a[1] as i64, a[2]),
            PPOLL => self.poll(a),
            PSELECT6 => self.select(a),
            OPENAT => self.open(a),
            CLOSE => self.files.close(a[0]),
            CLOSE_RANGE => self.files.close_range(a[0], a[1] & u64::from(u32::MAX), a[2]),
            DUP => self.files.duplicate(a[0], 0, false),
            DUP3 => self.files.duplicate_to(a[0], a[1], a[2]),
            FCNTL => self.file_control(a),
            IOCTL => self.io_control(a),
            PIPE2 => self.make_pipe(a),
            GETDENTS64 => self.directory_entries(a),
            NEWFSTATAT => self.stat(a),
            FSTAT => self.stat_open(a),
            STATX => self.stat_extended(a),
            STATFS => self.path(AT_FDCWD as u64, a[0]).and_then(|_| self.stat_file_system(a[1])),
            FSTATFS => self.files.get(a[0]).map(|_| ()).and_then(|()| self.stat_file_system(a[1])),
            GETCWD => self.current_directory(a),
            CHDIR => self.change_directory(a[0]),
            FCHDIR => self.change_to_open_directory(a[0]),
            MKDIRAT => self.make_directory(a),
            UNLINKAT => self.unlink(a),
            SYMLINKAT => self.make_symbolic_link(a),
            LINKAT => self.make_link(a),
            RENAMEAT2 => self.rename(a),
            READLINKAT => self.read_link(a),
            FACCESSAT | FACCESSAT2 => self.access(a),
            TRUNCATE => self.truncate(a[0], a[1]),
            FTRUNCATE => self.truncate_open(a[0], a[1]),
            FALLOCATE => self.allocate(a),
            // Nothing that the program could see; but the descriptor must be there.
            FCHMOD | FCHOWN | FSYNC | FDATASYNC | SYNC_FILE_RANGE | FLOCK | FADVISE64 | READAHEAD => {
                self.files.get(a[0]).map(|_| 0)
            }
            FCHMODAT | FCHOWNAT | UTIMENSAT | SYNC => Ok(0),
            _ => self.serve_memory_and_threads(number, a),
        }
    }

    fn serve_memory_and_threads(&mut self, number: u64, a: [u64; 6]) -> Result<u64, Errno> {
        match number {
            BRK => self.set_break(a[0]),
            MMAP => self.map(a),
            MUNMAP => self.unmap(a[0], a[1]),
            MREMAP => self.remap(a),
            MPROTECT => self.protect(a),
            MADVISE => self.advise(a),
            MINCORE => self.residency(a),
            // Stores to code are noticed when they happen, and all threads see the same memory.
            RISCV_FLUSH_ICACHE | MEMBARRIER | MSYNC | MLOCK | MUNLOCK | MLOCKALL | MUNLOCKALL => Ok(0),
            FUTEX => self.futex(a),
            SET_TID_ADDRESS => self.set_tid_address(a[0]),
            SET_ROBUST_LIST => {
                self.thread().robust_list = a[0];
                Ok(0)
            }
            GET_ROBUST_LIST => self.robust_list(a),
            GETTID => Ok(self.thread().tid.into()),
            SCHED_YIELD => Ok(0),
            KILL => self.kill(a[0], a[1]),
            TKILL => self.kill_thread(PROCESS.into(), a[0], a[1]),
            TGKILL => self.kill_thread(a[0], a[1], a[2]),
            RT_SIGACTION => self.signal_action(a),
            RT_SIGPROCMASK => self.signal_mask(a),
            RT_SIGPENDING => self.pending_signals(a[0], a[1]),
            RT_SIGSUSPEND => self.suspend(a),
            RT_SIGTIMEDWAIT => self.wait_for_signal(a),
            RT_SIGQUEUEINFO => self.queue_signal(a[0], None, a[1], a[2]),
            RT_TGSIGQUEUEINFO => self.queue_signal(a[0], Some(a[1]), a[2], a[3]),
            _ => self.serve_system(number, a),
        }
    }

    fn serve_system(&mut self, number: u64, a: [u64; 6]) -> Result<u64, Errno> {
        match number {
            CLOCK_GETTIME => self.clock_time(a[0], a[1]),
            CLOCK_GETRES => self.put_time(a[1], 1),
            NANOSLEEP => self.sleep(1, 0, a[0], a[1]),
            CLOCK_NANOSLEEP => self.sleep(a[0], a[1], a[2], a[3]),
            GETITIMER => self.get_timer(a[0], a[1]),
            SETITIMER => self.set_timer(a[0], a[1], a[2]),
            GETTIMEOFDAY => {
                let now = self.clock.now();
                self.put(a[0], &words(&[now / NANOSECONDS, now % NANOSECONDS / 1000]))
            }
            TIMES => self.times(a[0]),
            GETRUSAGE => self.usage(a[1]),
            GETPID | GETPGID | GETSID => Ok(PROCESS.into()),
            GETPPID => Ok(1),
            GETUID | GETEUID | GETGID | GETEGID => Ok(USER),
            GETRESUID | GETRESGID => self.three_users(a),
            GETCPU => self.processor(a),
            SCHED_GETAFFINITY => self.affinity(a),
            SCHED_GETPARAM => self.put(a[1], &[0; 4]),
            GETPRIORITY => Ok(20),
            UMASK => Ok(std::mem::replace(&mut self.umask, a[0] as u32 & 0o777).into()),
            PRCTL => self.process_control(a),
            UNAME => self.system_name(a[0]),
            SYSINFO => self.system_information(a[0]),
            GETRLIMIT => self.limits(a[0], a[1]),
            PRLIMIT64 => self.limits(a[1], a[3]),
            GETRANDOM => self.random_bytes(a),
            // There are no children, no other groups and no priorities; what is set shows nowhere.
            WAIT4 | WAITID => Err(Errno::CHILD),
            GETGROUPS
            | PERSONALITY
            | SETPGID
            | SETRLIMIT
            | SETPRIORITY
            | SCHED_SETPARAM
            | SCHED_SETSCHEDULER
            | SCHED_GETSCHEDULER
            | SCHED_SETAFFINITY
            | SCHED_GET_PRIORITY_MAX
            | SCHED_GET_PRIORITY_MIN => Ok(0),
            // Older systems do not have them either: C libraries ask, and go on without.
            RISCV_HWPROBE | RSEQ => Err(Errno::NOSYS),
            _ => Err(self.missing.call(number)),
        }
    }
}
