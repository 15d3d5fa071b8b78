/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/template.h"

#include "base/parse.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "base/document.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MODULE_NAME_MAX 128
#define DESCRIPTION_BYTES_MAX 200
#define POOL_DEFAULT 2
#define PYTHON_DEFAULT "python3"
#define ROOTFS_HOST "host"

/* Used when no file is installed; the shipped row of that name. */
static const char builtin_text[] =
        "templates:\n"
        "  python: {description: Python with the standard library's common modules, modules: [\n"
        "    argparse, array, ast, asyncio, base64, bisect, calendar, collections, collections.abc, concurrent.futures, contextlib,\n"
        "    copy, csv, dataclasses, datetime, decimal, difflib, enum, fractions, functools, glob, gzip, hashlib, heapq, html, inspect,\n"
        "    io, itertools, json, logging, math, operator, os, pathlib, pickle, pprint, queue, random, re, shutil, signal, sqlite3,\n"
        "    statistics, string, struct, subprocess, tempfile, textwrap, threading, time, traceback, types, typing, unicodedata,\n"
        "    unittest, urllib.parse, uuid, warnings, xml.etree.ElementTree, zipfile, zlib]}\n";

struct reader {
        struct template *row;
        gb_error *err;
};

void templates_free(struct templates *t)
{
        if (!t)
                return;
        for (size_t i = 0; i < t->n; i++) {
                struct template *row = &t->rows[i];
                free(row->name);
                free(row->rootfs);
                free(row->python);
                free(row->description);
                for (char **module = row->modules; *module; module++)
                        free(*module);
        }
        free(t);
}

static int no_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

/* It becomes a part of file names. */
static bool is_name(const char *text)
{
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");

        return n > 0 && n <= TEMPLATE_NAME_MAX && text[n] == '\0' && islower((unsigned char)text[0]);
}

/* Dotted identifiers. The runner hands them to import_module(), so nothing else may get through. */
static bool is_module(const char *text)
{
        bool begins = true;
        size_t n = 0;

        for (; text[n]; n++) {
                unsigned char c = (unsigned char)text[n];

                if (n == MODULE_NAME_MAX || (begins && !(isalpha(c) || c == '_')))
                        return false;
                if (!(isalnum(c) || c == '_' || c == '.'))
                        return false;
                begins = c == '.';
        }
        return n > 0 && !begins;
}

/* A name to be looked up, or an absolute path. A relative path would depend on the directory. */
static bool is_command(const char *text)
{
        size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._+-/");

        return n > 0 && n < BOX_PATH_MAX && text[n] == '\0' && text[0] != '-' && (text[0] == '/' || !strchr(text, '/'));
}

static bool is_line(const char *text)
{
        for (const char *p = text; *p; p++)
                if (iscntrl((unsigned char)*p))
                        return false;
        return strlen(text) <= DESCRIPTION_BYTES_MAX;
}

static int read_text(struct reader *rd, const struct place *at, bool (*good)(const char *), const char *allowed, char **ret)
{
        const char *text = place_text(at);

        if (!text || !good(text))
                return place_error(at, NULL, rd->err, "%s; allowed: %s", text ? quote(text).text : place_kind(at), allowed);
        *ret = strdup(text);
        return *ret ? 0 : no_memory(rd->err);
}

static bool is_rootfs(const char *text)
{
        return strcmp(text, ROOTFS_HOST) == 0 || (text[0] == '/' && strlen(text) < HOST_PATH_MAX);
}

static int read_rootfs(struct reader *rd, const struct place *at)
{
        _cleanup_free_ char *text = NULL;

        int r = read_text(rd, at, is_rootfs, "host, or the absolute path of an image", &text);
        if (r == 0 && strcmp(text, ROOTFS_HOST) != 0)
                rd->row->rootfs = TAKE_PTR(text);
        return r;
}

static int read_python(struct reader *rd, const struct place *at)
{
        return read_text(rd, at, is_command, "a command such as python3, or its absolute path", &rd->row->python);
}

static int read_modules(struct reader *rd, const struct place *at)
{
        return place_read_words(at, rd->row->modules, TEMPLATE_MODULES_MAX, is_module, "names of modules such as json or urllib.parse",
                                rd->err);
}

