/* System calls of 64-bit RISC-V Linux with up to six arguments, for the programs that need more than output. */
#ifndef LINUX_RISCV_H
#define LINUX_RISCV_H

static inline long linux_call(long number, long a, long b, long c, long d, long e, long f)
{
    register long a7 __asm__("a7") = number;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    register long a3 __asm__("a3") = d;
    register long a4 __asm__("a4") = e;
    register long a5 __asm__("a5") = f;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
    return a0;
}

enum {
    SYS_KILL = 129, SYS_TGKILL = 131, SYS_SIGALTSTACK = 132, SYS_SIGACTION = 134, SYS_SIGPROCMASK = 135,
    SYS_GETPID = 172, SYS_GETTID = 178, SYS_MUNMAP = 215, SYS_MMAP = 222, SYS_MPROTECT = 226, SYS_MADVISE = 233,
    SYS_FLUSH_ICACHE = 259,
};

#endif
