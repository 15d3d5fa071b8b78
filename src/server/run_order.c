/* SPDX-License-Identifier: Apache-2.0 */
#include "server/run_order.h"

#include "base/fd.h"
#include "base/utf8.h"
#include "server/run_files.h"
#include "server/server.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LANGUAGE_DEFAULT "python"
#define TIMEOUT_MIN_USEC 1000ULL
#define CODE_NAME_MAX 255

static const char *const names_alone[] = {
        "code", "language", "name", "args", "stdin", "interactive", "timeout", "detach", "on_disconnect", "policy", "secrets", "template", "files", "workspace", NULL,
};
static const char *const names_in_session[] = {
        "code", "language", "context", "last", "name", "args", "stdin", "interactive", "timeout", "detach", "on_disconnect", NULL,
};

static int read_code(struct fields *f, struct run_order *o, gb_error *err)
{
        int r = fields_text(f, "code", &o->code, &o->code_size, err);

        if (r < 0)
                return r;
        if (!o->code)
                return fields_error(f, "code", GB_E_USAGE, err, "required");
        if (o->code_size > CODE_BYTES_MAX)
                return fields_error(f, "code", GB_E_LIMIT, err, "it has %zu bytes, at most %llu are taken", o->code_size, (unsigned long long)CODE_BYTES_MAX);
        return 0;
}

/* A plain file name: where it is put is not the caller's to say. */
static int read_name(struct fields *f, struct run_order *o, gb_error *err)
{
        int r = fields_text(f, "name", &o->name, NULL, err);

        if (r < 0 || !o->name)
                return r;
        if (o->name[0] == '\0' || strlen(o->name) > CODE_NAME_MAX || strchr(o->name, '/') || strcmp(o->name, ".") == 0 || strcmp(o->name, "..") == 0)
                return fields_error(f, "name", GB_E_USAGE, err, "a file name of 1 to %d bytes without / is wanted", CODE_NAME_MAX);
        return 0;
}

static int read_args(struct fields *f, struct run_order *o, gb_error *err)
{
        size_t sum = 0;

        int r = fields_words(f, "args", ARG_COUNT_MAX, &o->args, err);
        for (size_t i = 0; r == 0 && o->args && o->args[i]; i++)
                sum += strlen(o->args[i]) + 1;
        if (r == 0 && sum > ARG_BYTES_MAX)
                return fields_error(f, "args", GB_E_LIMIT, err, "%zu bytes, at most %llu are taken", sum, (unsigned long long)ARG_BYTES_MAX);
        return r;
}

