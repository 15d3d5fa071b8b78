/* SPDX-License-Identifier: Apache-2.0
 *
 * Which socket is taken, what is said when nobody can be reached there, and versions. */
#include "backend/docker/engine.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[64];

static const char *in_directory(const char *name)
{
        static char path[256];

        snprintf(path, sizeof(path), "%s/%s", directory, name);
        return path;
}

static void write_file(const char *name, const char *text)
{
        int fd = open(in_directory(name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

        assert_true(fd >= 0);
        assert_int_equal(fd_write_all(fd, text, strlen(text)), 0);
        safe_close(fd);
}

static void make_directory(const char *name)
{
        assert_int_equal(mkdir(in_directory(name), 0700), 0);
}

static int setup(void **state _unused_)
{
        snprintf(directory, sizeof(directory), "/tmp/gbaddress-XXXXXX");
        assert_non_null(mkdtemp(directory));
        unsetenv("DOCKER_HOST");
        unsetenv("DOCKER_CONTEXT");
        unsetenv("DOCKER_CONFIG");
        unsetenv("XDG_RUNTIME_DIR");
        setenv("HOME", directory, 1);
        return 0;
}

static int teardown(void **state _unused_)
{
        char command[128];

        snprintf(command, sizeof(command), "rm -rf -- %s", directory);
        return system(command); /* NOLINT: a path of mkdtemp() */
}

static void assert_says(const gb_error *err, const char *text)
{
        if (!strstr(err->message, text))
                fail_msg("\"%s\" does not say \"%s\"", err->message, text);
}

static void assert_refused(const char *says)
{
        struct engine e = {.api = "untouched"};
        gb_error err = {0};

        assert_true(engine_address(&e, &err) < 0);
        assert_says(&err, says);
        assert_string_equal(e.api, "untouched");
}

static void assert_socket(const char *socket, const char *from)
{
        struct engine e;
        gb_error err = {0};

        if (engine_address(&e, &err) < 0)
                fail_msg("%s", err.message);
        assert_string_equal(e.socket, socket);
        assert_string_equal(e.from, from);
}

/* ---- which ---- */

static void by_host(void **state _unused_)
{
        static const struct {
                const char *host, *says;
        } bad[] = {
                {"tcp://127.0.0.1:2375", "not on this machine by a unix socket"},
                {"ssh://root@host", "not on this machine by a unix socket"},
                {"npipe:////./pipe/docker_engine", "not on this machine by a unix socket"},
                {"fd://", "not on this machine by a unix socket"},
                {"/var/run/docker.sock", "no address of an engine"},
                {"unix:/var/run/docker.sock", "no address of an engine"},
                {"unix://", "absolute path"},
                {"unix://docker.sock", "absolute path"},
                {"unix:///"
                 "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
                 "107 bytes"},
                {"\x1b[31m", "\"\\x1b[31m\""},
        };

        assert_socket("/var/run/docker.sock", "the default");
        setenv("DOCKER_HOST", "", 1);
        assert_socket("/var/run/docker.sock", "the default");
        setenv("DOCKER_HOST", "unix:///x y/docker.sock", 1);
        assert_socket("/x y/docker.sock", "$DOCKER_HOST");
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                setenv("DOCKER_HOST", bad[i].host, 1);
                assert_refused(bad[i].says);
        }
}

static void make_contexts(void)
{
        make_directory(".docker");
        make_directory(".docker/contexts");
        make_directory(".docker/contexts/meta");
        make_directory(".docker/contexts/meta/aa");
        make_directory(".docker/contexts/meta/bb");
        make_directory(".docker/contexts/meta/cc");
        make_directory(".docker/contexts/meta/dd");
        make_directory(".docker/contexts/meta/ee");
        write_file(".docker/contexts/meta/aa/meta.json", "{\"Name\":\"rootless\",\"Metadata\":{},\"Endpoints\":{\"docker\":{\"Host\":\"unix:///run/user/1000/docker.sock\"}}}");
        write_file(".docker/contexts/meta/bb/meta.json", "{\"Name\":\"far\",\"Endpoints\":{\"docker\":{\"Host\":\"ssh://far\"}}}");
        write_file(".docker/contexts/meta/cc/meta.json", "{\"Name\":\"broken\",");
        write_file(".docker/contexts/meta/dd/meta.json", "{\"Name\":\"empty\",\"Endpoints\":{\"docker\":[]}}");
        write_file(".docker/contexts/meta/file", "");
}

static void by_context(void **state _unused_)
{
        make_contexts();
        assert_socket("/var/run/docker.sock", "the default");
        write_file(".docker/config.json", "{\"auths\":{},\"currentContext\":\"rootless\"}");
        assert_socket("/run/user/1000/docker.sock", "the Docker context \"rootless\"");
        setenv("DOCKER_CONTEXT", "default", 1);
        assert_socket("/var/run/docker.sock", "the default");
        setenv("DOCKER_CONTEXT", "far", 1);
        assert_refused("\"ssh://far\"");
        setenv("DOCKER_CONTEXT", "broken", 1);
        assert_refused("contexts/meta/cc/meta.json: it is no JSON that can be used");
        setenv("DOCKER_CONTEXT", "empty", 1);
        assert_refused("no address of an engine");
        setenv("DOCKER_HOST", "unix:///x", 1);
        assert_socket("/x", "$DOCKER_HOST");
        unsetenv("DOCKER_HOST");
        unsetenv("DOCKER_CONTEXT");
        setenv("DOCKER_CONFIG", in_directory("elsewhere"), 1);
        assert_socket("/var/run/docker.sock", "the default");
        setenv("DOCKER_CONTEXT", "rootless", 1);
        assert_refused("no Docker context");
        setenv("DOCKER_CONFIG", in_directory(".docker"), 1);
        assert_socket("/run/user/1000/docker.sock", "the Docker context \"rootless\"");
}

static void bad_settings(void **state _unused_)
{
        static const struct {
                const char *text, *says;
        } rows[] = {
                {"{", "JSON"},
                {"[1", "JSON"},
                {"{\"currentContext\":7}", "no text"},
                {"{\"currentContext\":\"a\",\"currentContext\":\"b\"}", "JSON"},
                {"{\"currentContext\":\"../../x\"}", "no Docker context \"../../x\""},
        };
        static char large[ENGINE_CONFIG_BYTES_MAX + 2];

        make_directory(".docker");
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                write_file(".docker/config.json", rows[i].text);
                assert_refused(rows[i].says);
        }
        memset(large, ' ', sizeof(large) - 1);
        write_file(".docker/config.json", large);
        assert_refused("too large");
        write_file(".docker/config.json", " ");
        assert_socket("/var/run/docker.sock", "the default");
        /* A pipe is not waited for. */
        assert_int_equal(unlink(in_directory(".docker/config.json")), 0);
        assert_int_equal(mkfifo(in_directory(".docker/config.json"), 0600), 0);
        assert_refused("no file");
}

