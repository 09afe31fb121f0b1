// Threads that start, end, and fault on their own, a few at a time; a child that must not show.
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static __thread sigjmp_buf escape;
static uint64_t results[6];
static pthread_barrier_t together;

static void jump_out(int signal) {
    siglongjmp(escape, signal);
}

__attribute__((noinline)) static uint64_t straight(volatile uint64_t *good, volatile uint64_t *bad) {
    uint64_t a = good[0] + 3;
    good[1] = a * 5;
    uint64_t b = *bad;
    good[0] = a + b;
    return b;
}

static void *work(void *argument) {
    uintptr_t number = (uintptr_t)argument;
    if (number > 0)
        pthread_barrier_wait(&together);
    uint64_t good[2] = {number, 0};
    volatile int faults = 0;
    for (volatile int i = 0; i < 40; i++) {
        if (sigsetjmp(escape, 1) == 0)
            straight(good, i % 4 ? good : (uint64_t *)8);
        else
            faults++;
    }
    results[number] = faults;
    return 0;
}

int main(void) {
    signal(SIGSEGV, jump_out);
    work(0);
    if (fork() == 0) {
        for (int i = 0; i < 10; i++)
            work(0);
        _exit(0);
    }
    wait(0);
    pthread_t threads[6];
    pthread_barrier_init(&together, 0, 3);
    for (uintptr_t round = 0; round < 2; round++) {
        for (uintptr_t i = 1; i < 4; i++)
            pthread_create(&threads[i], 0, work, (void *)i);
        for (uintptr_t i = 1; i < 4; i++)
            pthread_join(threads[i], 0);
    }
    for (int i = 0; i < 4; i++)
        printf("%d: %d faults\n", i, (int)results[i]);
    return 0;
}
