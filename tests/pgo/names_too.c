/* Local functions and variables that have the names of others in names.c. */
#include "runtime.h"

u64 other(u64 n);

static u64 only;

static u64 step(u64 n)
{
    u64 sum = 1;
    while (n > 1) {
        sum += n & 1 ? 3 * n : n / 2;
        n /= 2;
    }
    only++;
    return sum;
}

u64 other(u64 n) { return n & 1 ? step(n) : step(n * 7) + only; }
