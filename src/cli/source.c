/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/source.h"

#include "base/fd.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#define NAME_IN_BOX_MAX 128 /* bytes of a file name; the path in the box is to fit BOX_PATH_MAX */

void source_done(struct source *s)
{
        free(s->read);
        *s = (struct source){0};
}

static int too_big(const char *what, gb_error *err)
{
        return error_set(err, GB_E_LIMIT, EFBIG, "%s is bigger than %llu MB, the most that code may have", what,
                         CODE_BYTES_MAX / MIB);
}

/* Opened without waiting and looked at afterwards, so that neither a device nor a change of the
 * path in between can do anything. */
static int open_code(const char *path, gb_error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, GB_E_NOT_FOUND, errno, "cannot read %s: %s", quote(path).text,
                                 errno == ENXIO ? "it is a socket or a device" : strerror(errno));
        if (S_ISDIR(st.st_mode))
                return error_set(err, GB_E_USAGE, EISDIR,
                                 "%s is a directory; give the file to run, and the directory with --workspace",
                                 quote(path).text);
        if (!S_ISREG(st.st_mode) && !S_ISFIFO(st.st_mode))
                return error_set(err, GB_E_USAGE, 0,
                                 "%s is neither a file nor a pipe; use - to read the program from standard input",
                                 quote(path).text);
        if (S_ISREG(st.st_mode) && (uint64_t)st.st_size > CODE_BYTES_MAX)
                return too_big(quote(path).text, err);
        if (S_ISFIFO(st.st_mode)) {
                /* A pipe whose writer is yet to come reads as empty; poll() waits for it. */
                struct pollfd p = {.fd = fd, .events = POLLIN};
                int flags = fcntl(fd, F_GETFL);
                if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 || poll(&p, 1, -1) < 0)
                        return error_set(err, GB_E_NOT_FOUND, errno, "cannot read %s: %s", quote(path).text,
                                         strerror(errno));
        }
        return TAKE_FD(fd);
}

int source_read(const char *path, struct source *ret, gb_error *err)
{
        bool is_stdin = strcmp(path, "-") == 0;
        _cleanup_close_ int opened = is_stdin ? -1 : open_code(path, err);
        struct quoted what = quote(path);

        if (!is_stdin && opened < 0)
                return opened;
        int r = fd_read_all(is_stdin ? STDIN_FILENO : opened, CODE_BYTES_MAX, &ret->read, &ret->size);
        if (r == -EFBIG)
                return too_big(is_stdin ? "standard input" : what.text, err);
        if (r < 0)
                return error_set(err, r == -ENOMEM ? GB_E_INTERNAL : GB_E_NOT_FOUND, -r, "cannot read %s: %s",
                                 is_stdin ? "standard input" : what.text, strerror(-r));
        ret->code = ret->read;
        return 0;
}

int source_text(const char *text, struct source *ret, gb_error *err)
{
        ret->code = text;
        ret->size = strlen(text);
        return ret->size > CODE_BYTES_MAX ? too_big("the code of -c", err) : 0;
}

int source_check(const struct source *s, const struct language *language, const char *what, gb_error *err)
{
        if (s->size >= 4 && memcmp(s->code, "\177ELF", 4) == 0)
                return error_set(err, GB_E_USAGE, ENOEXEC, "%s is a compiled program (ELF), not %s code", what,
                                 language->name);
        /* Compilers have their own opinion of NUL bytes; interpreters would run what is before. */
        if (!language->compile[0] && memchr(s->code, '\0', s->size))
                return error_set(err, GB_E_USAGE, EINVAL, "%s holds NUL bytes: it is binary data, not %s code", what,
                                 language->name);
        return 0;
}

static bool name_is_plain(const char *name)
{
        for (const char *p = name; *p; p++)
                if ((unsigned char)*p < 0x20 || *p == 0x7f || *p == '/')
                        return false;
        size_t length = strlen(name);
        return length > 0 && length <= NAME_IN_BOX_MAX && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
               name[0] != '-';
}

const char *source_name_in_box(const char *path, const struct language *language)
{
        const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');

        if (!dot || !name_is_plain(name))
                return NULL;
        for (size_t i = 0; language->extensions[i]; i++)
                if (strcasecmp(dot + 1, language->extensions[i]) == 0)
                        return name;
        return NULL;
}

int source_check_name(const char *name, gb_error *err)
{
        if (name_is_plain(name))
                return 0;
        return error_set(err, GB_E_USAGE, 0,
                         "--name %s: a file name of 1 to %d bytes, without / and control characters, not beginning with -",
                         quote(name).text, NAME_IN_BOX_MAX);
}
