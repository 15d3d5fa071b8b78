/* SPDX-License-Identifier: Apache-2.0 */
#include "base/document.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/suggest.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

void document_free(struct document *d)
{
        if (!d)
                return;
        free(d->name);
        yaml_doc_free(d->yaml);
        free(d);
}

int document_parse(const char *name, const char *text, size_t size, struct document **ret, gb_error *err)
{
        _cleanup_document_ struct document *d = calloc(1, sizeof(*d));
        struct yaml_where where;

        if (!d || !(d->name = strdup(name)))
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = yaml_parse(text, size, &d->yaml, &where);
        if (r == -ENOMEM)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r < 0)
                return error_set(err, GB_E_POLICY, -r, "%s:%zu:%zu: %s", quote_path(name).text, where.line, where.column,
                                 where.problem);
        *ret = TAKE_PTR(d);
        return 0;
}

int document_read(const char *path, struct document **ret, gb_error *err)
{
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t size;

        /* Not blocking: a FIFO must not hold us up before we see that it is one. */
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0) {
                int saved = errno;
                return error_set(err, GB_E_POLICY, saved, "cannot open %s: %s", quote_path(path).text, strerror(saved));
        }
        if (!S_ISREG(st.st_mode))
                return error_set(err, GB_E_POLICY, EINVAL, "%s is not a regular file", quote_path(path).text);
        int r = fd_read_all(fd, YAML_BYTES_MAX, &text, &size);
        if (r == -EFBIG)
                return error_set(err, GB_E_POLICY, EFBIG, "%s is too large; at most %llu KiB are read", quote_path(path).text,
                                 YAML_BYTES_MAX / KIB);
        if (r < 0)
                return error_set(err, GB_E_POLICY, -r, "cannot read %s: %s", quote_path(path).text, strerror(-r));
        return document_parse(path, text, size, ret, err);
}

static const struct yaml_mark *place_mark(const struct place *at)
{
        return yaml_doc_mark(at->doc->yaml, at->parent, at->key, at->index);
}

const json_t *place_value(const struct place *at)
{
        if (!at->parent)
                return at->doc->yaml->root;
        return at->key ? json_object_get(at->parent, at->key) : json_array_get(at->parent, at->index);
}

const char *place_text(const struct place *at)
{
        return json_is_null(place_value(at)) ? NULL : place_mark(at)->text;
}

const char *place_kind(const struct place *at)
{
        const json_t *value = place_value(at);

        return json_is_array(value)    ? "a list"
               : json_is_object(value) ? "a mapping"
               : json_is_null(value)   ? "nothing"
                                       : "a value";
}

int place_fail(const struct place *at, const char *label, gb_error *err)
{
        const struct yaml_mark *m = place_mark(at);

        if (!err)
                return -EINVAL;
        if (err->code != GB_E_INTERNAL)
                err->code = GB_E_POLICY;
        return error_prefix(err, "%s:%zu:%zu: %s", quote_path(at->doc->name).text, m->line, m->column,
                            label ? label : at->key ? at->key : "this file");
}

int place_error(const struct place *at, const char *label, gb_error *err, const char *format, ...)
{
        char message[GB_ERROR_MESSAGE_MAX];

        va_list ap;
        va_start(ap, format);
        vsnprintf(message, sizeof(message), format, ap);
        va_end(ap);
        error_set(err, GB_E_POLICY, 0, "%s", message);
        return place_fail(at, label, err);
}

int place_unknown_key(const struct place *at, const char *const names[], size_t n, gb_error *err)
{
        const struct yaml_mark *m = place_mark(at);
        const char *nearest = suggest_nearest(at->key, names, n);
        char list[480] = "", *end = list;

        if (nearest)
                return error_set(err, GB_E_POLICY, 0, "%s:%zu:%zu: unknown key %s; did you mean \"%s\"?",
                                 quote_path(at->doc->name).text, m->key_line, m->key_column, quote(at->key).text, nearest);
        for (size_t i = 0; i < n; i++)
                if (names[i] && strlen(names[i]) + 3 < (size_t)(list + sizeof(list) - end))
                        end += sprintf(end, "%s%s", end == list ? "" : ", ", names[i]);
        return error_set(err, GB_E_POLICY, 0, "%s:%zu:%zu: unknown key %s; the keys here are: %s", quote_path(at->doc->name).text,
                         m->key_line, m->key_column, quote(at->key).text, list);
}

int place_read_words(const struct place *at, char **words, size_t max, bool (*good)(const char *), const char *allowed, gb_error *err)
{
        const json_t *list = place_value(at);
        size_t n = json_array_size(list);

        if (!json_is_array(list))
                return place_error(at, NULL, err, "%s; allowed: a list of %s", place_kind(at), allowed);
        if (n > max)
                return place_error(at, NULL, err, "too many; at most %zu", max);
        for (size_t i = 0; i < n; i++) {
                struct place item = {at->doc, list, NULL, i};
                const char *text = place_text(&item);

                if (!text)
                        return place_error(&item, at->key, err, "%s; allowed: %s", place_kind(&item), allowed);
                if (!good(text))
                        return place_error(&item, at->key, err, "%s; allowed: %s", quote(text).text, allowed);
                words[i] = strdup(text);
                if (!words[i])
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        return 0;
}

int document_rows(const struct document *doc, const char *top, document_row_fn *read, void *into, gb_error *err)
{
        const json_t *root = doc->yaml->root, *map = json_object_get(root, top);
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)root, key, value)
                if (strcmp(key, top) != 0)
                        return place_unknown_key(&(struct place){doc, root, key, 0}, &top, 1, err);
        if (!json_is_object(map)) {
                struct place at = {doc, NULL, NULL, 0};
                return place_error(&at, NULL, err, "allowed: a mapping \"%s\" of names to their keys", top);
        }
        json_object_foreach((json_t *)map, key, value) {
                int r = read(into, &(struct place){doc, map, key, 0}, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

int document_rows_load(const char *file, const char *top, const char *builtin, document_row_fn *read, void *into, gb_error *err)
{
        _cleanup_document_ struct document *doc = NULL;
        _cleanup_free_ char *path = NULL;
        char name[64];

        snprintf(name, sizeof(name), "%s.yaml", top);
        if (!file && path_config_file(name, &path) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = document_read(file ? file : path, &doc, err);
        if (r == -ENOENT && !file && path_config_is_optional())
                r = document_parse("built-in", builtin, strlen(builtin), &doc, err);
        return r < 0 ? r : document_rows(doc, top, read, into, err);
}
