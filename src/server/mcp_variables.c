/* SPDX-License-Identifier: Apache-2.0
 *
 * The interpreter is asked by a piece of code of ours (mcp_variables.py), which runs as any other does, but that the guard does not look at it and that no journal
 * has it. What comes back may as well be made up by the code of the session: each field is checked.
 *
 * A preview is cut only after it was scrubbed: the beginning of a secret is not one that the scrubber would know. So a longer piece is asked for, as long as the
 * longest secret may be in it; where that would be too long there are no previews. */
#include "server/mcp_variables.h"

#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIME "application/vnd.glovebox.variables+json"
#define ASK_USEC 5000000ULL   /* for the answer */
#define VARIABLES_MAX 200     /* that are told */
#define PREVIEW_CHARACTERS 80
#define NAME_CHARACTERS 200   /* of a variable, a type, a shape */
#define PIECE_MIN 160         /* characters of a preview that are asked for when nothing is scrubbed */
#define PIECE_MAX 4096        /* and when something is */
#define ENCODED_MAX 4         /* characters for a byte of a secret, whichever way it is written */

static const char note_none[] = "No Python lives in this session, so there are no variables.";
static const char note_busy[] = "Python runs something right now, so its variables are not known: ask again when that has ended.";
static const char note_late[] = "Python did not tell its variables in time, so they are not known.";
static const char note_gone[] = "Python has ended while it was asked for its variables: they are gone.";
static const char note_full[] = "As much runs already as may at a time, so the variables of Python are not known: ask again later.";
static const char note_bad[] = "Python could not tell its variables, so they are not known.";
static const char note_secret[] = "Values are not shown, because this session has a long secret.";

/* ---- asking ---- */

/* So many characters of each preview; 0: none is wanted. */
static size_t piece_of(const struct live_session *s)
{
        size_t longest = 0;

        if (!session_scrub(s->session))
                return PIECE_MIN;
        for (size_t i = 0; i < s->policy->n_secrets; i++)
                longest = MAX(longest, s->policy->secrets[i].size);
        return PREVIEW_CHARACTERS + longest * ENCODED_MAX <= PIECE_MAX ? PIECE_MAX : 0;
}

/* JSON's texts are Python's as well. Its own globals, no name of the user's, and a value that is none: so nothing is left. */
static char *make_code(size_t piece)
{
        _cleanup_json_ json_t *source = json_stringn((const char *)mcp_variables_text, mcp_variables_size);
        _cleanup_free_ char *text = source ? json_dumps(source, JSON_ENCODE_ANY | JSON_ENSURE_ASCII) : NULL;
        char *code;

        if (!text || asprintf(&code, "(lambda b: b.exec(b.compile(%s, '<glovebox>', 'exec', 0, True), {'namespace': b.globals(), 'piece': %zu}))(__import__('builtins'))",
                              text, piece) < 0)
                return NULL;
        return code;
}

/* The default one, to run something in it. NULL, or a note: there is none that could be asked. */
static const char *take_context(struct live_session *s, struct context **ret)
{
        char id[CONTEXT_ID_MAX] = "";
        struct context_info info;
        struct context *context;
        gb_error err = {0};

        pthread_mutex_lock(&s->lock);
        const char *by_default = live_context_default(s, "python");
        if (by_default)
                (void)snprintf(id, sizeof(id), "%s", by_default);
        pthread_mutex_unlock(&s->lock);
        if (!id[0])
                return note_none;
        if (live_context_get(s, id, NULL, true, &context, &err) < 0)
                return err.code == GB_E_CONFLICT ? note_busy : err.code == GB_E_NOT_FOUND ? note_none : note_bad;
        context_info_get(context, &info);
        if (info.alive) {
                *ret = context;
                return NULL;
        }
        live_context_put(s, context, true);
        return note_none;
}

static int ask(struct live_session *s, struct context *context, size_t piece, struct result **ret, const char **ret_note)
{
        _cleanup_free_ char *code = make_code(piece);
        gb_error err = {0};

        if (!code)
                return -ENOMEM;
        struct context_request request = {.code = code, .code_size = strlen(code), .stdin_fd = -1, .cancel_fd = -1, .ours = true};
        request.timeout_usec = MIN(ASK_USEC, s->policy->timeout_max_usec);
        int r = context_run(context, &request, ret, &err);
        if (r < 0)
                *ret_note = err.code == GB_E_LOST ? note_none : note_bad;
        else if (!(*ret)->state_kept)
                *ret_note = note_gone;
        else if ((*ret)->verdict.kind == VERDICT_TIMEOUT)
                *ret_note = note_late;
        else if ((*ret)->verdict.kind != VERDICT_OK)
                *ret_note = note_bad;
        return r == -ENOMEM ? r : 0;
}

