/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox image import, glovebox image export. */
#include "cli/image.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "cli/output.h"
#include "cli/signals.h"
#include "image/export.h"
#include "image/import.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define SUFFIX ".XXXXXX"
#define LINKS_MAX 40 /* as the kernel */

/* ---- import ---- */

/* A FIFO that nobody writes to yet: it was opened without waiting, so that the wait can be given up. */
static int wait_for_writer(int fd, int cancel_fd)
{
        struct pollfd p[] = {{fd, POLLIN, 0}, {cancel_fd, POLLIN, 0}};
        int r;

        do
                r = poll(p, 2, -1);
        while (r < 0 && errno == EINTR);
        return r < 0 ? -errno : p[1].revents ? -ECANCELED : 0;
}

static int open_source(const char *path, int cancel_fd, gb_error *err)
{
        bool standard = strcmp(path, "-") == 0;
        struct stat st;
        int r = 0;

        _cleanup_close_ int fd = standard ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, GB_E_NOT_FOUND, errno, "cannot open %s: %s", quote(path).text, strerror(errno));
        if (isatty(fd))
                return error_set(err, GB_E_USAGE, EINVAL, "standard input is a terminal: give a file, or an archive by a pipe");
        if (!standard && S_ISFIFO(st.st_mode))
                r = wait_for_writer(fd, cancel_fd);
        if (r == 0 && !standard && fcntl(fd, F_SETFL, 0) < 0)
                r = -errno;
        if (r == -ECANCELED)
                return error_set(err, GB_E_CONFLICT, ECANCELED, "interrupted");
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot open %s: %s", quote(path).text, strerror(-r)) : TAKE_FD(fd);
}

static int import(const struct arguments *a, struct progress *progress, int cancel_fd, json_t **ret, gb_error *err)
{
        _cleanup_image_draft_ struct image_draft draft = IMAGE_DRAFT_NONE;
        _cleanup_json_ json_t *about = NULL;
        const char *path = a->words[0];

        _cleanup_close_ int fd = open_source(path, cancel_fd, err);
        if (fd < 0)
                return fd;
        int r = image_draft_begin(a->words[1], &draft, err);
        if (r == 0)
                r = image_import(&(struct image_import){.fd = fd, .cancel_fd = cancel_fd, .progress = image_progress, .data = progress}, &draft, &about, err);
        progress_done(progress);
        if (r < 0)
                return r;
        json_object_set_new(about, "source", strcmp(path, "-") == 0 ? json_string("import of standard input") : json_sprintf("import of %s", quote_path(path).text));
        r = image_draft_commit(&draft, about, err);
        if (r < 0)
                return r;
        json_object_set_new(about, "name", json_string(draft.name));
        *ret = TAKE_PTR(about);
        return 0;
}

int command_image_import(const struct command *command, const struct arguments *arguments)
{
        _cleanup_json_ json_t *about = NULL;
        struct progress progress;
        gb_error err = {0};

        if (arguments->n_words != 2) {
                error_set(&err, GB_E_USAGE, 0, "give an archive (or - for standard input) and a name: glovebox image import FILE NAME");
                return command_fail(arguments, &err);
        }
        _cleanup_close_ int cancel_fd = signals_start();
        umask(022); /* what is made is for programs in it, not for the caller alone; the store is closed to others */
        progress_init(&progress, arguments);
        int r = image_check_name(arguments->words[1], NULL, &err);
        if (r == 0)
                r = import(arguments, &progress, cancel_fd, &about, &err);
        return r < 0 ? image_fail(arguments, &err) : image_report(arguments, about);
}

/* ---- export ---- */

/* A new file beside the one that is wanted, which it becomes when it is whole. */
struct target {
        int fd;
        char path[HOST_PATH_MAX];
        char final[HOST_PATH_MAX];
};

static void target_done(struct target *t)
{
        if (t->path[0])
                unlink(t->path);
        t->fd = safe_close(t->fd);
}

/* A link that somebody else has put into a directory for all: the kernel does not follow those either (fs.protected_symlinks), and here it is not asked. */
static bool is_strange(const char *path)
{
        struct stat link, above;
        char dir[HOST_PATH_MAX];
        const char *slash = strrchr(path, '/');

        snprintf(dir, sizeof(dir), "%.*s", slash ? (int)(slash - path) + 1 : 1, slash ? path : ".");
        if (lstat(path, &link) < 0 || stat(dir, &above) < 0)
                return true;
        return (above.st_mode & (S_ISVTX | S_IWOTH)) == (S_ISVTX | S_IWOTH) && link.st_uid != geteuid() && link.st_uid != above.st_uid;
}

