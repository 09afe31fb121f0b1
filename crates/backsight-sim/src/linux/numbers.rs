//! The numbers and names of Linux's system calls on RISC-V.

macro_rules! served {
    ($($number:literal $constant:ident $name:literal,)*) => {
        $(#[doc = concat!("`", $name, "`")] pub const $constant: u64 = $number;)*

        /// The name of a system call, where Linux has one with this number.
        pub fn name(number: u64) -> Option<&'static str> {
            match number {
                $($number => Some($name),)*
                _ => OTHERS.iter().find(|(other, _)| u64::from(*other) == number).map(|(_, name)| *name),
            }
        }
    };
}

// Those that the kernel serves, or refuses knowingly.
#[rustfmt::skip]
served! {
    17 GETCWD "getcwd", 23 DUP "dup", 24 DUP3 "dup3", 25 FCNTL "fcntl", 29 IOCTL "ioctl", 32 FLOCK "flock",
    34 MKDIRAT "mkdirat", 35 UNLINKAT "unlinkat", 36 SYMLINKAT "symlinkat", 37 LINKAT "linkat", 43 STATFS "statfs",
    44 FSTATFS "fstatfs", 45 TRUNCATE "truncate", 46 FTRUNCATE "ftruncate", 47 FALLOCATE "fallocate",
    48 FACCESSAT "faccessat", 49 CHDIR "chdir", 50 FCHDIR "fchdir", 52 FCHMOD "fchmod", 53 FCHMODAT "fchmodat",
    54 FCHOWNAT "fchownat", 55 FCHOWN "fchown", 56 OPENAT "openat", 57 CLOSE "close", 59 PIPE2 "pipe2",
    61 GETDENTS64 "getdents64", 62 LSEEK "lseek", 63 READ "read", 64 WRITE "write", 65 READV "readv",
    66 WRITEV "writev", 67 PREAD64 "pread64", 68 PWRITE64 "pwrite64", 69 PREADV "preadv", 70 PWRITEV "pwritev",
    71 SENDFILE "sendfile", 72 PSELECT6 "pselect6", 73 PPOLL "ppoll", 78 READLINKAT "readlinkat",
    79 NEWFSTATAT "newfstatat", 80 FSTAT "fstat", 81 SYNC "sync", 82 FSYNC "fsync", 83 FDATASYNC "fdatasync",
    84 SYNC_FILE_RANGE "sync_file_range", 88 UTIMENSAT "utimensat", 92 PERSONALITY "personality", 93 EXIT "exit",
    94 EXIT_GROUP "exit_group", 95 WAITID "waitid", 96 SET_TID_ADDRESS "set_tid_address", 98 FUTEX "futex",
    99 SET_ROBUST_LIST "set_robust_list", 100 GET_ROBUST_LIST "get_robust_list", 101 NANOSLEEP "nanosleep",
    102 GETITIMER "getitimer", 103 SETITIMER "setitimer", 113 CLOCK_GETTIME "clock_gettime",
    114 CLOCK_GETRES "clock_getres", 115 CLOCK_NANOSLEEP "clock_nanosleep", 118 SCHED_SETPARAM "sched_setparam",
    119 SCHED_SETSCHEDULER "sched_setscheduler", 120 SCHED_GETSCHEDULER "sched_getscheduler",
    121 SCHED_GETPARAM "sched_getparam", 122 SCHED_SETAFFINITY "sched_setaffinity",
    123 SCHED_GETAFFINITY "sched_getaffinity", 124 SCHED_YIELD "sched_yield",
    125 SCHED_GET_PRIORITY_MAX "sched_get_priority_max", 126 SCHED_GET_PRIORITY_MIN "sched_get_priority_min",
    129 KILL "kill", 130 TKILL "tkill", 131 TGKILL "tgkill", 132 SIGALTSTACK "sigaltstack",
    133 RT_SIGSUSPEND "rt_sigsuspend", 134 RT_SIGACTION "rt_sigaction", 135 RT_SIGPROCMASK "rt_sigprocmask",
    136 RT_SIGPENDING "rt_sigpending", 137 RT_SIGTIMEDWAIT "rt_sigtimedwait", 138 RT_SIGQUEUEINFO "rt_sigqueueinfo",
    139 RT_SIGRETURN "rt_sigreturn", 140 SETPRIORITY "setpriority", 141 GETPRIORITY "getpriority",
    148 GETRESUID "getresuid", 150 GETRESGID "getresgid", 153 TIMES "times", 154 SETPGID "setpgid",
    155 GETPGID "getpgid", 156 GETSID "getsid", 158 GETGROUPS "getgroups", 160 UNAME "uname",
    163 GETRLIMIT "getrlimit", 164 SETRLIMIT "setrlimit", 165 GETRUSAGE "getrusage", 166 UMASK "umask",
    167 PRCTL "prctl", 168 GETCPU "getcpu", 169 GETTIMEOFDAY "gettimeofday", 172 GETPID "getpid",
    173 GETPPID "getppid", 174 GETUID "getuid", 175 GETEUID "geteuid", 176 GETGID "getgid", 177 GETEGID "getegid",
    178 GETTID "gettid", 179 SYSINFO "sysinfo", 213 READAHEAD "readahead", 214 BRK "brk", 215 MUNMAP "munmap",
    216 MREMAP "mremap", 220 CLONE "clone", 222 MMAP "mmap", 223 FADVISE64 "fadvise64", 226 MPROTECT "mprotect",
    227 MSYNC "msync", 228 MLOCK "mlock", 229 MUNLOCK "munlock", 230 MLOCKALL "mlockall",
    231 MUNLOCKALL "munlockall", 232 MINCORE "mincore", 233 MADVISE "madvise",
    240 RT_TGSIGQUEUEINFO "rt_tgsigqueueinfo", 258 RISCV_HWPROBE "riscv_hwprobe",
    259 RISCV_FLUSH_ICACHE "riscv_flush_icache", 260 WAIT4 "wait4", 261 PRLIMIT64 "prlimit64",
    276 RENAMEAT2 "renameat2", 278 GETRANDOM "getrandom", 283 MEMBARRIER "membarrier",
    285 COPY_FILE_RANGE "copy_file_range", 291 STATX "statx", 293 RSEQ "rseq", 435 CLONE3 "clone3",
    436 CLOSE_RANGE "close_range", 439 FACCESSAT2 "faccessat2",
}

