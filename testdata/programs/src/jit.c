/* Code made at run time, RISC-V only: functions that the program writes, calls, changes and calls again. */
#include "runtime.h"
#include "linux_riscv.h"

enum { READ = 1, WRITE = 2, EXECUTE = 4, PRIVATE_ANONYMOUS = 0x22, PAGE = 4096, DONTNEED = 4 };

typedef u64 (*function)(u64);

static void synchronise(void *start, void *end)
{
    linux_call(SYS_FLUSH_ICACHE, (long)start, (long)end, 0, 0, 0, 0);
    __asm__ volatile("fence.i" ::: "memory");
}

/* addi a0, a0, n */
static u32 add_immediate(u32 n)
{
    return n << 20 | 10 << 15 | 10 << 7 | 0x13;
}

enum { RETURN = 0x00008067 };

/* n additions, and a return. */
static function make(u32 *at, u32 n)
{
    for (u32 i = 0; i < n; i++)
        at[i] = add_immediate(i + 1);
    at[n] = RETURN;
    synchronise(at, at + n + 1);
    return (function)at;
}

int program(u32 scale)
{
    u32 *code = (u32 *)linux_call(SYS_MMAP, 0, 2 * PAGE, READ | WRITE | EXECUTE, PRIVATE_ANONYMOUS, -1, 0);
    put_line("made", make(code, 3)(100));
    put_line("made again", make(code, 5)(100));

    /* Over the end of a page. */
    put_line("over two pages", make(code + PAGE / 4 - 3, 7)(0));

    /* One instruction at a time is changed between calls. */
    u64 sum = 0;
    function changing = make(code, 1);
    for (u32 i = 0; i < 100 * scale; i++) {
        code[0] = add_immediate(i & 0x3ff);
        synchronise(code, code + 1);
        sum += changing(i);
    }
    put_line("changed", sum);

    /* Data beside code changes without an effect on it. */
    volatile u32 *data = code + 64;
    for (u32 i = 0; i < 100 * scale; i++) {
        *data = i;
        sum += changing(*data);
    }
    put_line("beside data", sum);

    /* Written, then made executable; then data again. */
    u32 *strict = (u32 *)linux_call(SYS_MMAP, 0, PAGE, READ | WRITE, PRIVATE_ANONYMOUS, -1, 0);
    make(strict, 2);
    linux_call(SYS_MPROTECT, (long)strict, PAGE, READ | EXECUTE, 0, 0, 0);
    put_line("executable", ((function)strict)(10));
    linux_call(SYS_MPROTECT, (long)strict, PAGE, READ | WRITE, 0, 0, 0);
    make(strict, 4);
    linux_call(SYS_MPROTECT, (long)strict, PAGE, READ | EXECUTE, 0, 0, 0);
    put_line("executable again", ((function)strict)(10));

    /* Memory that is not needed becomes zero. */
    linux_call(SYS_MADVISE, (long)code, 2 * PAGE, DONTNEED, 0, 0, 0);
    put_line("forgotten", code[0] | code[PAGE / 4]);
    put_line("and made anew", make(code, 6)(0));
    return 0;
}
