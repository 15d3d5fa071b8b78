/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/content_words.h"

#include "base/limits.h"
#include "base/quote.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define SENTENCE_BYTES_MAX 2048 /* of a message or a note; ours are shorter */
#define HOSTS_TOLD 8            /* names of hosts that were refused */
#define WORD_MAX 32             /* why one was */

/* Asking for more: an argument of the tools, or somebody else's to decide. */
#define BY_ARGUMENT ", or pass a larger `timeout` (seconds), up to the policy's maximum."
#define BY_OPERATOR "; this limit is set by the operator's policy, and no tool can raise it."

static const struct kind_row {
        const char *name;
        const char *asking; /* NULL: the message does not say how to ask for more */
} kinds[] = {
        {"ok", NULL},           {"error", NULL},       {"timeout", BY_ARGUMENT}, {"cpu", BY_OPERATOR}, {"memory", BY_OPERATOR}, {"pids", BY_OPERATOR},
        {"disk", BY_OPERATOR}, {"output", BY_OPERATOR}, {"syscall", NULL},       {"blocked", NULL},    {"cancelled", NULL},     {"lost", NULL},
};

static const struct kind_row *kind_row(const json_t *result)
{
        const char *name = json_string_value(json_object_get(json_object_get(result, "verdict"), "kind"));

        for (size_t i = 0; name && i < ARRAY_SIZE(kinds); i++)
                if (strcmp(name, kinds[i].name) == 0)
                        return &kinds[i];
        return &kinds[ARRAY_SIZE(kinds) - 1];
}

const char *content_kind(const json_t *result)
{
        return kind_row(result)->name;
}

int content_exit_status(const json_t *result)
{
        const json_t *error = json_object_get(result, "error"), *value = json_object_get(error, "value");
        const char *name = json_string_value(json_object_get(error, "name")), *digits = json_string_value(value);
        size_t n = json_string_length(value);
        int status = 0;

        if (!name || strcmp(name, "ExitStatus") != 0 || json_string_length(json_object_get(error, "traceback")) > 0)
                return -1;
        if (n < 1 || n > 3 || strspn(digits, "0123456789") != n)
                return -1;
        for (size_t i = 0; i < n; i++)
                status = 10 * status + (digits[i] - '0');
        return status <= UINT8_MAX ? status : -1;
}

bool content_duration_ms(const json_t *result, double *ret)
{
        const json_t *ms = json_object_get(result, "duration_ms");

        if (!json_is_number(ms))
                return false;
        *ret = MAX(json_number_value(ms), 0.0);
        return true;
}

/* ---- sentences ---- */

/* One line: what a terminal would not show as itself becomes a blank. */
static int add_line(struct buffer *out, const char *text, size_t size)
{
        int r = 0;

        for (size_t used = 0; used < size && used < SENTENCE_BYTES_MAX && r == 0;) {
                uint32_t c;
                size_t n = utf8_decode(text + used, size - used, &c);
                if (n > 0 && quote_is_printable(c))
                        r = buffer_add(out, text + used, n);
                else
                        r = buffer_add(out, " ", 1);
                used += MAX(n, (size_t)1);
        }
        return r;
}

/* The sentence on what the network refused ends with a host, by a name of the program's choice. */
static int cut_host(struct buffer *b)
{
        static const char words[] = " refused by the network policy";
        char *at = b->size > 0 ? strstr(b->data, words) : NULL;

        if (!at)
                return 0;
        b->size = (size_t)(at - b->data) + strlen(words);
        return buffer_add(b, ".", 1);
}

/* "..., or ask for more with --memory." The end of that: behind its point. */
static const char *asking_end(const char *at)
{
        for (; *at; at++)
                if (*at == '.' && (at[1] == ' ' || at[1] == '\0'))
                        return at + 1;
        return at;
}

static int add_without_flags(struct buffer *out, const char *message, const char *instead)
{
        const char *at = strstr(message, "ask for more ");

        if (!at || !instead)
                return buffer_add_string(out, message);
        size_t n = (size_t)(at - message);
        static const char *const joints[] = {", or ", ", "};
        for (size_t i = 0; i < ARRAY_SIZE(joints); i++) {
                size_t joint = strlen(joints[i]);
                if (n >= joint && strncmp(message + n - joint, joints[i], joint) == 0) {
                        n -= joint;
                        break;
                }
        }
        int r = buffer_add(out, message, n);
        if (r == 0)
                r = buffer_add_string(out, instead);
        return r == 0 ? buffer_add_string(out, asking_end(at)) : r;
}

