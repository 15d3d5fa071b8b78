/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-probe: the attacker of `glovebox verify`. It runs inside a box, makes the attempts of
 * one row of PROBES and says what came of each. It is our own program, so its word counts;
 * what it cannot know itself the host judges. It is linked statically and needs nothing of the
 * box but /proc.
 *
 * Every attempt must be one that would succeed, or fail differently, without the control it is
 * meant for: a refusal that any host gives proves nothing. */
#include "runner/probe_report.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

char **probe_arguments;
static unsigned attempts;

static void _printf_(2, 0) say(const char *kind, const char *format, va_list ap)
{
        char line[512];
        int n = snprintf(line, sizeof(line), "%s %s ", probe_arguments[PROBE_ARG_TOKEN], kind);
        vsnprintf(line + n, sizeof(line) - (size_t)n - 1, format, ap);
        for (char *c = line; *c; c++)
                if (*c == '\n')
                        *c = ' ';
        strcat(line, "\n");
        if (write(STDOUT_FILENO, line, strlen(line)) < 0)
                _exit(70);
}

void probe_report(bool held, const char *format, ...)
{
        va_list ap;

        attempts++;
        va_start(ap, format);
        say(held ? "held" : "open", format, ap);
        va_end(ap);
}

void probe_tell(const char *kind, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        say(kind, format, ap);
        va_end(ap);
}

void probe_refused(const char *what, long r)
{
        int e = errno;

        if (r >= 0)
                probe_report(false, "%s worked", what);
        else
                probe_report(true, "%s: %s", what, strerror(e));
}

void probe_unsure(const char *what)
{
        probe_report(false, "cannot test %s: %s", what, strerror(errno));
}

bool probe_read_text(const char *path, char *buf, size_t size)
{
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return false;
        size_t used = 0;
        for (ssize_t n; used < size - 1 && (n = read(fd, buf + used, size - 1 - used)) > 0;)
                used += (size_t)n;
        close(fd);
        buf[used] = '\0';
        return true;
}

const char *probe_status_value(const char *text, const char *key)
{
        size_t n = strlen(key);

        for (const char *line = text; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
                if (strncmp(line, key, n) == 0 && line[n] == ':')
                        return line + n + 1 + strspn(line + n + 1, "\t ");
        return NULL;
}

void probe_opens(const char *const *paths, size_t n, int flags)
{
        char what[PATH_MAX + 16];

        for (size_t i = 0; i < n; i++) {
                snprintf(what, sizeof(what), "%s %s", (flags & O_ACCMODE) == O_RDONLY ? "reading" : "writing", paths[i]);
                int fd = open(paths[i], flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0600);
                probe_refused(what, fd);
                if (fd >= 0)
                        close(fd);
        }
}

bool probe_count_processes(unsigned *ret)
{
        DIR *dir = opendir("/proc");
        if (!dir)
                return false;
        *ret = 0;
        for (struct dirent *entry; (entry = readdir(dir));)
                *ret += entry->d_name[0] >= '0' && entry->d_name[0] <= '9';
        closedir(dir);
        return true;
}

bool probe_run_again(const char *path, const char *part, unsigned tried)
{
        char *argv[] = {probe_arguments[0], probe_arguments[PROBE_ARG_TOKEN], (char *)(uintptr_t)part, NULL};
        int status;

        pid_t pid = fork();
        if (pid == 0) {
                execv(path, argv);
                _exit(71);
        }
        if (pid < 0 || waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0)
                return false;
        attempts += tried;
        return true;
}

int main(int argc, char **argv)
{
        static const struct {
                const char *function;
                void (*run)(void);
                bool part; /* of another probe, which tells the beginning and the end */
        } rows[] = {
#define PROBE_ROW(function, name, catalogue, tries) {#function, probe_##function, false},
                PROBES(PROBE_ROW)
#undef PROBE_ROW
                {"exec", probe_exec, true},
                {"gain", probe_gain, true},
        };

        if (argc <= PROBE_ARG_FUNCTION)
                return 64;
        probe_arguments = argv;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                if (strcmp(argv[PROBE_ARG_FUNCTION], rows[i].function) != 0)
                        continue;
                if (!rows[i].part && argc < PROBE_ARG_COUNT)
                        return 64;
                if (!rows[i].part)
                        probe_tell("ran", "%s", rows[i].function);
                rows[i].run();
                if (!rows[i].part)
                        probe_tell("done", "%u", attempts);
                return 0;
        }
        return 64;
}
