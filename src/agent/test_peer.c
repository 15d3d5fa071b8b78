/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/test_peer.h"

#include "base/error.h"
#include "base/fd.h"

#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define WAIT_MSEC 20000 /* far more than anything here takes */

char helper[] = HELPER_PROGRAM;

void put(struct peer *a, uint16_t type, uint32_t program, uint16_t stream, uint32_t value, const void *data, size_t size)
{
        struct wire_frame f = {.type = type, .program = program, .stream = stream, .value = value, .size = (uint32_t)size};

        if (a->has_keys)
                f.tag = wire_tag(a->keys.to_agent, a->n_put++, &f, data);
        assert_int_equal(fd_write_all(a->in, &f, sizeof(f)), 0);
        assert_int_equal(fd_write_all(a->in, data, size), 0);
}

/* Whether all of it came before the end. */
static bool take(struct peer *a, void *to, size_t size)
{
        char *at = to;

        while (size > 0) {
                struct pollfd p = {a->out, POLLIN, 0};
                assert_int_equal(poll(&p, 1, WAIT_MSEC), 1);
                ssize_t n = read(a->out, at, size);
                if (n <= 0)
                        return false;
                at += n;
                size -= (size_t)n;
        }
        return true;
}

uint16_t next(struct peer *a)
{
        struct wire_frame *f = &a->frame;

        if (!take(a, f, sizeof(*f)))
                return 0;
        assert_true(f->size <= WIRE_DATA_MAX);
        assert_true(take(a, a->payload, f->size));
        assert_true(f->tag == (a->has_keys ? wire_tag(a->keys.from_agent, a->n_taken++, f, a->payload) : 0));
        if (f->type != WIRE_DATA)
                return f->type;
        size_t used = MIN(a->sizes[f->stream], sizeof(a->text[0]) - 1), n = MIN((size_t)f->size, sizeof(a->text[0]) - 1 - used);
        memcpy(a->text[f->stream] + used, a->payload, n);
        a->sizes[f->stream] += f->size;
        if (!a->silent)
                put(a, WIRE_CREDIT, f->program, f->stream, f->size, NULL, 0);
        return f->type;
}

void await(struct peer *a, uint16_t type, uint32_t program)
{
        uint16_t got;

        while ((got = next(a)) != type || a->frame.program != program) {
                assert_int_not_equal(got, 0);
                assert_int_not_equal(got, WIRE_FAILED);
        }
}

struct wire_end await_end(struct peer *a, uint32_t program)
{
        struct wire_end end;

        await(a, WIRE_ENDED, program);
        assert_int_equal(a->frame.size, sizeof(end));
        memcpy(&end, a->payload, sizeof(end));
        return end;
}

static size_t add(char *plan, size_t at, const char *text)
{
        size_t n = strlen(text) + 1;

        memcpy(plan + at, text, n);
        return at + n;
}

void start(struct peer *a, uint32_t program, struct order o)
{
        char *const shell[] = {(char *)"sh", (char *)"-c", (char *)(uintptr_t)o.run, NULL}, *const *words = o.words ? o.words : shell;
        struct wire_plan head = {.flags = o.flags, .n_compile = o.compile ? 3 : 0, .n_env = 1, .code_size = o.code ? (uint32_t)strlen(o.code) : 0};
        char plan[8192];
        size_t at = sizeof(head);

        at = add(plan, at, "/");
        at = add(plan, at, o.path ? o.path : "");
        for (const char *word = o.compile ? "sh" : NULL; word; word = strcmp(word, "sh") == 0 ? "-c" : strcmp(word, "-c") == 0 ? o.compile : NULL)
                at = add(plan, at, word);
        for (; words[head.n_run]; head.n_run++)
                at = add(plan, at, words[head.n_run]);
        at = add(plan, at, "PATH=/usr/bin:/bin");
        memcpy(plan + at, o.code ? o.code : "", head.code_size);
        at += head.code_size;
        memcpy(plan, &head, sizeof(head));
        memset(a->text, 0, sizeof(a->text));
        memset(a->sizes, 0, sizeof(a->sizes));
        put(a, WIRE_PLAN, program, 0, 0, plan, 10); /* in two pieces */
        put(a, WIRE_PLAN, program, 0, 0, plan + 10, at - 10);
        put(a, WIRE_START, program, 0, 0, NULL, 0);
}

void start_echo(struct peer *a, uint32_t program)
{
        char *words[] = {helper, (char *)"echo", NULL};

        start(a, program, (struct order){.flags = WIRE_PLAN_CONTEXT, .words = words});
        await(a, WIRE_STARTED, program);
}

int setup(void **state)
{
        struct peer *a = calloc(1, sizeof(*a));
        int in[2], out[2];

        *state = a;
        if (!a || pipe2(in, O_CLOEXEC) < 0 || pipe2(out, O_CLOEXEC) < 0)
                return -1;
        a->pid = fork();
        if (a->pid == 0) {
                dup2(in[0], 0);
                dup2(out[1], 1);
                execl(AGENT_PROGRAM, AGENT_PROGRAM, (char *)NULL);
                _exit(127);
        }
        close(in[0]);
        close(out[1]);
        a->in = in[1];
        a->out = out[0];
        if (next(a) != WIRE_HELLO || a->frame.size != sizeof(a->hello))
                return -1;
        memcpy(&a->hello, a->payload, sizeof(a->hello));
        return 0;
}

int teardown(void **state)
{
        struct peer *a = *state;
        int status = 0;

        safe_close(a->in);
        while (next(a) != 0)
                ;
        safe_close(a->out);
        pid_t pid = waitpid(a->pid, &status, 0);
        bool good = pid == a->pid && WIFEXITED(status);
        free(a);
        return good ? 0 : -1;
}
