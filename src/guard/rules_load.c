/* SPDX-License-Identifier: Apache-2.0
 *
 * Which rules there are. Without a directory of the operator's they are the shipped ones, and no file is opened. With one, all files are compiled together,
 * by a helper, and kept: below the directory for what lasts, under a name that is made of everything that went in. */
#include "base/buffer.h"
#include "base/fd.h"
#include "base/helper.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/sha256.h"
#include "guard/rules_state.h"
#include "guard/rules_wire.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- files ---- */

/* Paths of files, in order. */
struct paths {
        char *rows[RULES_FILES_MAX];
        size_t n;
};

static void paths_done(struct paths *p)
{
        for (size_t i = 0; i < p->n; i++)
                free(p->rows[i]);
}

static int is_rules(const struct dirent *d)
{
        size_t n = strlen(d->d_name);

        return n > 5 && d->d_name[0] != '.' && strcmp(d->d_name + n - 5, ".yaml") == 0;
}

/* The files of a directory, by name; none when there is no directory. */
static int paths_add(struct paths *p, const char *directory, gb_error *err)
{
        struct dirent **names = NULL;
        int r = 0, n = scandir(directory, &names, is_rules, alphasort);

        if (n < 0 && errno != ENOENT)
                return error_set(err, GB_E_POLICY, errno, "cannot read the rules in %s: %s", quote_path(directory).text, strerror(errno));
        for (int i = 0; i < n; i++) {
                if (r == 0 && p->n == RULES_FILES_MAX)
                        r = error_set(err, GB_E_LIMIT, E2BIG, "%s: too many files of rules; at most %d in all", quote_path(directory).text, RULES_FILES_MAX);
                if (r == 0 && asprintf(&p->rows[p->n], "%s/%s", directory, names[i]->d_name) < 0)
                        r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                if (r == 0)
                        p->n++;
                free(names[i]);
        }
        free(names);
        return r;
}

static int add_file(struct buffer *out, const char *path, bool is_extra, gb_error *err)
{
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t size;

        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, GB_E_POLICY, errno, "cannot open %s: %s", quote_path(path).text, strerror(errno));
        if (!S_ISREG(st.st_mode))
                return error_set(err, GB_E_POLICY, EINVAL, "%s is not a regular file", quote_path(path).text);
        int r = fd_read_all(fd, YAML_BYTES_MAX, &text, &size);
        if (r < 0)
                return error_set(err, GB_E_POLICY, -r, "cannot read %s: %s", quote_path(path).text, r == -EFBIG ? "it is too large" : strerror(-r));
        struct rules_file f = {.name_size = (uint32_t)strlen(path), .size = (uint32_t)size, .is_extra = is_extra};
        r = buffer_add(out, &f, sizeof(f));
        if (r == 0)
                r = buffer_add(out, path, f.name_size);
        if (r == 0)
                r = buffer_add(out, text, size);
        return r < 0 ? error_set(err, GB_E_LIMIT, -r, "the files of rules are too large") : 0;
}

/* ---- the helper ---- */

static int give(const struct buffer *in, int *ret, gb_error *err)
{
        _cleanup_close_ int fd = memfd_create("rules", MFD_CLOEXEC);

        if (fd < 0 || fd_write_all(fd, in->data, in->size) < 0 || lseek(fd, 0, SEEK_SET) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot hand on the rules: %s", strerror(errno));
        *ret = TAKE_FD(fd);
        return 0;
}

static int compile(const struct buffer *in, char **ret, size_t *ret_size, gb_error *err)
{
        static const char *const words[] = {"-", NULL};
        _cleanup_helper_ struct helper h = HELPER_NONE;
        _cleanup_free_ char *answer = NULL;
        _cleanup_close_ int fd = -1;
        size_t size;

        int r = give(in, &fd, err);
        if (r == 0)
                r = helper_start(&h, "glovebox-rules", words, fd, err);
        if (r < 0)
                return r;
        r = fd_read_all(h.fd, RULES_BYTES_MAX, &answer, &size);
        if (r == 0 && size > 1 && answer[0] == 'E')
                return error_set(err, GB_E_POLICY, EINVAL, "%.*s", (int)MIN(size - 1, (size_t)GB_ERROR_MESSAGE_MAX - 1), answer + 1);
        if (r < 0 || size < 2 || answer[0] != 'R')
                return error_set(err, GB_E_POLICY, EIO, "the rules could not be compiled: the helper died, or took more than %d s; is a pattern too large?",
                                 RULES_CPU_SECONDS);
        memmove(answer, answer + 1, size - 1);
        *ret = TAKE_PTR(answer);
        *ret_size = size - 1;
        return 0;
}

int rules_compile(const char *const *files, size_t n_files, bool with_shipped, struct rules **ret, gb_error *err)
{
        _cleanup_(paths_done) struct paths shipped = {0};
        _cleanup_buffer_ struct buffer in = {0};
        _cleanup_free_ char *directory = NULL, *bytes = NULL;
        size_t size;
        int r = 0;

        buffer_init(&in, RULES_FILES_MAX * (YAML_BYTES_MAX + HOST_PATH_MAX));
        if (with_shipped && path_rules("", &directory) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (with_shipped)
                r = paths_add(&shipped, directory, err);
        for (size_t i = 0; r == 0 && i < shipped.n; i++)
                r = add_file(&in, shipped.rows[i], false, err);
        for (size_t i = 0; r == 0 && i < n_files; i++)
                r = add_file(&in, files[i], true, err);
        if (r == 0)
                r = compile(&in, &bytes, &size, err);
        return r < 0 ? r : rules_from_memory(bytes, size, ret, err);
}

/* ---- the cache ---- */

static int cache_path(const struct buffer *in, char **ret_directory, char **ret)
{
        _cleanup_free_ char *state = NULL;
        char key[SHA256_TEXT_MAX];
        struct sha256 s;

        int r = path_state(&state);
        if (r < 0)
                return r;
        sha256_init(&s);
        sha256_add(&s, ((const struct rules_head *)(const void *)rules_shipped_text)->made_by, sizeof(((struct rules_head *)NULL)->made_by));
        sha256_add(&s, in->data, in->size);
        sha256_text(&s, key);
        if (asprintf(ret_directory, "%s/rules", state) < 0)
                return -ENOMEM;
        return asprintf(ret, "%s/%s", *ret_directory, key) < 0 ? -ENOMEM : 0;
}

/* Only what nobody else could have written. */
static int cache_read(const char *path, struct rules **ret)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
        _cleanup_free_ char *bytes = NULL;
        struct stat st;
        size_t size;

        if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || (st.st_uid != geteuid() && st.st_uid != 0) || st.st_mode & 022)
                return -ENOENT;
        int r = fd_read_all(fd, RULES_BYTES_MAX, &bytes, &size);
        return r < 0 ? r : rules_from_memory(bytes, size, ret, NULL);
}

