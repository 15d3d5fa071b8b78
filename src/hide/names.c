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
#define COPIES_MAX 2 /* a copy of a copy: .env~.bak */

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
                .text = text, .size = strlen(text), .fixed = fixed, .has_slash = strchr(text, '/') != NULL, .is_literal = text[fixed] == '\0',
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
        if (p->fixed > 0 && p->text[0] != text[0])
                return false;
        if (p->is_literal)
                return strcmp(p->text, text) == 0;
        if (p->is_end) {
                size_t n = p->size - 1;
                return size >= n && (n == 0 || p->text[n] == text[size - 1]) && memcmp(p->text + 1, text + size - n, n) == 0;
        }
        return strncmp(p->text, text, p->fixed) == 0 && fnmatch(p->text + p->fixed, text + p->fixed, 0) == 0;
}

enum kind { ANY, LITERAL };

static bool finds(const struct hide_pattern *list, size_t n, enum kind kind, const char *name, size_t name_size, const char *end, size_t end_size)
{
        for (size_t i = 0; i < n; i++)
                if ((kind == ANY || list[i].is_literal) && (list[i].has_slash ? match(&list[i], end, end_size) : match(&list[i], name, name_size)))
                        return true;
        return false;
}

/* A name in full is meant more exactly than one with wildcards: "*.js" does not show ".mongorc.js". Of two of a kind the one that shows counts. */
static bool is_hidden(const struct hide_names *n, const char *name, size_t name_size, const char *end, size_t end_size)
{
        if (!finds(n->hidden, n->n_hidden, ANY, name, name_size, end, end_size))
                return false;
        if (!finds(n->shown, n->n_shown, ANY, name, name_size, end, end_size))
                return true;
        return finds(n->hidden, n->n_hidden, LITERAL, name, name_size, end, end_size) && !finds(n->shown, n->n_shown, LITERAL, name, name_size, end, end_size);
}

/* The size of what stands at the end of name when it is a copy; 0: nothing does. */
static size_t copy_ending(const char *name, size_t size)
{
        static const char *const endings[] = {".bak", ".backup", ".old", ".orig", ".save", ".tmp", ".temp", ".new"};
        const char *dot = memrchr(name, '.', size);

        if (size > 1 && (name[size - 1] == '~'))
                return 1;
        if (!dot || dot == name)
                return 0;
        for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
                if (strcasecmp(dot, endings[i]) == 0)
                        return strlen(dot);
        /* NAME.tmp.1234.ab, which is then renamed. */
        const char *unfinished = strcasestr(name + 1, ".tmp.");
        return unfinished ? strlen(unfinished) : 0;
}

bool hide_names_strip(char *name, char **ret_inner)
{
        size_t size = strlen(name), ending;

        *ret_inner = name;
        if (size > 2 && name[0] == '#' && name[size - 1] == '#') {
                name[size - 1] = '\0';
                *ret_inner = name + 1;
        } else if (size > 2 && name[0] == '.' && name[1] == '#') {
                *ret_inner = name + 2;
        } else if (size > 5 && name[0] == '.' && strncasecmp(name + size - 4, ".sw", 3) == 0 && strchr("klmnopx", tolower((unsigned char)name[size - 1]))) {
                name[size - 4] = '\0';
                *ret_inner = name + 1; /* vim: .a.swp is of "a", and of ".a" */
        } else if ((ending = copy_ending(name, size)) > 0) {
                name[size - ending] = '\0';
        } else {
                return false;
        }
        return true;
}

/* What most names are not is seen by their ends. */
static bool may_be_copy(const char *name, size_t size)
{
        return size > 2 && (name[size - 1] == '~' || name[0] == '#' || (name[0] == '.' && name[1] == '#') || strchr("kpdgemwxlno", name[size - 1]) ||
                            strstr(name, ".tmp."));
}

/* text: "parent/name" in lower case; name points into it. */
static enum hide_verdict judge(const struct hide_names *n, const char *text, const char *name, int copies)
{
        char copy[2 * NAME_MAX + 3], *inner;
        size_t name_size = strlen(name), before = (size_t)(name - text);
        enum hide_verdict verdict = HIDE_NOTHING;

        if (is_hidden(n, name, name_size, text, before + name_size))
                return HIDE_ALWAYS;
        if (finds(n->keys, n->n_keys, ANY, name, name_size, text, before + name_size))
                verdict = HIDE_IF_KEY;
        if (copies == 0 || !may_be_copy(name, name_size))
                return verdict;
        memcpy(copy, text, before + name_size + 1);
        if (!hide_names_strip(copy + before, &inner))
                return verdict;
        verdict = MAX(verdict, judge(n, copy, copy + before, copies - 1));
        if (inner == copy + before || verdict == HIDE_ALWAYS)
                return verdict;
        memmove(copy + before, inner, strlen(inner) + 1);
        return MAX(verdict, judge(n, copy, copy + before, copies - 1));
}

enum hide_verdict hide_names_judge(const struct hide_names *n, const char *parent, const char *name)
{
        char text[2 * NAME_MAX + 3];

        /* No file system has longer names; what cannot be judged is not shown. */
        if ((size_t)snprintf(text, sizeof(text), "%s/%s", parent, name) >= sizeof(text))
                return HIDE_ALWAYS;
        lower(text);
        return judge(n, text, text + strlen(parent) + 1, COPIES_MAX);
}

enum hide_verdict hide_walk_judge(const struct hide_names *n, const struct hide_walk *w, const char *name)
{
        return w->git == HIDE_GIT_REFS ? HIDE_NOTHING : hide_names_judge(n, w->parent, name);
}

void hide_walk_enter(struct hide_walk *w, const char *name)
{
        bool has_refs = w->git == HIDE_GIT_TOP || w->git == HIDE_GIT_INNER;

        if (has_refs && (strcmp(name, "refs") == 0 || strcmp(name, "logs") == 0))
                w->git = HIDE_GIT_REFS;
        else if (w->git == HIDE_GIT_TOP)
                w->git = strcmp(name, "modules") == 0 || strcmp(name, "worktrees") == 0 ? HIDE_GIT_INNER : HIDE_GIT_NONE;
        else if (w->git == HIDE_GIT_NONE && strcmp(name, ".git") == 0)
                w->git = HIDE_GIT_TOP;
        snprintf(w->parent, sizeof(w->parent), "%s", name);
}

enum hide_verdict hide_walk_path(const struct hide_names *n, struct hide_walk *w, const char *path)
{
        enum hide_verdict verdict = HIDE_NOTHING;
        char name[NAME_MAX + 1];

        for (;;) {
                path += strspn(path, "/");
                size_t size = strcspn(path, "/");
                if (size == 0)
                        return verdict;
                if (size > NAME_MAX)
                        return HIDE_ALWAYS;
                memcpy(name, path, size);
                name[size] = '\0';
                path += size;
                verdict = hide_walk_judge(n, w, name);
                hide_walk_enter(w, name);
                /* Of a directory there is no content to judge. */
                if (verdict == HIDE_ALWAYS)
                        return verdict;
        }
}
