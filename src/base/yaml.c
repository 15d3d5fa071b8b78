/* SPDX-License-Identifier: Apache-2.0
 *
 * libyaml gives events, not a tree: a tree of its own would follow aliases and lose
 * duplicate keys. A builder holds the path from the root to the open collection (at most
 * YAML_DEPTH_MAX frames). The tree owns every node from the moment it is added; frames and
 * marks only point at them. */
#include "base/yaml.h"

#include "base/limits.h"
#include "base/quote.h"
#include "base/utf8.h"

#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <yaml.h>

/* Found by a linear search: files are bounded, and a reader asks once for each value. */
struct yaml_entry {
        const json_t *parent;
        char *key;
        size_t index;
        char *text;
        struct yaml_mark mark;
};

struct frame {
        json_t *node;
        char *key; /* read, its value not yet; mappings only */
        size_t key_line, key_column;
};

struct builder {
        struct yaml_doc *doc;
        struct frame frames[YAML_DEPTH_MAX];
        size_t depth, nodes, documents;
        struct yaml_where *where;
};

static void builder_done(struct builder *b)
{
        for (size_t i = 0; i < b->depth; i++)
                free(b->frames[i].key);
        yaml_doc_free(b->doc);
}

void yaml_doc_free(struct yaml_doc *doc)
{
        if (!doc)
                return;
        for (size_t i = 0; i < doc->n_entries; i++) {
                free(doc->entries[i].key);
                free(doc->entries[i].text);
        }
        free(doc->entries);
        json_decref(doc->root);
        free(doc);
}

const struct yaml_mark *yaml_doc_mark(const struct yaml_doc *doc, const json_t *parent, const char *key, size_t index)
{
        static const struct yaml_mark nowhere = {.line = 1, .column = 1, .key_line = 1, .key_column = 1};

        for (size_t i = 0; i < doc->n_entries; i++) {
                const struct yaml_entry *e = &doc->entries[i];
                if (e->parent != parent)
                        continue;
                if (!parent || (key ? e->key && strcmp(e->key, key) == 0 : !e->key && e->index == index))
                        return &e->mark;
        }
        return &nowhere;
}

static int refuse_at(struct yaml_where *where, int r, size_t line, size_t column, const char *problem)
{
        where->line = line;
        where->column = column;
        snprintf(where->problem, sizeof(where->problem), "%s", problem);
        return r;
}

static int refuse(struct builder *b, int r, const yaml_mark_t *mark, const char *problem)
{
        return refuse_at(b->where, r, mark->line + 1, mark->column + 1, problem);
}

/* libyaml checks this too, but by other rules and without a line for its message. */
static int check_text(const char *text, size_t size, struct yaml_where *where)
{
        size_t line = 1, column = 1;

        if (size > YAML_BYTES_MAX)
                return refuse_at(where, -EFBIG, 1, 1, "the file is too large; at most 256 KiB are read");
        for (size_t i = 0; i < size;) {
                uint32_t c;
                /* Nearly all there is. */
                if ((unsigned char)text[i] >= 0x20 && (unsigned char)text[i] < 0x7f) {
                        i++;
                        column++;
                        continue;
                }
                size_t n = utf8_decode(text + i, size - i, &c);
                if (n == 0)
                        return refuse_at(where, -EINVAL, line, column, "not UTF-8");
                /* What YAML itself calls not printable. */
                if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || (c >= 0x7f && c < 0xa0 && c != 0x85) ||
                    (c & 0xfffe) == 0xfffe)
                        return refuse_at(where, -EINVAL, line, column, "a control character or NUL");
                i += n;
                column++;
                if (c == '\n') {
                        line++;
                        column = 1;
                }
        }
        return 0;
}

static int count_node(struct builder *b, const yaml_mark_t *mark)
{
        if (++b->nodes > YAML_NODES_MAX)
                return refuse(b, -EFBIG, mark, "too many keys and values in one file; at most 8192");
        return 0;
}

