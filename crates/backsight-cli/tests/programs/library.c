// A library in two versions that look alike from outside and branch in other places.
long work(long value) {
    long result = value;
    for (long i = 0; i < 60; i++) {
#ifdef SECOND
        if ((result ^ i) & 2)
            result += i;
        else if (result & 1)
            result -= 3;
        result = result * 5 + 1;
#else
        result += i & value;
        if (result & 4)
            result ^= 0x55;
#endif
    }
    return result;
}
