/* SPDX-License-Identifier: Apache-2.0
 *
 * A line of mountinfo, as the kernel's show_mountinfo() writes it:
 *
 *   36 35 98:0 /root /target rw,noatime shared:1 master:2 - ext4 /dev/source rw,errors=continue
 *   id parent dev root target options   optional fields   - type source      super options
 *
 * There are zero or more optional fields; a lone "-" ends them. Space, tab, newline, backslash (and
 * '#' on newer kernels) inside a field are written as a backslash and three octal digits. A field
 * can be empty (a mount made with an empty source), so fields are cut at every single space. */
#include "kernel/mountinfo.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/sysmacros.h>

int mountinfo_load(char **ret)
{
        _cleanup_close_ int fd = open("/proc/self/mountinfo", O_RDONLY | O_CLOEXEC);
        if (fd < 0)
                return -errno;
        return fd_read_all(fd, KERNEL_FILE_BYTES_MAX, ret, NULL);
}

static bool is_octal(char c)
{
        return c >= '0' && c <= '7';
}

/* In place: the result is never longer. An escaped NUL is left as it is: no path has one. */
static void unescape(char *s)
{
        char *out = s;

        while (*s) {
                if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && is_octal(s[2]) && is_octal(s[3])) {
                        int c = (s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0');
                        if (c != 0) {
                                *out++ = (char)c;
                                s += 4;
                                continue;
                        }
                }
                *out++ = *s++;
        }
        *out = '\0';
}

/* Decimal digits up to stop, which must follow them. */
static int parse_number(const char **text, char stop, int *ret)
{
        const char *p = *text;
        long value = 0;

        if (*p < '0' || *p > '9')
                return -EINVAL;
        for (; *p >= '0' && *p <= '9'; p++) {
                value = value * 10 + (*p - '0');
                if (value > INT_MAX)
                        return -EINVAL;
        }
        if (*p != stop)
                return -EINVAL;
        *text = stop ? p + 1 : p;
        *ret = (int)value;
        return 0;
}

static int parse_dev(const char *text, dev_t *ret)
{
        int major_number, minor_number;

        if (parse_number(&text, ':', &major_number) < 0 || parse_number(&text, '\0', &minor_number) < 0)
                return -EINVAL;
        *ret = makedev((unsigned)major_number, (unsigned)minor_number);
        return 0;
}

static int parse_line(char *line, struct mountinfo *ret)
{
        struct mountinfo m = { 0 };
        const char *id = strsep(&line, " "), *parent = strsep(&line, " "), *dev = strsep(&line, " ");
        char *root = strsep(&line, " "), *target = strsep(&line, " "), *options = strsep(&line, " ");
        char *optional;

        do
                optional = strsep(&line, " ");
        while (optional && strcmp(optional, "-") != 0);

        char *type = strsep(&line, " "), *source = strsep(&line, " "), *super_options = strsep(&line, " ");
        if (!super_options) /* strsep() gives NULL for ever after the last field */
                return -EINVAL;
        if (parse_number(&id, '\0', &m.id) < 0 || parse_number(&parent, '\0', &m.parent_id) < 0 ||
            parse_dev(dev, &m.dev) < 0)
                return -EINVAL;

        unescape(root);
        unescape(target);
        unescape(type);
        unescape(source);
        unescape(super_options);
        m.root = root;
        m.target = target;
        m.options = options;
        m.type = type;
        m.source = source;
        m.super_options = super_options;
        *ret = m;
        return 0;
}

int mountinfo_next(char **cursor, struct mountinfo *ret)
{
        if (!*cursor || !**cursor)
                return 0;

        char *line = strsep(cursor, "\n");
        int r = parse_line(line, ret);
        return r < 0 ? r : 1;
}

bool mountinfo_has_option(const char *options, const char *name)
{
        size_t size = strlen(name);

        for (const char *p = options; p; p = strchr(p, ',')) {
                if (*p == ',')
                        p++;
                if (strncmp(p, name, size) == 0 && (p[size] == ',' || p[size] == '\0'))
                        return true;
        }
        return false;
}
