/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/test_files_fixture.h"

#include "engine/files_wire.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define SERVERS_MAX 64

enum files_way files_way = WAY_DIRECTORY;
const char *const files_way_names[WAYS_MAX] = {"by the directory", "by a server", "by a server on an old kernel"};

static pid_t servers[SERVERS_MAX];
static int n_servers;
static struct files_remote remotes[4];
static size_t n_remotes;

static void reap(int flags)
{
        int kept = 0;

        for (int i = 0; i < n_servers; i++)
                if (waitpid(servers[i], NULL, flags) == 0)
                        servers[kept++] = servers[i];
        n_servers = kept;
}

void files_reap(void)
{
        reap(0);
        n_remotes = 0;
}

static int forget_calls(void)
{
#define REFUSE(call) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOSYS)
        struct sock_filter filter[] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                REFUSE(SYS_openat2), REFUSE(SYS_setfsuid), REFUSE(SYS_setfsgid),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        struct sock_fprog program = {ARRAY_SIZE(filter), filter};

        return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ? -1 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

static int serve(int fd, const struct files *f)
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (geteuid() != f->uid && (setgid(f->gid) < 0 || setuid(f->uid) < 0))
                return 1;
        if (files_way == WAY_OLD_SERVER && forget_calls() < 0)
                return 2;
        struct files own = {.root_fd = f->root_fd, .uid = geteuid(), .gid = getegid()};
        return files_server_run(fd, &own) < 0 ? 3 : 0;
}

static int dial(void *data, gb_error *err)
{
        const struct files *f = data;
        int ends[2];

        reap(WNOHANG);
        if (n_servers == SERVERS_MAX || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return error_set(err, GB_E_INTERNAL, EMFILE, "the test has too many servers");
        pid_t child = fork();
        if (child == 0) {
                close(ends[0]);
                _exit(serve(ends[1], f));
        }
        servers[n_servers++] = child;
        close(ends[1]);
        return ends[0];
}

void files_go(struct files *f)
{
        f->remote = NULL;
        if (files_way == WAY_DIRECTORY || n_remotes == ARRAY_SIZE(remotes))
                return;
        remotes[n_remotes] = (struct files_remote){.dial = dial, .data = f, .bytes_max = 256 * MIB, .entries_max = 100000};
        f->remote = &remotes[n_remotes++];
}
