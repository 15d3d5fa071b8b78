/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pump.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Reading a terminal from the background would stop us. One that is not our controlling terminal stops nobody. */
bool pump_may_read(int fd)
{
        pid_t front = isatty(fd) ? tcgetpgrp(fd) : -1;

        return fcntl(fd, F_GETFL) >= 0 && (front < 0 || front == getpgrp());
}

int pump_open(struct pump *p, int source, int *ret_child)
{
        struct stat st;
        int fds[2];

        bool readable = source >= 0 && pump_may_read(source);
        if (readable && fstat(source, &st) < 0)
                return -errno;
        if (readable && S_ISDIR(st.st_mode))
                return -EISDIR;
        int flags = readable ? fcntl(source, F_GETFL) : 0;
        if (flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY)
                return -EBADF;
        if (!readable) {
                int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        return -errno;
                *ret_child = fd;
                return 0;
        }
        if (chunk_init(&p->buffer) < 0)
                return -ENOMEM;
        if (pipe2(fds, O_CLOEXEC) < 0)
                return -errno;
        *ret_child = fds[0];
        p->target = fds[1];
        p->source = source;
        /* Files and devices such as /dev/null cannot be waited for: they always have an answer. */
        p->terminal = S_ISCHR(st.st_mode) && isatty(source);
        p->pollable = S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode) || p->terminal;
        p->looked_at = S_ISREG(st.st_mode);
        return fd_set_nonblock(p->target);
}

int pump_explain(int r, gb_error *err)
{
        if (r == -EISDIR || r == -EBADF)
                return error_set(err, GB_E_USAGE, -r, "standard input cannot be read: %s",
                        r == -EISDIR ? "it is a directory" : "it is not open for reading");
        return error_set(err, GB_E_INTERNAL, -r, "cannot make a pipe for standard input: %s", strerror(-r));
}

static void rest(struct pump *p)
{
        if (p->source_event)
                event_del(p->source_event);
        if (p->target_event)
                event_del(p->target_event);
        p->source = -1;
        p->used = p->sent = 0;
}

static void end(struct pump *p)
{
        rest(p);
        p->target = safe_close(p->target);
}

static void give_up(struct pump *p, int errnum)
{
        rest(p);
        if (p->failed)
                p->failed(p->failed_data, errnum);
}

/* Reads once; the end of the source is the end of the pipe. A terminal whose other end is closed says EIO. */
static void fill(struct pump *p)
{
        ssize_t n = read(p->source, p->buffer.data, OUTPUT_CHUNK_BYTES);

        if (n < 0 && (errno == EINTR || errno == EAGAIN))
                return;
        if (n < 0 && !(p->terminal && errno == EIO)) {
                give_up(p, errno);
                return;
        }
        if (n <= 0) {
                end(p);
                return;
        }
        chunk_mark(&p->buffer, (size_t)n);
        int r = !p->looked_at && p->seen ? p->seen(p->seen_data, p->buffer.data, (size_t)n) : 0;
        if (r < 0) {
                give_up(p, -r);
                return;
        }
        p->used = (size_t)n;
        p->sent = 0;
}

/* While the box takes none, nothing more is read: the caller waits, not our memory grows. */
static void arm(struct pump *p)
{
        int r;

        if (p->source < 0)
                return;
        if (p->used > 0 || !p->pollable) {
                if (p->source_event)
                        event_del(p->source_event);
                r = event_add(p->target_event, NULL);
        } else {
                event_del(p->target_event);
                r = event_add(p->source_event, NULL);
        }
        if (r < 0)
                give_up(p, ENOMEM);
}

/* There is room in the pipe. */
static void drain(struct pump *p)
{
        if (p->used == 0)
                fill(p);
        if (p->source < 0 || p->used == 0)
                return;
        ssize_t n = write(p->target, p->buffer.data + p->sent, p->used - p->sent);
        if (n < 0 && errno != EAGAIN && errno != EINTR) {
                if (errno == EPIPE)
                        end(p); /* the program closed its input */
                else
                        give_up(p, errno);
                return;
        }
        p->sent += n > 0 ? (size_t)n : 0;
        if (p->sent == p->used)
                p->used = p->sent = 0;
}

static void on_target(evutil_socket_t fd, short what, void *data)
{
        drain(data);
        arm(data);
}

static void on_source(evutil_socket_t fd, short what, void *data)
{
        struct pump *p = data;

        fill(p);
        arm(p);
}

int pump_start(struct pump *p, struct event_base *base)
{
        if (p->source < 0)
                return 0;
        p->target_event = event_new(base, p->target, EV_WRITE | EV_PERSIST, on_target, p);
        if (p->pollable)
                p->source_event = event_new(base, p->source, EV_READ | EV_PERSIST, on_source, p);
        if (!p->target_event || (p->pollable && !p->source_event))
                return -ENOMEM;
        arm(p);
        return 0;
}

int pump_wait_for(const struct pump *p, short *ret_events)
{
        if (p->source < 0)
                return -1;
        bool write_next = p->used > 0 || !p->pollable;
        *ret_events = write_next ? POLLOUT : POLLIN;
        return write_next ? p->target : p->source;
}

void pump_step(struct pump *p)
{
        if (p->source < 0)
                return;
        if (p->used > 0 || !p->pollable)
                drain(p);
        else
                fill(p);
}

void pump_done(struct pump *p)
{
        if (p->source_event)
                event_free(p->source_event);
        if (p->target_event)
                event_free(p->target_event);
        p->target = safe_close(p->target);
        chunk_done(&p->buffer);
}
