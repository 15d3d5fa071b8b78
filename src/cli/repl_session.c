/* SPDX-License-Identifier: Apache-2.0
 *
 * The session behind the prompt. It may die at any time; then the next input opens a new one. */
#include "cli/repl.h"

#include "cli/weaker.h"

#include <errno.h>
#include <poll.h>
#include <string.h>

/* Whoever asked for a template by name is told when it is not used, and why. */
static void tell_template(struct repl *r)
{
        const struct control_status *layout = &session_controls(r->session)->status[CONTROL_LAYOUT];

        if (r->options.template && layout->state == CONTROL_ENFORCED)
                repl_say(r, MESSAGE_WARNING, "the template %s is not used: %s", r->options.template->name, layout->how);
}

static void tell_warming(struct repl *r, bool begins)
{
        if (!r->asks || !r->options.template)
                return;
        if (begins)
                dprintf(r->terminal_fd, "warming %s...", r->options.template->name);
        else
                dprintf(r->terminal_fd, "\r%*s\r", (int)(strlen("warming ...") + strlen(r->options.template->name)), "");
}

int repl_open(struct repl *r, gb_error *err)
{
        tell_warming(r, true);
        int e = session_open(&r->options, &r->session, err);
        tell_warming(r, false);
        if (e == 0)
                e = context_open(r->session, r->language, &r->context, err);
        if (e < 0) {
                repl_close(r);
                return e;
        }
        if (!r->quiet) {
                tell_template(r);
                weaker_warn(session_controls(r->session), r->policy);
        }
        return 0;
}

void repl_close(struct repl *r)
{
        session_close(r->session);
        r->session = NULL;
        r->context = NULL;
}

static bool is_gone(const struct repl *r)
{
        struct pollfd event = {session_event_fd(r->session), POLLIN, 0};

        return poll(&event, 1, 0) > 0;
}

int repl_need_session(struct repl *r, gb_error *err)
{
        if (r->session && !is_gone(r))
                return 0;
        repl_close(r);
        int e = repl_open(r, err);
        /* A warden that is just dying may have taken the request with it. */
        if (e < 0 && err->code == GB_E_LOST)
                e = repl_open(r, err);
        if (e == 0 && !r->told_lost)
                repl_say(r, MESSAGE_WARNING, "the session had ended: this is a new one, without the variables%s of before",
                         r->workspace ? "" : " and files");
        r->told_lost = false;
        return e;
}

/* It ended under a run, or before one could begin. */
static void drop_lost(struct repl *r)
{
        repl_close(r);
        repl_say(r, MESSAGE_WARNING, "the session has ended, with its variables%s; the next input opens a new one", r->workspace ? "" : " and files");
        r->told_lost = true;
}

int repl_run(struct repl *r, const char *code, size_t size, gb_error *err)
{
        _cleanup_result_ struct result *result = NULL;
        struct context_request request = {
                .code = code, .code_size = size, .stdin_fd = -1, .cancel_fd = r->cancel_fd, .keep_output = r->json, .callbacks = repl_callbacks,
        };

        request.callbacks.data = r;
        r->failed = true;
        r->view = (struct findings_view){.code = code, .size = size};
        int e = repl_need_session(r, err);
        if (e < 0)
                return e;
        repl_show_begin(r);
        e = context_run(r->context, &request, &result, err);
        if (e < 0) {
                repl_show_end(r);
                if (is_gone(r))
                        drop_lost(r);
                return e;
        }
        r->failed = result->verdict.kind != VERDICT_OK;
        bool gone = is_gone(r);
        repl_show_result(r, result, gone);
        if (gone)
                drop_lost(r);
        return 0;
}
