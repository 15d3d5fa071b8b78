/* SPDX-License-Identifier: Apache-2.0
 *
 * session_info: what a session is, what is in it, and what of its limits is left. */
#include "server/mcp_client.h"

#include "base/fd.h"
#include "base/parse.h"
#include "policy/network.h"
#include "server/mcp_target.h"
#include "server/mcp_variables.h"
#include "server/session_object.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INFO_FILES_MAX 100 /* that are listed, the newest first */

/* ---- limits ---- */

#define NOT_KNOWN (-1.0) /* or: there is none */

struct limit {
        const char *name, *unit;
        double limit, used;
};

static json_t *number_or_null(double n)
{
        if (n < 0)
                return json_null();
        return n < 9e15 && n == (double)(int64_t)n ? json_integer((int64_t)n) : json_real(n);
}

static int add_limit(json_t *list, const struct limit *l)
{
        double left = l->limit < 0 || l->used < 0 ? NOT_KNOWN : MAX(l->limit - l->used, 0.0);

        return json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:o}", "name", l->name, "unit", l->unit, "limit", number_or_null(l->limit), "used",
                                                     number_or_null(l->used), "left", number_or_null(left)));
}

static double seconds(uint64_t usec)
{
        return (double)usec / 1e6;
}

/* 0 is: no limit. */
static double budget(uint64_t n)
{
        return n > 0 ? (double)n : NOT_KNOWN;
}

static int add_network(json_t *list, struct live_session *s, const struct policy *p)
{
        _cleanup_free_ struct ledger_copy *sent = session_network_ledger(s->session);

        if (p->network_mode != NETWORK_ALLOWLIST)
                return 0;
        const struct limit rows[] = {
                {"network bytes", "bytes", budget(p->network_bytes), sent ? (double)(sent->bytes_up + sent->bytes_down) : NOT_KNOWN},
                {"network requests", "requests", budget(p->network_requests), sent ? (double)sent->requests : NOT_KNOWN},
        };
        return add_limit(list, &rows[0]) | add_limit(list, &rows[1]);
}

