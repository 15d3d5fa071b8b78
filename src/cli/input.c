/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. A descriptor that is handed into a box carries more rights than reading:
 * a terminal can be written to and obeys ioctls, a socket works both ways, a directory leads to
 * all that is below it, and with the caller's own uid any file or pipe can be opened anew for
 * writing through /proc/self/fd. So the program gets standard input itself only when that is a
 * pipe or a file open for reading alone and the box has another uid than the caller (the caller
 * is root). Otherwise it gets a pipe, and a small child of ours, the pump, copies into that:
 *
 *   standard input --read--> pump --write--> pipe --read--> program
 *
 * The pump holds only these two descriptors. It ends with the input, when the program no longer
 * reads, when it is killed by input_done(), or with the command (parent death signal). Ctrl-C is
 * not for it. A directory is refused; /dev/null is nothing at all. */
#include "cli/input.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#define PUMP_PIECE_BYTES 65536

static _noreturn_ void pump(int to, pid_t parent)
{
        static char piece[PUMP_PIECE_BYTES];

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
                _exit(0);
        signal(SIGINT, SIG_IGN);
        signal(SIGPIPE, SIG_DFL);
        /* Above all no descriptor of the engine may live on here: others wait for their end. */
        if (dup2(to, STDOUT_FILENO) < 0 || close_range(STDERR_FILENO, ~0u, 0) < 0)
                _exit(1);
        for (;;) {
                ssize_t n = read(STDIN_FILENO, piece, sizeof(piece));
                if (n == 0 || (n < 0 && errno != EINTR) || (n > 0 && fd_write_all(STDOUT_FILENO, piece, (size_t)n) < 0))
                        _exit(0);
        }
}

static int start_pump(struct input *ret, gb_error *err)
{
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a pipe for standard input: %s", strerror(errno));
        _cleanup_close_ int read_end = ends[0], write_end = ends[1];

        pid_t parent = getpid(), pid = fork();
        if (pid < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot fork: %s", strerror(errno));
        if (pid == 0)
                pump(write_end, parent);
        ret->pump = pid;
        ret->fd = TAKE_FD(read_end);
        return 0;
}

static bool is_null_device(const struct stat *st)
{
        return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

int input_open(struct input *ret, gb_error *err)
{
        struct stat st;
        int flags = fcntl(STDIN_FILENO, F_GETFL);

        *ret = (struct input){.fd = -1};
        if (flags < 0 || fstat(STDIN_FILENO, &st) < 0 || is_null_device(&st))
                return 0;
        if (S_ISDIR(st.st_mode) || (flags & O_PATH))
                return error_set(err, GB_E_USAGE, EISDIR, "standard input is a directory; a program cannot have that");
        if ((flags & O_ACCMODE) == O_WRONLY)
                return 0;
        if (geteuid() == 0 && (flags & O_ACCMODE) == O_RDONLY && (S_ISREG(st.st_mode) || S_ISFIFO(st.st_mode))) {
                ret->fd = fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
                return ret->fd >= 0 ? 0 : error_set(err, GB_E_INTERNAL, errno, "standard input: %s", strerror(errno));
        }
        return start_pump(ret, err);
}

void input_done(struct input *in)
{
        in->fd = safe_close(in->fd);
        if (in->pump > 0) {
                kill(in->pump, SIGKILL);
                while (waitpid(in->pump, NULL, 0) < 0 && errno == EINTR)
                        ;
                in->pump = 0;
        }
}
