/* SPDX-License-Identifier: Apache-2.0
 *
 * The life of a context. It is made with an interpreter; when that dies under a run, or between two, the next
 * run makes a new one. busy is what keeps two threads out of one context: who has set it may touch everything. */
#include "engine/context.h"

#include "base/fd.h"
#include "base/utf8.h"
#include "engine/exec.h"
#include "engine/growth.h"
#include "engine/session_state.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void drop_program(struct context *c)
{
        if (c->program)
                c->session->backend->program_free(c->program);
        c->program = NULL;
        program_io_close(&c->io);
}

static int start_program(struct context *c, gb_error *err)
{
        struct program_request request = {
                .mode = PROGRAM_CONTEXT, .policy = c->session->policy, .language = c->language, .warm = c->session->policy->warm, .stdin_fd = -1,
        };

        c->memory_kills = atomic_load(&c->session->memory_kills);
        c->bombs = atomic_load(&c->session->bombs);
        int r = session_start_program(c->session, &request, &c->program, &c->io, err);
        if (r < 0)
                return r;
        c->channel.eager = c->io.ready;
        r = channel_greet(&c->channel, c->io.control, c->language, c->session->policy);
        if (r < 0) {
                drop_program(c);
                return error_set(err, GB_E_INTERNAL, -r, "cannot send its configuration to the %s context: %s", c->language->name, strerror(-r));
        }
        c->lost = false;
        growth_settle(c->session, c->io.control);
        return 0;
}

static void context_free(struct context *c)
{
        drop_program(c);
        channel_done(&c->channel);
        safe_close(c->interrupt_fd);
        chunk_done(&c->chunk);
        pthread_mutex_destroy(&c->lock);
        free(c);
}
DEFINE_CLEANUP(struct context, context_free)

static struct context *context_new(struct session *s, const struct language *language)
{
        _cleanup_(context_free_ptr) struct context *c = calloc(1, sizeof(*c));

