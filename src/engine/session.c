/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/exec.h"
#include "engine/growth.h"
#include "engine/script.h"
#include "engine/session_state.h"

#include "base/fd.h"
#include "policy/network.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>

void program_io_close(struct program_io *io)
{
        io->control = safe_close(io->control);
        io->out = safe_close(io->out);
        io->err = safe_close(io->err);
        io->deadline = safe_close(io->deadline);
}

static int check_options(const struct session_options *o, const struct backend *backend, gb_error *err)
{
        int r = policy_validate(o->policy, err);

        if (r < 0)
                return r;
        if (!backend->session_open)
                return error_set(err, GB_E_INTERNAL, ENOSYS, "the backend %s has no sessions", backend->name);
        const char *image = o->template ? o->template->rootfs : NULL;
        if (o->template && o->rootfs && (!image || strcmp(image, o->rootfs) != 0))
                return error_set(err, GB_E_USAGE, EINVAL, "the template %s is of another image than %s: leave one of them out", o->template->name,
                                 o->rootfs);
        return 0;
}

static struct session *session_new(const struct session_options *o, const struct backend *backend)
{
        struct session *s = calloc(1, sizeof(*s));

        if (!s)
                return NULL;
        s->backend = backend;
        s->policy = o->policy;
        s->started_usec = monotonic_usec();
        session_files_init(s);
        places_init(&s->places, o->policy);
        pthread_mutex_init(&s->backend_lock, NULL);
        pthread_mutex_init(&s->disk_lock, NULL);
        pthread_mutex_init(&s->contexts_lock, NULL);
        return s;
}

