#include "runtime.h"

#if defined(__riscv)
static long system_call(long number, long a, long b, long c)
{
    register long a7 __asm__("a7") = number;
    register long a0 __asm__("a0") = a;
    register long a1 __asm__("a1") = b;
    register long a2 __asm__("a2") = c;
    __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2) : "memory");
    return a0;
}
enum { SYS_WRITE = 64, SYS_EXIT = 93 };
__asm__(".globl _start\n.type _start, @function\n_start:\n"
        ".option push\n.option norelax\nla gp, __global_pointer$\n.option pop\n"
        "mv a0, sp\nandi sp, sp, -16\ncall start\n.size _start, . - _start\n");
#elif defined(__aarch64__)
static long system_call(long number, long a, long b, long c)
{
    register long x8 __asm__("x8") = number;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    __asm__ volatile("svc #0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2) : "memory");
    return x0;
}
enum { SYS_WRITE = 64, SYS_EXIT = 93 };
__asm__(".globl _start\n.type _start, %function\n_start:\n"
        "mov x29, #0\nmov x30, #0\nmov x0, sp\nbl start\n.size _start, . - _start\n");
#elif defined(__arm__)
static long system_call(long number, long a, long b, long c)
{
    /* Thumb code keeps its frame pointer in r7, so the number is moved in by hand. */
    register long r0 __asm__("r0") = a;
    register long r1 __asm__("r1") = b;
    register long r2 __asm__("r2") = c;
    __asm__ volatile("push {r7}\nmov r7, %1\nsvc #0\npop {r7}"
                     : "+r"(r0) : "r"(number), "r"(r1), "r"(r2) : "memory");
    return r0;
}
enum { SYS_WRITE = 4, SYS_EXIT = 1 };
__asm__(".arm\n.globl _start\n.type _start, %function\n_start:\n"
        "mov fp, #0\nmov lr, #0\nmov r0, sp\nbic sp, sp, #7\nblx start\n.size _start, . - _start\n");
#else
#error "no start code for this processor"
#endif

/* The compiler calls these for copies and clears of its own making. */
void *memcpy(void *to, const void *from, size count)
{
    u8 *t = to;
    const u8 *f = from;
    while (count--)
        *t++ = *f++;
    return to;
}

void *memset(void *to, int value, size count)
{
    u8 *t = to;
    while (count--)
        *t++ = (u8)value;
    return to;
}

void put(const char *text)
{
    size length = 0;
    while (text[length])
        length++;
    system_call(SYS_WRITE, 1, (long)text, (long)length);
}

void put_number(u64 value)
{
    char digits[21];
    char *first = digits + 20;
    *first = 0;
    do {
        /* Division by a constant of a u64 needs a library on 32-bit Arm; numbers there are small. */
        u64 quotient = value >> 32 ? value / 10 : (u32)value / 10;
        *--first = (char)('0' + (u32)(value - quotient * 10));
        value = quotient;
    } while (value);
    put(first);
}

void put_line(const char *what, u64 value)
{
    put(what);
    put(" ");
    put_number(value);
    put("\n");
}

u32 next_random(u32 *state)
{
    u32 x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

__attribute__((used, noreturn)) void start(long *stack)
{
    long argc = stack[0];
    u32 scale = 0;
    if (argc > 1)
        for (const char *p = (const char *)stack[2]; *p >= '0' && *p <= '9'; p++)
            scale = scale * 10 + (u32)(*p - '0');
    int status = program(scale ? scale : 1);
    for (;;)
        system_call(SYS_EXIT, status, 0, 0);
}
