/* SPDX-License-Identifier: Apache-2.0
 *
 * Which socket: the one that the docker command would take, as far as it is on this machine. */
#include "backend/docker/exchange.h"
#include "backend/docker/values.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FROM_DEFAULT "the default"
#define DEFAULT_SOCKET "/var/run/docker.sock"
#define UNIX_SCHEME "unix://"

/* ---- a socket that was named ---- */

static int wrong_host(const char *from, const char *text, const char *why, gb_error *err)
{
        return error_set(err, GB_E_USAGE, EINVAL, "%s: %s %s; glovebox talks to an engine on this machine by its unix socket: unix:///path/of/docker.sock", from,
                         quote(text).text, why);
}

/* "unix:///run/docker.sock" */
static int take_host(struct engine *e, const char *text, gb_error *err)
{
        if (strncmp(text, UNIX_SCHEME, strlen(UNIX_SCHEME)) != 0)
                return wrong_host(e->from, text, strstr(text, "://") ? "is not on this machine by a unix socket" : "is no address of an engine", err);
        const char *path = text + strlen(UNIX_SCHEME);
        if (path[0] != '/')
                return wrong_host(e->from, text, "has no absolute path", err);
        if (strlen(path) >= sizeof(e->socket))
                return wrong_host(e->from, text, "is longer than the path of a socket can be (107 bytes)", err);
        snprintf(e->socket, sizeof(e->socket), "%s", path);
        return 0;
}

/* ---- contexts of the docker command ---- */

/* A small regular file as JSON. -ENOENT when it is not there. */
static int read_json(int dir, const char *name, json_t **ret, const char **why)
{
        _cleanup_close_ int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
        _cleanup_free_ char *text = NULL;
        struct stat st;
        size_t size;

        if (fd < 0 || fstat(fd, &st) < 0) {
                int errnum = errno;
                *why = strerror(errnum);
                return errnum == ENOTDIR ? -ENOENT : -errnum;
        }
        *why = "it is no file";
        if (!S_ISREG(st.st_mode))
                return -EINVAL;
        int r = fd_read_all(fd, ENGINE_CONFIG_BYTES_MAX, &text, &size);
        *why = r == -EFBIG ? "it is too large" : strerror(-r);
        if (r < 0)
                return r;
        r = value_parse(text, size, ret, why);
        *why = r == -EBADMSG ? "it is no JSON that can be used" : *why;
        return r;
}

/* The directory of the docker command's settings. -1: none. */
static int open_config(char path[static HOST_PATH_MAX])
{
        const char *config = getenv("DOCKER_CONFIG"), *home = getenv("HOME");
        bool own = config && config[0];

        if (!own && (!home || !home[0]))
                return -ENOENT;
        int n = snprintf(path, HOST_PATH_MAX, "%s%s", own ? config : home, own ? "" : "/.docker");
        if (n < 0 || n >= HOST_PATH_MAX)
                return -ENAMETOOLONG;
        int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        return fd >= 0 ? fd : errno == ENOTDIR ? -ENOENT : -errno;
}

static int unreadable(const char *directory, const char *name, const char *why, gb_error *err)
{
        return error_set(err, GB_E_USAGE, EINVAL, "cannot read %s/%s: %s; repair it, or set DOCKER_HOST to the engine's socket (unix:///var/run/docker.sock)",
                         quote_path(directory).text, name, why);
}

/* The address that a context has: 1, 0 when it is another's, or negative. */
static int match_context(const json_t *meta, const char *name, struct engine *e, gb_error *err)
{
        const char *its_name = json_string_value(json_object_get(meta, "Name"));
        const char *host = json_string_value(json_object_get(json_object_get(json_object_get(meta, "Endpoints"), "docker"), "Host"));

        if (!its_name || strcmp(its_name, name) != 0)
                return 0;
        if (!host || !host[0])
                return error_set(err, GB_E_USAGE, EINVAL, "%s: it has no address of an engine; see `docker context inspect`", e->from);
        int r = take_host(e, host, err);
        return r < 0 ? r : 1;
}