/* p: the session's policy with the network that it has now. */
static json_t *limits_to_json(struct live_session *s, const struct policy *p)
{
        _cleanup_json_ json_t *list = json_array();
        struct box_usage usage = {0};
        const bool known = session_sample(s->session, &usage, NULL) == 0, disk_known = known && !usage.disk_unknown;
        int r = 0;

        pthread_mutex_lock(&s->lock);
        const uint64_t lifetime = s->lifetime_usec, age_seconds = (monotonic_usec() - s->born_usec) / 1000000;
        pthread_mutex_unlock(&s->lock);
        const struct limit rows[] = {
                {"memory", "bytes", (double)p->mem_limit_bytes, known && usage.memory_known ? (double)usage.memory_bytes : NOT_KNOWN},
                {"disk", "bytes", (double)p->disk_limit_bytes, disk_known ? (double)usage.disk_bytes : NOT_KNOWN},
                {"inodes", "files and directories", (double)p->inode_limit, disk_known ? (double)usage.inodes : NOT_KNOWN},
                {"pids", "processes and threads", (double)p->pids_limit, known && usage.pids_known ? (double)usage.pids : NOT_KNOWN},
                {"timeout", "seconds of each run", seconds(p->timeout_usec), NOT_KNOWN},
                {"output", "bytes of each run", (double)p->output_limit_bytes, NOT_KNOWN},
                {"cpu", "processors", (double)p->cpu_milli / 1e3, NOT_KNOWN},
                {"lifetime", "seconds", seconds(lifetime), (double)age_seconds},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                r |= add_limit(list, &rows[i]);
        r |= add_network(list, s, p);
        return r == 0 ? TAKE_PTR(list) : NULL;
}

/* ---- the object ---- */

/* Of interpreters that live, each once. */
static json_t *languages_to_json(struct live_session *s)
{
        _cleanup_json_ json_t *list = json_array();
        struct context_info all[CONTEXTS_MAX];
        int r = 0;

        size_t n = MIN(session_contexts(s->session, all, CONTEXTS_MAX), (size_t)CONTEXTS_MAX);
        for (size_t i = 0; i < n; i++) {
                bool again = !all[i].alive;
                for (size_t j = 0; j < i; j++)
                        again |= all[j].alive && strcmp(all[i].language, all[j].language) == 0;
                if (!again)
                        r |= json_array_append_new(list, json_string(all[i].language));
        }
        return r == 0 ? TAKE_PTR(list) : NULL;
}

static int note(json_t *notes, const char *text)
{
        return text ? json_array_append_new(notes, json_string(text)) : 0;
}

static int set_variables(json_t *o, const struct mcp_call *c, struct live_session *s, json_t *notes)
{
        const char *why = NULL;
        json_t *list = NULL;
        uint64_t more;

        if (mcp_variables(c, s, &list, &more, &why) < 0)
                return -1;
        int r = json_object_set_new(o, "variables", list);
        r |= json_object_set_new(o, "variables_more", json_integer((json_int_t)MIN(more, (uint64_t)INT64_MAX)));
        return r | note(notes, why);
}

/* *ret_cut: they are some, and need not be the newest. */
static int set_files(json_t *o, struct live_session *s, json_t *notes, bool *ret_cut)
{
        uint64_t more = 0;
        json_t *list = mcp_changed_files(s, 0, INFO_FILES_MAX, &more, ret_cut);
        int r = list ? 0 : note(notes, "The files of the workspace could not be looked at.");

        if (*ret_cut)
                r |= note(notes, "Not all files of the workspace were looked at, they are too many or too deep: these need not be the newest. "
                                 "list_files shows what is in a directory.");

        *ret_cut |= !list;
        r |= json_object_set_new(o, "files", list ? list : json_array());
        r |= json_object_set_new(o, "files_more", json_integer((json_int_t)MIN(more, (uint64_t)INT64_MAX)));
        return r;
}

/* What is enforced in part only. It is the same in all of its runs, so it is told here and not with each of them. */
static int note_controls(json_t *notes, const json_t *controls)
{
        const json_t *control;
        size_t i;
        int r = 0;

        json_array_foreach(controls, i, control) {
                const char *state = json_string_value(json_object_get(control, "state")), *how = json_string_value(json_object_get(control, "how"));
                if (state && strcmp(state, "weaker") == 0)
                        r |= json_array_append_new(notes, json_sprintf("The control %s is weaker: %s.", json_string_value(json_object_get(control, "name")), how ? how : ""));
        }
        return r;
}

/* What the API says of it, too. */
static int copy_key(json_t *o, const json_t *from, const char *key)
{
        return json_object_set(o, key, json_object_get(from, key));
}

static json_t *info_to_json(const struct mcp_call *c, struct live_session *s, const char *first_note, bool *ret_cut)
{
        _cleanup_json_ json_t *shown = session_to_json(s, c->caller), *notes = json_array(), *o = json_object();
        _cleanup_policy_ struct policy *now = session_network_policy(s->session);
        int r = note(notes, first_note);

        if (!shown || !now)
                return NULL;
        r |= json_object_set_new(o, "session", json_string(s->id));
        r |= copy_key(o, shown, "created_at");
        r |= copy_key(o, shown, "expires_at");
        r |= json_object_set_new(o, "seconds_left", json_real(seconds(session_left_usec(s))));
        r |= copy_key(o, shown, "template");
        r |= copy_key(o, shown, "backend");
        r |= json_object_set_new(o, "trust", json_string(now->trust));
        r |= json_object_set_new(o, "network", json_string(network_mode_name(now->network_mode)));
        /* First: what it needs itself is told below. */
        r |= set_variables(o, c, s, notes);
        r |= json_object_set_new(o, "languages", languages_to_json(s));
        r |= set_files(o, s, notes, ret_cut);
        r |= note_controls(notes, json_object_get(shown, "controls"));
        r |= json_object_set_new(o, "limits", limits_to_json(s, now));
        r |= json_object_set(o, "notes", notes);
        return r == 0 ? TAKE_PTR(o) : NULL;
}

/* ---- the same for who reads text ---- */

static const char *text_of(const json_t *o, const char *key)
{
        const char *text = json_string_value(json_object_get(o, key));

        return text ? text : "none";
}

static int add_languages(struct buffer *b, const json_t *o)
{
        const json_t *list = json_object_get(o, "languages");
        int r = buffer_add_string(b, json_array_size(list) > 0 ? "Interpreters that live and keep variables:" : "No interpreter lives now.");

        for (size_t i = 0; i < json_array_size(list); i++)
                r |= buffer_printf(b, "%s %s", i > 0 ? "," : "", json_string_value(json_array_get(list, i)));
        return r | buffer_add_string(b, "\n");
}

static char *amount(const json_t *n, bool bytes, char buf[static FORMAT_MAX])
{
        double value = json_number_value(n);

        if (bytes && value >= 1 << 20)
                (void)snprintf(buf, FORMAT_MAX, "%.1f MiB", value / (1 << 20));
        else
                (void)snprintf(buf, FORMAT_MAX, "%.15g%s", value, bytes ? " bytes" : "");
        return buf;
}

static int add_limits(struct buffer *b, const json_t *o)
{
        const json_t *list = json_object_get(o, "limits");
        char first[FORMAT_MAX], second[FORMAT_MAX];
        int r = buffer_add_string(b, "Limits:\n");

        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *row = json_array_get(list, i), *limit = json_object_get(row, "limit"), *used = json_object_get(row, "used");
                const char *unit = text_of(row, "unit");
                bool bytes = strncmp(unit, "bytes", strlen("bytes")) == 0;
                const char *rest = bytes ? unit + strlen("bytes") : unit, *space = bytes ? "" : " ";

                r |= buffer_printf(b, "  %s: ", text_of(row, "name"));
                if (json_is_number(used))
                        r |= buffer_printf(b, "%s used of ", amount(used, bytes, first));
                r |= buffer_printf(b, "%s%s%s\n", json_is_number(limit) ? amount(limit, bytes, second) : "any number", space, rest);
        }
        return r;
}

