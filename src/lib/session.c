/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions and contexts of the public C API. */
#include "lib/session.h"

#include "engine/context.h"
#include "engine/network.h"
#include "image/choose.h"
#include "policy/template.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SESSION_OPTIONS_SIZE_MIN (offsetof(struct gb_session_options, rootfs) + sizeof(char *))
#define CONTEXT_RUN_OPTIONS_SIZE_MIN (offsetof(struct gb_context_run_options, data) + sizeof(void *))

/* The template of who asks for none by name. */
#define TEMPLATE_DEFAULT "python"

/* Whether there is a template of that name, by the table alone. */
static const struct template *look_for_template(const struct templates *all, const char *name)
{
        for (size_t i = 0; i < all->n; i++)
                if (strcmp(all->rows[i].name, name) == 0)
                        return &all->rows[i];
        return NULL;
}

/* The default template is one of the host: it cannot be that of an image, and an engine has none. */
static int find_template(gb_session *s, const gb_session_options *o, const struct template **ret, gb_error *err)
{
        bool by_default = !o->template_name;

        *ret = NULL;
        if (by_default ? !s->policy->warm || o->rootfs || s->policy->image || s->policy->backend != BACKEND_NATIVE : o->template_name[0] == '\0')
                return 0;
        const struct templates *all;
        int r = tables_load_templates(s->tables, &all, err);
        if (r < 0)
                return r;
        if (!by_default)
                return template_by_name(all, o->template_name, ret, err);
        *ret = look_for_template(all, TEMPLATE_DEFAULT);
        return 0;
}

int gb_session_open(const gb_policy *policy, const gb_session_options *options, gb_session **ret, gb_error *err)
{
        gb_session_options o = GB_SESSION_OPTIONS_INIT;
        const struct template *template;

        int r = options ? options_copy(options, SESSION_OPTIONS_SIZE_MIN, &o, sizeof(o), "gb_session_open", "GB_SESSION_OPTIONS_INIT", err) : 0;
        if (r < 0)
                return r;
        if (!policy || !ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_session_open: a policy and a place for the session are required");
        _cleanup_(gb_session_close_ptr) gb_session *s = calloc(1, sizeof(*s));
        if (s) {
                s->policy = policy_copy(policy->policy); /* the caller may change or free his */
                s->tables = tables_share(policy->tables);
        }
        if (!s || !s->policy)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "gb_session_open: out of memory");
        const char *name = o.template_name && o.template_name[0] ? o.template_name : NULL;
        _cleanup_free_ char *root = NULL;
        r = image_choose(s->policy, o.rootfs, name, &root, err);
        if (r == 0)
                r = find_template(s, &o, &template, err);
        if (r < 0)
                return r;
        struct session_options request = {
                .policy = s->policy, .template = template, .languages = s->tables->languages, .workspace = o.workspace, .rootfs = root, .uid = BOX_UID, .gid = BOX_GID,
        };
        r = session_open(&request, &s->session, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(s);
        return 0;
}

const char *gb_session_id(const gb_session *session)
{
        return session_id(session->session);
}

void gb_session_close(gb_session *s)
{
        if (!s)
                return;
        session_close(s->session);
        policy_free(s->policy);
        tables_drop(s->tables);
        free(s);
}

static void on_run_started(void *data, uint64_t t_usec)
{
        const gb_run_options *o = data;

        if (o->started)
                o->started(o->data, t_usec);
}

static void on_run_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        const gb_run_options *o = data;

        if (o->output)
                o->output(o->data, stream == RUN_STDOUT ? GB_STDOUT : GB_STDERR, bytes, size, t_usec);
}