/* Its directory is the SHA-256 of its name; who reads all of them needs no SHA-256. */
static int find_context(int config, const char *directory, const char *name, struct engine *e, gb_error *err)
{
        int fd = openat(config, "contexts/meta", O_RDONLY | O_DIRECTORY | O_CLOEXEC), found = 0;
        DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
        char broken[sizeof("contexts/meta/") + NAME_MAX + sizeof("/meta.json")] = "", reason[128];
        size_t seen = 0;

        if (!dir && config >= 0 && errno != ENOENT && errno != ENOTDIR)
                found = unreadable(directory, "contexts/meta", strerror(errno), err);
        if (!dir)
                safe_close(fd);
        for (struct dirent *entry; dir && found == 0 && seen < ENGINE_CONTEXTS_MAX && (entry = readdir(dir)) != NULL;) {
                _cleanup_json_ json_t *meta = NULL;
                char path[sizeof(entry->d_name) + sizeof("/meta.json")];
                const char *why;
                if (entry->d_name[0] == '.')
                        continue;
                seen++;
                snprintf(path, sizeof(path), "%s/meta.json", entry->d_name);
                int r = read_json(dirfd(dir), path, &meta, &why);
                if (r == 0)
                        found = match_context(meta, name, e, err);
                if (r < 0 && r != -ENOENT && !broken[0]) {
                        snprintf(broken, sizeof(broken), "contexts/meta/%s", path);
                        snprintf(reason, sizeof(reason), "%s", why);
                }
        }
        if (dir)
                closedir(dir);
        if (found != 0)
                return found < 0 ? found : 0;
        /* A broken one is no matter as long as the one that is wanted is found: else it may be that. */
        if (broken[0])
                return unreadable(directory, broken, reason, err);
        return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no Docker context %s in %s; see `docker context ls`, or set DOCKER_HOST=unix:///var/run/docker.sock",
                         quote(name).text, quote_path(directory).text);
}

/* The name of the context in use. *ret is NULL when none is. */
static int current_context(int config, const char *directory, json_t **settings, const char **ret, gb_error *err)
{
        const char *name = getenv("DOCKER_CONTEXT"), *why;

        if ((!name || !name[0]) && config >= 0) {
                int r = read_json(config, "config.json", settings, &why);
                if (r < 0 && r != -ENOENT)
                        return unreadable(directory, "config.json", why, err);
                const json_t *value = json_object_get(*settings, "currentContext");
                if (value && !json_is_string(value))
                        return unreadable(directory, "config.json", "its currentContext is no text", err);
                name = json_string_value(value);
        }
        *ret = name && name[0] && strcmp(name, "default") != 0 ? name : NULL;
        return 0;
}

int engine_address(struct engine *ret, gb_error *err)
{
        const char *host = getenv("DOCKER_HOST"), *context = NULL;
        char directory[HOST_PATH_MAX] = "~/.docker";
        _cleanup_json_ json_t *settings = NULL;
        struct engine e = {.from = "$DOCKER_HOST"};
        int r;

        if (host && host[0]) {
                r = take_host(&e, host, err);
        } else {
                _cleanup_close_ int config = open_config(directory);
                if (config < 0 && config != -ENOENT)
                        return unreadable(directory, "config.json", strerror(-config), err);
                r = current_context(config, directory, &settings, &context, err);
                if (r < 0)
                        return r;
                if (context) {
                        snprintf(e.from, sizeof(e.from), "the Docker context %s", quote(context).text);
                        r = find_context(config, directory, context, &e, err);
                } else {
                        snprintf(e.from, sizeof(e.from), FROM_DEFAULT);
                        snprintf(e.socket, sizeof(e.socket), DEFAULT_SOCKET);
                }
        }
        if (r == 0)
                *ret = e;
        return r;
}