/* ---- nobody there ---- */

static void assert_unreachable(const char *path, int errnum, const char *says)
{
        char host[256];
        struct engine e;
        gb_error err = {0};

        snprintf(host, sizeof(host), "unix://%s", path);
        setenv("DOCKER_HOST", host, 1);
        assert_int_equal(engine_open(&e, &err), -errnum);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        assert_says(&err, says);
        assert_says(&err, path);
}

static int bind_socket(const char *name, int type)
{
        struct sockaddr_un un = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

        snprintf(un.sun_path, sizeof(un.sun_path), "%s/%s", directory, name);
        assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof(un)), 0);
        return fd;
}

static void unreachable(void **state _unused_)
{
        int dead = bind_socket("dead", SOCK_STREAM), datagram = bind_socket("datagram", SOCK_DGRAM);

        safe_close(dead);
        write_file("file", "");
        make_directory("directory");
        assert_int_equal(symlink("nowhere", in_directory("dangling")), 0);
        assert_int_equal(symlink("loop", in_directory("loop")), 0);
        assert_int_equal(symlink("directory", in_directory("link")), 0);
        assert_unreachable(in_directory("absent"), ENOENT, "systemctl start docker");
        assert_unreachable(in_directory("absent"), ENOENT, "--backend native");
        assert_unreachable(in_directory("file/x"), ENOTDIR, "no such socket");
        assert_unreachable(in_directory("dangling"), ENOENT, "no such socket");
        assert_unreachable(in_directory("loop"), ELOOP, "cannot reach");
        assert_unreachable(in_directory("dead"), ECONNREFUSED, "nobody listens");
        assert_unreachable(in_directory("file"), ENOTSOCK, "no socket but a file");
        assert_unreachable(in_directory("directory"), ENOTSOCK, "no socket but a directory");
        assert_unreachable(in_directory("link"), ENOTSOCK, "no socket but a directory");
        assert_unreachable("/dev/null", ENOTSOCK, "no socket but a file");
        assert_unreachable(in_directory("datagram"), EBADMSG, "of another kind");
        safe_close(datagram);
}

