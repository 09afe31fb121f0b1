/* Files, directories, pipes. The first argument is an empty directory to work in. */
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#define SHOW(...) (printf("%-24s ", #__VA_ARGS__), show(__VA_ARGS__))

static void show(long result)
{
    printf("%ld %s\n", result, result < 0 ? strerror(errno) : "");
}

static void directories(const char *base)
{
    char where[4096];
    SHOW(chdir(base));
    SHOW(mkdir("inner", 0755));
    SHOW(mkdir("inner", 0755));
    SHOW(chdir("inner"));
    printf("in %s\n", strrchr(getcwd(where, sizeof where), '/'));
    int parent = open("..", O_RDONLY | O_DIRECTORY);
    SHOW(fchdir(parent));
    SHOW(close(open("inner/a", O_CREAT | O_WRONLY, 0600)) & 0);
    SHOW(close(openat(parent, "inner/b", O_CREAT | O_WRONLY, 0600)) & 0);
    SHOW(open("inner/a", O_CREAT | O_EXCL | O_WRONLY, 0600));
    SHOW(symlink("a", "inner/link"));
    SHOW(link("inner/a", "inner/hard"));
    ssize_t length = readlink("inner/link", where, sizeof where);
    printf("link %.*s\n", (int)length, where);
    struct dirent **list;
    int count = scandir("inner", &list, NULL, alphasort);
    for (int i = 0; i < count; i++)
        printf("entry %s %d\n", list[i]->d_name, list[i]->d_type);
    SHOW(rename("inner/b", "inner/c"));
    SHOW(access("inner/b", F_OK));
    SHOW(access("inner/c", R_OK | W_OK));
    SHOW(access("inner/c", X_OK));
    SHOW(rmdir("inner"));
    for (const char *name = "a\0c\0link\0hard\0"; *name; name += strlen(name) + 1)
        unlinkat(parent, strcat(strcpy(where, "inner/"), name), 0);
    SHOW(rmdir("inner"));
    SHOW(chdir("inner"));
    SHOW(close(parent));
}

static void contents(void)
{
    int fd = open("file", O_CREAT | O_RDWR | O_TRUNC, 0640);
    struct iovec out[3] = {{"one ", 4}, {"", 0}, {"two ", 4}};
    SHOW(writev(fd, out, 3));
    SHOW(pwrite(fd, "THREE", 5, 8));
    SHOW(lseek(fd, 0, SEEK_CUR));
    SHOW(lseek(fd, 0, SEEK_END));
    SHOW(lseek(fd, -100, SEEK_SET));
    char a[5] = "", b[20] = "";
    struct iovec in[2] = {{a, 4}, {b, 19}};
    SHOW(preadv(fd, in, 2, 0));
    printf("read '%s' '%s'\n", a, b);
    SHOW(ftruncate(fd, 6));
    struct stat s;
    SHOW(fstat(fd, &s));
    printf("size %ld mode %o\n", (long)s.st_size, s.st_mode & 0170000);
    struct statx x;
    SHOW(statx(AT_FDCWD, "file", 0, STATX_SIZE, &x));
    printf("size %ld\n", (long)x.stx_size);
    int again = dup(fd);
    SHOW(lseek(fd, 2, SEEK_SET));
    SHOW(lseek(again, 0, SEEK_CUR));
    SHOW(dup2(fd, 40));
    SHOW(lseek(40, 0, SEEK_CUR));
    SHOW(fcntl(40, F_GETFD));
    SHOW(fcntl(dup3(fd, 41, O_CLOEXEC), F_GETFD));
    SHOW(fcntl(fd, F_GETFL) & O_ACCMODE);
    SHOW(close(again));
    SHOW(close(again));
    SHOW(read(99, a, 1));
    int append = open("file", O_WRONLY | O_APPEND);
    SHOW(write(append, "END", 3));
    SHOW(read(append, a, 1));
    int copy = open("copy", O_CREAT | O_RDWR, 0600);
    lseek(fd, 0, SEEK_SET);
    SHOW(sendfile(copy, fd, NULL, 100));
    memset(b, 0, sizeof b);
    SHOW(pread(copy, b, 19, 1));
    printf("copied '%s'\n", b);
    SHOW(isatty(copy));
    SHOW(open("nowhere/file", O_RDONLY));
    SHOW(open("file/x", O_RDONLY));
    SHOW(open(".", O_WRONLY));
    SHOW(stat("nothing", &s));
    SHOW(unlink("file") + unlink("copy"));
    FILE *temporary = tmpfile();
    printf("temporary %d\n", temporary != NULL && fprintf(temporary, "text") == 4 && fclose(temporary) == 0);
}

static void pipes(void)
{
    int ends[2];
    SHOW(pipe2(ends, O_NONBLOCK));
    char byte;
    SHOW(read(ends[0], &byte, 1));
    struct pollfd both[3] = {{ends[0], POLLIN, 0}, {ends[1], POLLOUT, 0}, {77, POLLIN, 0}};
    SHOW(poll(both, 3, 0));
    printf("ready %x %x %x\n", both[0].revents, both[1].revents, both[2].revents);
    SHOW(write(ends[1], "abc", 3));
    int waiting = 0;
    SHOW(ioctl(ends[0], FIONREAD, &waiting));
    printf("waiting %d\n", waiting);
    SHOW(poll(both, 1, 1000));
    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    SHOW(select(ends[0] + 1, &set, NULL, NULL, NULL));
    printf("set %d\n", FD_ISSET(ends[0], &set) != 0);
    char text[10];
    SHOW(read(ends[0], text, 10));
    struct timeval little = {0, 10000};
    SHOW(select(ends[0] + 1, &set, NULL, NULL, &little));
    SHOW(poll(both, 1, 10));
    SHOW(close(ends[1]));
    SHOW(poll(both, 1, -1));
    printf("ready %x\n", both[0].revents);
    SHOW(read(ends[0], text, 10));
}

int main(int argc, char **argv)
{
    if (argc < 2)
        return 2;
    char text[100];
    printf("input %zd\n", read(0, text, sizeof text));
    directories(argv[1]);
    contents();
    pipes();
    return 3;
}
