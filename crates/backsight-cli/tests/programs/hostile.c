// Programs that make it hard to record them, one for each word.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile unsigned long sink;

static void work(unsigned long rounds) {
    for (unsigned long n = 0; n < rounds; n++)
        sink += n & 1 ? n : 3;
}

// Each child forks the next one, for ever.
static void forks(void) {
    for (;;) {
        work(2000);
        pid_t child = fork();
        if (child > 0) {
            waitpid(child, 0, 0);
            _exit(0);
        }
        if (child < 0)
            _exit(9);
    }
}

static void closes(void) {
    work(200000);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    work(200000);
}

static void garbles(void) {
    work(200000);
    for (int fd = 3; fd < 64; fd++) {
        fcntl(fd, F_SETFL, O_NONBLOCK);
        if (write(fd, "\1\2\3\4\5\6\7\10garbage that is no chunk", 33) < 0)
            continue;
    }
    work(200000);
}

static void maps(void) {
    for (int n = 0; n < 1000; n++) {
        size_t size = n % 500 ? 4096 : (size_t)1 << 36;
        void *at = mmap(0, size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (at != MAP_FAILED && n % 2)
            munmap(at, size);
    }
    work(1000);
}

static void *writes(void *unused) {
    for (;;)
        if (write(1, "x", 1) < 0)
            return unused;
}

static void exits(void) {
    pthread_t threads[4];
    for (int n = 0; n < 4; n++)
        pthread_create(&threads[n], 0, writes, 0);
    work(100000);
    _exit(7);
}

static int deep(int n) {
    char room[4096];
    memset(room, n, sizeof room);
    sink += room[n & 4095];
    return deep(n + 1) + room[0];
}

// Code that is other code each time.
static void changes(unsigned long versions) {
    uint32_t *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    for (unsigned long n = 0; n < versions; n++) {
#if defined(__aarch64__)
        code[0] = 0xD2800000u | (uint32_t)(n & 0xFFFF) << 5;
        code[1] = 0xD65F03C0u;
#else
        code[0] = 0x00000513u | (uint32_t)(n & 0x7FF) << 20;
        code[1] = 0x00008067u;
#endif
        __builtin___clear_cache((char *)code, (char *)(code + 2));
        sink += ((unsigned long (*)(void))code)();
    }
}

int main(int count, char **words) {
    const char *word = count > 1 ? words[1] : "";
    if (!strcmp(word, "forks"))
        forks();
    if (!strcmp(word, "kills")) {
        work(3000000);
        kill(getppid(), SIGKILL);
        work(1UL << 40);
    }
    if (!strcmp(word, "closes"))
        closes();
    if (!strcmp(word, "garbles"))
        garbles();
    if (!strcmp(word, "maps"))
        maps();
    if (!strcmp(word, "exits"))
        exits();
    if (!strcmp(word, "deep"))
        return deep(0);
    if (!strcmp(word, "changes"))
        changes(strtoul(words[2], 0, 0));
    return 0;
}
