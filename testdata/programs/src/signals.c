/* Signals, RISC-V only: handlers for signals that the program sends to itself and for faults that its instructions
 * cause, one inside another, on a stack of their own, blocked and released. Each line says what was seen. */
#include "runtime.h"
#include "linux_riscv.h"

enum { ILL = 4, TRAP = 5, USR1 = 10, SEGV = 11, USR2 = 12 };
enum { SIGINFO = 4, ONSTACK = 0x08000000, NODEFER = 0x40000000 };
#define RESETHAND 0x80000000ul

struct action {
    void (*handler)(int, void *, void *);
    u64 flags;
    u64 mask;
};

/* The registers in the context that a handler is given: pc, then x1 to x31. */
enum { CONTEXT_REGISTERS = 176 / 8, SP = 2 };

static volatile u32 seen[65];
static volatile u32 depth, deepest, to_send;
static volatile u64 fault_address, fault_code;
static u8 own_stack[16384] __attribute__((aligned(16)));
static volatile u32 on_own_stack;

static void handle(int signal, void (*handler)(int, void *, void *), u64 flags)
{
    struct action action = {handler, flags | SIGINFO, 0};
    linux_call(SYS_SIGACTION, signal, (long)&action, 0, 8, 0, 0);
}

static void send(int signal)
{
    linux_call(SYS_TGKILL, linux_call(SYS_GETPID, 0, 0, 0, 0, 0, 0), linux_call(SYS_GETTID, 0, 0, 0, 0, 0, 0), signal, 0,
               0, 0);
}

static void count(int signal, void *info, void *context)
{
    (void)info, (void)context;
    seen[signal]++;
    u8 here;
    on_own_stack = &here >= own_stack && &here < own_stack + sizeof own_stack;
    /* Floating-point registers are the interrupted code's, and come back. */
    __asm__ volatile("fmv.d.x fs0, zero\nfmv.d.x fa0, zero" ::: "fs0", "fa0");
}

static void nest(int signal, void *info, void *context)
{
    depth++;
    if (depth > deepest)
        deepest = depth;
    if (to_send && to_send--)
        send(signal == USR1 ? USR2 : USR1);
    count(signal, info, context);
    depth--;
}

/* The instruction that faulted is passed over: all of them have four bytes. */
static void pass_over(int signal, void *info, void *context)
{
    seen[signal]++;
    fault_code = ((u32 *)info)[2];
    fault_address = ((u64 *)info)[2];
    ((u64 *)context)[CONTEXT_REGISTERS] += 4;
}

static void report_fault(const char *what, int signal)
{
    put(what);
    put_line(" times", seen[signal]);
    put_line("  code", fault_code);
}

static void faults(void)
{
    handle(SEGV, pass_over, 0);
    handle(ILL, pass_over, 0);
    handle(TRAP, pass_over, 0);
    u64 value = 7;
    __asm__ volatile(".option push\n.option norvc\nlui t0, 0x11\nslli t0, t0, 20\nld %0, 16(t0)\n.option pop"
                     : "+r"(value) : : "t0", "memory");
    report_fault("bad load", SEGV);
    put_line("  address", fault_address);
    put_line("  register", value);
    __asm__ volatile(".option push\n.option norvc\nsd zero, 0(%0)\n.option pop" : : "r"(&faults) : "memory");
    report_fault("bad store", SEGV);
    put_line("  at the function", fault_address == (u64)&faults);
    __asm__ volatile(".word 0xffffffff" ::: "memory");
    report_fault("illegal instruction", ILL);
    __asm__ volatile(".option push\n.option norvc\nebreak\n.option pop" ::: "memory");
    report_fault("breakpoint", TRAP);
}

int program(u32 scale)
{
    handle(USR1, count, 0);
    for (u32 i = 0; i < 3 * scale; i++)
        send(USR1);
    put_line("sent to itself", seen[USR1]);

    double kept = 1.5;
    __asm__ volatile("" : "+f"(kept));
    send(USR1);
    __asm__ volatile("" : "+f"(kept));
    put_line("kept in a floating-point register", (u64)(kept * 2));

    handle(USR1, nest, NODEFER);
    handle(USR2, nest, NODEFER);
    to_send = 2;
    send(USR1);
    put_line("deepest", deepest);
    /* Without NODEFER a signal waits until its handler has returned. */
    deepest = 0;
    to_send = 2;
    handle(USR1, nest, 0);
    handle(USR2, nest, 0);
    send(USR1);
    put_line("deepest without nesting of one signal", deepest);

    u64 stack[3] = {(u64)own_stack, 0, sizeof own_stack};
    linux_call(SYS_SIGALTSTACK, (long)stack, 0, 0, 0, 0, 0);
    handle(USR1, count, ONSTACK);
    send(USR1);
    put_line("on a stack of its own", on_own_stack);
    handle(USR1, count, 0);
    send(USR1);
    put_line("on the program's stack", !on_own_stack);

    u64 both = 1ul << (USR1 - 1) | 1ul << (USR2 - 1);
    handle(USR2, count, 0);
    seen[USR1] = seen[USR2] = 0;
    linux_call(SYS_SIGPROCMASK, 0, (long)&both, 0, 8, 0, 0);
    send(USR1);
    send(USR2);
    send(USR1);
    put_line("while blocked", seen[USR1] + seen[USR2]);
    linux_call(SYS_SIGPROCMASK, 1, (long)&both, 0, 8, 0, 0);
    put_line("after release", seen[USR1] + seen[USR2]);

    handle(USR1, count, RESETHAND);
    send(USR1);
    struct action action = {0, 0, 0};
    linux_call(SYS_SIGACTION, USR1, 0, (long)&action, 8, 0, 0);
    put_line("handler that was used up", (u64)action.handler);

    faults();
    return 0;
}