static int add_heading(struct buffer *b, const char *text, const json_t *more, bool at_least)
{
        int r = buffer_add_string(b, text);

        if (json_integer_value(more) > 0)
                r |= buffer_printf(b, " (%s%lld more are not shown)", at_least ? "at least " : "", (long long)json_integer_value(more));
        return r | buffer_add_string(b, ":\n");
}

static int add_variables(struct buffer *b, const char *nonce, const json_t *o)
{
        const json_t *list = json_object_get(o, "variables");
        _cleanup_buffer_ struct buffer lines;
        int r = 0;

        buffer_init(&lines, MCP_MESSAGE_BYTES_MAX);
        if (json_array_size(list) == 0)
                return 0;
        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *row = json_array_get(list, i), *size = json_object_get(row, "size");
                const char *shape = json_string_value(json_object_get(row, "shape")), *preview = text_of(row, "preview");
                r |= buffer_printf(&lines, "%s: %s", text_of(row, "name"), text_of(row, "type"));
                if (shape)
                        r |= buffer_printf(&lines, " %s%s%s", shape[0] == '(' ? "" : "[", shape, shape[0] == '(' ? "" : "]");
                if (json_is_integer(size))
                        r |= buffer_printf(&lines, ", %lld bytes", (long long)json_integer_value(size));
                r |= buffer_printf(&lines, "%s%s\n", preview[0] ? " = " : "", preview);
        }
        r |= add_heading(b, "Variables of Python, with type, [length] or (shape), and value", json_object_get(o, "variables_more"), false);
        return r != 0 ? r : content_add_marked(b, nonce, "variables", lines.data, lines.size, MCP_TEXT_BYTES_MAX, "all are in the structured content");
}

#define NO_FILES                                                                                                          \
        "There are no files to list here. Names that begin with a dot, __pycache__, links, and names with secrets or "    \
        "bytes that are not UTF-8 are left out; list_files has all.\n"

static int add_files(struct buffer *b, const char *nonce, const json_t *o, bool cut)
{
        const json_t *list = json_object_get(o, "files");
        _cleanup_buffer_ struct buffer lines;
        int r = 0;

        buffer_init(&lines, MCP_MESSAGE_BYTES_MAX);
        if (json_array_size(list) == 0)
                return buffer_add_string(b, cut ? "" : NO_FILES);
        for (size_t i = 0; i < json_array_size(list); i++) {
                const json_t *row = json_array_get(list, i);
                r |= mcp_add_name(&lines, text_of(row, "path"));
                r |= buffer_printf(&lines, " (%s, %lld bytes)\n", text_of(row, "type"), (long long)json_integer_value(json_object_get(row, "size")));
        }
        r |= add_heading(b, cut ? "Some files of the workspace, the newest of them first" : "Files of the workspace, the newest first",
                         json_object_get(o, "files_more"), cut);
        return r != 0 ? r : content_add_marked(b, nonce, "files", lines.data, lines.size, MCP_TEXT_BYTES_MAX, "list_files has all of them");
}

static int add_text(struct buffer *b, const json_t *o, bool cut)
{
        const json_t *notes = json_object_get(o, "notes");
        char nonce[CONTENT_NONCE_MAX];
        int r = 0;

        content_nonce(nonce);
        for (size_t i = 0; i < json_array_size(notes); i++)
                r |= buffer_printf(b, "%s\n", json_string_value(json_array_get(notes, i)));
        r |= buffer_printf(b, "Session %s, made at %s. It ends at %s, in %.0f seconds, unless something is called before.\n", text_of(o, "session"),
                           text_of(o, "created_at"), text_of(o, "expires_at"), json_number_value(json_object_get(o, "seconds_left")));
        r |= buffer_printf(b, "Template: %s. Backend: %s. Trust level: %s. Network: %s.\n", text_of(o, "template"), text_of(o, "backend"), text_of(o, "trust"),
                           text_of(o, "network"));
        r |= add_languages(b, o);
        r |= add_limits(b, o);
        r |= add_variables(b, nonce, o);
        return r | add_files(b, nonce, o, cut);
}

int mcp_tool_session_info(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_buffer_ struct buffer text;
        const char *first_note = NULL;
        bool cut = false;
        gb_error why = {0};

        buffer_init(&text, MCP_MESSAGE_BYTES_MAX);
        if (mcp_target_check_looks(arguments, &why) < 0 || mcp_session_get(c, arguments, false, &s, &first_note, &why) < 0)
                return mcp_tool_failed(c, s, &why, ret, err);
        _cleanup_json_ json_t *o = info_to_json(c, s, first_note, &cut);
        if (!o || add_text(&text, o, cut) != 0)
                return mcp_out_of_memory(err);
        *ret = content_of_object(TAKE_PTR(o), &text);
        return *ret ? 0 : mcp_out_of_memory(err);
}
