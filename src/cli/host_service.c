/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of programs: our own helpers, container engines, interpreters. */
#include "cli/host.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/quote.h"
#include "policy/language.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define PING_TIMEOUT_USEC 1000000ULL
#define PING_BYTES_MAX 4096

static void check_warden(struct host_finding *f)
{
        _cleanup_free_ char *path = NULL;

        if (path_libexec("glovebox-warden", &path) < 0 || access(path, X_OK) < 0) {
                host_found(f, HOST_MISSING, "%s: %s", path ? quote_path(path).text : "its place", strerror(errno));
                host_remedy(f, "reinstall glovebox, or set GLOVEBOX_LIBEXEC_DIR");
                return;
        }
        host_found(f, HOST_OK, "%s", quote_path(path).text);
}

/* ---- container engines ---- */

static int wait_until(int fd, short events, uint64_t deadline)
{
        for (;;) {
                uint64_t now = monotonic_usec();
                struct pollfd p = {.fd = fd, .events = events};
                int n = now >= deadline ? 0 : poll(&p, 1, (int)((deadline - now) / 1000 + 1));
                if (n > 0)
                        return 0;
                if (n == 0 || errno != EINTR)
                        return n == 0 ? -ETIMEDOUT : -errno;
        }
}

static int connect_to(const char *path)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};

        if (strlen(path) >= sizeof(address.sun_path))
                return -ENAMETOOLONG;
        memcpy(address.sun_path, path, strlen(path));
        _cleanup_close_ int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&address, sizeof(address)) < 0)
                return errno == EAGAIN ? -ETIMEDOUT : -errno; /* a full queue: nobody accepts */
        return TAKE_FD(fd);
}

/* The answer to GET /_ping, NUL-terminated, or a negative errno. */
static int ping(const char *path, char answer[static PING_BYTES_MAX])
{
        static const char request[] = "GET /_ping HTTP/1.0\r\nHost: localhost\r\n\r\n";
        uint64_t deadline = monotonic_usec() + PING_TIMEOUT_USEC;
        size_t used = 0;

        _cleanup_close_ int fd = connect_to(path);
        if (fd < 0)
                return fd;
        if (send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL) != (ssize_t)sizeof(request) - 1)
                return -EIO;
        while (used < PING_BYTES_MAX - 1) {
                int r = wait_until(fd, POLLIN, deadline);
                if (r < 0)
                        return r;
                ssize_t n = recv(fd, answer + used, PING_BYTES_MAX - 1 - used, 0);
                if (n < 0 && errno != EAGAIN && errno != EINTR)
                        return -errno;
                if (n == 0)
                        break;
                used += n > 0 ? (size_t)n : 0;
                answer[used] = '\0';
                if (strstr(answer, "\r\n\r\n"))
                        break;
        }
        answer[used] = '\0';
        return strncmp(answer, "HTTP/1.", 7) == 0 && strstr(answer, " 200 ") == answer + 8 ? 0 : -EPROTO;
}

/* The value of a header, or "unknown". */
static const char *header_value(const char *answer, const char *name, char *buf, size_t size)
{
        size_t n = strlen(name);

        snprintf(buf, size, "unknown");
        for (const char *line = strstr(answer, "\r\n"); line; line = strstr(line + 2, "\r\n"))
                if (strncasecmp(line + 2, name, n) == 0 && line[2 + n] == ':') {
                        const char *value = line + 3 + n + strspn(line + 3 + n, " \t");
                        snprintf(buf, size, "%.*s", (int)strcspn(value, "\r\n"), value);
                        break;
                }
        return buf;
}

/* Tries the sockets in turn; the finding is about the first that is there. */
static void check_engine(struct host_finding *f, const char *version_header, const char *const *paths, const char *start,
                         const char *allow)
{
        char answer[PING_BYTES_MAX], version[64], server[64];

        for (; *paths; paths++) {
                int r = (*paths)[0] ? ping(*paths, answer) : -ENOENT;
                if (r == -ENOENT || r == -ENOTDIR)
                        continue;
                if (r == 0) {
                        host_found(f, HOST_OK, "%s answers, API %s, %s", *paths,
                                   quote(header_value(answer, version_header, version, sizeof(version))).text,
                                   quote(header_value(answer, "Server", server, sizeof(server))).text);
                } else if (r == -EACCES || r == -EPERM) {
                        host_found(f, HOST_MISSING, "permission denied at %s", *paths);
                        host_remedy(f, "%s", allow);
                } else if (r == -ECONNREFUSED) {
                        host_found(f, HOST_MISSING, "not running: nobody listens at %s", *paths);
                        host_remedy(f, "%s", start);
                } else {
                        host_found(f, HOST_MISSING, "%s: %s", *paths, r == -ETIMEDOUT ? "no answer within one second"
                                                                      : r == -EPROTO ? "what answers is no container engine"
                                                                                     : strerror(-r));
                        host_remedy(f, "look at the engine's log; %s", start);
                }
                return;
        }
        host_found(f, HOST_INFO, "no socket: not installed, or not running");
}

static void check_docker(struct host_finding *f)
{
        const char *host = getenv("DOCKER_HOST");

        if (host && *host && strncmp(host, "unix://", 7) != 0) {
                host_found(f, HOST_INFO, "DOCKER_HOST is %s; only unix:// sockets are tried", quote(host).text);
                return;
        }
        const char *const paths[] = {host && *host ? host + 7 : "/var/run/docker.sock", NULL};
        check_engine(f, "Api-Version", paths, "systemctl start docker",
                     "as root: usermod -aG docker USER, then log in again (that group is as mighty as root)");
}

static void check_podman(struct host_finding *f)
{
        const char *runtime = getenv("XDG_RUNTIME_DIR");
        char own[HOST_PATH_MAX] = "";

        if (runtime && *runtime == '/')
                snprintf(own, sizeof(own), "%s/podman/podman.sock", runtime);
        const char *const paths[] = {own, "/run/podman/podman.sock", NULL};
        check_engine(f, "Libpod-API-Version", paths, "systemctl --user start podman.socket",
                     "use an engine of your own: systemctl --user start podman.socket");
}

/* ---- interpreters ---- */

static void check_languages(struct host_finding *f)
{
        _cleanup_languages_ struct languages *l = NULL;
        char found[200] = "", missing[200] = "";
        size_t n_found = 0, n_missing = 0, n = 0;
        gb_error err;

        if (languages_load(NULL, &l, &err) < 0) {
                host_found(f, HOST_MISSING, "%.200s", err.message);
                host_remedy(f, "put the table of languages right");
                return;
        }
        for (size_t i = 0; i < l->n; i++) {
                const struct language *row = &l->rows[i];
                bool has = language_is_found(row);
                char *list = has ? found : missing;
                size_t *used = has ? &n_found : &n_missing;
                n += has;
                if (*used < sizeof(found))
                        *used += (size_t)snprintf(list + *used, sizeof(found) - *used, "%s%s", *used ? ", " : "", row->name);
        }
        host_found(f, n > 0 ? HOST_OK : HOST_MISSING, "%s", n > 0 ? found : "none");
        if (n_missing > 0)
                host_remedy(f, "install in /usr what you need of: %s", missing);
}

const struct host_check host_service_checks[] = {
        {"warden", "the helper that makes boxes", check_warden, true},
        {"languages", "what 'glovebox run' can run with the host's /usr", check_languages, false},
        {"docker", "not used yet: boxes are made by the kernel alone", check_docker, false},
        {"podman", "not used yet, the same", check_podman, false},
};
const size_t n_host_service_checks = ARRAY_SIZE(host_service_checks);
