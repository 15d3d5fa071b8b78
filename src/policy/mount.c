/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/list.h"

#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define ALLOWED_TARGETS "use a place of its own such as /data, /project or /mnt/x"

/* Top-level directories that the box makes itself, and what is below them. */
static const char *const reserved[] = {
        "proc", "sys", "dev",   "etc",    "usr",    "bin", "sbin", "lib",
        "lib32", "lib64", "libx32", "run", "tmp", "sandbox", "workspace",
};

/* Writes path without "//", "." and a slash at its end. -EINVAL for a relative path, "..",
 * control characters and ":" (which separates in the text form); -ENAMETOOLONG. */
static int normalise(const char *path, char buf[static BOX_PATH_MAX])
{
        size_t used = 0;

        if (path[0] != '/')
                return -EINVAL;
        for (const char *c = path; *c; c++)
                if ((unsigned char)*c < 0x20 || *c == 0x7f || *c == ':')
                        return -EINVAL;
        while (*path) {
                path += strspn(path, "/");
                size_t n = strcspn(path, "/");
                if (n == 2 && memcmp(path, "..", 2) == 0)
                        return -EINVAL;
                if (n > 0 && !(n == 1 && *path == '.')) {
                        if (used + 1 + n >= BOX_PATH_MAX)
                                return -ENAMETOOLONG;
                        buf[used++] = '/';
                        memcpy(buf + used, path, n);
                        used += n;
                }
                path += n;
        }
        if (used == 0)
                buf[used++] = '/';
        buf[used] = '\0';
        return 0;
}

static int check_target(const char *target, char normal[static BOX_PATH_MAX], gb_error *err)
{
        int r = normalise(target, normal);
        if (r == -ENAMETOOLONG)
                return error_set(err, GB_E_USAGE, ENAMETOOLONG, "the target %s is too long; at most %d bytes",
                                 quote(target).text, BOX_PATH_MAX - 1);
        if (r < 0)
                return error_set(err, GB_E_USAGE, 0,
                                 "the target %s is not an absolute path without \"..\", \":\" and control characters",
                                 quote(target).text);
        if (strcmp(normal, "/") == 0)
                return error_set(err, GB_E_USAGE, 0, "the target cannot be /; " ALLOWED_TARGETS);
        size_t n = strcspn(normal + 1, "/");
        for (size_t i = 0; i < ARRAY_SIZE(reserved); i++)
                if (strlen(reserved[i]) == n && memcmp(reserved[i], normal + 1, n) == 0)
                        return error_set(err, GB_E_USAGE, 0, "the target %s lies in /%s, which belongs to the box; " ALLOWED_TARGETS,
                                         quote(target).text, reserved[i]);
        return 0;
}

/* Equal, or one below the other; both are normalised. */
static bool overlap(const char *a, const char *b)
{
        size_t na = strlen(a), nb = strlen(b), n = MIN(na, nb);

        if (strncmp(a, b, n) != 0)
                return false;
        return na == nb || (na < nb ? b[n] : a[n]) == '/';
}

static int check_overlap(const struct policy *p, size_t n, const char *target, gb_error *err)
{
        for (size_t i = 0; i < n; i++) {
                const char *other = p->mounts[i].target;
                if (!overlap(other, target))
                        continue;
                if (strcmp(other, target) == 0)
                        return error_set(err, GB_E_USAGE, 0, "two mounts have the target %s", quote(target).text);
                return error_set(err, GB_E_USAGE, 0, "the targets %s and %s lie one in the other; mounts cannot be nested",
                                 quote(other).text, quote(target).text);
        }
        return 0;
}

static int check_source(const char *source, gb_error *err)
{
        if (source[0] != '/')
                return error_set(err, GB_E_USAGE, 0, "the source %s is not an absolute path (~ is not expanded)", quote(source).text);
        if (strlen(source) >= HOST_PATH_MAX)
                return error_set(err, GB_E_USAGE, ENAMETOOLONG, "the source %s is too long", quote(source).text);
        return 0;
}

int mount_add(struct policy *p, const char *source, const char *target, enum mount_way way, gb_error *err)
{
        char normal[BOX_PATH_MAX];

        int r = check_source(source, err);
        if (r < 0)
                return r;
        r = check_target(target, normal, err);
        if (r < 0)
                return r;
        r = check_overlap(p, p->n_mounts, normal, err);
        if (r < 0)
                return r;
        if (p->n_mounts == MOUNT_COUNT_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many mounts; at most %d", MOUNT_COUNT_MAX);

        _cleanup_free_ char *source_copy = strdup(source), *target_copy = strdup(normal);
        if (!source_copy || !target_copy)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        p->mounts[p->n_mounts++] = (struct policy_mount){TAKE_PTR(source_copy), TAKE_PTR(target_copy), way == MOUNT_RW, way == MOUNT_HIDE};
        return 0;
}

static bool take_way(const char *text, enum mount_way *ret)
{
        static const char *const names[] = {[MOUNT_RO] = "ro", [MOUNT_RW] = "rw", [MOUNT_HIDE] = "hide"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcmp(text, names[i]) == 0) {
                        *ret = (enum mount_way)i;
                        return true;
                }
        return false;
}

int mount_add_text(struct policy *p, const char *text, const char *base, gb_error *err)
{
        _cleanup_free_ char *copy = strdup(text), *absolute = NULL;
        enum mount_way way = MOUNT_RO;

        if (!copy)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        char *colon = strrchr(copy, ':');
        if (colon && take_way(colon + 1, &way)) {
                *colon = '\0';
                colon = strrchr(copy, ':');
        }
        if (!colon || colon == copy || colon[1] == '\0')
                return error_set(err, GB_E_USAGE, 0, "%s is not a mount; allowed: SOURCE:TARGET, optionally followed by :ro, :rw or :hide",
                                 quote(text).text);
        *colon = '\0';
        const char *target = colon + 1;
        if (target[0] != '/' && strchr(copy, ':'))
                return error_set(err, GB_E_USAGE, 0, "%s does not end with ro, rw, hide or an absolute target", quote(text).text);
        if (copy[0] == '/' || !base)
                return mount_add(p, copy, target, way, err);
        if (asprintf(&absolute, "%s/%s", base, copy) < 0) {
                absolute = NULL;
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        return mount_add(p, absolute, target, way, err);
}

void mounts_clear(struct policy *p)
{
        for (size_t i = 0; i < p->n_mounts; i++) {
                free(p->mounts[i].source);
                free(p->mounts[i].target);
        }
        p->n_mounts = 0;
}

int mounts_check(const struct policy *p, gb_error *err)
{
        if (p->n_mounts > MOUNT_COUNT_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many mounts; at most %d", MOUNT_COUNT_MAX);
        for (size_t i = 0; i < p->n_mounts; i++) {
                const struct policy_mount *m = &p->mounts[i];
                char normal[BOX_PATH_MAX] = "";

                int r = m->source && m->target ? 0 : error_set(err, GB_E_INTERNAL, 0, "a mount without source or target");
                if (r == 0)
                        r = check_source(m->source, err);
                if (r == 0)
                        r = check_target(m->target, normal, err);
                if (r == 0 && m->writable && m->hides)
                        r = error_set(err, GB_E_USAGE, 0, "a mount that hides credential files is read-only");
                if (r == 0 && strcmp(normal, m->target) != 0)
                        r = error_set(err, GB_E_USAGE, 0, "the target %s is not normalised", quote(m->target).text);
                if (r == 0)
                        r = check_overlap(p, i, m->target, err);
                if (r < 0)
                        return r;
        }
        return 0;
}
