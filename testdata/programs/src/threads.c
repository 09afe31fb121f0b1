/* Three threads beside the first, started as the C library starts them; each sorts numbers of its own, and the
 * first waits for all. */
#include "runtime.h"

enum { THREADS = 3, STACK = 16384, COUNT = 200 };
/* VM, FS, FILES, SIGHAND, THREAD, SYSVSEM, CHILD_CLEARTID: what QEMU takes for a thread. */
enum { FLAGS = 0x100 | 0x200 | 0x400 | 0x800 | 0x10000 | 0x40000 | 0x200000 };

static u8 stacks[THREADS][STACK] __attribute__((aligned(16)));
static volatile u32 results[THREADS];
static volatile u32 running[THREADS];

/* clone(flags, stack, parent_tid, tls, child_tid): the new thread calls `work` and ends. */
void start_thread(void *stack, volatile u32 *running, u32 number);

#if defined(__riscv)
__asm__(".globl start_thread\n.type start_thread, @function\nstart_thread:\n"
        "mv t0, a2\nmv a4, a1\nmv a1, a0\nli a0, 0x250f00\nli a2, 0\nli a3, 0\nli a7, 220\necall\n"
        "beqz a0, 1f\nret\n1: mv a0, t0\ncall work\nli a0, 0\nli a7, 93\necall\n.size start_thread, . - start_thread\n");
/* sched_yield */
#define WAIT() __asm__ volatile("li a7, 124\necall" ::: "a0", "a7", "memory")
#elif defined(__aarch64__)
__asm__(".globl start_thread\n.type start_thread, %function\nstart_thread:\n"
        "mov w9, w2\nmov x4, x1\nmov x1, x0\nmov x0, #0x0f00\nmovk x0, #0x25, lsl #16\nmov x2, #0\nmov x3, #0\n"
        "mov x8, #220\nsvc #0\ncbz x0, 1f\nret\n1: mov w0, w9\nbl work\nmov x0, #0\nmov x8, #93\nsvc #0\n"
        ".size start_thread, . - start_thread\n");
#define WAIT() __asm__ volatile("mov x8, #124\nsvc #0" ::: "x0", "x8", "memory")
#else
#error "no threads for this processor"
#endif

_Static_assert(FLAGS == 0x250f00, "the flags in start_thread");

__attribute__((used)) void work(u32 number)
{
    u32 values[COUNT];
    u32 seed = 2463534242u + number;
    for (u32 i = 0; i < COUNT; i++) {
        u32 value = next_random(&seed) >> 8;
        u32 at = i;
        for (; at > 0 && values[at - 1] > value; at--)
            values[at] = values[at - 1];
        values[at] = value;
    }
    u32 sum = 0;
    for (u32 i = 0; i < COUNT; i++)
        sum = sum * 31 + values[i];
    results[number] = sum;
}

int program(u32 scale)
{
    (void)scale;
    for (u32 number = 0; number < THREADS; number++) {
        running[number] = 1;
        start_thread(stacks[number] + STACK, &running[number], number);
    }
    for (u32 number = 0; number < THREADS; number++) {
        /* The kernel clears the word when the thread has ended. */
        for (u32 turns = 0; running[number] && turns < 10000000; turns++)
            WAIT();
        put_line("thread", results[number]);
    }
    return 0;
}