static struct yaml_entry *entry_new(struct yaml_doc *doc)
{
        if (doc->n_entries == doc->n_allocated) {
                size_t want = doc->n_allocated ? doc->n_allocated * 2 : 64;
                struct yaml_entry *grown = reallocarray(doc->entries, want, sizeof(*grown));
                if (!grown)
                        return NULL;
                doc->entries = grown;
                doc->n_allocated = want;
        }
        struct yaml_entry *e = &doc->entries[doc->n_entries++];
        *e = (struct yaml_entry){0};
        return e;
}

/* Puts value, whose reference it takes, where the open collection expects it. */
static int builder_add(struct builder *b, json_t *value, const yaml_mark_t *mark, const char *text, bool quoted)
{
        struct frame *f = b->depth > 0 ? &b->frames[b->depth - 1] : NULL;
        struct yaml_entry *e = value ? entry_new(b->doc) : NULL;

        if (!e) {
                json_decref(value);
                return -ENOMEM;
        }
        e->mark = (struct yaml_mark){mark->line + 1, mark->column + 1, mark->line + 1, mark->column + 1, NULL, quoted};
        if (text) {
                e->mark.text = e->text = strdup(text);
                if (!e->text) {
                        json_decref(value);
                        return -ENOMEM;
                }
        }
        if (!f) {
                json_decref(b->doc->root);
                b->doc->root = value;
                return 0;
        }
        e->parent = f->node;
        if (json_is_array(f->node)) {
                e->index = json_array_size(f->node);
                return json_array_append_new(f->node, value) < 0 ? -ENOMEM : 0;
        }
        e->mark.key_line = f->key_line;
        e->mark.key_column = f->key_column;
        e->key = TAKE_PTR(f->key);
        return json_object_set_new(f->node, e->key, value) < 0 ? -ENOMEM : 0;
}

static bool key_expected(const struct builder *b)
{
        const struct frame *f = b->depth > 0 ? &b->frames[b->depth - 1] : NULL;

        return f && json_is_object(f->node) && !f->key;
}

static int builder_key(struct builder *b, const yaml_mark_t *mark, const char *text)
{
        struct frame *f = &b->frames[b->depth - 1];

        if (json_object_get(f->node, text)) {
                char problem[sizeof(b->where->problem)];
                snprintf(problem, sizeof(problem), "the key %s stands here twice", quote(text).text);
                return refuse(b, -EINVAL, mark, problem);
        }
        f->key = strdup(text);
        if (!f->key)
                return -ENOMEM;
        f->key_line = mark->line + 1;
        f->key_column = mark->column + 1;
        return 0;
}

/* A plain scalar by the JSON rules; jansson reads the numbers, free of the locale. */
static int plain_value(struct builder *b, const yaml_mark_t *mark, const char *text, size_t size, json_t **ret)
{
        if (size == 0 || strcmp(text, "null") == 0 || strcmp(text, "~") == 0) {
                *ret = json_null();
        } else if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
                *ret = json_boolean(text[0] == 't');
        } else {
                json_t *number = NULL;
                json_error_t error;

                if (strspn(text, "0123456789+-.eE") == size) {
                        number = json_loadb(text, size, JSON_DECODE_ANY, &error);
                        if (!number && json_error_code(&error) == json_error_numeric_overflow)
                                return refuse(b, -EINVAL, mark, "the number is too large; quote it if it is text");
                }
                *ret = number ? number : json_stringn(text, size);
        }
        return 0;
}

static int on_scalar(struct builder *b, const yaml_event_t *event)
{
        const char *text = (const char *)event->data.scalar.value;
        size_t size = event->data.scalar.length;
        const yaml_mark_t *mark = &event->start_mark;
        bool quoted = event->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
        json_t *value = NULL;

        if (memchr(text, '\0', size))
                return refuse(b, -EINVAL, mark, "a string with a NUL character");
        if (key_expected(b))
                return builder_key(b, mark, text);
        if (quoted) {
                value = json_stringn(text, size);
        } else {
                int r = plain_value(b, mark, text, size, &value);
                if (r < 0)
                        return r;
        }
        return builder_add(b, value, mark, text, quoted);
}