int session_open(const struct session_options *o, struct session **ret, gb_error *err)
{
        const struct backend *backend = o->backend ? o->backend : backend_for(o->policy);

        int r = check_options(o, backend, err);
        if (r < 0)
                return r;
        _cleanup_session_ struct session *s = session_new(o, backend);
        if (!s || result_make_id(s->id) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot open a session: out of memory");
        r = watch_open(o->policy, &s->watch, err);
        if (r == 0)
                r = places_open(&s->places, o->policy, o->workspace, err);
        if (r < 0)
                return r;
        /* What comes from a template has the template's root, where no secret may lie, nor a certificate of one session. */
        bool own_root = policy_has_secret_files(o->policy) || network_intercepts(o->policy);
        if (own_root && o->only_warm)
                return error_set(err, GB_E_NOT_FOUND, ENOTSUP, "files of secrets, and a certificate of the session, need a root of their own");
        r = network_box_open(o->policy, backend, true, watch_scrub(s->watch), &s->network, err);
        if (r < 0)
                return r;
        struct session_request request = {
                .policy = o->policy, .template = own_root ? NULL : o->template, .languages = o->languages, .only_warm = o->only_warm,
                .workspace_fd = s->places.workspace_fd, .mount_fds = s->places.mount_fds,
                .rootfs = o->rootfs ? o->rootfs : o->template ? o->template->rootfs : NULL,
                .ca = network_box_ca(s->network), .uid = o->uid, .gid = o->gid,
        };
        r = backend->session_open(&request, &s->controls, &s->box, err);
        if (r == 0 && s->network)
                r = network_box_attach(s->network, backend->session_listener(s->box, err), err);
        if (r < 0)
                return r;
        if (request.template && backend->session_is_warm && backend->session_is_warm(s->box))
                s->python = strdup(o->template->python);
        *ret = TAKE_PTR(s);
        return 0;
}

void session_close(struct session *s)
{
        (void)session_close_telling(s, NULL);
}

bool session_close_telling(struct session *s, struct ledger_copy **ret_rest)
{
        if (ret_rest)
                *ret_rest = NULL;
        if (!s)
                return true;
        places_end_hides(&s->places);
        /* All at once: an interpreter that saw the end of its channel first would begin to tidy up, in vain. */
        bool ended = !s->box || s->backend->session_free(s->box);
        for (size_t i = s->n_contexts; i > 0; i--)
                (void)context_close(s->contexts[i - 1], NULL);
        /* Nothing inside can ask any more; what was asked is counted to its end. */
        network_box_end(s->network);
        if (ret_rest)
                *ret_rest = network_box_rest(s->network);
        network_box_free(s->network);
        places_done(&s->places);
        pthread_mutex_destroy(&s->backend_lock);
        pthread_mutex_destroy(&s->disk_lock);
        pthread_mutex_destroy(&s->contexts_lock);
        watch_close(s->watch);
        free(s->python);
        free(s);
        return ended;
}

const char *session_id(const struct session *s)
{
        return s->id;
}

/* A session of a template has programs that do not come from it: other languages, and all once it has died. */
void session_say_layout(struct controls *c, bool forked)
{
        struct control_status *s = &c->status[CONTROL_LAYOUT];

        if (s->state != CONTROL_WEAKER || forked)
                return;
        s->state = CONTROL_ENFORCED;
        snprintf(s->how, sizeof(s->how), "fresh exec, in a session from a template");
}

const struct controls *session_controls(const struct session *s)
{
        return &s->controls;
}

const struct policy *session_policy(const struct session *s)
{
        return s->policy;
}

const struct scrub *session_scrub(const struct session *s)
{
        return watch_scrub(s->watch);
}

int session_network_change(struct session *s, const struct policy *p, gb_error *err)
{
        return network_box_change(s->network, p, err);
}

struct policy *session_network_policy(struct session *s)
{
        return network_box_policy(s->network, s->policy);
}

struct ledger_copy *session_network_ledger(struct session *s)
{
        return network_box_ledger(s->network);
}

uint64_t session_started_usec(const struct session *s)
{
        return s->started_usec;
}

int session_event_fd(const struct session *s)
{
        return s->backend->session_event_fd(s->box);
}

bool session_is_gone(struct session *s)
{
        struct pollfd event = {session_event_fd(s), POLLIN, 0};

        if (!s->gone && poll(&event, 1, 0) > 0)
                s->gone = true;
        return s->gone;
}

int session_usage(struct session *s, struct box_usage *ret, gb_error *err)
{
        pthread_mutex_lock(&s->backend_lock);
        int r = s->backend->session_usage(s->box, ret, err);
        pthread_mutex_unlock(&s->backend_lock);
        return r;
}

int session_start_program(struct session *s, const struct program_request *request, struct backend_program **ret, struct program_io *ret_io,
                          gb_error *err)
{
        if (session_is_gone(s))
                return error_set(err, GB_E_LOST, ESRCH, "the session has ended: open a new one");
        growth_start(s);
        pthread_mutex_lock(&s->backend_lock);
        int r = s->backend->program_start(s->box, request, ret, ret_io, err);
        pthread_mutex_unlock(&s->backend_lock);
        return r;
}

static int start_once(struct exec *x, const struct once_request *q, gb_error *err)
{
        int r = q->stdin_fd >= 0 ? exec_open_input(x, err) : 0;
        struct program_request request = {
                .mode = PROGRAM_ONCE, .policy = x->session->policy, .language = q->language,
                .code_name = q->code_name ? q->code_name : q->language->file, .code = q->code, .code_size = q->code_size, .args = q->args,
                .stdin_fd = x->pump_child, .alone = q->alone,
        };

        return r < 0 ? r : session_start_program(x->session, &request, &x->program, x->io, err);
}

/* A session can outlive its template. */
static bool is_warm(struct session *s)
{
        pthread_mutex_lock(&s->backend_lock);
        bool warm = s->python && s->backend->session_is_warm(s->box);
        pthread_mutex_unlock(&s->backend_lock);
        return warm;
}

/* Whether it can come from the session's template. */
static bool is_script(struct session *s, const struct once_request *q)
{
        struct script script = {
                .python = s->python, .language = q->language, .policy = s->policy, .code = q->code, .code_size = q->code_size, .args = q->args,
                .workspace_fd = s->backend->session_workspace(s->box),
        };

        return is_warm(s) && !script_why_not(&script);
}

static int start_script(struct exec *x, struct channel *c, const struct once_request *q, gb_error *err)
{
        struct program_request request = {
                .mode = PROGRAM_CONTEXT, .policy = x->session->policy, .language = q->language, .warm = true, .stdin_fd = -1,
        };
        struct claims claims = {.result = x->result, .policy = x->session->policy, .watch = x->session->watch, .outlet = &x->outlet,
                                .callbacks = x->callbacks, .asked_usec = x->asked_usec};
        char file[SCRIPT_FILE_MAX];

        int r = script_path(q->code_name ? q->code_name : q->language->file, file);
        if (r < 0)
                return error_set(err, GB_E_LIMIT, -r, "the name of the code is too long");
        if (channel_init(c) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        r = session_start_program(x->session, &request, &x->program, x->io, err);
        if (r == 0 && !is_warm(x->session)) {
                x->session->backend->program_free(x->program);
                x->program = NULL;
                program_io_close(x->io);
                r = error_set(err, GB_E_LOST, ECHILD, "the template has just ended");
        }
        if (r < 0)
                return r;
        c->eager = x->io->ready;
        r = channel_greet_script(c, x->io->control, q->language, x->session->policy, file, q->args);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot send its configuration to the interpreter: %s", strerror(-r));
        channel_begin(c, &claims);
        x->channel = c;
        x->script = true;
        return 0;
}

static int start(struct exec *x, struct channel *c, const struct once_request *q, gb_error *err)
{
        bool script = is_script(x->session, q);
        int r = script ? start_script(x, c, q, err) : 0;

        /* Without its template a fresh exec does it, too. */
        if (script && (r == 0 || x->program || q->only_warm))
                return r;
        if (q->only_warm)
                return error_set(err, GB_E_NOT_FOUND, ENOTSUP, "it needs a fresh exec");
        return start_once(x, q, err);
}

int session_run(struct session *s, const struct once_request *q, struct result **ret, gb_error *err)
{
        struct program_io io = PROGRAM_IO_NONE;
        _cleanup_(channel_done) struct channel channel = {0};
        _cleanup_chunk_ struct chunk chunk = {0};
        _cleanup_result_ struct result *result = result_new(s->policy, q->language, s->backend->name, q->keep_output);
        struct exec x = {
                .session = s, .language = q->language, .io = &io, .chunk = &chunk, .interrupt_fd = -1, .cancel_fd = q->cancel_fd,
                .stdin_fd = q->stdin_fd, .callbacks = &q->callbacks, .keep_output = q->keep_output, .result = result,
                .code = q->code, .code_size = q->code_size, .asked_usec = q->asked_usec > 0 ? q->asked_usec : monotonic_usec(),
                .timeout_usec = q->timeout_usec, .pump = PUMP_INIT, .pump_child = -1,
        };

        if (chunk_init(&chunk) < 0 || !result)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        memcpy(result->session, s->id, sizeof(result->session));
        result->controls = s->controls;
        struct watch_subject subject = {.language = q->language, .code = q->code, .code_size = q->code_size, .stdin_fd = q->stdin_fd};
        int r = q->checked ? 0 : watch_before(s->watch, &subject, result, err);
        if (r == 1) {
                result->facts.language = NULL; /* borrowed */
                *ret = TAKE_PTR(result);
                return 0;
        }
        if (r < 0)
                return r;
        r = exec_init(&x, err);
        if (r == 0)
                r = start(&x, &channel, q, err);
        session_say_layout(&result->controls, io.ready);
        /* What it took to start it, perhaps with a box of its own, is not the program's time. */
        if (r == 0 && !x.script)
                x.began_usec = monotonic_usec();
        if (r == 0)
                r = exec_run(&x, err);
        if (x.program)
                s->backend->program_free(x.program);
        program_io_close(&io);
        exec_done(&x);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(result);
        return 0;
}

int session_file_write(struct session *s, const char *path, const void *bytes, size_t size, mode_t mode, gb_error *err)
{
        struct files f;
        int r = session_files(s, &f, err);

        return r < 0 ? r : files_write(&f, path, bytes, size, mode, err);
}

int session_file_read(struct session *s, const char *path, char **ret, size_t *ret_size, gb_error *err)
{
        struct files f;
        int r = session_files(s, &f, err);

        return r < 0 ? r : files_read(&f, path, ret, ret_size, err);
}

int session_file_list(struct session *s, const char *path, struct file_list **ret, gb_error *err)
{
        struct files f;
        int r = session_files(s, &f, err);

        return r < 0 ? r : files_list(&f, path, ret, err);
}

int session_file_remove(struct session *s, const char *path, gb_error *err)
{
        struct files f;
        int r = session_files(s, &f, err);

        return r < 0 ? r : files_remove(&f, path, err);
}

int session_directory_make(struct session *s, const char *path, mode_t mode, gb_error *err)
{
        struct files f;
        int r = session_files(s, &f, err);

        return r < 0 ? r : files_make_directory(&f, path, mode, err);
}