/* As somebody who may not: a child that is not root. */
static void no_permission(void **state _unused_)
{
        int fd = bind_socket("private", SOCK_STREAM), status;

        assert_int_equal(listen(fd, 1), 0);
        assert_int_equal(chmod(directory, 0755), 0);
        assert_int_equal(chmod(in_directory("private"), 0600), 0);
        if (geteuid() != 0)
                assert_int_equal(chmod(in_directory("private"), 0), 0);
        pid_t child = fork();
        assert_true(child >= 0);
        if (child == 0) {
                struct engine e;
                gb_error err = {0};
                char host[256];
                if (geteuid() == 0 && setuid(65534) < 0)
                        _exit(3);
                snprintf(host, sizeof(host), "unix://%s/private", directory);
                setenv("DOCKER_HOST", host, 1);
                if (engine_open(&e, &err) != -EACCES || err.code != GB_E_UNAVAILABLE)
                        _exit(1);
                _exit(strstr(err.message, "usermod -aG docker") && strstr(err.message, "log in") ? 0 : 2);
        }
        assert_int_equal(waitpid(child, &status, 0), child);
        assert_int_equal(status, 0);
        safe_close(fd);
}

static void podman_instead(void **state _unused_)
{
        struct stat st;
        struct engine e;
        gb_error err = {0};

        if (stat("/var/run/docker.sock", &st) == 0) {
                print_message("an engine has the default socket of this host: nothing to see\n");
                skip();
        }
        make_directory("podman");
        int fd = bind_socket("podman/podman.sock", SOCK_STREAM);
        setenv("XDG_RUNTIME_DIR", directory, 1);
        assert_int_equal(engine_open(&e, &err), -ENOENT);
        assert_says(&err, "DOCKER_HOST=unix:///tmp/gbaddress-");
        assert_says(&err, "/podman/podman.sock");
        safe_close(fd);
}

/* ---- versions ---- */

static void runc_versions(void **state _unused_)
{
        static const struct {
                const char *version;
                int is_old;
        } rows[] = {
                {"0.1.1", 1},         {"1.0.0-rc93", 1},    {"1.1.5+ds1", 1},     {"1.1.12", 1},        {"1.1.99", 1},        {"1.2.0", 1},
                {"1.2.7", 1},         {"1.2.8-rc.1", 1},    {"1.2.8~rc1", 1},     {"1.2.8", 0},         {"v1.2.8", 0},        {"1.2.8+ds1-1", 0},
                {"1.2.8-0ubuntu1", 0}, {"1.2.8~ds1", 0},    {"1.2.10", 0},        {"1.3.0", 1},         {"1.3.0-rc.1", 1},    {"1.3.2", 1},
                {"1.3.3", 0},         {"1.3.30", 0},        {"1.4.0-rc.1", 1},    {"1.4.0-rc.2", 1},    {"1.4.0-rc2+dev", 1}, {"1.4.0-rc.3", 0},
                {"1.4.0-rc.10", 0},   {"1.4.0~rc.3", 0},    {"1.4.0", 0},         {"1.4.0-dev", 1},     {"1.4.1", 0},         {"1.5.0-rc.1", 0},
                {"2.0.0", 0},         {"", -1},             {"1", -1},            {"1.2", -1},          {"1.2.", -1},         {"1.2.x", -1},
                {"unknown", -1},      {"1.2.8 ", -1},       {"1.2.8\n", -1},      {"1.2.8x", -1},       {"1.2.8.9", -1},      {"-1.2.8", -1},
                {"9999999999.0.0", -1}, {"1.2.8-\x1b", -1}, {"1.4.0-rc.9999999999", -1},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (engine_runc_is_old(rows[i].version) != rows[i].is_old)
                        fail_msg("%s: %d", rows[i].version, engine_runc_is_old(rows[i].version));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(by_host), TEST(by_context), TEST(bad_settings), TEST(unreachable), TEST(no_permission), TEST(podman_instead), TEST(runc_versions),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
