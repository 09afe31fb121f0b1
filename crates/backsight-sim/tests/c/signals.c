/* Signals of the C library: handlers, masks, waiting, interrupted system calls, jumps out of handlers. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

static volatile int handled, last_value, last_code, order[16];
static sigjmp_buf back;
static int ends[2];

static void note(int signal, siginfo_t *info, void *context)
{
    (void)context;
    order[handled++ % 16] = signal;
    last_value = info->si_value.sival_int;
    last_code = info->si_code;
}

static void set(int signal, void (*handler)(int, siginfo_t *, void *), int flags)
{
    struct sigaction action = {.sa_sigaction = handler, .sa_flags = flags | SA_SIGINFO};
    sigemptyset(&action.sa_mask);
    sigaction(signal, &action, NULL);
}

static void own_signals(void)
{
    set(SIGUSR1, note, 0);
    raise(SIGUSR1);
    kill(getpid(), SIGUSR1);
    printf("handled %d, code %d\n", handled, last_code);

    sigset_t some, old, pending;
    sigemptyset(&some);
    sigaddset(&some, SIGRTMIN);
    sigaddset(&some, SIGRTMIN + 1);
    sigaddset(&some, SIGUSR1);
    set(SIGRTMIN, note, 0);
    set(SIGRTMIN + 1, note, 0);
    sigprocmask(SIG_BLOCK, &some, &old);
    handled = 0;
    for (int i = 0; i < 3; i++)
        sigqueue(getpid(), SIGRTMIN + 1 - i % 2, (union sigval){.sival_int = 10 + i});
    raise(SIGUSR1);
    raise(SIGUSR1);
    sigpending(&pending);
    printf("pending %d %d\n", sigismember(&pending, SIGRTMIN), sigismember(&pending, SIGUSR2));
    siginfo_t info;
    printf("waited for %d, value %d\n", sigwaitinfo(&some, &info) == SIGUSR1, info.si_signo == SIGUSR1);
    sigprocmask(SIG_SETMASK, &old, NULL);
    printf("handled %d, last value %d\n", handled, last_value);
    sigdelset(&some, SIGUSR1);
    sigprocmask(SIG_BLOCK, &some, &old);
    int waited = sigtimedwait(&some, &info, &(struct timespec){0, 5000000});
    printf("waited %d %s\n", waited, strerror(errno));
    sigprocmask(SIG_SETMASK, &old, NULL);
}

static void jump(int signal, siginfo_t *info, void *context)
{
    ucontext_t *interrupted = context;
    last_code = info->si_code;
    siglongjmp(back, interrupted->uc_mcontext.__gregs[0] != 0 ? signal : -1);
}

static int overflow(int depth)
{
    volatile char much[4096];
    much[0] = (char)depth;
    if (depth < 0)
        return 0;
    return overflow(depth + 1) + much[0];
}

static void faults(void)
{
    static char stack[1 << 16];
    sigaltstack(&(stack_t){.ss_sp = stack, .ss_size = sizeof stack}, NULL);
    set(SIGSEGV, jump, SA_ONSTACK);
    set(SIGILL, jump, 0);
    set(SIGTRAP, jump, 0);
    int signal;
    if ((signal = sigsetjmp(back, 1)) == 0)
        *(volatile int *)16 = 1;
    printf("fault %d, code %d\n", signal, last_code);
    char *page = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if ((signal = sigsetjmp(back, 1)) == 0)
        *(volatile char *)page = 1;
    printf("fault %d, code %d\n", signal, last_code);
    if ((signal = sigsetjmp(back, 1)) == 0)
        __asm__ volatile("unimp");
    printf("fault %d, code %d\n", signal, last_code);
    if ((signal = sigsetjmp(back, 1)) == 0)
        __asm__ volatile("ebreak");
    printf("fault %d, code %d\n", signal, last_code);
    if ((signal = sigsetjmp(back, 1)) == 0)
        overflow(0);
    printf("stack overflow %d\n", signal);
}

static void alarms(void)
{
    sigset_t none;
    sigemptyset(&none);
    set(SIGALRM, note, 0);
    handled = 0;
    struct itimerval timer = {.it_interval = {0, 3000}, .it_value = {0, 3000}};
    setitimer(ITIMER_REAL, &timer, NULL);
    while (handled < 3)
        sigsuspend(&none);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    alarm(1);
    pause();
    struct timespec left;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 20000}}, NULL);
    int slept = nanosleep(&(struct timespec){5, 0}, &left);
    printf("alarms %d, slept %d %s, left %ld\n", handled >= 5, slept, strerror(errno), (long)left.tv_sec);
    /* While the program computes. */
    handled = 0;
    setitimer(ITIMER_REAL, &(struct itimerval){.it_value = {0, 2000}}, NULL);
    for (volatile long i = 0; !handled; i++)
        ;
    puts("interrupted a loop");
}

static volatile int done;

static void *reader(void *argument)
{
    char byte = 0;
    ssize_t got = read(ends[0], &byte, 1);
    int error = errno;
    printf("%s: %zd %s\n", (char *)argument, got, got < 0 ? strerror(error) : "");
    done = 1;
    return NULL;
}

static void interrupted_calls(void)
{
    pthread_t thread;
    if (pipe(ends))
        abort();
    set(SIGUSR2, note, SA_RESTART);
    handled = 0;
    pthread_create(&thread, NULL, reader, "restarted");
    for (int i = 0; i < 5; i++) {
        usleep(5000);
        pthread_kill(thread, SIGUSR2);
    }
    if (write(ends[1], "x", 1) != 1)
        abort();
    pthread_join(thread, NULL);
    set(SIGUSR2, note, 0);
    done = 0;
    pthread_create(&thread, NULL, reader, "interrupted");
    /* Until one comes while it waits. */
    while (!done) {
        usleep(5000);
        pthread_kill(thread, SIGUSR2);
    }
    pthread_join(thread, NULL);
    printf("handled %d\n", handled > 1);
    handled = 0;
    set(SIGPIPE, note, 0);
    close(ends[0]);
    printf("broken pipe %zd %s", write(ends[1], "x", 1), strerror(errno));
    printf(", handled %d\n", handled);
}

static volatile int inner;

static void deeper(int signal, siginfo_t *info, void *context)
{
    (void)info, (void)context;
    if (inner < 4) {
        inner++;
        raise(signal);
    }
    inner = inner * 10 + 1;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    own_signals();
    faults();
    set(SIGUSR1, deeper, SA_NODEFER);
    raise(SIGUSR1);
    printf("nested %d\n", inner);
    set(SIGUSR1, note, (int)SA_RESETHAND);
    raise(SIGUSR1);
    struct sigaction now;
    sigaction(SIGUSR1, NULL, &now);
    printf("reset %d\n", now.sa_handler == SIG_DFL);
    alarms();
    interrupted_calls();
    signal(SIGTERM, SIG_IGN);
    raise(SIGTERM);
    raise(SIGCHLD);
    signal(SIGTERM, SIG_DFL);
    fflush(stdout);
    raise(SIGTERM);
    puts("not reached");
}
