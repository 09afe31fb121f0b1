/* Ways for a program to end. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void *leave(void *argument)
{
    exit(*(int *)argument);
}

int main(int argc, char **argv)
{
    pthread_t thread;
    int status = 7;
    switch (argc > 1 ? argv[1][0] : ' ') {
    case 'a': abort();
    case 'n': return *(volatile int *)0;
    case 'k': kill(getpid(), SIGKILL); break;
    case 'd': raise(SIGUSR1); break;
    case 'i': __asm__ volatile("unimp"); break;
    case 't':
        pthread_create(&thread, NULL, leave, &status);
        pause();
        break;
    case 'l':
        pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
        pthread_mutex_lock(&lock);
        pthread_mutex_lock(&lock);
        break;
    case 'f':
        if (fork() < 0)
            perror("fork");
        break;
    case 'e':
        execl("/bin/true", "true", (char *)0);
        perror("exec");
        break;
    default: return 3;
    }
    return 1;
}
