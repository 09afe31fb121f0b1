/* Memory that the program has written is written again by system calls of many kinds, and then read. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/times.h>
#include <sys/uio.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

static union {
    unsigned char bytes[4096];
    struct stat stat;
    struct timespec time;
    struct utsname name;
    struct rlimit limit;
    struct pollfd poll[2];
    struct sigaction action;
    sigset_t set;
    struct tms times;
    int pair[2];
} area;

static unsigned long sum;

static void fill(void)
{
    memset(&area, 0x55, sizeof area);
    __asm__ volatile("" ::: "memory");
}

static void add(void)
{
    for (unsigned i = 0; i < sizeof area; i++)
        sum = sum * 31 + *(volatile unsigned char *)&area.bytes[i];
    fill();
}

int main(int argc, char **argv)
{
    (void)argc;
    fill();
    int file = open(argv[0], O_RDONLY);
    read(file, area.bytes, 3000);
    add();
    pread(file, area.bytes + 1, 77, 5);
    add();
    struct iovec parts[2] = { { area.bytes + 3, 10 }, { area.bytes + 100, 50 } };
    readv(file, parts, 2);
    add();
    fstat(file, &area.stat);
    add();
    uname(&area.name);
    add();
    getcwd((char *)area.bytes, sizeof area);
    add();
    getrandom(area.bytes, 33, 0);
    add();
    clock_gettime(CLOCK_MONOTONIC, &area.time);
    add();
    getrlimit(RLIMIT_STACK, &area.limit);
    add();
    times(&area.times);
    add();
    sigaction(SIGUSR1, 0, &area.action);
    add();
    sigprocmask(SIG_BLOCK, 0, &area.set);
    add();
    if (pipe(area.pair) == 0) {
        struct pollfd wanted = { area.pair[0], POLLIN, 0 };
        write(area.pair[1], "x", 1);
        area.poll[0] = wanted;
        poll(area.poll, 1, 1000);
    }
    add();
    printf("%lx\n", sum);
    return 0;
}
