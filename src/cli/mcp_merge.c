/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/mcp_merge.h"

#include "base/quote.h"
#include "cli/json_edit.h"

#include <errno.h>
#include <string.h>

#define CONTEXT_LINES 3 /* around a difference */

void merge_done(struct merge *m)
{
        settings_file_done(&m->file);
        buffer_done(&m->text);
}

const char *merge_outcome_name(enum merge_outcome outcome)
{
        static const char *const names[] = {[MERGE_ADDED] = "added", [MERGE_REPLACED] = "replaced", [MERGE_REMOVED] = "removed", [MERGE_NOTHING] = "unchanged"};

        return names[outcome];
}

/* Empty, or nothing but space: editors make such files. */
static bool is_blank(const struct settings_file *f)
{
        return f->text[strspn(f->text, " \t\r\n")] == '\0' && strlen(f->text) == f->size;
}

/* What is left to do, when it cannot be done here. */
static const char *by_hand(const struct merge *m)
{
        return m->entry ? "add the entry" : "take the entry out";
}

static int parse(struct merge *m, const char *text, size_t size, json_t **ret, gb_error *err)
{
        json_error_t why;
        json_t *root = json_parse(text, size, JSON_EDIT_FLAGS, &why);

        if (!root && json_error_code(&why) == json_error_out_of_memory)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        m->unreadable = true;
        if (!root)
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not plain JSON (line %d: %s)%s; it was left as it is, %s by hand", quote(m->file.path).text,
                                 why.line, why.text, strstr(why.text, "near '/") ? ", it seems to have comments" : "", by_hand(m));
        _cleanup_json_ json_t *owned = root;
        if (!json_is_object(root))
                return error_set(err, GB_E_USAGE, EINVAL, "%s holds no JSON object; it was left as it is", quote(m->file.path).text);
        const json_t *servers = json_object_get(root, m->client->key);
        if (servers && !json_is_object(servers))
                return error_set(err, GB_E_USAGE, EINVAL, "\"%s\" in %s is no object; it was left as it is", m->client->key, quote(m->file.path).text);
        m->unreadable = false;
        *ret = TAKE_PTR(owned);
        return 0;
}

/* The same change to the value: what the new text must say. */
static int change_value(const struct merge *m, json_t *root)
{
        json_t *servers = json_object_get(root, m->client->key);

        if (!m->entry)
                return json_object_del(servers, m->name);
        if (!servers) {
                servers = json_object();
                if (json_object_set_new(root, m->client->key, servers) < 0)
                        return -1;
        }
        return json_object_set(servers, m->name, (json_t *)m->entry);
}

/* Whatever the file was, it is only replaced by one that says what it said, and this. */
static int make_text(struct merge *m, const char *text, size_t size, json_t *root, gb_error *err)
{
        _cleanup_json_ json_t *written = NULL;
        json_error_t why;

        int r = json_edit(text, size, m->client->key, m->name, m->entry, &m->text);
        if (r == 0)
                written = json_parse(m->text.data, m->text.size, JSON_EDIT_FLAGS, &why);
        if (r == -ENOMEM || (r == 0 && change_value(m, root) < 0) || json_lacked_memory())
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == -EFBIG)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s would become too large", quote(m->file.path).text);
        if (r < 0 || !written || !json_equal(written, root))
                return error_set(err, GB_E_INTERNAL, EBADMSG, "%s could not be changed by itself; it was left as it is, %s by hand", quote(m->file.path).text,
                                 by_hand(m));
        return 0;
}

int merge_prepare(struct merge *m, const char *path, gb_error *err)
{
        _cleanup_json_ json_t *root = NULL;

        buffer_init(&m->text, SETTINGS_BYTES_MAX);
        int r = settings_file_read(path, &m->file, err);
        if (r < 0)
                return r;
        bool blank = is_blank(&m->file);
        const char *text = blank ? "{}\n" : m->file.text;
        size_t size = blank ? strlen(text) : m->file.size;
        r = parse(m, text, size, &root, err);
        if (r < 0)
                return r;

        const json_t *there = json_object_get(json_object_get(root, m->client->key), m->name);
        m->outcome = !m->entry ? MERGE_REMOVED : there ? MERGE_REPLACED : MERGE_ADDED;
        if (m->entry ? there && json_equal(there, m->entry) : !there) {
                m->outcome = MERGE_NOTHING;
                return 0;
        }
        if (m->entry && there && !m->force)
                return error_set(err, GB_E_CONFLICT, EEXIST, "%s has another entry %s; --force replaces it, --name NAME gives this one another name",
                                 quote(m->file.path).text, quote(m->name).text);
        return make_text(m, text, size, root, err);
}

/* ---- the difference ---- */

/* The beginning of the line that is n lines before this place, which begins one. */
static size_t lines_back(const char *text, size_t at, unsigned n)
{
        while (at > 0 && n > 0) {
                at--;
                while (at > 0 && text[at - 1] != '\n')
                        at--;
                n--;
        }
        return at;
}

static size_t lines_on(const char *text, size_t size, size_t at, unsigned n)
{
        for (; at < size && n > 0; n--) {
                const char *end = memchr(text + at, '\n', size - at);
                at = end ? (size_t)(end - text) + 1 : size;
        }
        return at;
}

static int add_lines(struct buffer *out, char mark, const char *text, size_t begin, size_t end)
{
        int r = 0;

        while (r == 0 && begin < end) {
                size_t next = lines_on(text, end, begin, 1);
                r = buffer_add(out, &mark, 1);
                if (r == 0)
                        r = buffer_add(out, text + begin, next - begin);
                if (r == 0 && text[next - 1] != '\n')
                        r = buffer_add_string(out, "\n");
                begin = next;
        }
        return r;
}

int merge_add_difference(const struct merge *m, struct buffer *out)
{
        const char *old = m->file.text, *new = m->text.data;
        size_t n_old = m->file.size, n_new = m->text.size, same = 0, same_end = 0;

        /* One place is changed: the lines before it and behind it are the same. */
        for (size_t next; same < n_old && same < n_new; same = next) {
                next = lines_on(old, n_old, same, 1);
                if (lines_on(new, n_new, same, 1) != next || memcmp(old + same, new + same, next - same) != 0)
                        break;
        }
        for (size_t at, length; n_old - same_end > same && n_new - same_end > same; same_end += length) {
                at = lines_back(old, n_old - same_end, 1);
                length = n_old - same_end - at;
                if (at < same || length > n_new - same_end - same || memcmp(old + at, new + n_new - same_end - length, length) != 0 ||
                    lines_back(new, n_new - same_end, 1) != n_new - same_end - length)
                        break;
        }
        int r = buffer_printf(out, "--- %s\n+++ %s\n", m->file.exists ? m->file.path : "/dev/null", m->file.path);
        if (r == 0)
                r = add_lines(out, ' ', old, lines_back(old, same, CONTEXT_LINES), same);
        if (r == 0)
                r = add_lines(out, '-', old, same, n_old - same_end);
        if (r == 0)
                r = add_lines(out, '+', new, same, n_new - same_end);
        return r < 0 ? r : add_lines(out, ' ', old, n_old - same_end, lines_on(old, n_old, n_old - same_end, CONTEXT_LINES));
}