bool engine_is_chosen(void)
{
        struct engine e;

        return engine_address(&e, NULL) < 0 || strcmp(e.from, FROM_DEFAULT) != 0;
}

/* ---- nobody there ---- */

struct engine_label engine_label(const struct engine *e)
{
        struct engine_label label;

        snprintf(label.text, sizeof(label.text), "%s at %s", e->name[0] ? e->name : "the engine", quote_path(e->socket).text);
        return label;
}

static bool is_socket(const char *path)
{
        struct stat st;

        return stat(path, &st) == 0 && S_ISSOCK(st.st_mode);
}

/* Podman's socket, when it has one. */
static bool find_podman(char *path, size_t size)
{
        const char *runtime = getenv("XDG_RUNTIME_DIR");

        if (runtime && runtime[0] == '/' && snprintf(path, size, "%s/podman/podman.sock", runtime) < (int)size && is_socket(path))
                return true;
        return snprintf(path, size, "/run/podman/podman.sock") < (int)size && is_socket(path);
}

static int nobody(const struct engine *e, int errnum, const char *why, gb_error *err)
{
        char podman[sizeof(e->socket)];
        struct quoted path = quote_path(e->socket);

        if (strcmp(e->socket, DEFAULT_SOCKET) == 0 && find_podman(podman, sizeof(podman)))
                return error_set(err, GB_E_UNAVAILABLE, errnum,
                                 "no Docker Engine at %s: %s. Podman has a socket: set DOCKER_HOST=unix://%s; or use --backend native, which needs no engine", path.text,
                                 why, podman);
        return error_set(err, GB_E_UNAVAILABLE, errnum,
                         "no engine at %s (from %s): %s. Start it (systemctl start docker), or set DOCKER_HOST to the socket of one that runs (unix:///path), "
                         "or use --backend native, which needs none",
                         path.text, e->from, why);
}

int engine_unreachable(const struct engine *e, int errnum, gb_error *err)
{
        struct quoted path = quote_path(e->socket);
        struct stat st;

        switch (errnum) {
        case ENOENT:
        case ENOTDIR:
                return nobody(e, errnum, "there is no such socket", err);
        case EACCES:
        case EPERM:
                return error_set(err, GB_E_UNAVAILABLE, errnum,
                                 "no permission on the engine's socket %s (from %s). Have yourself added to the group that owns it (usermod -aG docker USER) and log in "
                                 "again, or use a rootless engine, or --backend native, which needs none",
                                 path.text, e->from);
        case ECONNREFUSED:
                if (stat(e->socket, &st) == 0 && !S_ISSOCK(st.st_mode))
                        return error_set(err, GB_E_UNAVAILABLE, ENOTSOCK, "%s (from %s) is no socket but a %s; set DOCKER_HOST to the socket of the engine (unix:///path)",
                                         path.text, e->from, S_ISDIR(st.st_mode) ? "directory" : "file of another kind");
                return nobody(e, errnum, "nobody listens there", err);
        case EPROTOTYPE:
                return engine_rubbish(e, GB_E_UNAVAILABLE, "its socket is of another kind", err);
        case ETIMEDOUT:
                return error_set(err, GB_E_UNAVAILABLE, errnum, "the engine at %s (from %s) takes no connection; if it hangs, restart it (systemctl restart docker)",
                                 path.text, e->from);
        default:
                return error_set(err, GB_E_UNAVAILABLE, errnum, "cannot reach the engine at %s (from %s): %s", path.text, e->from, strerror(errnum));
        }
}

int engine_rubbish(const struct engine *e, gb_error_code code, const char *why, gb_error *err)
{
        return error_set(err, code, EBADMSG, "what listens at %s (from %s) does not answer as a Docker Engine does: %s; set DOCKER_HOST to the socket of one",
                         quote_path(e->socket).text, e->from, why ? why : "it is no HTTP");
}