static int read_description(struct reader *rd, const struct place *at)
{
        return read_text(rd, at, is_line, "one line of at most 200 bytes", &rd->row->description);
}

static int read_pool(struct reader *rd, const struct place *at)
{
        const char *text = place_text(at);
        uint64_t value;

        if (!text || parse_count(text, &value) < 0 || value > TEMPLATE_POOL_MAX)
                return place_error(at, NULL, rd->err, "%s; allowed: a whole number from 0 to %d", text ? quote(text).text : place_kind(at),
                                   TEMPLATE_POOL_MAX);
        rd->row->pool = (unsigned)value;
        return 0;
}

static const char *const key_names[] = {"rootfs", "python", "modules", "pool", "description"};
static int (*const key_readers[])(struct reader *, const struct place *) = {
        read_rootfs, read_python, read_modules, read_pool, read_description,
};

static int read_key(struct reader *rd, const struct place *at)
{
        for (size_t i = 0; i < ARRAY_SIZE(key_names); i++)
                if (strcmp(key_names[i], at->key) == 0)
                        return key_readers[i](rd, at);
        return place_unknown_key(at, key_names, ARRAY_SIZE(key_names), rd->err);
}

static int fill_defaults(struct template *row, gb_error *err)
{
        if (!row->python)
                row->python = strdup(PYTHON_DEFAULT);
        if (!row->description)
                row->description = strdup("");
        return row->python && row->description ? 0 : no_memory(err);
}

static int read_template(void *into, const struct place *at, gb_error *err)
{
        struct templates *t = into;
        const json_t *map = place_value(at);
        const char *key;
        json_t *value;

        if (!is_name(at->key))
                return place_error(at, "templates", err, "%s is not a name; allowed: a small letter, then small letters, digits, _ -, at most %d in all",
                                   quote(at->key).text, TEMPLATE_NAME_MAX);
        if (!json_is_object(map))
                return place_error(at, NULL, err, "%s; allowed: a mapping of keys", place_kind(at));
        if (t->n == TEMPLATE_COUNT_MAX)
                return place_error(at, "templates", err, "too many; at most %d", TEMPLATE_COUNT_MAX);

        struct reader rd = {&t->rows[t->n++], err};
        rd.row->pool = POOL_DEFAULT;
        rd.row->name = strdup(at->key);
        if (!rd.row->name)
                return no_memory(err);
        json_object_foreach((json_t *)map, key, value) {
                int r = read_key(&rd, &(struct place){at->doc, map, key, 0});
                if (r < 0)
                        return r;
        }
        return fill_defaults(rd.row, err);
}

int templates_parse(const char *name, const char *text, size_t size, struct templates **ret, gb_error *err)
{
        _cleanup_templates_ struct templates *t = calloc(1, sizeof(*t));
        _cleanup_document_ struct document *doc = NULL;

        if (!t)
                return no_memory(err);
        int r = document_parse(name, text, size, &doc, err);
        if (r == 0)
                r = document_rows(doc, "templates", read_template, t, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}

int templates_load(const char *file, struct templates **ret, gb_error *err)
{
        _cleanup_templates_ struct templates *t = calloc(1, sizeof(*t));

        if (!t)
                return no_memory(err);
        int r = document_rows_load(file, "templates", builtin_text, read_template, t, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(t);
        return 0;
}

int template_by_name(const struct templates *t, const char *name, const struct template **ret, gb_error *err)
{
        const char *names[TEMPLATE_COUNT_MAX];
        char list[240] = "", *end = list;

        for (size_t i = 0; i < t->n; i++) {
                names[i] = t->rows[i].name;
                if (strcmp(names[i], name) == 0) {
                        *ret = &t->rows[i];
                        return 0;
                }
                if (strlen(names[i]) + 3 < (size_t)(list + sizeof(list) - end))
                        end += sprintf(end, "%s%s", end == list ? "" : ", ", names[i]);
        }
        if (t->n == 0)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no template %s; templates.yaml has none", quote(name).text);
        const char *nearest = suggest_nearest(name, names, t->n);
        return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no template %s%s%s%s%s", quote(name).text,
                         nearest ? "; did you mean \"" : "", nearest ? nearest : "", nearest ? "\"? There are: " : "; there are: ", list);
}
