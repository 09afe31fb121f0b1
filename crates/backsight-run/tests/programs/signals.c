// Faults in the middle of straight-line code, with handlers that jump out, that repair and return, and that skip.
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <ucontext.h>
#include <unistd.h>

static sigjmp_buf escape;
static volatile int alarms, users, repaired, skipped;
static char *page;

static void jump_out(int signal) {
    siglongjmp(escape, signal);
}

static void repair(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info, (void)context;
    mprotect(page, 4096, PROT_READ | PROT_WRITE);
    repaired++;
}

static void skip(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    ucontext_t *at = context;
#if defined(__aarch64__)
    at->uc_mcontext.pc += 4;
#elif defined(__arm__)
    at->uc_mcontext.arm_pc += at->uc_mcontext.arm_cpsr & 0x20 ? 2 : 4;
#else
    at->uc_mcontext.__gregs[REG_PC] += 4;
#endif
    skipped++;
}

static void user(int signal) {
    (void)signal;
    users++;
}

static void alarmed(int signal) {
    (void)signal;
    alarms++;
}

__attribute__((noinline)) static uint64_t straight(volatile uint64_t *good, volatile uint64_t *bad) {
    uint64_t a = good[0] + 3, b = good[1] ^ a;
    good[2] = a * b;
    uint64_t c = *bad; // may stop the block here
    good[3] = c + a;
    return good[2] + c;
}

static void set(int signal, void (*handler)(int), void (*info)(int, siginfo_t *, void *)) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (info) {
        action.sa_sigaction = info;
        action.sa_flags = SA_SIGINFO;
    } else {
        action.sa_handler = handler;
    }
    sigaction(signal, &action, 0);
}

int main(int argc, char **argv) {
    (void)argv;
    uint64_t good[4] = {1, 2, 3, 4};
    uint64_t sum = straight(good, good);
    set(SIGSEGV, jump_out, 0);
    for (int i = 0; i < 5; i++) {
        if (sigsetjmp(escape, 1) == 0)
            sum += straight(good, (uint64_t *)16);
        else
            sum ^= good[2];
    }
    page = mmap(0, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    set(SIGSEGV, 0, repair);
    sum += straight(good, (uint64_t *)page);
    sum += straight(good, (uint64_t *)page);
    set(SIGILL, 0, skip);
#if defined(__aarch64__)
    __asm__ volatile("udf #0");
#elif defined(__thumb__)
    __asm__ volatile("udf #0");
#elif defined(__arm__)
    __asm__ volatile("udf #0");
#else
    __asm__ volatile(".insn 4, 0xffffffff & ~0x7f | 0x0b");
#endif
    set(SIGUSR1, user, 0);
    for (int i = 0; i < 3; i++)
        kill(getpid(), SIGUSR1);
    if (argc > 1) {
        set(SIGALRM, alarmed, 0);
        struct itimerval every = {{0, 2000}, {0, 2000}};
        setitimer(ITIMER_REAL, &every, 0);
        for (volatile unsigned i = 0; alarms < 5; i++)
            sum += straight(good, good);
        printf("%d alarms\n", alarms >= 5);
    }
    printf("%d repaired, %d skipped, %d users\n", repaired, skipped, users);
    return sum == 1;
}