/// All others.
#[rustfmt::skip]
static OTHERS: &[(u16, &str)] = &[
    (0, "io_setup"), (1, "io_destroy"), (2, "io_submit"), (3, "io_cancel"), (4, "io_getevents"), (5, "setxattr"),
    (6, "lsetxattr"), (7, "fsetxattr"), (8, "getxattr"), (9, "lgetxattr"), (10, "fgetxattr"), (11, "listxattr"),
    (12, "llistxattr"), (13, "flistxattr"), (14, "removexattr"), (15, "lremovexattr"), (16, "fremovexattr"),
    (18, "lookup_dcookie"), (19, "eventfd2"), (20, "epoll_create1"), (21, "epoll_ctl"), (22, "epoll_pwait"),
    (26, "inotify_init1"), (27, "inotify_add_watch"), (28, "inotify_rm_watch"), (30, "ioprio_set"),
    (31, "ioprio_get"), (33, "mknodat"), (39, "umount2"), (40, "mount"), (41, "pivot_root"), (42, "nfsservctl"),
    (51, "chroot"), (58, "vhangup"), (60, "quotactl"), (74, "signalfd4"), (75, "vmsplice"), (76, "splice"),
    (77, "tee"), (85, "timerfd_create"), (86, "timerfd_settime"), (87, "timerfd_gettime"), (89, "acct"),
    (90, "capget"), (91, "capset"), (97, "unshare"), (104, "kexec_load"), (105, "init_module"),
    (106, "delete_module"), (107, "timer_create"), (108, "timer_gettime"), (109, "timer_getoverrun"),
    (110, "timer_settime"), (111, "timer_delete"), (112, "clock_settime"), (116, "syslog"), (117, "ptrace"),
    (127, "sched_rr_get_interval"), (128, "restart_syscall"), (142, "reboot"), (143, "setregid"), (144, "setgid"),
    (145, "setreuid"), (146, "setuid"), (147, "setresuid"), (149, "setresgid"), (151, "setfsuid"),
    (152, "setfsgid"), (157, "setsid"), (159, "setgroups"), (161, "sethostname"), (162, "setdomainname"),
    (170, "settimeofday"), (171, "adjtimex"), (180, "mq_open"), (181, "mq_unlink"), (182, "mq_timedsend"),
    (183, "mq_timedreceive"), (184, "mq_notify"), (185, "mq_getsetattr"), (186, "msgget"), (187, "msgctl"),
    (188, "msgrcv"), (189, "msgsnd"), (190, "semget"), (191, "semctl"), (192, "semtimedop"), (193, "semop"),
    (194, "shmget"), (195, "shmctl"), (196, "shmat"), (197, "shmdt"), (198, "socket"), (199, "socketpair"),
    (200, "bind"), (201, "listen"), (202, "accept"), (203, "connect"), (204, "getsockname"), (205, "getpeername"),
    (206, "sendto"), (207, "recvfrom"), (208, "setsockopt"), (209, "getsockopt"), (210, "shutdown"),
    (211, "sendmsg"), (212, "recvmsg"), (217, "add_key"), (218, "request_key"), (219, "keyctl"), (221, "execve"),
    (224, "swapon"), (225, "swapoff"), (234, "remap_file_pages"), (235, "mbind"), (236, "get_mempolicy"),
    (237, "set_mempolicy"), (238, "migrate_pages"), (239, "move_pages"), (241, "perf_event_open"), (242, "accept4"),
    (243, "recvmmsg"), (262, "fanotify_init"), (263, "fanotify_mark"), (264, "name_to_handle_at"),
    (265, "open_by_handle_at"), (266, "clock_adjtime"), (267, "syncfs"), (268, "setns"), (269, "sendmmsg"),
    (270, "process_vm_readv"), (271, "process_vm_writev"), (272, "kcmp"), (273, "finit_module"),
    (274, "sched_setattr"), (275, "sched_getattr"), (277, "seccomp"), (279, "memfd_create"), (280, "bpf"),
    (281, "execveat"), (282, "userfaultfd"), (284, "mlock2"), (286, "preadv2"), (287, "pwritev2"),
    (288, "pkey_mprotect"), (289, "pkey_alloc"), (290, "pkey_free"), (292, "io_pgetevents"),
    (294, "kexec_file_load"), (424, "pidfd_send_signal"), (425, "io_uring_setup"), (426, "io_uring_enter"),
    (427, "io_uring_register"), (428, "open_tree"), (429, "move_mount"), (430, "fsopen"), (431, "fsconfig"),
    (432, "fsmount"), (433, "fspick"), (434, "pidfd_open"), (437, "openat2"), (438, "pidfd_getfd"),
    (440, "process_madvise"), (441, "epoll_pwait2"), (442, "mount_setattr"), (443, "quotactl_fd"),
    (444, "landlock_create_ruleset"), (445, "landlock_add_rule"), (446, "landlock_restrict_self"),
    (447, "memfd_secret"), (448, "process_mrelease"), (449, "futex_waitv"), (450, "set_mempolicy_home_node"),
];
