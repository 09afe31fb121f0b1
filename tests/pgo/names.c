/* Local functions that have the names of others in names_too.c. */
#include "runtime.h"

u64 other(u64 n);

static u32 count;

static u64 step(u64 n)
{
    u64 sum = 0;
    for (u64 i = 0; i < n; i++)
        sum += i % 3 ? i : 2 * i;
    count++;
    return sum;
}

static u64 only(u64 n) { return n > 5 ? step(n) : step(n + 1); }

int program(u32 scale)
{
    u64 sum = 0;
    for (u32 i = 0; i < 300 * scale; i++)
        sum += only(i % 17) + other(i % 13);
    put_line("sum", sum);
    put_line("count", count);
    return 0;
}
