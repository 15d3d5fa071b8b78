/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-reader: who started it orders readers over a socket, a byte for each, and gets a socket to each of them.
 *
 *   front --- READER_FD ---> master --- fork ---> reader (sealed) <--- its socket --- front
 *
 * The master never sees any code. A reader waits for one question, answers and ends. All of them end with the master, and that ends when nobody holds
 * the other side of READER_FD any more.
 *
 * Should, in a reader: read from its socket, write to it, end. Mustn't: anything else; the kernel ends it for that. */
#include "base/macro.h"
#include "base/limits.h"
#include "guard/reader/read.h"
#include "guard/reader/seal.h"

#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOCKET 0 /* of a reader: the only descriptor it has */
#define OUTPUT_BYTES (64 << 10)
#define WARM_BYTES (16 << 10)

/* ---- a reader ---- */

struct output {
        char bytes[OUTPUT_BYTES];
        size_t used;
        bool lost; /* nobody listens any more */
};

static void write_all(struct output *o, const char *data, size_t size)
{
        while (size > 0 && !o->lost) {
                ssize_t n = write(SOCKET, data, size);
                if (n < 0 && errno == EINTR)
                        continue;
                o->lost = n <= 0;
                if (o->lost)
                        break;
                data += n;
                size -= (size_t)n;
        }
}

static void put(struct output *o, const void *data, size_t size)
{
        if (size > sizeof(o->bytes) - o->used) {
                write_all(o, o->bytes, o->used);
                o->used = 0;
        }
        if (size > sizeof(o->bytes)) {
                write_all(o, data, size);
                return;
        }
        memcpy(o->bytes + o->used, data, size);
        o->used += size;
}

static void take(void *data, enum reader_kind kind, uint32_t line, uint32_t column, const char *text, size_t size)
{
        struct reader_answer answer = {.kind = kind, .line = line, .column = column, .size = (uint32_t)size};

        put(data, &answer, sizeof(answer));
        put(data, text, size);
}

/* Reads on until there are that many. */
static bool read_up_to(char *data, size_t size, size_t max, size_t *n)
{
        while (*n < size) {
                ssize_t k = read(SOCKET, data + *n, max - *n);
                if (k < 0 && errno == EINTR)
                        continue;
                if (k <= 0)
                        return false;
                *n += (size_t)k;
        }
        return true;
}

/* input: as long as the longest question. What is not long comes whole, with the first read. */
static void answer_one(char *input, void *memory, struct output *o)
{
        struct reader_request request;
        char *code = input + sizeof(request);
        size_t n = 0, max = sizeof(request) + READER_CODE_BYTES_MAX;

        if (!read_up_to(input, sizeof(request), max, &n))
                return;
        memcpy(&request, input, sizeof(request));
        if (request.magic != READER_MAGIC || request.size > READER_CODE_BYTES_MAX || !read_up_to(input, sizeof(request) + request.size, max, &n))
                return;
        int r = reader_read(code, request.size, memory, take, o);
        struct reader_answer end = {.kind = READER_END, .line = 1, .column = 1, .size = (uint32_t)r};
        put(o, &end, sizeof(end));
        write_all(o, o->bytes, o->used);
}

/* Who orders a reader does not wait for it, and should not be interrupted to have it made. A question is another matter. */
static void be_patient(bool patient)
{
        struct sched_param none = {0};

        (void)sched_setscheduler(0, patient ? SCHED_BATCH : SCHED_OTHER, &none);
}

/* Reads something while nobody waits: what is touched then need not be fetched, page by page, when somebody does. */
static void warm_up(char *input, void *memory, struct output *o)
{
        static const char sample[] = "import os, json as j\nfrom pathlib import Path\nx = f\"{1}\" + 'a' * 3 + \"%s\" % (2,)\n"
                                     "def f(a, b=[1, {\"c\": Path('/') / x}]):\n    return os.path.join('a', \"{}\".format(a)).replace('a', 'b')[::-1]\n";

        memset(input, 0, WARM_BYTES);
        memset(o->bytes, 0, WARM_BYTES);
        (void)reader_read(sample, sizeof(sample) - 1, memory, take, o);
        reader_touch(memory);
        o->used = 0;
}

static _noreturn_ void be_reader(int socket, pid_t master)
{
        static struct output output;
        size_t size = sizeof(struct reader_request) + READER_CODE_BYTES_MAX + reader_memory_size();

        if (dup2(socket, SOCKET) < 0 || close_range(SOCKET + 1, ~0U, 0) < 0)
                _exit(1);
        /* What was not touched costs nothing. */
        char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (memory == MAP_FAILED)
                _exit(1);
        warm_up(memory + reader_memory_size(), memory, &output);
        be_patient(false);
        if (seal_reader(master) < 0)
                _exit(1);
        answer_one(memory + reader_memory_size(), memory, &output);
        _exit(0);
}

/* ---- the master ---- */

static int send_socket(int fd)
{
        union {
                char bytes[CMSG_SPACE(sizeof(int))];
                struct cmsghdr align;
        } control = {0};
        char byte = 1;
        struct iovec iov = {.iov_base = &byte, .iov_len = 1};
        struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = control.bytes, .msg_controllen = sizeof(control.bytes)};
        struct cmsghdr *c = CMSG_FIRSTHDR(&msg);
        ssize_t n;

        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(c), &fd, sizeof(int));
        do
                n = sendmsg(READER_FD, &msg, MSG_NOSIGNAL);
        while (n < 0 && errno == EINTR);
        return n == 1 ? 0 : -EPIPE;
}

static int make_reader(pid_t self)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0)
                be_reader(pair[1], self);
        close(pair[1]);
        /* Where no process can be had the master ends, too: a socket without a reader would look like a reader that died of its code. */
        int r = pid < 0 ? -EAGAIN : send_socket(pair[0]);
        close(pair[0]);
        return r;
}

static int serve(void)
{
        pid_t self = getpid();
        char orders[READER_AHEAD_MAX];

        for (;;) {
                ssize_t n = read(READER_FD, orders, sizeof(orders));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0) {
                        /* Those that wait hear the end, too. They are ours: nobody else has to reap them. */
                        while (wait(NULL) > 0 || errno == EINTR)
                                ;
                        return n < 0;
                }
                for (ssize_t i = 0; i < n; i++)
                        if (make_reader(self) < 0)
                                return 1;
        }
}

int main(void)
{
        struct sigaction ignore = {.sa_handler = SIG_IGN, .sa_flags = SA_NOCLDWAIT};
        struct stat st;

        if (fstat(READER_FD, &st) < 0 || !S_ISSOCK(st.st_mode)) {
                fprintf(stderr, "usage: glovebox-reader 3<>SOCKET\nIt is started by glovebox, reads Python for it, and is of no use by itself.\n");
                return 2;
        }
        sigaction(SIGCHLD, &ignore, NULL); /* nobody waits for readers */
        (void)close_range(READER_FD + 1, ~0U, 0);
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
        be_patient(true);
        return serve();
}
