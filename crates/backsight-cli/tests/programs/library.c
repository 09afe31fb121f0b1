// A library in two versions that look alike from outside, branch in other places, and have other names inside.
#ifdef SECOND
static __attribute__((noinline)) long second_step(long result, long i) {
    if ((result ^ i) & 2)
        result += i;
    else if (result & 1)
        result -= 3;
    return result * 5 + 1;
}
#define step second_step
#else
static __attribute__((noinline)) long first_step(long result, long i) {
    result += i & 5;
    if (result & 4)
        result ^= 0x55;
    return result;
}
#define step first_step
#endif

long work(long value) {
    long result = value;
    for (long i = 0; i < 60; i++)
        result = step(result, i);
    return result;
}