int gb_session_run(gb_session *session, const gb_run_options *options, gb_result **ret, gb_error *err)
{
        const struct language *language;
        gb_run_options o;

        int r = options_read_run(options, &o, "gb_session_run", err);
        if (r < 0)
                return r;
        if (!session || !ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_session_run: a session and a place for the result are required");
        if (o.workspace || o.rootfs)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_session_run: workspace and rootfs are those of the session");
        r = options_find_language(session->tables->languages, &o, &language, "gb_session_run", err);
        if (r < 0)
                return r;
        _cleanup_(gb_result_free_ptr) gb_result *result = gb_result_new(session->policy);
        if (!result)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "gb_session_run: out of memory");
        const struct once_request request = {
                .language = language, .code_name = o.name, .code = o.code, .code_size = o.code_size, .args = (char *const *)o.args,
                .stdin_fd = o.stdin_fd, .cancel_fd = o.cancel_fd, .keep_output = true,
                .callbacks = {.started = on_run_started, .output = on_run_output, .data = &o},
        };
        r = session_run(session->session, &request, &result->result, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(result);
        return 0;
}

/* A context of the API is one of the engine: a session that is closed takes its contexts with it. */
static struct context *engine_context(const gb_context *context)
{
        return (struct context *)context;
}

int gb_context_open(gb_session *session, const char *name, gb_context **ret, gb_error *err)
{
        const struct language *language;
        struct context *context;

        if (!session || !name || !ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_context_open: a session, a language and a place for the context are required");
        int r = language_by_name(session->tables->languages, name, &language, err);
        if (r == 0)
                r = context_open(session->session, language, &context, err);
        if (r == 0)
                *ret = (gb_context *)context;
        return r;
}

const char *gb_context_id(const gb_context *context)
{
        return context_id(engine_context(context));
}

static int refuse_null(const char *function, gb_error *err)
{
        return error_set(err, GB_E_USAGE, EINVAL, "%s: there is no context", function);
}

int gb_context_restart(gb_context *context, gb_error *err)
{
        return context ? context_restart(engine_context(context), err) : refuse_null("gb_context_restart", err);
}

int gb_context_interrupt(gb_context *context, gb_error *err)
{
        return context ? context_interrupt(engine_context(context), err) : refuse_null("gb_context_interrupt", err);
}

int gb_session_set_network(gb_session *session, const gb_policy *policy, gb_error *err)
{
        return session_network_change(session->session, policy->policy, err);
}

char *gb_session_network_json(gb_session *session)
{
        _cleanup_free_ struct ledger_copy *ledger = session_network_ledger(session->session);
        json_t *o = ledger ? network_ledger_to_json(ledger, SIZE_MAX) : NULL;
        char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

        json_decref(o);
        return text;
}

char *gb_session_contexts_json(gb_session *session)
{
        struct context_info all[CONTEXTS_MAX];
        size_t n = MIN(session_contexts(session->session, all, CONTEXTS_MAX), (size_t)CONTEXTS_MAX);
        json_t *list = json_array();

        for (size_t i = 0; i < n; i++)
                (void)json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:b, s:I}", "id", all[i].id, "language", all[i].language, "alive",
                                                            all[i].alive, "busy", all[i].busy, "runs", (json_int_t)all[i].runs));
        char *text = json_array_size(list) == n ? json_dumps(list, JSON_COMPACT) : NULL;
        json_decref(list);
        return text;
}

int gb_context_close(gb_context *context, gb_error *err)
{
        return context ? context_close(engine_context(context), err) : 0;
}

static void on_started(void *data, uint64_t t_usec)
{
        const gb_context_run_options *o = data;

        if (o->started)
                o->started(o->data, t_usec);
}

static void on_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        const gb_context_run_options *o = data;

        if (o->output)
                o->output(o->data, stream == RUN_STDOUT ? GB_STDOUT : GB_STDERR, bytes, size, t_usec);
}

static void on_result(void *data, const struct result_value *value, uint64_t t_usec)
{
        const gb_context_run_options *o = data;
        gb_part parts[FRAME_PARTS_MAX];

        for (size_t i = 0; i < value->n_parts; i++)
                parts[i] = (gb_part){value->parts[i].mime, value->parts[i].bytes, value->parts[i].size};
        if (o->result)
                o->result(o->data, value->main, parts, value->n_parts, t_usec);
}

static void on_error(void *data, const struct result_error *error, uint64_t t_usec)
{
        const gb_context_run_options *o = data;

        if (o->error)
                o->error(o->data, error->name.bytes, error->value.bytes, error->traceback.bytes, t_usec);
}

int gb_context_run(gb_context *context, const gb_context_run_options *options, gb_result **ret, gb_error *err)
{
        gb_context_run_options o = GB_CONTEXT_RUN_OPTIONS_INIT;

        int r = options_copy(options, CONTEXT_RUN_OPTIONS_SIZE_MIN, &o, sizeof(o), "gb_context_run", "GB_CONTEXT_RUN_OPTIONS_INIT", err);
        if (r == 0)
                r = options_check_code(o.code, &o.code_size, "gb_context_run", err);
        if (r < 0)
                return r;
        if (!context || !ret)
                return error_set(err, GB_E_USAGE, EINVAL, "gb_context_run: a context and a place for the result are required");
        _cleanup_(gb_result_free_ptr) gb_result *result = gb_result_new(session_policy(context_session(engine_context(context))));
        if (!result)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "gb_context_run: out of memory");
        const struct context_request request = {
                .code = o.code, .code_size = o.code_size, .stdin_fd = o.stdin_fd, .cancel_fd = o.cancel_fd, .keep_output = true,
                .last = o.last != 0, .callbacks = {on_started, on_output, on_result, on_error, &o},
        };
        r = context_run(engine_context(context), &request, &result->result, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(result);
        return 0;
}