/* "The code failed with NAME: the error says what and where." The name is one that the code has chosen. */
static int add_without_name(struct buffer *out, const char *message)
{
        static const char words[] = "The code failed with ";
        const char *rest = strncmp(message, words, strlen(words)) == 0 ? strstr(message, ": the error says") : NULL;

        if (!rest)
                return buffer_add_string(out, message);
        int r = buffer_add_string(out, "The code failed with an exception");
        return r == 0 ? buffer_add_string(out, rest) : r;
}

static int add_ok(struct buffer *out, const json_t *result)
{
        double ms;

        if (!content_duration_ms(result, &ms))
                return buffer_add_string(out, "ok.");
        if (ms >= 1000)
                return buffer_printf(out, "ok in %.1f s.", ms / 1000);
        return buffer_printf(out, "ok in %.*f ms.", ms < 10 ? 1 : 0, ms);
}

int content_add_message(struct buffer *out, const json_t *result)
{
        const struct kind_row *kind = kind_row(result);
        const json_t *message = json_object_get(json_object_get(result, "verdict"), "message");
        _cleanup_buffer_ struct buffer line = {0}, said = {0};
        int status = content_exit_status(result);

        if (strcmp(kind->name, "ok") == 0)
                return add_ok(out, result);
        if (status >= 0 && strcmp(kind->name, "error") == 0)
                return buffer_printf(out, "The command exited with status %d.", status);
        if (json_string_length(message) == 0)
                return buffer_printf(out, "The run ended with the verdict %s.", kind->name);

        buffer_init(&line, 2 * SENTENCE_BYTES_MAX);
        buffer_init(&said, 2 * SENTENCE_BYTES_MAX);
        int r = add_line(&line, json_string_value(message), json_string_length(message));
        if (r == 0)
                r = strcmp(kind->name, "error") == 0 ? add_without_name(&said, line.data) : add_without_flags(&said, line.data, kind->asking);
        /* A rule of the guard may speak of anything: what it says is the operator's. */
        if (r == 0 && strcmp(kind->name, "blocked") != 0)
                r = cut_host(&said);
        return r == 0 ? buffer_add(out, said.data, said.size) : r;
}

/* ---- notes ---- */

static int append(struct content_notes *n, const char *text, size_t size)
{
        if (n->used_bytes + size > MCP_TEXT_BYTES_MAX)
                return 0;
        n->used_bytes += size;
        return json_array_append_new(n->list, json_stringn_nocheck(text, size)) < 0 ? -ENOMEM : 0;
}

static int note_text(struct content_notes *n, const char *text, size_t size)
{
        _cleanup_buffer_ struct buffer line = {0};

        buffer_init(&line, 2 * SENTENCE_BYTES_MAX);
        int r = add_line(&line, text, size);
        if (r == 0)
                r = cut_host(&line);
        return r == 0 && line.size > 0 ? append(n, line.data, line.size) : r;
}

int content_note(struct content_notes *n, const char *format, ...)
{
        _cleanup_free_ char *text = NULL;

        va_list ap;
        va_start(ap, format);
        int size = vasprintf(&text, format, ap);
        va_end(ap);
        if (size < 0) {
                text = NULL;
                return -ENOMEM;
        }
        return note_text(n, text, (size_t)size);
}

static int note_state(struct content_notes *n, const json_t *result)
{
        const json_t *state = json_object_get(result, "state");
        const json_t *kept = json_object_get(state, "kept");
        bool restarted = json_is_true(json_object_get(state, "restarted"));
        int r = 0;

        if (restarted)
                r = content_note(n, "The interpreter was new, because the one before was lost: variables of earlier runs are gone.");
        if (r == 0 && json_is_false(kept))
                r = content_note(n, "The variables are gone: the interpreter was ended.");
        if (r == 0 && json_is_true(kept) && !restarted && strcmp(content_kind(result), "ok") != 0)
                r = content_note(n, "The variables are kept: the interpreter lives on.");
        return r;
}