/* What is behind links is written, be it there or not; a link itself stays. In place. */
static int follow_links(char path[static HOST_PATH_MAX])
{
        char to[HOST_PATH_MAX];
        ssize_t n;

        for (int i = 0; (n = readlink(path, to, sizeof(to) - 1)) >= 0; i++) {
                char *slash = strrchr(path, '/');
                if (is_strange(path))
                        return -EACCES;
                size_t kept = to[0] != '/' && slash ? (size_t)(slash - path) + 1 : 0;
                if (i >= LINKS_MAX)
                        return -ELOOP;
                if (kept + (size_t)n >= HOST_PATH_MAX)
                        return -ENAMETOOLONG;
                memcpy(path + kept, to, (size_t)n);
                path[kept + (size_t)n] = '\0';
        }
        return 0;
}

static int target_open(struct target *t, const char *path, gb_error *err)
{
        struct stat st;

        if (strcmp(path, "-") == 0 || (stat(path, &st) == 0 && !S_ISREG(st.st_mode))) {
                t->fd = strcmp(path, "-") == 0 ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_WRONLY | O_NOCTTY | O_CLOEXEC);
                if (t->fd >= 0 && isatty(t->fd))
                        return error_set(err, GB_E_USAGE, EINVAL, "an archive is nothing for a terminal: give a FILE, or a pipe");
        } else {
                int r = (size_t)snprintf(t->final, sizeof(t->final), "%s", path) < sizeof(t->final) ? follow_links(t->final) : -ENAMETOOLONG;
                if (r == 0 && strlen(t->final) + sizeof(SUFFIX) > sizeof(t->path))
                        r = -ENAMETOOLONG;
                if (r < 0)
                        return error_set(err, GB_E_USAGE, -r, "cannot write %s: %s", quote(path).text,
                                         r == -EACCES ? "it is a link that another user has put into a directory for all; name the file itself" : strerror(-r));
                memcpy(t->path, t->final, strlen(t->final));
                memcpy(t->path + strlen(t->final), SUFFIX, sizeof(SUFFIX));
                t->fd = mkostemp(t->path, O_CLOEXEC);
                if (t->fd < 0)
                        t->path[0] = '\0';
        }
        return t->fd < 0 ? error_set(err, GB_E_NOT_FOUND, errno, "cannot write %s: %s", quote(path).text, strerror(errno)) : 0;
}

static int target_finish(struct target *t, gb_error *err)
{
        mode_t mask = umask(0);

        umask(mask);
        if (t->path[0] && (fchmod(t->fd, 0666 & ~mask) < 0 || fsync(t->fd) < 0 || rename(t->path, t->final) < 0))
                return error_set(err, GB_E_INTERNAL, errno, "cannot write %s: %s", quote(t->final).text, strerror(errno));
        t->path[0] = '\0';
        return 0;
}

int command_image_export(const struct command *command, const struct arguments *arguments)
{
        _cleanup_(target_done) struct target t = {.fd = -1};
        _cleanup_free_ char *root = NULL;
        const char *file = arguments->n_words > 1 ? arguments->words[1] : "-";
        struct progress progress;
        gb_error err = {0};

        int r = arguments->n_words > 0 ? 0 : error_set(&err, GB_E_USAGE, 0, "give the name of an image; 'glovebox image list' shows them");
        if (r == 0 && arguments_has(arguments, OPT_JSON) && strcmp(file, "-") == 0)
                r = error_set(&err, GB_E_USAGE, 0, "--json would stand in the archive: give a FILE");
        if (r == 0)
                r = image_store_root(arguments->words[0], &root, &err);
        if (r == 0)
                r = target_open(&t, file, &err);
        if (r < 0)
                return command_fail(arguments, &err);
        _cleanup_close_ int cancel_fd = signals_start();
        progress_init(&progress, arguments);
        struct image_export request = {.name = arguments->words[0], .fd = t.fd, .oci = arguments_has(arguments, OPT_OCI), .cancel_fd = cancel_fd,
                                       .progress = image_progress, .data = &progress};
        r = image_export(&request, &err);
        progress_done(&progress);
        if (r == 0)
                r = target_finish(&t, &err);
        if (r == -EPIPE)
                return 128 + 13;
        if (r < 0)
                return image_fail(arguments, &err);
        if (!arguments_has(arguments, OPT_JSON))
                return 0;
        _cleanup_json_ json_t *json = json_pack("{s:s, s:s, s:I, s:I}", "name", request.name, "file", file, "bytes", (json_int_t)request.bytes, "entries",
                                                (json_int_t)request.entries);
        return output_json(json);
}
