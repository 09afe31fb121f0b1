/* Threads of the C library: locks, conditions, barriers, local storage, timeouts. */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 4, TURNS = 3000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static pthread_rwlock_t rwlock = PTHREAD_RWLOCK_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static sem_t semaphore;
static long plain;
static atomic_long shared;
static atomic_int small;
static __thread long own = 5;
static int turn, started;

static void run_once(void) { started++; }

static void *count(void *argument)
{
    long number = (long)argument;
    pthread_once(&once, run_once);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < TURNS; i++) {
        pthread_mutex_lock(&lock);
        plain++;
        pthread_mutex_unlock(&lock);
        atomic_fetch_add(&shared, number);
        int old = atomic_load(&small);
        while (!atomic_compare_exchange_weak(&small, &old, old + 1))
            ;
        own += number;
        if (i % 1000 == 0) {
            pthread_rwlock_rdlock(&rwlock);
            pthread_rwlock_unlock(&rwlock);
            sched_yield();
        }
    }
    return (void *)own;
}

static void counters(void)
{
    pthread_t threads[THREADS];
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (long n = 0; n < THREADS; n++)
        pthread_create(&threads[n], NULL, count, (void *)n);
    for (int n = 0; n < THREADS; n++) {
        void *result;
        pthread_join(threads[n], &result);
        printf("thread %d: %ld\n", n, (long)result);
    }
    printf("counted %ld %ld %d, own %ld, once %d\n", plain, (long)shared, small, own, started);
}

static void *answer(void *argument)
{
    (void)argument;
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 2 == 0)
            pthread_cond_wait(&changed, &lock);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    return NULL;
}

static void conditions(void)
{
    pthread_t thread;
    pthread_create(&thread, NULL, answer, NULL);
    for (int i = 0; i < 100; i++) {
        pthread_mutex_lock(&lock);
        while (turn % 2 == 1)
            pthread_cond_wait(&changed, &lock);
        turn++;
        pthread_cond_broadcast(&changed);
        pthread_mutex_unlock(&lock);
    }
    pthread_join(thread, NULL);
    printf("turns %d\n", turn);
}

static void timeouts(void)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += 20000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&lock);
    int waited = pthread_cond_timedwait(&changed, &lock, &until);
    pthread_mutex_unlock(&lock);
    sem_init(&semaphore, 0, 0);
    int taken = sem_timedwait(&semaphore, &until);
    printf("condition %s, semaphore %d %s\n", strerror(waited), taken, strerror(errno));
}

static void *sleep_then_post(void *argument)
{
    usleep((long)argument * 100000);
    printf("slept %ld\n", (long)argument);
    sem_post(&semaphore);
    return NULL;
}

static void sleepers(void)
{
    for (long n = 3; n > 0; n--) {
        pthread_t thread;
        pthread_create(&thread, NULL, sleep_then_post, (void *)n);
        pthread_detach(thread);
    }
    for (int n = 0; n < 3; n++)
        sem_wait(&semaphore);
}

static pthread_mutex_t robust;

static void *die_with_lock(void *argument)
{
    (void)argument;
    pthread_mutex_lock(&robust);
    return NULL;
}

static void dead_owner(void)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&robust, &attributes);
    pthread_t thread;
    pthread_create(&thread, NULL, die_with_lock, NULL);
    pthread_join(thread, NULL);
    printf("lock of a dead owner: %s\n", strerror(pthread_mutex_lock(&robust)));
    pthread_mutex_consistent(&robust);
    pthread_mutex_unlock(&robust);
}

static int ends[2];

static void *feed(void *argument)
{
    (void)argument;
    char block[5000];
    memset(block, 'x', sizeof block);
    for (int i = 0; i < 40; i++)
        if (write(ends[1], block, sizeof block) != (ssize_t)sizeof block)
            abort();
    close(ends[1]);
    return NULL;
}

static void through_a_pipe(void)
{
    pthread_t thread;
    if (pipe(ends))
        abort();
    pthread_create(&thread, NULL, feed, NULL);
    long total = 0, got;
    char buffer[777];
    while ((got = read(ends[0], buffer, sizeof buffer)) > 0)
        total += got;
    pthread_join(thread, NULL);
    close(ends[0]);
    printf("through a pipe: %ld\n", total);
}

static void *last(void *argument)
{
    (void)argument;
    usleep(10000);
    puts("the last thread ends");
    return NULL;
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    printf("%d %d\n", getpid() == gettid(), getpid() > 0);
    counters();
    conditions();
    timeouts();
    sleepers();
    dead_owner();
    through_a_pipe();
    pthread_t thread;
    pthread_create(&thread, NULL, last, NULL);
    pthread_exit(NULL);
}
