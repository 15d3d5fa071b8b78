/* SPDX-License-Identifier: Apache-2.0
 *
 * Whatever an engine and the agent behind it say on a line: it is taken or refused, and the cuts between pieces change nothing. Two programs run; nobody reads what
 * they write. The agent listens; nobody takes the connections that it tells of. */
#include "backend/docker/line.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct backend_program *add_program(struct line *l, uint32_t number)
{
        struct backend_program *p = calloc(1, sizeof(*p));
        int pair[2];

        if (!p || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
                abort();
        *p = (struct backend_program){.line = l, .number = number, .state = PROGRAM_RUNNING, .event = eventfd(0, EFD_NONBLOCK), .deadline = -1};
        p->control = pair[0];
        p->sources[WIRE_PIPE_FIRST].fd = pair[1]; /* closed with it */
        for (int i = 0; i < WIRE_STREAMS_MAX; i++)
                if (i != WIRE_PIPE_FIRST)
                        p->sources[i].fd = -1;
        p->sinks[WIRE_STDIN] = -1;
        p->sinks[WIRE_STDOUT] = open("/dev/null", O_WRONLY | O_CLOEXEC);
        p->sinks[WIRE_STDERR] = -1;
        buffer_init(&p->queue, 4 * WIRE_WINDOW);
        l->programs[number] = p;
        return p;
}

static void check_connections(const struct line *l)
{
        for (uint32_t i = 1; i <= WIRE_CONNECTIONS_MAX; i++) {
                const struct line_connection *c = l->connections[i];
                if (!c)
                        continue;
                if (c->uncredited > WIRE_CONNECTION_WINDOW || c->credit > WIRE_CONNECTION_WINDOW || c->queue.size > WIRE_CONNECTION_WINDOW ||
                    c->delivered > c->uncredited)
                        abort();
                if (c->got_close && c->said_close)
                        abort(); /* it is nobody's any more */
        }
}

static int feed(const uint8_t *data, size_t size, size_t piece)
{
        struct line *l = calloc(1, sizeof(*l));
        gb_error why;
        int r = 0, pair[2];

        if (!l)
                abort();
        *l = (struct line){.fd = -1, .wake = -1, .ended = -1, .handover = -1, .listener = -1, .listening = size % 3 == 0 ? LISTEN_ASKED : LISTEN_DONE};
        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) < 0)
                abort();
        l->handover = pair[0];
        l->listener = pair[1];
        pthread_mutex_init(&l->lock, NULL);
        pthread_cond_init(&l->changed, NULL);
        buffer_init(&l->in, 512 * KIB);
        buffer_init(&l->out, 8 * MIB);
        l->greeted = size % 2 == 0;
        for (uint32_t i = 1; i <= 2; i++)
                add_program(l, i);
        for (size_t at = 0; at < size && r == 0; at += piece) {
                size_t n = size - at < piece ? size - at : piece;
                r = line_take(l, (const char *)data + at, n, &why);
        }
        for (uint32_t i = 1; i <= 2; i++) {
                if (l->programs[i]->uncredited[WIRE_STDOUT] > WIRE_WINDOW || l->programs[i]->uncredited[WIRE_CONTROL] > WIRE_WINDOW)
                        abort();
                line_program_free(l->programs[i]);
        }
        check_connections(l);
        line_end_connections(l);
        safe_close(l->listener);
        buffer_done(&l->in);
        buffer_done(&l->out);
        pthread_mutex_destroy(&l->lock);
        pthread_cond_destroy(&l->changed);
        free(l);
        return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0 || size > 256 * KIB)
                return 0;
        int whole = feed(data, size, size);
        if (feed(data, size, 1) != whole || feed(data, size, 7) != whole)
                abort();
        return 0;
}