        if (!c)
                return NULL;
        *c = (struct context){.session = s, .language = language, .io = PROGRAM_IO_NONE, .interrupt_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
        pthread_mutex_init(&c->lock, NULL);
        if (channel_init(&c->channel) < 0 || chunk_init(&c->chunk) < 0 || c->interrupt_fd < 0)
                return NULL;
        return TAKE_PTR(c);
}

/* A place among the session's contexts; its id. */
static int enter(struct session *s, struct context *c, gb_error *err)
{
        int r = 0;

        pthread_mutex_lock(&s->contexts_lock);
        if (s->n_contexts == CONTEXTS_MAX)
                r = error_set(err, GB_E_LIMIT, ENOSPC, "the session has %d contexts, which is the most: close one", CONTEXTS_MAX);
        else
                s->contexts[s->n_contexts++] = c;
        snprintf(c->id, sizeof(c->id), "%llu", (unsigned long long)++s->last_context);
        pthread_mutex_unlock(&s->contexts_lock);
        return r;
}

static void leave(struct session *s, const struct context *c)
{
        pthread_mutex_lock(&s->contexts_lock);
        for (size_t i = 0; i < s->n_contexts; i++)
                if (s->contexts[i] == c) {
                        memmove(&s->contexts[i], &s->contexts[i + 1], (s->n_contexts - i - 1) * sizeof(struct context *)); /* NOLINT: pointers are meant */
                        s->n_contexts--;
                        break;
                }
        pthread_mutex_unlock(&s->contexts_lock);
}

int context_open(struct session *s, const struct language *language, struct context **ret, gb_error *err)
{
        if (!language->context)
                return error_set(err, GB_E_USAGE, ENOTSUP, "%s has no contexts that keep their state: run each piece of code by itself",
                                 language->name);
        _cleanup_(context_free_ptr) struct context *c = context_new(s, language);
        if (!c)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot open a context: out of memory, or of descriptors");
        c->busy = true; /* until it is whole: others can find it from here on */
        int r = enter(s, c, err);
        if (r < 0)
                return r;
        r = start_program(c, err);
        if (r < 0) {
                leave(s, c);
                return r;
        }
        pthread_mutex_lock(&c->lock);
        c->busy = false;
        c->alive = true;
        pthread_mutex_unlock(&c->lock);
        *ret = TAKE_PTR(c);
        return 0;
}

/* Makes it busy. Interrupts that came before are not for who begins now. */
static int begin(struct context *c, gb_error *err)
{
        uint64_t old;

        pthread_mutex_lock(&c->lock);
        bool was_busy = c->busy;
        c->busy = true;
        if (!was_busy && read(c->interrupt_fd, &old, sizeof(old)) < 0)
                old = 0; /* the usual case: there were none */
        pthread_mutex_unlock(&c->lock);
        if (was_busy)
                return error_set(err, GB_E_USAGE, EBUSY, "context %s runs something already: wait for it, interrupt it, or use another context", c->id);
        return 0;
}

static void finish(struct context *c, bool ran)
{
        pthread_mutex_lock(&c->lock);
        c->busy = false;
        c->alive = c->program != NULL;
        c->runs += ran;
        pthread_mutex_unlock(&c->lock);
}

int context_restart(struct context *c, gb_error *err)
{
        int r = begin(c, err);

        if (r < 0)
                return r;
        drop_program(c);
        c->lost = false;
        r = start_program(c, err);
        finish(c, false);
        return r;
}

int context_close(struct context *c, gb_error *err)
{
        int r = begin(c, err);

        if (r < 0)
                return r;
        leave(c->session, c);
        context_free(c);
        return 0;
}

int context_interrupt(struct context *c, gb_error *err)
{
        static const uint64_t one = 1;

        pthread_mutex_lock(&c->lock);
        bool busy = c->busy;
        ssize_t n = busy ? write(c->interrupt_fd, &one, sizeof(one)) : 0;
        pthread_mutex_unlock(&c->lock);
        if (!busy)
                return error_set(err, GB_E_USAGE, ESRCH, "context %s runs nothing that could be interrupted", c->id);
        return n == sizeof(one) ? 0 : error_set(err, GB_E_INTERNAL, EIO, "cannot interrupt context %s", c->id);
}

const char *context_id(const struct context *c)
{
        return c->id;
}

struct session *context_session(const struct context *c)
{
        return c->session;
}

/* Whether the backend has something to say about the interpreter, and that can only be its end. */
static bool has_event(const struct context *c)
{
        struct pollfd ready = {c->session->backend->program_event_fd(c->program), POLLIN, 0};

        return poll(&ready, 1, 0) > 0;
}

void context_info_get(struct context *c, struct context_info *ret)
{
        pthread_mutex_lock(&c->lock);
        if (!c->busy && c->program && has_event(c))
                c->alive = false;
        *ret = (struct context_info){.language = c->language->name, .alive = c->alive, .busy = c->busy, .runs = c->runs};
        memcpy(ret->id, c->id, sizeof(ret->id));
        pthread_mutex_unlock(&c->lock);
}

size_t session_contexts(struct session *s, struct context_info *ret, size_t max)
{
        pthread_mutex_lock(&s->contexts_lock);
        size_t n = s->n_contexts;
        for (size_t i = 0; i < MIN(n, max); i++)
                context_info_get(s->contexts[i], &ret[i]);
        pthread_mutex_unlock(&s->contexts_lock);
        return n;
}

struct context *session_find_context(struct session *s, const char *id)
{
        struct context *found = NULL;

