/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox guard check: the guard alone, on code that is not run. */
#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/findings.h"
#include "cli/request.h"
#include "cli/secrets.h"
#include "cli/service.h"
#include "cli/settings.h"
#include "cli/source.h"
#include "engine/result_values.h"
#include "engine/watch.h"
#include "guard/reader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define LANGUAGE_DEFAULT "python" /* of -c and - */
#define LINES_BYTES_MAX (1 << 20)

struct check {
        const struct option_set *set;
        const struct arguments *arguments;
        struct languages *languages;
        /* One of them */
        struct policy *policy;
        struct service service;

        struct watch *watch;
        json_t *body; /* "policy" and "secrets" of each request */
        json_t *findings;
        json_int_t more;
        bool blocked;
};

static void check_done(struct check *c)
{
        watch_close(c->watch);
        languages_free(c->languages);
        policy_free(c->policy);
        service_done(&c->service);
        json_decref(c->body);
        json_decref(c->findings);
        reader_forget();
}

/* ---- who looks ---- */

static int open_here(struct check *c, gb_error *err)
{
        int r = settings_policy(c->set, c->arguments, &c->policy, err);

        if (r == 0 && c->policy->guard != WATCH_OFF)
                reader_prepare(1); /* it comes up while the rules and the code are read */
        if (r == 0)
                r = watch_open(c->policy, &c->watch, err);
        if (r == 0 && c->policy->guard == WATCH_OFF && !arguments_has(c->arguments, OPT_QUIET))
                message_print(MESSAGE_WARNING, "the policy has the guard switched off: no rule about code counts");
        return r;
}

static int open_there(struct check *c, gb_error *err)
{
        _cleanup_json_ json_t *policy = NULL;

        c->body = json_object();
        int r = request_policy(c->set, c->arguments, &policy, err);
        if (r == 0)
                r = secrets_set_request(c->body, c->arguments, NULL, err);
        if (r < 0)
                return r;
        if (json_object_size(policy) > 0 && json_object_set(c->body, "policy", policy) < 0)
                return service_out_of_memory(err);
        r = service_open(c->set, c->arguments, &c->service, err);
        if (r == 0)
                secrets_warn(c->body, &c->service.client.address);
        return r;
}

static int look_here(struct check *c, const struct source *source, const struct language *language, json_t **ret, gb_error *err)
{
        _cleanup_result_ struct result *result = result_new(c->policy, language, "none", false);
        struct watch_subject subject = {.language = language, .code = source->code, .code_size = source->size, .stdin_fd = -1};

        if (!result)
                return service_out_of_memory(err);
        int r = watch_before(c->watch, &subject, result, err);
        if (r < 0)
                return r;
        *ret = guard_to_json(result->findings);
        return *ret ? 0 : service_out_of_memory(err);
}

static int look_there(struct check *c, const struct source *source, const struct language *language, json_t **ret, gb_error *err)
{
        int r = request_set_text(c->body, "code", source->code, source->size);

        if (r == -EILSEQ)
                return error_set(err, GB_E_USAGE, EILSEQ, "code that goes to a server is UTF-8 without NUL");
        if (r == 0)
                r = request_set_text(c->body, "language", language->name, strlen(language->name));
        return r < 0 ? service_out_of_memory(err) : service_call(&c->service, "POST", "/v1/guard/check", c->body, ret, err);
}

/* ---- one piece of code ---- */

static bool blocks(const json_t *findings)
{
        const json_t *finding;
        size_t i;

        json_array_foreach(findings, i, finding)
                if (strcmp(json_member(finding, "action", ""), "block") == 0)
                        return true;
        return false;
}

