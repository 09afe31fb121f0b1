/* 32-bit Arm only: A32 and T32 functions that call each other directly, through pointers and by tail calls,
 * with conditional instructions and IT blocks. */
#include "runtime.h"

#define A32 __attribute__((noinline, target("arm")))
#define T32 __attribute__((noinline, target("thumb")))

T32 static u32 thumb_step(u32 n);

A32 static u32 arm_step(u32 n)
{
    if (n < 2)
        return n + 1;
    return thumb_step(n & 1 ? n - 1 : n >> 1) + 1;
}

T32 static u32 thumb_step(u32 n)
{
    if (n < 2)
        return n;
    return arm_step(n & 2 ? n - 1 : n >> 1) ^ 5;
}

A32 static u32 arm_mix(u32 n) { return n * 3 + (n > 50 ? 7 : 1); }
T32 static u32 thumb_mix(u32 n) { return (n >> 1) ^ (n % 4 ? 0x55 : n << 3); }
T32 static u32 thumb_clamp(u32 n) { return n > 100000 ? n - 100000 : n < 16 ? n + 16 : n; }
A32 static u32 arm_clamp(u32 n) { return thumb_clamp(n); }

static u32 (*const table[])(u32) = { arm_mix, thumb_mix, arm_clamp, thumb_clamp, arm_step, thumb_step };

T32 static u32 thumb_loop(u32 count, u32 seed)
{
    u32 value = 1;
    for (u32 i = 0; i < count; i++)
        value = table[(next_random(&seed) >> 8) * 6 >> 24](value) & 0xFFFF;
    return value;
}

A32 static u32 arm_loop(u32 count, u32 seed)
{
    u32 value = 1;
    for (u32 i = 0; i < count; i++)
        value += table[(next_random(&seed) >> 8) * 6 >> 24](value & 0xFFFF);
    return value;
}

A32 int program(u32 scale)
{
    while (scale--) {
        put_line("thumb", thumb_loop(3000, 2463534242u + scale));
        put_line("arm", arm_loop(3000, 88172645u + scale));
    }
    return 0;
}
