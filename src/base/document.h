/* SPDX-License-Identifier: Apache-2.0
 *
 * A YAML file with its name, and errors that say where in it: "file:line:column: ...". */
#ifndef BASE_DOCUMENT_H
#define BASE_DOCUMENT_H

#include "base/error.h"
#include "base/yaml.h"

#include <stdbool.h>
#include <stddef.h>

struct document {
        char *name;
        struct yaml_doc *yaml;
};

int document_parse(const char *name, const char *text, size_t size, struct document **ret, gb_error *err);
/* Reads a regular file; -ENOENT when there is none. */
int document_read(const char *path, struct document **ret, gb_error *err);
void document_free(struct document *d);
DEFINE_CLEANUP(struct document, document_free)
#define _cleanup_document_ _cleanup_(document_free_ptr)

/* One value of a document: under key in the mapping parent, or at index in the list parent. */
struct place {
        const struct document *doc;
        const json_t *parent;
        const char *key;
        size_t index;
};

const json_t *place_value(const struct place *at);
/* The scalar as written; NULL for a list, a mapping, and nothing or null. */
const char *place_text(const struct place *at);
/* A short name for what stands there: "a list", "a mapping", "nothing", "a value". */
const char *place_kind(const struct place *at);

/* Puts "file:line:column: key: " before the message in err, makes it a policy error, returns
 * a negative errno. A list item is named by `label`. */
int place_fail(const struct place *at, const char *label, gb_error *err);
/* The same with a new message. */
int place_error(const struct place *at, const char *label, gb_error *err, const char *format, ...) _printf_(4, 5);
/* The error for a key nobody knows, at the key: suggests the nearest of names, or lists all. */
int place_unknown_key(const struct place *at, const char *const names[], size_t n, gb_error *err);

/* Reads one row of a document that is a mapping of names to rows, into what was given for it. */
typedef int document_row_fn(void *into, const struct place *at, gb_error *err);
/* Reads all rows of such a document; `top` is the one key that it has. */
int document_rows(const struct document *doc, const char *top, document_row_fn *read, void *into, gb_error *err);
/* The same for the file; NULL: TOP.yaml of the configuration, or the built-in text where that is not there and need not be. */
int document_rows_load(const char *file, const char *top, const char *builtin, document_row_fn *read, void *into, gb_error *err);

/* Reads a list of texts into words, which has room for max and the NULL at its end. What was read
 * before a failure stays there, the caller's to free. */
int place_read_words(const struct place *at, char **words, size_t max, bool (*good)(const char *), const char *allowed, gb_error *err);

#endif
