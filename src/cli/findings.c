/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/findings.h"

#include "base/fd.h"
#include "base/json.h"
#include "cli/service.h"
#include "cli/table.h"
#include "guard/code.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define TOLD_MAX 8 /* findings of a run; the others are counted */
#define FRAME_COLUMNS_MIN 40
#define FRAME_COLUMNS_MAX 120
#define FRAME_MARGIN 9 /* of the number and the bar */
#define FRAME_TEXT_MAX 4096
#define RED "\033[31m"
#define YELLOW "\033[33m"
#define CYAN "\033[36m"
#define BOLD "\033[1m"
#define PLAIN "\033[0m"

static void say(const struct findings_view *view, enum message_kind kind, const char *text)
{
        if (view->say)
                view->say(view->data, kind, text);
        else
                message_print(kind, "%s", text);
}

static uint64_t number_of(const json_t *object, const char *key)
{
        json_int_t n = json_integer_value(json_object_get(object, key));

        return n > 0 ? (uint64_t)n : 0;
}

/* What could drive a terminal is shown, not sent. */
static int add_clean(struct buffer *out, const char *text, size_t size)
{
        struct terminal t = {.one_line = true};
        int r = terminal_add(&t, out, text, size);

        return r < 0 ? r : terminal_flush(&t, out);
}

/* ---- a line of code, with a mark below it ---- */

/* The line's bytes; NULL: the code has no such line. */
static const char *find_line(const struct findings_view *view, uint64_t line, size_t *ret_size)
{
        const char *at = view->code, *end = view->code + view->size;

        for (; at && line > 1; line--) {
                at = memchr(at, '\n', (size_t)(end - at));
                at = at ? at + 1 : NULL;
        }
        if (!at)
                return NULL;
        const char *newline = memchr(at, '\n', (size_t)(end - at));
        *ret_size = (size_t)((newline ? newline : end) - at);
        return at;
}

/* A piece of a line around the mark that fits, with blanks for tabs. */
static int add_frame(struct buffer *out, const char *line, size_t size, uint64_t number, size_t column, size_t width, bool colours)
{
        _cleanup_buffer_ struct buffer shown = {0};
        char piece[FRAME_COLUMNS_MAX + 1];
        size_t mark = MIN(column > 0 ? column - 1 : 0, size), from = mark > width * 2 / 3 ? mark - width * 2 / 3 : 0;

        while (from > 0 && ((unsigned char)line[from] & 0xC0) == 0x80)
                from--; /* not within a character */
        size_t n = MIN(size - from, width);
        while (from + n < size && n > 0 && ((unsigned char)line[from + n] & 0xC0) == 0x80)
                n--;
        for (size_t i = 0; i < n; i++)
                piece[i] = line[from + i] == '\t' || line[from + i] == '\r' ? ' ' : line[from + i];
        buffer_init(&shown, FRAME_TEXT_MAX);
        int r = add_clean(&shown, piece, MIN(mark - from, n));
        unsigned indent = r == 0 && shown.size > 0 ? text_width(shown.data) : 0;
        if (r == 0 && mark - from < n)
                r = add_clean(&shown, piece + (mark - from), n - (mark - from));
        if (r == 0)
                r = buffer_printf(out, "%6" PRIu64 " | %s\n       | %*s%s^%s\n", number, shown.size > 0 ? shown.data : "", (int)indent, "", colours ? BOLD RED : "",
                                  colours ? PLAIN : "");
        return r;
}

/* On a terminal only: the caller's own code, which a file of errors need not have. A secret is not shown again. */
static void frame(const json_t *finding, const struct findings_view *view, struct buffer *out)
{
        uint64_t number = number_of(finding, "line");
        size_t size = 0;
        unsigned columns = view->code && number > 0 ? terminal_size(STDERR_FILENO, NULL) : 0;

        if (columns == 0 || strcmp(json_member(finding, "set", ""), GUARD_SECRETS_SET) == 0)
                return;
        const char *line = find_line(view, number, &size);
        columns = MAX(columns, (unsigned)FRAME_COLUMNS_MIN);
        columns = MIN(columns, (unsigned)FRAME_COLUMNS_MAX);
        if (line)
                (void)add_frame(out, line, size, number, (size_t)number_of(finding, "column"), columns - FRAME_MARGIN, output_wants_colour(STDERR_FILENO));
}

static void show_frame(const json_t *finding, const struct findings_view *view)
{
        _cleanup_buffer_ struct buffer out = {0};

        buffer_init(&out, 2 * FRAME_TEXT_MAX);
        frame(finding, view, &out);
        if (out.size > 0)
                (void)fd_write_all(STDERR_FILENO, out.data, out.size);
}

/* ---- what was found ---- */

static void tell(const json_t *finding, bool blocks, const struct findings_view *view)
{
        char place[64] = "", text[FINDING_TEXT_MAX];

        if (number_of(finding, "line") > 0)
                snprintf(place, sizeof(place), "line %" PRIu64 ", column %" PRIu64 ": ", number_of(finding, "line"), number_of(finding, "column"));
        snprintf(text, sizeof(text), "%s%s%s %s (rule %s)", blocks ? "blocked, too: " : "", place, json_member(finding, "message", ""),
                 json_member(finding, "remedy", ""), json_member(finding, "rule", "?"));
        say(view, blocks ? MESSAGE_ERROR : MESSAGE_WARNING, text);
        show_frame(finding, view);
}

