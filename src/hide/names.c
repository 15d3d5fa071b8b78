/* SPDX-License-Identifier: Apache-2.0 */
#include "hide/names.h"

#include <ctype.h>
#include <errno.h>
#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PATTERNS_MAX 4096

static void lower(char *text)
{
        for (; *text; text++)
                *text = (char)tolower((unsigned char)*text);
}

static void add(struct hide_pattern *list, size_t *n, const char *text)
{
        static const char wild[] = "*?[\\";
        size_t fixed = strcspn(text, wild);

        list[(*n)++] = (struct hide_pattern){
                .text = text, .fixed = fixed, .has_slash = strchr(text, '/') != NULL, .is_literal = text[fixed] == '\0',
                .is_end = text[0] == '*' && !strpbrk(text + 1, wild),
        };
}

int hide_names_parse(struct hide_names *n, const char *text, size_t size)
{
        size_t lines = 1;
        char *state = NULL;

        *n = (struct hide_names){0};
        for (size_t i = 0; i < size; i++)
                lines += text[i] == '\n';
        if (lines > PATTERNS_MAX || memchr(text, '\0', size))
                return -EINVAL;
        n->text = strndup(text, size);
        n->hidden = calloc(lines, sizeof(*n->hidden));
        n->shown = calloc(lines, sizeof(*n->shown));
        n->keys = calloc(lines, sizeof(*n->keys));
        if (!n->text || !n->hidden || !n->shown || !n->keys) {
                hide_names_done(n);
                return -ENOMEM;
        }
        lower(n->text);
        for (char *line = strtok_r(n->text, "\n", &state); line; line = strtok_r(NULL, "\n", &state)) {
                if (line[0] == 'h')
                        add(n->hidden, &n->n_hidden, line + 1);
                else if (line[0] == 's')
                        add(n->shown, &n->n_shown, line + 1);
                else if (line[0] == 'k')
                        add(n->keys, &n->n_keys, line + 1);
        }
        return 0;
}

void hide_names_done(struct hide_names *n)
{
        free(n->hidden);
        free(n->shown);
        free(n->keys);
        free(n->text);
        *n = (struct hide_names){0};
}

/* Most patterns need no fnmatch(), which would make a walk through a directory five times as slow. */
static bool match(const struct hide_pattern *p, const char *text, size_t size)
{
        if (p->is_literal)
                return strcmp(p->text, text) == 0;
        if (p->is_end) {
                size_t n = strlen(p->text + 1);
                return size >= n && memcmp(p->text + 1, text + size - n, n) == 0;
        }
        return strncmp(p->text, text, p->fixed) == 0 && fnmatch(p->text + p->fixed, text + p->fixed, 0) == 0;
}

static bool matches(const struct hide_pattern *list, size_t n, const char *name, const char *end)
{
        size_t name_size = strlen(name), end_size = strlen(end);

        for (size_t i = 0; i < n; i++)
                if (list[i].has_slash ? match(&list[i], end, end_size) : match(&list[i], name, name_size))
                        return true;
        return false;
}

enum hide_verdict hide_names_judge(const struct hide_names *n, const char *parent, const char *name)
{
        char end[2 * NAME_MAX + 3];

        /* No file system has longer names; what cannot be judged is not shown. */
        if ((size_t)snprintf(end, sizeof(end), "%s/%s", parent, name) >= sizeof(end))
                return HIDE_ALWAYS;
        lower(end);
        const char *last = end + strlen(parent) + 1;
        if (matches(n->hidden, n->n_hidden, last, end))
                return matches(n->shown, n->n_shown, last, end) ? HIDE_NOTHING : HIDE_ALWAYS;
        return matches(n->keys, n->n_keys, last, end) ? HIDE_IF_KEY : HIDE_NOTHING;
}

bool hide_is_key(const void *bytes, size_t size, bool is_pem)
{
        static const char key[] = "PRIVATE KEY", armour[] = "-----BEGIN ";

        if (memmem(bytes, size, key, sizeof(key) - 1))
                return true;
        return is_pem && !memmem(bytes, size, armour, sizeof(armour) - 1);
}
