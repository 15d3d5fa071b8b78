/* SPDX-License-Identifier: Apache-2.0 */
#include "attack.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *token;
static char **args;
int n_args;

const char *arg(int i)
{
        return i < n_args ? args[i] : "";
}

void try(const char *step, long r)
{
        const char *name = r >= 0 ? "ok" : strerrorname_np(errno);

        printf("try %s=%s\n", step, name ? name : "unknown");
        fflush(stdout);
}

void note(const char *key, const char *format, ...)
{
        va_list ap;

        printf("note %s=", key);
        va_start(ap, format);
        vprintf(format, ap);
        va_end(ap);
        printf("\n");
        fflush(stdout);
}

int in_child(void (*f)(void))
{
        int status = 0;

        fflush(stdout);
        pid_t pid = fork();
        if (pid == 0) {
                f();
                fflush(stdout);
                _exit(0);
        }
        if (pid < 0 || waitpid(pid, &status, 0) < 0)
                return -1;
        return status;
}

long try_write(const char *path, const char *text)
{
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        if (fd < 0)
                return -1;
        long r = write(fd, text, strlen(text));
        int saved = errno;
        close(fd);
        errno = saved;
        return r;
}

int seccomp_mode(void)
{
        char line[256];
        int mode = -1;
        FILE *f = fopen("/proc/thread-self/status", "r");

        while (f && fgets(line, sizeof(line), f))
                sscanf(line, "Seccomp: %d", &mode);
        if (f)
                fclose(f);
        return mode;
}

void print_death(const char *key, int status)
{
        if (WIFSIGNALED(status))
                note(key, "SIG%s", sigabbrev_np(WTERMSIG(status)));
        else
                note(key, "exit%d", WEXITSTATUS(status));
}

int deeper(int n)
{
        volatile char frame[4096];

        memset((char *)frame, n, sizeof(frame));
        return deeper(n + 1) + frame[0];
}

static const struct attack *find(const char *name)
{
        static const struct attack *const groups[] = {kernel_attacks, privilege_attacks, files_attacks, neighbours_attacks,
                                                      resources_attacks, life_attacks, network_attacks};

        for (size_t i = 0; i < sizeof(groups) / sizeof(*groups); i++)
                for (const struct attack *a = groups[i]; a->name; a++)
                        if (strcmp(a->name, name) == 0)
                                return a;
        return NULL;
}

static int run(const char *name, const char *its_token)
{
        const struct attack *a = find(name);

        if (!a) {
                fprintf(stderr, "no attack has the name %s\n", name);
                return 2;
        }
        token = its_token;
        printf("token %s\n", token);
        fflush(stdout);
        a->run();
        printf("done %s\n", token);
        return fflush(stdout) != 0;
}

/* As /bin/sh of an image: "exec /attack/attack NAME TOKEN ARGS..." */
static int run_script(const char *path)
{
        static char line[4096], *words[64];
        int n = 0;
        FILE *f = fopen(path, "r");

        if (!f || !fgets(line, sizeof(line), f))
                return 2;
        for (char *word = strtok(line, " \n"); word && n < 64; word = strtok(NULL, " \n"))
                words[n++] = word;
        if (n < 4)
                return 2;
        args = words + 4;
        n_args = n - 4;
        return run(words[2], words[3]);
}

int main(int argc, char **argv)
{
        if (argc == 2 && strcmp(argv[0], "sh") == 0)
                return run_script(argv[1]);
        if (argc < 3)
                return 2;
        args = argv + 3;
        n_args = argc - 3;
        return run(argv[1], argv[2]);
}
