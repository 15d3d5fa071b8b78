/* SPDX-License-Identifier: Apache-2.0 */
#include "base/helper.h"

#include "base/fd.h"
#include "base/path.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX 8

void helper_end(struct helper *h)
{
        h->fd = safe_close(h->fd);
        if (h->pid <= 0)
                return;
        if (waitpid(h->pid, NULL, WNOHANG) == 0) { /* else the number may be another process's */
                kill(h->pid, SIGKILL);
                while (waitpid(h->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        h->pid = 0;
}

static int spawn(pid_t *ret, char *const argv[], int in, int out)
{
        posix_spawn_file_actions_t actions;
        posix_spawnattr_t attributes;
        char *environment[] = {NULL};
        sigset_t none, all;

        sigemptyset(&none);
        sigfillset(&all);
        posix_spawn_file_actions_init(&actions);
        posix_spawnattr_init(&attributes);
        /* A group of its own: Ctrl-C is for us, and we end it. */
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
        posix_spawnattr_setsigmask(&attributes, &none);
        posix_spawnattr_setsigdefault(&attributes, &all);
        int e = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
        if (e == 0)
                e = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
        if (e == 0)
                e = posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
        if (e == 0)
                e = posix_spawn(ret, argv[0], &actions, &attributes, argv, environment);
        posix_spawnattr_destroy(&attributes);
        posix_spawn_file_actions_destroy(&actions);
        return -e;
}

int helper_start(struct helper *h, const char *name, const char *const *words, int in, gb_error *err)
{
        _cleanup_free_ char *program = NULL;
        char *argv[WORDS_MAX + 2] = {NULL};
        int pair[2];

        *h = (struct helper)HELPER_NONE;
        int r = path_libexec(name, &program);
        if (r == 0 && pipe2(pair, O_CLOEXEC) < 0)
                r = -errno;
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot start %s: %s", name, strerror(-r));
        argv[0] = program;
        for (size_t i = 0; i < WORDS_MAX && words[i]; i++)
                argv[i + 1] = (char *)(uintptr_t)words[i]; /* posix_spawn() changes none of them */
        r = spawn(&h->pid, argv, in, pair[1]);
        safe_close(pair[1]);
        h->fd = pair[0];
        if (r == 0)
                return 0;
        h->pid = 0;
        helper_end(h);
        return error_set(err, GB_E_INTERNAL, -r, "cannot start %s: %s; it belongs to the installation (GLOVEBOX_LIBEXEC_DIR says where that is)",
                         quote(program).text, strerror(-r));
}
