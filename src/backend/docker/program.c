/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program is to the agent: its plan. */
#include "backend/docker/session.h"

#include "backend/command.h"
#include "backend/docker/session_state.h"
#include "base/fd.h"
#include "policy/network.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define FILE_SLACK_BYTES (4 * MIB)
#define ONCE_SLOTS 16

static int add_words(struct buffer *plan, const struct words *w)
{
        int r = 0;

        for (size_t i = 0; r == 0 && i < w->n; i++)
                r = buffer_add(plan, w->list[i], strlen(w->list[i]) + 1);
        return r;
}

static int write_plan(struct buffer *plan, struct wire_plan *head, const char *cwd, const struct command *c, const char *file, const void *code, gb_error *err)
{
        head->n_compile = (uint32_t)c->compile.n;
        head->n_run = (uint32_t)c->run.n;
        head->n_env = (uint32_t)c->env.n;
        int r = buffer_add(plan, head, sizeof(*head));
        if (r == 0)
                r = buffer_add(plan, cwd, strlen(cwd) + 1);
        if (r == 0)
                r = buffer_add(plan, file, strlen(file) + 1);
        if (r == 0)
                r = add_words(plan, &c->compile);
        if (r == 0)
                r = add_words(plan, &c->run);
        if (r == 0)
                r = add_words(plan, &c->env);
        if (r == 0 && head->code_size > 0)
                r = buffer_add(plan, code, head->code_size);
        if (r == -EFBIG)
                return error_set(err, GB_E_LIMIT, E2BIG, "the code and its arguments are more than %llu MB together", WIRE_PLAN_MAX / MIB);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "out of memory") : 0;
}

static int plan_program(struct backend_session *s, const struct program_request *q, struct buffer *plan, gb_error *err)
{
        bool context = q->mode == PROGRAM_CONTEXT;
        struct code_place place = {0};
        uint64_t largest = MAX(q->policy->disk_limit_bytes, q->policy->tmp_size_bytes);
        struct wire_plan head = {
                .flags = context ? WIRE_PLAN_CONTEXT : q->stdin_fd >= 0 ? WIRE_PLAN_STDIN : 0, .code_size = context ? 0 : (uint32_t)q->code_size,
                .rlimit_nofile = q->policy->nofile,
                .rlimit_fsize = largest + FILE_SLACK_BYTES,
        };
        _cleanup_command_ struct command *c = command_new();
        int r = c ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");

        if (r == 0 && context)
                r = command_set_context(c, q->language, q->policy, AGENT_RUNNER_DIR, err);
        else if (r == 0) {
                r = command_place(&place, q->policy, q->code_name ? q->code_name : q->language->file, q->alone ? -1 : (int)(s->next_slot++ % ONCE_SLOTS), err);
                if (r == 0)
                        r = command_set_program(c, q->language, q->policy, &place, q->args, err);
        }
        return r < 0 ? r : write_plan(plan, &head, s->cwd, c, place.file, q->code, err);
}

int program_docker_start(struct backend_session *s, const struct program_request *q, struct backend_program **ret, struct program_io *ret_io,
                         gb_error *err)
{
        _cleanup_buffer_ struct buffer plan;

        buffer_init(&plan, WIRE_PLAN_MAX);
        plan.secret = true; /* variables and files may be */
        int r = plan_program(s, q, &plan, err);
        if (r < 0)
                return r;
        return line_start(&s->line, &plan, q->mode == PROGRAM_ONCE ? q->stdin_fd : -1, q->mode == PROGRAM_CONTEXT, ret, ret_io, err);
}

/* A server of files is a program of the agent's own; its control channel is the stream, and nobody waits for its end. Before it serves it writes a file, as every
 * program's code is written; "": none. */
static int start_files(struct backend_session *s, const char *file, const void *bytes, size_t size, gb_error *err)
{
        struct program_io io;
        struct backend_program *p = NULL;
        struct wire_plan head = {.flags = WIRE_PLAN_FILES | WIRE_PLAN_CONTEXT, .code_size = (uint32_t)size};
        _cleanup_buffer_ struct buffer plan;
        _cleanup_command_ struct command *none = command_new();

        buffer_init(&plan, WIRE_PLAN_MAX);
        plan.secret = true; /* variables and files may be */
        int r = none ? write_plan(&plan, &head, s->cwd, none, file, bytes, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = line_start(&s->line, &plan, -1, true, &p, &io, err);
        if (r < 0)
                return r;
        safe_close(io.out);
        safe_close(io.err);
        safe_close(io.deadline);
        line_release(p);
        int flags = fcntl(io.control, F_GETFL);
        if (flags >= 0)
                (void)fcntl(io.control, F_SETFL, flags & ~O_NONBLOCK);
        return io.control;
}

int session_docker_dial(struct backend_session *s, gb_error *err)
{
        return start_files(s, "", NULL, 0, err);
}

static int put_file(struct backend_session *s, const char *path, const void *bytes, size_t size, gb_error *err)
{
        int stream = start_files(s, path, bytes, size, err);

        if (stream < 0)
                return stream;
        safe_close(stream);
        return 0;
}

int session_docker_put_secrets(struct backend_session *s, const struct policy *policy, const struct box_file *ca, gb_error *err)
{
        int r = ca ? put_file(s, NETWORK_CA_PATH, ca->bytes, ca->size, err) : 0;

        for (size_t i = 0; r == 0 && i < policy->n_secrets; i++) {
                const struct policy_secret *secret = &policy->secrets[i];
                if (secret->path && !network_uses_secret(policy, secret->name))
                        r = put_file(s, secret->path, secret->value, secret->size, err);
        }
        return r;
}