static const char *string_or_empty(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

static int note_finding(struct content_notes *n, const json_t *finding)
{
        const char *message = string_or_empty(finding, "message"), *remedy = string_or_empty(finding, "remedy");
        json_int_t line = json_integer_value(json_object_get(finding, "line")), column = json_integer_value(json_object_get(finding, "column"));
        bool block = strcmp(string_or_empty(finding, "action"), "block") == 0;
        char place[64] = "";

        if (line > 0)
                snprintf(place, sizeof(place), ", line %" JSON_INTEGER_FORMAT ", column %" JSON_INTEGER_FORMAT, line, column);
        return content_note(n, "%s%s: %s %s", block ? "Also refused" : "Warning of the guard", place, message, remedy);
}

/* The message of a run that was refused has the first finding already. What is only logged is for the operator. */
static int note_guard(struct content_notes *n, const json_t *result)
{
        const json_t *guard = json_object_get(result, "guard"), *findings = json_object_get(guard, "findings");
        bool told = strcmp(content_kind(result), "blocked") != 0;
        json_int_t more = json_integer_value(json_object_get(guard, "more"));
        const json_t *finding;
        size_t i;
        int r = 0;

        json_array_foreach(findings, i, finding) {
                const char *action = string_or_empty(finding, "action");
                bool block = strcmp(action, "block") == 0;
                if (r < 0 || (!block && strcmp(action, "warn") != 0))
                        continue;
                if (block && !told)
                        told = true;
                else
                        r = note_finding(n, finding);
        }
        if (r == 0 && more > 0)
                r = content_note(n, "The guard has %" JSON_INTEGER_FORMAT " more to say of this code.", more);
        return r;
}

/* Which controls were weaker is the same at each run, and the operator's to know: the API has it, and so has session_info. */
static bool is_for_model(const char *note)
{
        static const char words[] = "the control ";

        return strncmp(note, words, strlen(words)) != 0;
}

static int note_notes(struct content_notes *n, const json_t *result)
{
        const json_t *note;
        size_t i;
        int r = 0;

        json_array_foreach(json_object_get(result, "notes"), i, note)
                if (r == 0 && json_is_string(note) && is_for_model(json_string_value(note)))
                        r = note_text(n, json_string_value(note), json_string_length(note));
        return r;
}

/* Why a host was refused, as a word; NULL: it was not. */
static const char *refusal(const json_t *host)
{
        const char *word = string_or_empty(host, "decision");
        size_t size = strspn(word, "abcdefghijklmnopqrstuvwxyz-");

        if (size == 0 || size > WORD_MAX || word[size] != '\0')
                return NULL;
        bool passed = strcmp(word, "allowed") == 0 || strcmp(word, "unresolved") == 0 || strcmp(word, "unreached") == 0;
        return passed ? NULL : word;
}

int content_add_refused(struct buffer *out, const json_t *result)
{
        const json_t *host;
        size_t i, told = 0, more = 0;
        int r = 0;

        json_array_foreach(json_object_get(json_object_get(result, "network"), "hosts"), i, host) {
                const char *name = string_or_empty(host, "host"), *word = refusal(host);
                if (r < 0 || !word || !name[0])
                        continue;
                if (told == HOSTS_TOLD) {
                        more++;
                        continue;
                }
                json_int_t port = json_integer_value(json_object_get(host, "port"));
                r = buffer_printf(out, "%s port %" JSON_INTEGER_FORMAT " (%s)\n", quote(name).text, port, word);
                told++;
        }
        return r == 0 && more > 0 ? buffer_printf(out, "and %zu more\n", more) : r;
}

int content_note_result(struct content_notes *n, const json_t *result)
{
        json_int_t secrets = json_integer_value(json_object_get(json_object_get(result, "scrubbed"), "total"));
        int r = note_state(n, result);

        if (r == 0)
                r = note_guard(n, result);
        if (r == 0)
                r = note_notes(n, result);
        /* Of other verdicts a note of the result says it. */
        if (r == 0 && strcmp(content_kind(result), "output") == 0 && json_is_true(json_object_get(result, "truncated")))
                r = content_note(n, "What was printed beyond the output limit is lost.");
        if (r == 0 && secrets > 0)
                r = content_note(n, "%" JSON_INTEGER_FORMAT " secret%s replaced by [scrubbed:NAME].", secrets, secrets == 1 ? " was" : "s were");
        return r;
}