/* ---- what came ---- */

/* A text without secrets, of so many characters; cut: with a sign of that. NULL: out of memory. */
static json_t *text_field(const struct scrub *scrub, const json_t *value, size_t characters)
{
        const char *text = json_is_string(value) ? json_string_value(value) : "";
        _cleanup_json_ json_t *clean = scrubbed_text(scrub, text, strlen(text), NULL);

        if (!clean)
                return NULL;
        const char *whole = json_string_value(clean), *end = whole;
        for (; *end; end++)
                if (((unsigned char)*end & 0xc0) != 0x80 && characters-- == 0)
                        return json_sprintf("%.*s...", (int)(end - whole), whole);
        return TAKE_PTR(clean);
}

static json_t *text_or_null(const struct scrub *scrub, const json_t *value)
{
        return json_is_string(value) ? text_field(scrub, value, NAME_CHARACTERS) : json_null();
}

/* NULL: out of memory. */
static json_t *row_to_json(const struct scrub *scrub, const json_t *row)
{
        const json_t *size = json_array_get(row, 3);
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        r |= json_object_set_new(o, "name", text_field(scrub, json_array_get(row, 0), NAME_CHARACTERS));
        r |= json_object_set_new(o, "type", text_field(scrub, json_array_get(row, 1), NAME_CHARACTERS));
        r |= json_object_set_new(o, "shape", text_or_null(scrub, json_array_get(row, 2)));
        r |= json_object_set_new(o, "size", json_is_integer(size) && json_integer_value(size) >= 0 ? json_integer(json_integer_value(size)) : json_null());
        r |= json_object_set_new(o, "preview", text_field(scrub, json_array_get(row, 4), PREVIEW_CHARACTERS));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

/* The answer among what was displayed meanwhile; NULL: there is none that can be read. */
static json_t *find_answer(const struct result *result)
{
        for (size_t i = 0; i < result->n_values; i++)
                for (size_t j = 0; j < result->values[i]->n_parts; j++) {
                        const struct result_part *part = &result->values[i]->parts[j];
                        if (strcmp(part->mime, MIME) == 0)
                                return json_parse(part->bytes, part->size, JSON_REJECT_DUPLICATES, NULL);
                }
        return NULL;
}

/* -EINVAL: it is not what was asked for. */
static int read_answer(const struct result *result, const struct scrub *scrub, json_t *list, uint64_t *ret_more)
{
        _cleanup_json_ json_t *answer = find_answer(result);
        const json_t *rows = json_object_get(answer, "variables"), *more = json_object_get(answer, "more");

        if (!json_is_array(rows) || !json_is_integer(more) || json_integer_value(more) < 0)
                return -EINVAL;
        for (size_t i = 0; i < MIN(json_array_size(rows), (size_t)VARIABLES_MAX); i++) {
                const json_t *row = json_array_get(rows, i);
                if (!json_is_array(row) || !json_is_string(json_array_get(row, 0)))
                        return -EINVAL;
                if (json_array_append_new(list, row_to_json(scrub, row)) < 0)
                        return -ENOMEM;
        }
        *ret_more = (uint64_t)json_integer_value(more);
        return 0;
}

/* With a context that can be asked. */
static int look(const struct mcp_call *c, struct live_session *s, struct context *context, json_t *list, uint64_t *ret_more, const char **ret_note)
{
        _cleanup_result_ struct result *result = NULL;
        struct reservation reservation = {0};
        const size_t piece = piece_of(s);

        /* It takes a processor, as a run does. */
        if (live_look_take(s->live, c->caller, &reservation, NULL) < 0) {
                *ret_note = note_full;
                return 0;
        }
        int r = ask(s, context, piece, &result, ret_note);
        admission_release(&reservation);
        if (r < 0 || *ret_note)
                return r;
        r = read_answer(result, session_scrub(s->session), list, ret_more);
        if (r == -ENOMEM)
                return r;
        if (r < 0)
                (void)json_array_clear(list);
        *ret_note = r < 0 ? note_bad : piece == 0 ? note_secret : NULL;
        return 0;
}

int mcp_variables(const struct mcp_call *c, struct live_session *s, json_t **ret, uint64_t *ret_more, const char **ret_note)
{
        _cleanup_json_ json_t *list = json_array();
        struct context *context = NULL;

        *ret_more = 0;
        if (!list)
                return -ENOMEM;
        *ret_note = take_context(s, &context);
        if (context) {
                int r = look(c, s, context, list, ret_more, ret_note);
                live_context_put(s, context, true);
                if (r < 0)
                        return r;
        }
        *ret = TAKE_PTR(list);
        return 0;
}