/* The bytes in a file without a name, from which the engine reads. */
static int read_stdin(struct fields *f, struct run_order *o, gb_error *err)
{
        const json_t *value = json_object_get(f->object, "stdin");
        _cleanup_free_ void *memory = NULL;
        const char *bytes = NULL;
        size_t size = 0;

        int r = fields_bool(f, "interactive", &o->interactive, err);
        if (r < 0 || !value)
                return r;
        if (o->interactive)
                return fields_error(f, "stdin", GB_E_USAGE, err, "an interactive run gets it by POST /v1/runs/{run}/stdin");
        r = fields_bytes(f, "stdin", value, &bytes, &size, &memory, err);
        if (r < 0 || size == 0)
                return r;
        _cleanup_close_ int fd = memfd_create("stdin", MFD_CLOEXEC);
        if (fd < 0 || fd_write_all(fd, bytes, size) < 0 || lseek(fd, 0, SEEK_SET) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot keep standard input: %s", strerror(errno));
        o->stdin_fd = TAKE_FD(fd);
        return 0;
}

static int read_disconnect(struct fields *f, struct run_order *o, gb_error *err)
{
        const char *word = "continue";

        int r = fields_text(f, "on_disconnect", &word, NULL, err);
        if (r < 0)
                return r;
        if (strcmp(word, "continue") != 0 && strcmp(word, "cancel") != 0)
                return fields_error(f, "on_disconnect", GB_E_USAGE, err, "\"continue\" or \"cancel\" is wanted");
        o->cancel_on_disconnect = strcmp(word, "cancel") == 0;
        return fields_bool(f, "detach", &o->detach, err);
}

static int read_timeout(struct fields *f, const struct policy *p, struct run_order *o, gb_error *err)
{
        return fields_duration(f, "timeout", TIMEOUT_MIN_USEC, p->timeout_max_usec, &o->timeout_usec, err);
}

/* What a box of its own is made of. */
static int read_box(struct fields *f, struct server *server, const struct caller *caller, struct run_order *o, gb_error *err)
{
        bool kept = false;

        int r = fields_policy(f, server->live, caller, &o->policy, err);
        if (r == 0)
                r = fields_secrets(f, o->policy, err);
        if (r == 0)
                r = fields_template(f, server->templates, o->policy, &o->template, err);
        if (r == 0)
                r = fields_workspace(f, caller, &kept, &o->workspace, err);
        if (r == 0 && kept)
                r = fields_error(f, "workspace", GB_E_USAGE, err, "a kept workspace is for sessions");
        if (r == 0)
                r = run_files_check(f, &o->files, err);
        if (r == 0)
                r = read_timeout(f, o->policy, o, err);
        o->fresh = true;
        return r;
}

/* Only fresh programs have a name and arguments. */
static int check_fresh(struct fields *f, const struct run_order *o, gb_error *err)
{
        if (o->fresh || (!o->name && !o->args))
                return 0;
        return fields_error(f, o->name ? "name" : "args", GB_E_USAGE, err, "only a fresh program has this: \"context\": null runs one");
}

static int read_context(struct fields *f, struct run_order *o, gb_error *err)
{
        const json_t *value = json_object_get(f->object, "context");

        int r = fields_bool(f, "last", &o->last, err);
        if (r < 0)
                return r;
        if (value && !json_is_null(value))
                return fields_text(f, "context", &o->context, NULL, err);
        /* A language without contexts runs each piece of code by itself; what it is told otherwise is refused. */
        o->fresh = value || !o->language->context;
        return 0;
}

int run_order_read(struct fields *f, struct server *server, const struct caller *caller, bool in_session, struct run_order *ret, gb_error *err)
{
        gb_error why = {0};

        int r = fields_check(f, in_session ? names_in_session : names_alone, err);
        if (r == 0)
                r = read_code(f, ret, err);
        if (r == 0 && language_by_name(server->languages, LANGUAGE_DEFAULT, &ret->language, &why) < 0)
                ret->language = &server->languages->rows[0];
        if (r == 0)
                r = fields_language(f, server->languages, &ret->language, err);
        if (r == 0)
                r = read_name(f, ret, err);
        if (r == 0)
                r = read_args(f, ret, err);
        if (r == 0)
                r = read_stdin(f, ret, err);
        if (r == 0)
                r = read_disconnect(f, ret, err);
        if (r == 0)
                r = in_session ? read_context(f, ret, err) : read_box(f, server, caller, ret, err);
        return r < 0 ? r : check_fresh(f, ret, err);
}

/* Of a named context the language is known: another one that was asked for is a mistake. */
static int fit_language(struct fields *f, const struct languages *all, struct live_session *s, struct run_order *o, gb_error *err)
{
        struct context *c = NULL;
        struct context_info info;

        int r = live_context_get(s, o->context, NULL, false, &c, err);
        if (r < 0)
                return r;
        context_info_get(c, &info);
        live_context_put(s, c, false);
        if (json_object_get(f->object, "language") && strcmp(o->language->name, info.language) != 0)
                return fields_error(f, "language", GB_E_USAGE, err, "context %s is one of %s", info.id, info.language);
        return language_by_name(all, info.language, &o->language, err);
}

int run_order_fit(struct fields *f, const struct server *server, struct live_session *session, struct run_order *o, gb_error *err)
{
        int r = read_timeout(f, session->policy, o, err);

        return r < 0 || !o->context ? r : fit_language(f, server->languages, session, o, err);
}
