/* Memory, code made at run time, clocks, limits, and what is known about the machine. */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/times.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition) printf("%-60s %s\n", #condition, (condition) ? "yes" : "NO")

static int apply(int (*function)(int), int value) { return function(value); }

static void memory(void)
{
    char *area = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(area != MAP_FAILED && area[0] == 0);
    memset(area, 7, 4 * 4096);
    CHECK(madvise(area, 2 * 4096, MADV_DONTNEED) == 0);
    CHECK(area[0] == 0 && area[4096] == 0 && area[8192] == 7);
    char *larger = mremap(area, 4 * 4096, 64 * 4096, MREMAP_MAYMOVE);
    CHECK(larger != MAP_FAILED && larger[8192] == 7 && larger[63 * 4096] == 0);
    CHECK(munmap(larger, 64 * 4096) == 0);
    CHECK(mprotect(larger, 4096, PROT_READ) < 0 && errno == ENOMEM);
    void *wanted = (void *)0x1234560000;
    CHECK(mmap(wanted, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == wanted);
    char *all[200];
    for (int i = 0; i < 200; i++)
        memset(all[i] = malloc(100 * i), i, 100 * i);
    int good = 0;
    for (int i = 1; i < 200; i++)
        good += all[i][100 * i - 1] == (char)i;
    CHECK(good == 199);
    for (int i = 0; i < 200; i++)
        free(all[i]);
}

static void code(void)
{
    /* addi a0, a0, 5; ret */
    unsigned words[] = {0x00550513u, 0x00008067u};
    unsigned *made = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, words, 8);
    __builtin___clear_cache((char *)made, (char *)made + 64);
    long (*function)(long) = (long (*)(long))made;
    CHECK(function(7) == 12);
    made[0] = 0x00950513u;
    __builtin___clear_cache((char *)made, (char *)made + 64);
    CHECK(function(7) == 16);
    /* A function inside a function is called through code on the stack. */
    int sum = 0;
    int add(int value) { return sum += value; }
    for (int i = 0; i < 100; i++)
        apply(add, i);
    CHECK(sum == 4950);
}

static void clocks(void)
{
    struct timespec before, after, resolution;
    clock_gettime(CLOCK_MONOTONIC, &before);
    nanosleep(&(struct timespec){0, 2000000}, NULL);
    clock_gettime(CLOCK_MONOTONIC, &after);
    long passed = (after.tv_sec - before.tv_sec) * 1000000000l + after.tv_nsec - before.tv_nsec;
    CHECK(passed >= 2000000 && passed < 2000000000);
    CHECK(clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &after, NULL) == 0);
    CHECK(clock_getres(CLOCK_REALTIME, &resolution) == 0 && resolution.tv_sec == 0);
    CHECK(time(NULL) >= 1600000000);
    struct tms times_;
    CHECK(times(&times_) != -1);
    CHECK(clock() >= 0);
}

static void machine(void)
{
    struct utsname name;
    struct sysinfo information;
    struct rlimit limit;
    struct rusage usage;
    unsigned char random[64] = {0};
    cpu_set_t set;
    CHECK(uname(&name) == 0 && strcmp(name.sysname, "Linux") == 0 && strcmp(name.machine, "riscv64") == 0);
    CHECK(sysinfo(&information) == 0 && information.totalram > 0);
    CHECK(getrlimit(RLIMIT_STACK, &limit) == 0 && limit.rlim_cur > 0);
    CHECK(getrusage(RUSAGE_SELF, &usage) == 0);
    CHECK(getrandom(random, 64, 0) == 64 && memcmp(random, random + 32, 32) != 0);
    CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) >= 1);
    CHECK(sysconf(_SC_PAGESIZE) == 4096);
    CHECK(prctl(PR_SET_NAME, "name") == 0);
    CHECK(getppid() > 0 && getuid() == getuid() && getpid() == getpid());
    errno = 0;
    CHECK(getpriority(PRIO_PROCESS, 0) <= 20 && errno == 0);
}

int main(void)
{
    memory();
    code();
    clocks();
    machine();
    return 0;
}
