/* SPDX-License-Identifier: Apache-2.0
 *
 * A strict subset of YAML into a jansson tree: one document, UTF-8, no anchors, aliases, tags
 * or duplicate keys, bounded in bytes, depth and nodes.
 *
 * Plain `true`, `false`, `null`, `~`, nothing, and JSON numbers get their type; every other
 * scalar is a string. Beside the tree the document keeps for each value where it stands and
 * how it was written, so that `512m` and `30` are read alike and each error has its place. */
#ifndef BASE_YAML_H
#define BASE_YAML_H

#include "base/macro.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

struct yaml_where {
        size_t line, column; /* from 1 */
        char problem[160];
};

struct yaml_mark {
        size_t line, column;         /* of the value, from 1 */
        size_t key_line, key_column; /* of its key in a mapping; else as the value */
        const char *text;            /* a scalar as written, without quotes; NULL for a collection */
        bool quoted;                 /* or a block scalar: a string for certain */
};

struct yaml_doc {
        json_t *root; /* json null for an empty document */
        struct yaml_entry *entries;
        size_t n_entries, n_allocated;
};

/* 0; -EINVAL and *where for text that is not acceptable; -EFBIG and *where above a bound;
 * -ENOMEM. *ret is untouched on failure. */
int yaml_parse(const char *text, size_t size, struct yaml_doc **ret, struct yaml_where *where);
void yaml_doc_free(struct yaml_doc *doc);
DEFINE_CLEANUP(struct yaml_doc, yaml_doc_free)
#define _cleanup_yaml_doc_ _cleanup_(yaml_doc_free_ptr)

/* The mark of parent's value under key, or at index when key is NULL; the root's when parent
 * is NULL. Never NULL: a value the document does not have gets the mark of line 1. */
const struct yaml_mark *yaml_doc_mark(const struct yaml_doc *doc, const json_t *parent, const char *key, size_t index);

#endif