/* Whether it could be kept is nobody's business: then it is compiled again. */
static void cache_write(const char *directory, const char *path, const char *bytes, size_t size)
{
        _cleanup_free_ char *part = NULL;

        (void)mkdir(directory, 0700);
        if (asprintf(&part, "%s.XXXXXX", path) < 0) {
                part = NULL;
                return;
        }
        _cleanup_close_ int fd = mkostemp(part, O_CLOEXEC);
        if (fd >= 0 && (fd_write_all(fd, bytes, size) < 0 || rename(part, path) < 0))
                (void)unlink(part);
}

/* ---- those of this installation ---- */

static int load_all(const struct paths *shipped, const struct paths *extra, struct rules **ret, gb_error *err)
{
        _cleanup_free_ char *directory = NULL, *cached = NULL, *bytes = NULL;
        _cleanup_buffer_ struct buffer in = {0};
        size_t size;
        int r = 0;

        buffer_init(&in, RULES_FILES_MAX * (YAML_BYTES_MAX + HOST_PATH_MAX));
        for (size_t i = 0; r == 0 && i < shipped->n; i++)
                r = add_file(&in, shipped->rows[i], false, err);
        for (size_t i = 0; r == 0 && i < extra->n; i++)
                r = add_file(&in, extra->rows[i], true, err);
        if (r < 0)
                return r;
        bool keeps = cache_path(&in, &directory, &cached) == 0;
        if (keeps && cache_read(cached, ret) == 0)
                return 0;
        r = compile(&in, &bytes, &size, err);
        if (r == 0)
                r = rules_from_memory(bytes, size, ret, err);
        if (r == 0 && keeps)
                cache_write(directory, cached, bytes, size);
        return r;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rules *shipped_rules, *all_rules;

int rules_get_shipped(const struct rules **ret, gb_error *err)
{
        pthread_mutex_lock(&lock);
        int r = shipped_rules ? 0 : rules_open(rules_shipped_text, &shipped_rules, err);
        pthread_mutex_unlock(&lock);
        *ret = shipped_rules;
        return r;
}

static int find_all(struct rules **ret, gb_error *err)
{
        _cleanup_(paths_done) struct paths shipped = {0}, extra = {0};
        _cleanup_free_ char *own = NULL, *directory = NULL;

        if (path_config_file("rules", &own) < 0 || path_rules("", &directory) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = paths_add(&extra, own, err);
        if (r < 0 || extra.n == 0)
                return r;
        r = paths_add(&shipped, directory, err);
        return r < 0 ? r : load_all(&shipped, &extra, ret, err);
}

int rules_get(const struct rules **ret, gb_error *err)
{
        static bool looked; /* a mistake in them is told every time */
        int r = 0;

        pthread_mutex_lock(&lock);
        if (!looked) {
                r = find_all(&all_rules, err);
                looked = r == 0;
        }
        const struct rules *all = all_rules;
        pthread_mutex_unlock(&lock);
        if (r < 0)
                return r;
        if (!all)
                return rules_get_shipped(ret, err);
        *ret = all;
        return 0;
}
