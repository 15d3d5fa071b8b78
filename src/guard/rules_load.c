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
#include <limits.h>
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

/* Without them an operator's few would be all there are, and nobody would notice. */
static int add_shipped(struct paths *p, const char *directory, gb_error *err)
{
        if (access(directory, F_OK) < 0)
                return error_set(err, GB_E_POLICY, errno, "the shipped rules are not in %s: %s; they belong to the installation (GLOVEBOX_RULES_DIR says where they are)",
                                 quote_path(directory).text, strerror(errno));
        return paths_add(p, directory, err);
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
                r = add_shipped(&shipped, directory, err);
        for (size_t i = 0; r == 0 && i < shipped.n; i++)
                r = add_file(&in, shipped.rows[i], false, err);
        for (size_t i = 0; r == 0 && i < n_files; i++)
                r = add_file(&in, files[i], true, err);
        if (r == 0)
                r = compile(&in, &bytes, &size, err);
        return r < 0 ? r : rules_from_memory(bytes, size, ret, err);
}

/* ---- the cache ---- */

/* A name of everything that goes in. */
static void cache_name(const struct buffer *in, char name[static SHA256_TEXT_MAX])
{
        const struct rules_head *own = (const struct rules_head *)(const void *)rules_shipped_text;
        struct sha256 s;

        sha256_init(&s);
        sha256_add(&s, own->magic, sizeof(own->magic));
        sha256_add(&s, own->made_by, sizeof(own->made_by));
        sha256_add(&s, in->data, in->size);
        sha256_text(&s, name);
}

/* Whether nobody but us and root can change what it is the status of. */
static bool is_ours(const struct stat *st, mode_t kind)
{
        return (st->st_mode & S_IFMT) == kind && (st->st_uid == geteuid() || st->st_uid == 0) && !(st->st_mode & 022);
}

/* The directory; it is made when it is not there, for which what it stands in must be. */
static int cache_open(void)
{
        _cleanup_free_ char *state = NULL, *path = NULL;
        struct stat st;

        if (path_state(&state) < 0 || asprintf(&path, "%s/rules", state) < 0)
                return -ENOENT;
        (void)mkdir(state, 0700);
        (void)mkdir(path, 0700);
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd >= 0 && fstat(fd, &st) == 0 && is_ours(&st, S_IFDIR))
                return fd;
        safe_close(fd);
        return -EPERM;
}

/* Mustn't: take what somebody else could have written. vectorscan trusts a database as a program trusts its code, and no check of its bytes makes one safe. So
 * the file has to be ours, in a directory that is ours; the checksum is only for accidents. */
static int cache_read(int directory, const char *name, struct rules **ret)
{
        _cleanup_close_ int fd = openat(directory, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
        _cleanup_free_ char *bytes = NULL;
        struct stat st;
        size_t size;

        if (fd < 0 || fstat(fd, &st) < 0 || !is_ours(&st, S_IFREG))
                return -ENOENT;
        int r = fd_read_all(fd, RULES_BYTES_MAX, &bytes, &size);
        return r < 0 ? r : rules_from_memory(bytes, size, ret, NULL);
}

/* What was compiled from files as they were once. Others that are still wanted are made anew. */
static void cache_tidy(int directory)
{
        char names[RULES_CACHED_MAX][NAME_MAX + 1];
        size_t n = 0;

        int fd = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        if (!dir) {
                safe_close(fd);
                return;
        }
        for (const struct dirent *d; n < RULES_CACHED_MAX && (d = readdir(dir)) != NULL;)
                if (d->d_name[0] != '.')
                        snprintf(names[n++], sizeof(names[0]), "%s", d->d_name);
        closedir(dir);
        for (size_t i = 0; n == RULES_CACHED_MAX && i < n; i++)
                (void)unlinkat(directory, names[i], 0);
}

/* Whether it could be kept is nobody's business: then it is compiled again. */
static void cache_write(int directory, const char *name, const char *bytes, size_t size)
{
        char part[SHA256_TEXT_MAX + 32];

        snprintf(part, sizeof(part), "%s.%d", name, getpid());
        cache_tidy(directory);
        _cleanup_close_ int fd = openat(directory, part, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 && (fd_write_all(fd, bytes, size) < 0 || renameat(directory, part, directory, name) < 0))
                (void)unlinkat(directory, part, 0);
}

/* ---- those of this installation ---- */

static int load_all(const struct paths *shipped, const struct paths *extra, struct rules **ret, gb_error *err)
{
        _cleanup_free_ char *bytes = NULL;
        _cleanup_buffer_ struct buffer in = {0};
        _cleanup_close_ int cache = -1;
        char name[SHA256_TEXT_MAX];
        size_t size;
        int r = 0;

        buffer_init(&in, RULES_FILES_MAX * (YAML_BYTES_MAX + HOST_PATH_MAX));
        for (size_t i = 0; r == 0 && i < shipped->n; i++)
                r = add_file(&in, shipped->rows[i], false, err);
        for (size_t i = 0; r == 0 && i < extra->n; i++)
                r = add_file(&in, extra->rows[i], true, err);
        if (r < 0)
                return r;
        cache_name(&in, name);
        cache = cache_open();
        if (cache >= 0 && cache_read(cache, name, ret) == 0)
                return 0;
        r = compile(&in, &bytes, &size, err);
        if (r == 0)
                r = rules_from_memory(bytes, size, ret, err);
        if (r == 0 && cache >= 0)
                cache_write(cache, name, bytes, size);
        return r;
}

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct rules *shipped_rules, *all_rules; /* all_rules NULL: there are only the shipped ones */
static bool looked; /* for all_rules; a mistake in them is told every time */

/* What was read again: somebody may still use it. */
static struct former {
        struct rules *rules;
        struct former *next;
} *former;

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
        r = add_shipped(&shipped, directory, err);
        return r < 0 ? r : load_all(&shipped, &extra, ret, err);
}

int rules_get(const struct rules **ret, gb_error *err)
{
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

int rules_reload(gb_error *err)
{
        _cleanup_rules_ struct rules *fresh = NULL;
        struct former *f = calloc(1, sizeof(*f));

        if (!f)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = find_all(&fresh, err);
        if (r < 0) {
                free(f);
                return r;
        }
        pthread_mutex_lock(&lock);
        *f = (struct former){all_rules, former};
        former = f;
        all_rules = TAKE_PTR(fresh);
        looked = true;
        pthread_mutex_unlock(&lock);
        return 0;
}

void rules_reload_undo(void)
{
        pthread_mutex_lock(&lock);
        if (former) {
                struct rules *fresh = all_rules; /* somebody may have them already */
                all_rules = former->rules;
                former->rules = fresh;
        }
        pthread_mutex_unlock(&lock);
}
