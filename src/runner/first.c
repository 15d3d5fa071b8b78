/* SPDX-License-Identifier: Apache-2.0 */
#include "runner/first.h"

#include "base/limits.h"
#include "base/macro.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Directories where the first word of a command is looked up. */
static const char *const search_path[] = {"/usr/local/bin", "/usr/bin", "/bin", "/usr/local/sbin", "/usr/sbin", "/sbin"};

int first_become_session(const char **ret_what)
{
        static const unsigned long standard[4]; /* the kernel's struct sigaction: all default */
        sigset_t none;

        /* Not by glibc, which keeps two for itself and would leave them as the caller had them. */
        for (int sig = 1; sig < NSIG; sig++)
                syscall(SYS_rt_sigaction, sig, standard, NULL, 8);
        sigemptyset(&none);
        *ret_what = "clear the program's signal mask";
        if (sigprocmask(SIG_SETMASK, &none, NULL) < 0)
                return -errno;
        *ret_what = "start a process session in the box";
        if (setsid() < 0)
                return -errno;
        umask(022);
        return 0;
}

int first_execute(char *const *words, char *const *variables)
{
        char path[BOX_PATH_MAX];
        int errnum = ENOENT;

        if (strchr(words[0], '/')) {
                execve(words[0], words, variables);
                return -errno;
        }
        for (size_t i = 0; i < ARRAY_SIZE(search_path); i++) {
                snprintf(path, sizeof(path), "%s/%s", search_path[i], words[0]);
                execve(path, words, variables);
                if (errno != ENOENT && errno != ENOTDIR)
                        errnum = errno;
        }
        return -errnum;
}

void first_wait_for_compiler(pid_t pid)
{
        int status;

        while (waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        _exit(127);
        if (WIFSIGNALED(status)) {
                kill(getpid(), WTERMSIG(status));
                _exit(128 + WTERMSIG(status));
        }
        if (WEXITSTATUS(status) != 0)
                _exit(WEXITSTATUS(status));
}
