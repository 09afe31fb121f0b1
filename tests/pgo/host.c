/* The runtime of testdata/programs on a system with a C library. */
#include <stdio.h>
#include <stdlib.h>
#include "runtime.h"

void put(const char *text) { fputs(text, stdout); }
void put_number(u64 value) { printf("%llu", value); }
void put_line(const char *what, u64 value) { printf("%s %llu\n", what, value); }

u32 next_random(u32 *state)
{
    u32 x = *state;
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    return *state = x;
}

int main(int argc, char **argv)
{
    return program(argc > 1 ? (u32)atoi(argv[1]) : 1);
}