/* file NULL: the code of -c. */
static int tell(struct check *c, json_t *guard, const struct source *source, const char *file, gb_error *err)
{
        const char *name = !file ? "<code>" : strcmp(file, "-") == 0 ? "<stdin>" : file;
        json_t *findings = json_object_get(guard, "findings"), *finding;
        struct findings_view view = {.code = source->code, .size = source->size};
        _cleanup_buffer_ struct buffer lines = {0};
        const json_t *more = json_object_get(guard, "more");
        size_t i;

        if (!json_is_array(findings) || !json_is_integer(more))
                return error_set(err, GB_E_LOST, EBADMSG, "the server's answer does not say what was found");
        c->blocked |= blocks(findings);
        c->more += json_integer_value(more);
        if (arguments_has(c->arguments, OPT_JSON)) {
                json_array_foreach(findings, i, finding)
                        if (file && json_object_set_new(finding, "file", json_readable(file, strlen(file))) < 0)
                                return service_out_of_memory(err);
                return json_array_extend(c->findings, findings) < 0 ? service_out_of_memory(err) : 0;
        }
        if (arguments_has(c->arguments, OPT_QUIET))
                return 0;
        buffer_init(&lines, LINES_BYTES_MAX);
        if (findings_list(findings, name, &view, &lines) < 0)
                return service_out_of_memory(err);
        (void)fd_write_all(STDERR_FILENO, lines.data, lines.size);
        return 0;
}

static int find_language(struct check *c, const char *file, const struct language **ret, gb_error *err)
{
        const char *name = arguments_get(c->arguments, OPT_LANG);

        if (!name && file && strcmp(file, "-") != 0 && language_by_file(c->languages, file, ret, err) == 0)
                return 0;
        if (!name)
                name = arguments_get_or_env(c->set, c->arguments, OPT_LANG);
        if (!name && file && strcmp(file, "-") != 0)
                return -EINVAL; /* err says which extension it was */
        return language_by_name(c->languages, name ? name : LANGUAGE_DEFAULT, ret, err);
}

static int look_at(struct check *c, const char *file, gb_error *err)
{
        _cleanup_source_ struct source source = {0};
        _cleanup_json_ json_t *guard = NULL;
        const struct language *language;

        int r = file ? source_read(file, &source, err) : source_text(arguments_get(c->arguments, OPT_CODE), &source, err);
        if (r == 0)
                r = find_language(c, file, &language, err);
        if (r == 0)
                r = source_check(&source, language, !file ? "the code of -c" : strcmp(file, "-") == 0 ? "standard input" : quote(file).text, err);
        if (r == 0)
                r = c->watch ? look_here(c, &source, language, &guard, err) : look_there(c, &source, language, &guard, err);
        return r < 0 ? r : tell(c, guard, &source, file, err);
}

static int check_usage(const struct arguments *a, gb_error *err)
{
        bool code = arguments_has(a, OPT_CODE);
        size_t n = 0;

        for (size_t i = 0; i < a->n_words; i++)
                n += strcmp(a->words[i], "-") == 0;
        if (code && a->n_words > 0)
                return error_set(err, GB_E_USAGE, 0, "both -c and %s were given", quote(a->words[0]).text);
        if (arguments_count(a, OPT_CODE) > 1 || n > 1)
                return error_set(err, GB_E_USAGE, 0, "%s was given twice", code ? "-c" : "-");
        if (!code && a->n_words == 0)
                return error_set(err, GB_E_USAGE, 0, "nothing to look at: give a FILE, -c CODE, or - for standard input");
        return 0;
}

int command_guard_check(const struct command *command, const struct arguments *arguments)
{
        const struct arguments *a = arguments;
        _cleanup_(check_done) struct check c = {.set = &command->options, .arguments = a, .service = {.client = {.fd = -1}}, .findings = json_array()};
        gb_error err = {0};

        int r = check_usage(a, &err);
        if (r == 0)
                r = languages_load(NULL, &c.languages, &err);
        if (r == 0)
                r = service_is_named(c.set, a) ? open_there(&c, &err) : open_here(&c, &err);
        if (r == 0 && a->n_words == 0)
                r = look_at(&c, NULL, &err);
        for (size_t i = 0; r == 0 && i < a->n_words; i++)
                r = look_at(&c, a->words[i], &err);
        if (r < 0)
                return command_fail(a, &err);
        int status = 0;
        if (arguments_has(a, OPT_JSON)) {
                _cleanup_json_ json_t *whole = json_pack("{s:b, s:O, s:I}", "blocked", c.blocked, "findings", c.findings, "more", c.more);
                status = output_json(whole);
        }
        return status == 0 && c.blocked ? verdict_exit_status(&(struct verdict){.kind = VERDICT_BLOCKED}, &(struct run_facts){0}) : status;
}