        pthread_mutex_lock(&s->contexts_lock);
        for (size_t i = 0; i < s->n_contexts; i++)
                if (strcmp(s->contexts[i]->id, id) == 0)
                        found = s->contexts[i];
        pthread_mutex_unlock(&s->contexts_lock);
        return found;
}

/* An interpreter that died since the last run, or is about to. */
static void notice_death(struct context *c)
{
        const struct backend *b = c->session->backend;
        struct box_event event = {0};

        if (!c->program)
                return;
        if (c->memory_kills < atomic_load(&c->session->memory_kills)) {
                drop_program(c);
                c->lost = true;
                return;
        }
        if (!has_event(c))
                return;
        if (b->program_next_event(c->program, &event, NULL) < 0 || event.kind == BOX_EVENT_ENDED) {
                drop_program(c);
                c->lost = true;
        }
}

static int check_request(const struct context *c, const struct context_request *q, gb_error *err)
{
        if (q->code_size > CODE_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "the code has %zu bytes, at most %llu are taken", q->code_size,
                                 (unsigned long long)CODE_BYTES_MAX);
        if (!utf8_is_valid(q->code, q->code_size) || memchr(q->code, '\0', q->code_size))
                return error_set(err, GB_E_USAGE, EILSEQ, "the code of a context must be UTF-8 text without NUL");
        if (c->channel.seq >= FRAME_SEQ_MAX)
                return error_set(err, GB_E_LIMIT, ERANGE, "context %s has had all its runs: restart it", c->id);
        return 0;
}

/* With an interpreter that was alive a moment ago. */
static int run(struct context *c, const struct context_request *q, struct exec *x, gb_error *err)
{
        struct session *s = c->session;
        struct result *result = x->result;

        memcpy(result->session, s->id, sizeof(result->session));
        memcpy(result->context, c->id, sizeof(result->context));
        result->controls = s->controls;
        notice_death(c);
        if (q->ours && !c->program)
                return error_set(err, GB_E_LOST, ESRCH, "context %s has no interpreter now", c->id);
        result->state_restarted = !c->program && c->lost;
        int r = c->program ? 0 : start_program(c, err);
        if (r < 0)
                return r;
        x->program = c->program;
        session_say_layout(&result->controls, c->io.ready);
        struct claims claims = {.result = result, .policy = s->policy, .watch = s->watch, .outlet = &x->outlet, .callbacks = &q->callbacks, .asked_usec = x->asked_usec};
        channel_begin(&c->channel, &claims);
        unsigned bombs = atomic_load(&s->bombs);
        c->channel.bombed = c->bombs != bombs;
        c->bombs = bombs;
        r = exec_run(x, err);
        result->state_kept = !x->ended;
        if (x->ended) {
                drop_program(c);
                c->lost = true;
        }
        return r;
}

/* Nothing was run, and the interpreter is as it was. */
static void say_blocked(struct context *c, struct result *result)
{
        memcpy(result->session, c->session->id, sizeof(result->session));
        memcpy(result->context, c->id, sizeof(result->context));
        result->controls = c->session->controls;
        result->state_kept = c->program != NULL;
        result->facts.language = NULL; /* borrowed */
}

struct beginning {
        struct exec *exec;
        gb_error *err;
        int status;
        bool begun;
};

/* While the code is being read. */
static void begin_exec(void *data)
{
        struct beginning *b = data;

        b->begun = true; /* exec_done() is for one that failed as well */
        b->status = exec_init(b->exec, b->err);
}

int context_run(struct context *c, const struct context_request *q, struct result **ret, gb_error *err)
{
        uint64_t asked_usec = monotonic_usec();

        int r = begin(c, err);
        if (r < 0)
                return r;
        _cleanup_result_ struct result *result = result_new(c->session->policy, c->language, c->session->backend->name, q->keep_output);
        struct exec x = {
                .session = c->session, .language = c->language, .io = &c->io, .channel = &c->channel, .chunk = &c->chunk,
                .interrupt_fd = c->interrupt_fd, .cancel_fd = q->cancel_fd, .code = q->code, .code_size = q->code_size, .last = q->last, .result = result,
                .stdin_fd = q->stdin_fd >= 0 && pump_may_read(q->stdin_fd) ? q->stdin_fd : -1, .callbacks = &q->callbacks,
                .keep_output = q->keep_output, .ours = q->ours, .asked_usec = asked_usec, .timeout_usec = q->timeout_usec, .pump = PUMP_INIT, .pump_child = -1,
        };
        r = result ? check_request(c, q, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        struct beginning beginning = {.exec = &x, .err = err};
        struct watch_subject subject = {
                .language = c->language, .code = q->code, .code_size = q->code_size, .stdin_fd = x.stdin_fd, .meanwhile = begin_exec, .data = &beginning,
        };
        if (r == 0 && q->ours)
                begin_exec(&beginning);
        else if (r == 0)
                r = watch_before(c->session->watch, &subject, result, err);
        bool blocked = r == 1;
        if (r == 0)
                r = beginning.status;
        if (r == 0)
                r = run(c, q, &x, err);
        if (beginning.begun)
                exec_done(&x);
        if (blocked) {
                say_blocked(c, result);
                r = 0;
        }
        finish(c, r == 0 && !blocked && !q->ours);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(result);
        return 0;
}
