// Dies in the middle of straight-line code.
#include <stdint.h>

__attribute__((noinline)) static uint64_t straight(volatile uint64_t *good, volatile uint64_t *bad) {
    uint64_t a = good[0] + 3, b = good[1] ^ a;
    good[2] = a * b;
    uint64_t c = *bad;
    good[3] = c + a;
    return good[2] + c;
}

int main(void) {
    uint64_t good[4] = {1, 2, 3, 4};
    for (int i = 0; i < 1000; i++)
        straight(good, good);
    return straight(good, (uint64_t *)16) == 1;
}