static int on_collection(struct builder *b, const yaml_event_t *event, json_t *node)
{
        const yaml_mark_t *mark = &event->start_mark;
        int r = 0;

        if (key_expected(b))
                r = refuse(b, -EINVAL, mark, "a list or mapping cannot be a key");
        else if (b->depth == YAML_DEPTH_MAX)
                r = refuse(b, -EFBIG, mark, "nested too deeply; at most 16 levels");
        if (r < 0) {
                json_decref(node);
                return r;
        }
        r = builder_add(b, node, mark, NULL, false);
        if (r < 0)
                return r;
        b->frames[b->depth++] = (struct frame){.node = node};
        return 0;
}

/* Tags could make a value something else than it looks like. */
static int check_plain_node(struct builder *b, const yaml_event_t *event, const yaml_char_t *anchor, const yaml_char_t *tag)
{
        if (anchor)
                return refuse(b, -EINVAL, &event->start_mark, "anchors (&name) are not allowed; write the value out");
        if (tag)
                return refuse(b, -EINVAL, &event->start_mark, "tags (!name) are not allowed; write the value without it");
        return count_node(b, &event->start_mark);
}

static int on_document(struct builder *b, const yaml_event_t *event)
{
        if (++b->documents > 1)
                return refuse(b, -EINVAL, &event->start_mark, "a second document; one file holds one");
        if (event->data.document_start.tag_directives.start != event->data.document_start.tag_directives.end)
                return refuse(b, -EINVAL, &event->start_mark, "tags (%TAG) are not allowed");
        return 0;
}

static int on_event(struct builder *b, const yaml_event_t *event)
{
        int r;

        switch (event->type) {
        case YAML_ALIAS_EVENT:
                return refuse(b, -EINVAL, &event->start_mark, "aliases (*name) are not allowed; write the value out");
        case YAML_SCALAR_EVENT:
                r = check_plain_node(b, event, event->data.scalar.anchor, event->data.scalar.tag);
                return r < 0 ? r : on_scalar(b, event);
        case YAML_SEQUENCE_START_EVENT:
                r = check_plain_node(b, event, event->data.sequence_start.anchor, event->data.sequence_start.tag);
                return r < 0 ? r : on_collection(b, event, json_array());
        case YAML_MAPPING_START_EVENT:
                r = check_plain_node(b, event, event->data.mapping_start.anchor, event->data.mapping_start.tag);
                return r < 0 ? r : on_collection(b, event, json_object());
        case YAML_SEQUENCE_END_EVENT:
        case YAML_MAPPING_END_EVENT:
                b->depth--;
                return 0;
        case YAML_DOCUMENT_START_EVENT:
                return on_document(b, event);
        default:
                return 0;
        }
}

static int parser_failed(struct builder *b, const yaml_parser_t *parser)
{
        char problem[sizeof(b->where->problem)];

        if (parser->error == YAML_MEMORY_ERROR)
                return -ENOMEM;
        snprintf(problem, sizeof(problem), "%s%s%s", parser->problem ? parser->problem : "not YAML",
                 parser->context ? " " : "", parser->context ? parser->context : "");
        return refuse(b, -EINVAL, &parser->problem_mark, problem);
}

static int build(struct builder *b, yaml_parser_t *parser)
{
        for (;;) {
                yaml_event_t event;

                if (!yaml_parser_parse(parser, &event))
                        return parser_failed(b, parser);
                bool end = event.type == YAML_STREAM_END_EVENT;
                int r = on_event(b, &event);
                yaml_event_delete(&event);
                if (r < 0 || end)
                        return r;
        }
}

int yaml_parse(const char *text, size_t size, struct yaml_doc **ret, struct yaml_where *where)
{
        _cleanup_(builder_done) struct builder b = {.where = where};
        yaml_parser_t parser;

        *where = (struct yaml_where){.line = 1, .column = 1};
        int r = check_text(text, size, where);
        if (r < 0)
                return r;
        b.doc = calloc(1, sizeof(*b.doc));
        if (!b.doc || !yaml_parser_initialize(&parser))
                return -ENOMEM;
        b.doc->root = json_null();
        yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
        yaml_parser_set_input_string(&parser, (const unsigned char *)text, size);
        r = build(&b, &parser);
        yaml_parser_delete(&parser);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(b.doc);
        return 0;
}
