/* SPDX-License-Identifier: Apache-2.0
 *
 * Where this host gets its packages from: asked of apt, and of that only what belongs to the distribution itself. */
#include "cli/image.h"

#include "base/buffer.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SOURCES_BYTES_MAX (256 * KIB)
#define FIELDS 5

/* Its own words: ORIGIN is empty until `apt-get update` was run. */
static const char format[] = "$(ORIGIN)|$(REPO_URI)|$(RELEASE)|$(COMPONENT)|$(SIGNED_BY)";

#define NO_APT 127 /* the child's exit status */

/* Without apt the answer is empty; one that fails has told a part at most. */
static int ask_apt(char **ret, size_t *ret_size)
{
        int pair[2], status = 0;

        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        pid_t pid = fork();
        if (pid == 0) {
                int null = open("/dev/null", O_RDWR | O_CLOEXEC);
                if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDERR_FILENO) >= 0 && dup2(pair[1], STDOUT_FILENO) >= 0)
                        execlp("apt-get", "apt-get", "indextargets", "--format", format, "Created-By: Packages", (char *)NULL);
                _exit(NO_APT);
        }
        safe_close(pair[1]);
        int r = pid < 0 ? -errno : fd_read_all(pair[0], SOURCES_BYTES_MAX, ret, ret_size);
        safe_close(pair[0]);
        while (pid > 0 && waitpid(pid, &status, 0) < 0)
                if (errno != EINTR)
                        return r < 0 ? r : -errno;
        bool well = WIFEXITED(status) && (WEXITSTATUS(status) == 0 || WEXITSTATUS(status) == NO_APT);
        return r < 0 || well ? r : -EIO;
}

static bool is_of_distribution(const char *origin, const char *uri)
{
        char last[64];
        size_t n = strlen(uri);

        if (*origin)
                return strcmp(origin, "Debian") == 0 || strcmp(origin, "Ubuntu") == 0;
        while (n > 0 && uri[n - 1] == '/')
                n--;
        size_t from = n;
        while (from > 0 && uri[from - 1] != '/')
                from--;
        snprintf(last, sizeof(last), "%.*s", (int)(n - from), uri + from);
        return strncmp(last, "debian", 6) == 0 || strncmp(last, "ubuntu", 6) == 0;
}

static bool is_word(const char *text)
{
        return *text && strcspn(text, " \t\"'[]") == strlen(text);
}

/* A pocket of a release ("bookworm-updates") is not one of another release. */
static int add_line(struct buffer *out, char *field[static FIELDS], const char *suite, char **own)
{
        _cleanup_free_ char *line = NULL;

        if (!is_of_distribution(field[0], field[1]) || !is_word(field[1]) || !is_word(field[2]) || !is_word(field[3]))
                return 0;
        if (!*own && !strchr(field[2], '-') && !(*own = strdup(field[2])))
                return -ENOMEM;
        if (suite && strcmp(suite, field[2]) != 0 && (!*own || strcmp(*own, field[2]) != 0))
                return 0;
        bool key = field[4][0] == '/' && is_word(field[4]);
        if (asprintf(&line, "deb %s%s%s%s %s %s\n", key ? "[signed-by=" : "", key ? field[4] : "", key ? "] " : "", field[1], suite ? suite : field[2], field[3]) < 0)
                return -ENOMEM;
        return out->data && strstr(out->data, line) ? 0 : buffer_add_string(out, line);
}

int image_apt_sources(const char *suite, char **ret_sources, char **ret_suite, gb_error *err)
{
        _cleanup_free_ char *text = NULL, *own = NULL;
        _cleanup_buffer_ struct buffer lines;
        char *state = NULL;
        size_t size;

        buffer_init(&lines, SOURCES_BYTES_MAX);
        int r = ask_apt(&text, &size);
        for (char *line = r < 0 ? NULL : strtok_r(text, "\n", &state); line && r == 0; line = strtok_r(NULL, "\n", &state)) {
                char *field[FIELDS];
                size_t n = 0;
                for (char *rest = line; rest && n < FIELDS;)
                        field[n++] = strsep(&rest, "|");
                if (n == FIELDS)
                        r = add_line(&lines, field, suite, &own);
        }
        *ret_sources = r < 0 ? NULL : strdup(lines.data ? lines.data : "");
        *ret_suite = *ret_sources ? suite ? strdup(suite) : own ? TAKE_PTR(own) : strdup("") : NULL;
        if (*ret_suite)
                return 0;
        free(*ret_sources);
        return error_set(err, GB_E_INTERNAL, r < 0 ? -r : ENOMEM, "cannot find the package sources of this host: %s",
                         strerror(r < 0 ? -r : ENOMEM));
}
