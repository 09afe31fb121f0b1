// A program that changes while it runs: children, of which some become another program, threads, libraries that come and
// go at the same addresses, and code that it makes itself, again and again in the same memory. Arguments: a folder with
// libfirst.so, libsecond.so and other; the number of children.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const char *folder;
static long sum;

// Loads a library, calls it, and unloads it: the next one comes to the same addresses.
static long with_library(const char *name, long value) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    void *library = dlopen(path, RTLD_NOW);
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        exit(3);
    }
    long (*work)(long) = (long (*)(long))dlsym(library, "work");
    long result = work(value);
    dlclose(library);
    return result;
}

// A compiler for one loop: adds `step` to a sum `count` times, in a way that depends on `shape`.
static size_t compile(uint32_t *code, int shape, int count, int step) {
    size_t n = 0;
#if defined(__aarch64__)
    code[n++] = 0xD2800001 | (uint32_t)count << 5; // mov x1, #count
    size_t again = n;
    for (int i = 0; i < shape; i++)
        code[n++] = 0x91000000 | (uint32_t)step << 10; // add x0, x0, #step
    if (shape & 1) {
        code[n++] = 0x36000040; // tbz w0, #0, over the next
        code[n++] = 0x91000400; // add x0, x0, #1
    }
    code[n++] = 0xF1000421; // subs x1, x1, #1
    code[n] = 0x54000001 | ((uint32_t)(again - n) & 0x7FFFF) << 5; // b.ne again
    n++;
    code[n++] = 0xD65F03C0; // ret
#elif defined(__arm__)
    code[n++] = 0xE3A01000 | (uint32_t)(count & 0xFF); // mov r1, #count
    size_t again = n;
    for (int i = 0; i < shape; i++)
        code[n++] = 0xE2800000 | (uint32_t)step; // add r0, r0, #step
    code[n++] = 0xE2511001; // subs r1, r1, #1
    code[n] = 0x1A000000 | ((uint32_t)(again - n - 2) & 0xFFFFFF); // bne again
    n++;
    code[n++] = 0xE12FFF1E; // bx lr
#endif
    return n * 4;
}

static long jit(int rounds, int first) {
    uint32_t *code = mmap(0, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    long value = 0;
    for (int round = 0; round < rounds; round++) {
        // Three shapes in turn: what was there before comes again.
        size_t size = compile(code, 1 + (first + round) % 3, 20 + round, 3);
        __builtin___clear_cache((char *)code, (char *)code + size);
        value = ((long (*)(long))code)(value);
    }
    munmap(code, 8192);
    return value;
}

static void *thread(void *argument) {
    long value = (long)(intptr_t)argument;
    for (int i = 0; i < 400; i++)
        value = value * 31 + (value >> 3 & 1 ? i : -i);
    __sync_fetch_and_add(&sum, value & 0xFF);
    return 0;
}

static void threads(int count) {
    pthread_t all[8];
    for (int i = 0; i < count; i++)
        pthread_create(&all[i], 0, thread, (void *)(intptr_t)(i + 1));
    for (int i = 0; i < count; i++)
        pthread_join(all[i], 0);
}

// Another program takes the place of this one.
static void become_other(int value) {
    char path[4096], number[16];
    snprintf(path, sizeof path, "%s/other", folder);
    snprintf(number, sizeof number, "%d", value);
    execl(path, "other", number, (char *)0);
    perror(path);
    _exit(4);
}

static int child(int number) {
    long value = with_library(number & 1 ? "libfirst.so" : "libsecond.so", number);
    value += jit(6, number);
    if (number % 3 == 0)
        threads(2);
    value += with_library(number & 1 ? "libsecond.so" : "libfirst.so", number + 5);
    if (number % 4 == 1)
        become_other((int)(value & 0x3F));
    return (int)(value & 0x3F);
}

int main(int argc, char **argv) {
    folder = argc > 1 ? argv[1] : ".";
    int children = argc > 2 ? atoi(argv[2]) : 6;
    sum += with_library("libfirst.so", 1) + with_library("libsecond.so", 2);
    sum += jit(4, 0);
    threads(3);
    // Two at a time; more than there are numbers for, where those are few.
    for (int i = 0; i < children; i += 2) {
        pid_t pids[2];
        for (int j = 0; j < 2; j++) {
            pids[j] = fork();
            if (pids[j] == 0)
                _exit(child(i + j));
        }
        sum += jit(3, i);
        for (int j = 0; j < 2; j++) {
            int status = 0;
            waitpid(pids[j], &status, 0);
            sum += WEXITSTATUS(status);
        }
    }
    printf("%ld\n", sum);
    return 0;
}
