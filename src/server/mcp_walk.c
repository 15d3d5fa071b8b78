/* SPDX-License-Identifier: Apache-2.0
 *
 * Directory after directory, the upper ones first: what is cut off by a bound is what lies deepest. */
#include "server/mcp_walk.h"

#include "base/limits.h"
#include "base/utf8.h"
#include "guard/scrub.h"
#include "server/run_object.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define REMOTE_DIRECTORIES_MAX 50 /* of a workspace behind a server of files: each is a round trip */
#define LAST_USEC 253402300799999999LL /* of the year 9999 */

struct walk {
        const struct files *files;
        struct walked *out;
        char **directories; /* to be looked at, in this order */
        size_t n_directories, allocated, directories_max;
        size_t entries; /* that were looked at */
};

static void walk_done(struct walk *w)
{
        for (size_t i = 0; i < w->n_directories; i++)
                free(w->directories[i]);
        free(w->directories);
}

void walked_done(struct walked *w)
{
        for (size_t i = 0; i < w->n; i++)
                free(w->files[i].path);
        free(w->files);
        *w = (struct walked){0};
}

char *mcp_join_path(const char *dir, const char *name)
{
        char *path = NULL;

        if (strcmp(dir, ".") == 0)
                return strdup(name);
        return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

json_t *mcp_time_to_json(int64_t usec)
{
        return time_to_json((uint64_t)(usec < 1 ? 1 : MIN(usec, (int64_t)LAST_USEC)));
}

/* ---- the walk ---- */

static int out_of_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

/* Takes the path. */
static int add_directory(struct walk *w, char *path)
{
        _cleanup_free_ char *own = path;

        if (w->n_directories == w->allocated) {
                size_t n = w->allocated ? 2 * w->allocated : 16;
                char **grown = reallocarray(w->directories, n, sizeof(*grown)); /* NOLINT: pointers are meant */
                if (!grown)
                        return -ENOMEM;
                w->directories = grown;
                w->allocated = n;
        }
        w->directories[w->n_directories++] = TAKE_PTR(own);
        return 0;
}

static int add_file(struct walked *w, char *path, const struct file_entry *e)
{
        _cleanup_free_ char *own = path;

        if (w->n == w->allocated) {
                size_t n = w->allocated ? 2 * w->allocated : 64;
                struct walked_file *grown = reallocarray(w->files, n, sizeof(*grown));
                if (!grown)
                        return -ENOMEM;
                w->files = grown;
                w->allocated = n;
        }
        w->files[w->n++] = (struct walked_file){TAKE_PTR(own), e->size, e->modified_usec};
        return 0;
}

static size_t depth_of(const char *path)
{
        size_t n = 1;

        for (; *path; path++)
                n += *path == '/';
        return n;
}

static bool is_hidden(const char *name)
{
        return name[0] == '.' || strcmp(name, "__pycache__") == 0;
}

static int add_entry(struct walk *w, const char *dir, const struct file_entry *e)
{
        bool directory = S_ISDIR(e->mode);

        if (is_hidden(e->name) || (!directory && !S_ISREG(e->mode)))
                return 0;
        char *path = mcp_join_path(dir, e->name);
        if (!path)
                return -ENOMEM;
        if (strlen(path) >= HOST_PATH_MAX || (directory && (w->n_directories >= w->directories_max || depth_of(path) > MCP_WALK_DEPTH_MAX))) {
                free(path);
                w->out->cut = true;
                return 0;
        }
        return directory ? add_directory(w, path) : add_file(w->out, path, e);
}

/* Whether the rest can be looked at all the same: it is gone, or closed to the box's own user. */
static bool is_local_matter(const gb_error *err)
{
        return err->code == GB_E_NOT_FOUND || err->code == GB_E_USAGE || err->code == GB_E_CONFLICT;
}

static int look_at(struct walk *w, const char *dir, bool first, gb_error *err)
{
        _cleanup_file_list_ struct file_list *l = NULL;
        gb_error why = {0};

        int r = files_list_page(w->files, dir, NULL, MCP_WALK_ENTRIES_MAX - w->entries, &l, &why);
        if (r < 0 && !first && is_local_matter(&why)) {
                w->out->cut |= why.code != GB_E_NOT_FOUND; /* something may be in it */
                return 0;
        }
        if (r < 0) {
                if (err)
                        *err = why;
                return r;
        }
        w->entries += l->n;
        w->out->cut |= l->truncated;
        for (size_t i = 0; i < l->n && r == 0; i++)
                r = add_entry(w, dir, &l->entries[i]);
        return r < 0 ? out_of_memory(err) : 0;
}

static int walk_all(struct walk *w, gb_error *err)
{
        char *root = strdup(".");

        if (!root || add_directory(w, root) < 0)
                return out_of_memory(err);
        for (size_t i = 0; i < w->n_directories; i++) {
                if (w->entries >= MCP_WALK_ENTRIES_MAX) {
                        w->out->cut = true;
                        break;
                }
                int r = look_at(w, w->directories[i], i == 0, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- what is shown of it ---- */

/* Whether the scrubber finds something in any of these: they are looked at together, since that is rare. 1, 0, or -ENOMEM. */
static int has_secrets(const struct scrub *scrub, const struct walked *w)
{
        _cleanup_buffer_ struct buffer paths, out;
        int r = 0;

        buffer_init(&paths, SIZE_MAX / 2);
        buffer_init(&out, SIZE_MAX / 2);
        for (size_t i = 0; scrub && i < w->n && r == 0; i++)
                r = buffer_add(&paths, w->files[i].path, strlen(w->files[i].path) + 1); /* a NUL is in no path */
        return r < 0 || paths.size == 0 ? r : scrub_text(scrub, paths.data, paths.size, &out, NULL);
}

/* 1, 0, or -ENOMEM. */
static int is_shown(const struct scrub *scrub, const char *path)
{
        _cleanup_buffer_ struct buffer out;
        size_t size = strlen(path);

        buffer_init(&out, SIZE_MAX / 2);
        if (!utf8_is_valid(path, size))
                return 0;
        int r = scrub ? scrub_text(scrub, path, size, &out, NULL) : 0;
        return r < 0 ? r : r == 0;
}

static int keep_shown(const struct scrub *scrub, struct walked *w)
{
        int r = has_secrets(scrub, w);
        size_t kept = 0, i;

        if (r == 0)
                scrub = NULL;
        for (i = 0; i < w->n && r >= 0; i++) {
                r = is_shown(scrub, w->files[i].path);
                if (r > 0)
                        w->files[kept++] = w->files[i];
                else
                        free(TAKE_PTR(w->files[i].path));
        }
        for (; i < w->n; i++) /* after a failure: all that is kept is freed by the caller */
                w->files[kept++] = w->files[i];
        w->n = kept;
        return r < 0 ? r : 0;
}

static int by_path(const void *a, const void *b)
{
        return strcmp(((const struct walked_file *)a)->path, ((const struct walked_file *)b)->path);
}

int mcp_walk(struct live_session *s, struct walked *ret, gb_error *err)
{
        _cleanup_walked_ struct walked found = {0};
        struct files files;

        int r = session_files(s->session, &files, err);
        if (r < 0)
                return r;
        _cleanup_(walk_done) struct walk w = {
                .files = &files, .out = &found, .directories_max = files.remote ? REMOTE_DIRECTORIES_MAX : MCP_WALK_ENTRIES_MAX,
        };
        r = walk_all(&w, err);
        if (r < 0)
                return r;
        if (keep_shown(session_scrub(s->session), &found) < 0)
                return out_of_memory(err);
        if (found.n > 0)
                qsort(found.files, found.n, sizeof(found.files[0]), by_path);
        *ret = found;
        found = (struct walked){0};
        return 0;
}