void findings_tell(const json_t *guard, bool told, const struct findings_view *view)
{
        uint64_t more = number_of(guard, "more");
        const json_t *finding;
        size_t i, n = 0;

        json_array_foreach(json_object_get(guard, "findings"), i, finding) {
                const char *action = json_member(finding, "action", "");
                bool blocks = strcmp(action, "block") == 0;
                if (i == 0 && told)
                        show_frame(finding, view);
                else if (!blocks && strcmp(action, "warn") != 0)
                        continue;
                else if (n++ < TOLD_MAX)
                        tell(finding, blocks, view);
                else
                        more++;
        }
        if (more > 0) {
                char text[128];
                snprintf(text, sizeof(text), "the guard has found %" PRIu64 " more: 'glovebox guard check' and --json tell them", more);
                say(view, MESSAGE_WARNING, text);
        }
}

void findings_tell_scrubbed(const json_t *scrubbed, const struct findings_view *view)
{
        uint64_t total = number_of(scrubbed, "total");
        char text[FINDING_TEXT_MAX];
        const char *name;
        json_t *count;

        if (total == 0)
                return;
        size_t n = (size_t)snprintf(text, sizeof(text), "%" PRIu64 " %s scrubbed", total, total == 1 ? "secret" : "secrets");
        const char *between = ": ";
        json_object_foreach((json_t *)(uintptr_t)json_object_get(scrubbed, "names"), name, count) {
                if (n < sizeof(text))
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s %" JSON_INTEGER_FORMAT, between, name, json_integer_value(count));
                between = ", ";
        }
        say(view, MESSAGE_PLAIN, text);
}

/* ---- what was not let out ---- */

#define REFUSED_MAX 4 /* hosts that are named; the others are counted */

static const struct {
        const char *decision, *text;
} reasons[] = {
        {"no-rule", "no rule"},
        {"port", "no rule for this port"},
        {"protocol", "no rule for this protocol"},
        {"method", "no rule for this method"},
        {"path", "no rule for this path"},
        {"body", "a body, where the rule only reads"},
        {"address", "its address is not public"},
        {"server-name", "another name in its TLS"},
        {"not-tls", "not TLS"},
        {"bytes", "the budget of bytes"},
        {"requests", "the budget of requests"},
        {"connections", "too many connections"},
};

static const char *reason_of(const char *decision)
{
        for (size_t i = 0; i < ARRAY_SIZE(reasons); i++)
                if (strcmp(reasons[i].decision, decision) == 0)
                        return reasons[i].text;
        return decision;
}

/* The other two: it passed, and nobody was there. */
bool findings_is_refused(const json_t *row)
{
        const char *decision = json_member(row, "decision", "allowed");

        return strcmp(decision, "allowed") != 0 && strcmp(decision, "unresolved") != 0 && strcmp(decision, "unreached") != 0;
}

void findings_tell_network(const json_t *network, const struct findings_view *view)
{
        uint64_t denied = number_of(network, "denied");
        const char *cut = json_member(network, "cut", NULL), *between = ": ";
        char text[FINDING_TEXT_MAX];
        size_t i, shown = 0, more = 0;
        const json_t *row;

        if (cut) {
                snprintf(text, sizeof(text), "network: %sthe budget of %s is used up", strcmp(cut, "bytes") == 0 ? "connections were cut: " : "", cut);
                say(view, MESSAGE_WARNING, text);
        }
        if (denied == 0)
                return;
        size_t n = (size_t)snprintf(text, sizeof(text), "network: %" PRIu64 " %s refused", denied, denied == 1 ? "request" : "requests");
        json_array_foreach(json_object_get(network, "hosts"), i, row) {
                if (!findings_is_refused(row) || (shown >= REFUSED_MAX && ++more))
                        continue;
                const char *host = json_member(row, "host", "");
                bool bare = !*host || !strchr(host, ':');
                if (n < sizeof(text) && !*host)
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s", between, reason_of(json_member(row, "decision", "")));
                else if (n < sizeof(text))
                        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s%s%s%s:%" PRIu64 " (%s)", between, bare ? "" : "[", host, bare ? "" : "]",
                                              number_of(row, "port"), reason_of(json_member(row, "decision", "")));
                between = ", ";
                shown++;
        }
        if (more > 0 && n < sizeof(text))
                snprintf(text + n, sizeof(text) - n, ", and %zu more", more);
        say(view, MESSAGE_WARNING, text);
}

/* ---- as compilers do ---- */

static const char *colour_of(const char *action)
{
        return strcmp(action, "block") == 0 ? BOLD RED : strcmp(action, "warn") == 0 ? BOLD YELLOW : BOLD CYAN;
}

static int add_text(struct buffer *out, const json_t *finding, const char *key, const char *behind)
{
        const json_t *text = json_object_get(finding, key);
        int r = json_is_string(text) ? add_clean(out, json_string_value(text), json_string_length(text)) : 0;

        return r < 0 ? r : buffer_add_string(out, behind);
}

int findings_list(const json_t *findings, const char *name, const struct findings_view *view, struct buffer *out)
{
        bool colours = output_wants_colour(STDERR_FILENO);
        const json_t *finding;
        size_t i;
        int r = 0;

        json_array_foreach(findings, i, finding) {
                const char *action = json_member(finding, "action", "");
                r = add_clean(out, name, strlen(name));
                if (r == 0 && number_of(finding, "line") > 0)
                        r = buffer_printf(out, ":%" PRIu64 ":%" PRIu64, number_of(finding, "line"), number_of(finding, "column"));
                if (r == 0)
                        r = buffer_printf(out, ": %s", colours ? colour_of(action) : "");
                if (r == 0)
                        r = add_text(out, finding, "action", colours ? PLAIN ": " : ": ");
                if (r == 0)
                        r = add_text(out, finding, "rule", ": ");
                if (r == 0)
                        r = add_text(out, finding, "message", " ");
                if (r == 0)
                        r = add_text(out, finding, "remedy", "\n");
                if (r < 0)
                        return r;
                frame(finding, view, out);
        }
        return 0;
}
