/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/test_files_fixture.h"

#include "base/fd.h"
#include "engine/files_wire.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <string.h>
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

/* All of it: a file and a walk to their ends. */
int operate(const struct files *f, enum operation what, const char *path, gb_error *err)
{
        _cleanup_file_list_ struct file_list *l = NULL;
        _cleanup_files_walk_ struct files_walk *w = NULL;
        _cleanup_free_ char *bytes = NULL;
        _cleanup_close_ int fd = -1;
        struct walk_entry e;
        uint64_t size;
        size_t n;
        int r;

        switch (what) {
        case PUT:
                return files_write(f, path, "new", 3, 0644, err);
        case OPEN:
                r = fd = files_open(f, path, &size, err);
                return r < 0 ? r : 0;
        case READ:
                return files_read(f, path, &bytes, &n, err);
        case LIST:
                return files_list(f, path, &l, err);
        case PAGE:
                return files_list_page(f, path, "b", 2, &l, err);
        case MAKE:
                return files_make_directory(f, path, 0755, err);
        case MAKE_ALL:
                return files_make_directories(f, path, 0755, err);
        case REMOVE:
                return files_remove(f, path, err);
        case REMOVE_TREE:
                return files_remove_tree(f, path, err);
        case CHECK:
                return files_check_free(f, path, true, err);
        case WALK:
                r = files_walk_new(f, path, &w, err);
                while (r >= 0 && (r = files_walk_next(w, &e, err)) > 0)
                        ;
                return r;
        default:
                return -ENOSYS;
        }
}

int count_entries(const char *path)
{
        DIR *dir = opendir(path);
        int n = -2;

        while (dir && readdir(dir))
                n++;
        if (dir)
                closedir(dir);
        return n;
}

/* What an honest server answers: it runs here, and what it says fits the socket. */
int ask_server(const struct files *f, const void *question, size_t size, struct buffer *answer)
{
        char bytes[4096];
        int ends[2], room = 1 << 20;
        ssize_t n;

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) < 0)
                return -errno;
        setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &room, sizeof(room));
        int r = fd_write_all(ends[0], question, size);
        shutdown(ends[0], SHUT_WR);
        if (r == 0)
                r = files_server_run(ends[1], f);
        close(ends[1]);
        while (r == 0 && answer && (n = read(ends[0], bytes, sizeof(bytes))) > 0)
                r = buffer_add(answer, bytes, (size_t)n);
        close(ends[0]);
        return r;
}

int add_request(struct buffer *b, enum files_verb verb, const char *path, uint64_t size)
{
        struct files_request q = {.version = FILES_WIRE_VERSION, .verb = verb, .mode = 0644, .size = size, .path_size = (uint32_t)strlen(path)};
        struct files_frame frame = {FILES_REQUEST, (uint32_t)(sizeof(q) + q.path_size)};

        int r = buffer_add(b, &frame, sizeof(frame));
        if (r == 0)
                r = buffer_add(b, &q, sizeof(q));
        return r < 0 ? r : buffer_add_string(b, path);
}
