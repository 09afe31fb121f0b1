// A program that takes the place of another one, at the same addresses. Arguments: a number.
#include <stdlib.h>

static __attribute__((noinline)) unsigned other_step(unsigned value, int i) {
    if (value & 8)
        return value * 3 + (unsigned)i;
    return value >> 1 ^ 0x2D;
}

int main(int argc, char **argv) {
    unsigned value = argc > 1 ? (unsigned)atoi(argv[1]) : 7;
    for (int i = 0; i < 300; i++)
        value = other_step(value, i);
    return (int)(value & 0x3F);
}
