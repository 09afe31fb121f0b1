// Tries what a program could do to the machine that it runs on. Arguments: a folder to read in, one to write in, and a
// file beside them.
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static char path[4096];

static const char *in(const char *folder, const char *name) {
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void say(const char *what, long result) {
    printf("%s: %s\n", what, result < 0 ? "refused" : "done");
}

static void read_it(const char *what, const char *file) {
    char text[64] = "";
    int fd = open(file, O_RDONLY);
    if (fd >= 0)
        text[read(fd, text, sizeof text - 1)] = 0;
    printf("%s: %s\n", what, fd < 0 ? "refused" : text);
}

int main(int count, char **arguments) {
    const char *to_read = arguments[1], *to_write = arguments[2], *secret = arguments[3];
    read_it("allowed file", in(to_read, "file"));
    read_it("through a link", in(to_read, "link"));
    read_it("through a link of a folder", in(to_read, "up/secret"));
    read_it("up and down", in(to_read, "../secret"));
    read_it("secret", secret);
    read_it("environment", "/proc/thread-self/environ");
    read_it("other process", "/proc/1/cmdline");
    say("stat", access(secret, R_OK));
    say("folder", chdir("/"));
    say("write where reading is allowed", open(in(to_read, "file"), O_WRONLY));
    say("remove", unlink(in(to_read, "file")));
    say("write", open(in(to_write, "new"), O_CREAT | O_WRONLY, 0600));
    say("make a link out", symlink("/etc", in(to_write, "etc")));
    say("network", socket(AF_INET, SOCK_STREAM, 0));
    say("kill", kill(getppid(), 0));
    say("execute", execl("/bin/true", "true", (char *)0));
    return 0;
}
