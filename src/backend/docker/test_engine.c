/* SPDX-License-Identifier: Apache-2.0
 *
 * Who an engine is, learnt from good and bad ones. Catalogue: group M (engines that hang, lie or talk rubbish). */
#include "backend/docker/engine.h"

#include "backend/docker/test_player.h"
#include "base/fd.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#define LATE_USEC 8000000ULL /* what should take five seconds at most, on a busy machine */

static void assert_says(const gb_error *err, const char *text)
{
        if (!strstr(err->message, text))
                fail_msg("\"%s\" does not say \"%s\"", err->message, text);
}

/* ---- good ones ---- */

static void docker_facts(void **state _unused_)
{
        struct player p;
        struct engine e;
        gb_error err = {0};

        player_start(&p, player_docker);
        assert_int_equal(engine_open(&e, &err), 0);
        assert_string_equal(e.socket, p.socket);
        assert_string_equal(e.from, "$DOCKER_HOST");
        assert_string_equal(e.name, "Docker Engine");
        assert_string_equal(e.version, "20.10.24+dfsg1");
        assert_string_equal(e.api, "1.41");
        assert_string_equal(e.runc_version, "1.1.5+ds1");
        assert_string_equal(e.containerd_version, "1.6.20~ds1");
        assert_string_equal(e.default_runtime, "runc");
        assert_false(e.podman);
        assert_true(e.rootless && e.apparmor && e.seccomp && e.cgroup_v2 && e.memory && e.swap && e.pids && e.cpu);
        assert_int_equal(e.n_runtimes, 2);
        assert_true(engine_has_runtime(&e, "runc") && engine_has_runtime(&e, "runsc"));
        assert_false(engine_has_runtime(&e, "kata") || engine_has_runtime(&e, ""));
        player_stop(&p);
}

static void podman_facts(void **state _unused_)
{
        struct player p;
        struct engine e;
        gb_error err = {0};

        player_start(&p, player_podman);
        assert_int_equal(engine_open(&e, &err), 0);
        assert_string_equal(e.name, "Podman");
        assert_string_equal(e.version, "4.3.1");
        assert_string_equal(e.default_runtime, "runc");
        assert_string_equal(e.runc_version, "1.1.5+ds1");
        assert_string_equal(e.containerd_version, "");
        assert_true(e.podman && e.seccomp && e.memory && e.pids);
        assert_false(e.rootless || e.apparmor || e.cgroup_v2 || e.swap || e.cpu);
        /* It lists what it has heard of, and ignores the wish for another. */
        assert_true(engine_has_runtime(&e, "runc"));
        assert_false(engine_has_runtime(&e, "runsc"));
        player_stop(&p);
}

/* ---- the version of the API ---- */

static void negotiation(void **state _unused_)
{
        static const struct {
                const char *newest, *oldest, *api, *says;
        } rows[] = {
                {"1.40", "1.12", "1.40", NULL},
                {"1.41", "1.24", "1.41", NULL},
                {"1.47", "1.24", "1.41", NULL},
                {"1.52", "1.44", "1.44", NULL},
                {"1.100", "1.41", "1.41", NULL},
                {"2.0", "1.41", "1.41", NULL},
                {"1.39", "1.12", NULL, "needs 1.40"},
                {"1.9", "1.1", NULL, "needs 1.40"},
                {"0.99", "0.1", NULL, "needs 1.40"},
                {"1.99", "1.90", NULL, "update glovebox"},
                {"3.1", "3.0", NULL, "update glovebox"},
                {"1.41x", "1.12", NULL, "which version"},
                {"1", "1.12", NULL, "which version"},
                {"1.41", "old", NULL, "which version"},
                {"1.99999999999999999999", "1.12", NULL, "which version"},
                {"-1.41", "1.12", NULL, "which version"},
                {"", "", NULL, "which version"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                char text[512], info[64];
                struct player p;
                struct engine e;
                gb_error err = {0};
                struct player_answer answers[] = {{"/version", text, 0, PLAYER_CLOSE}, {info, player_podman[1].bytes, 0, PLAYER_CLOSE}, player_podman[2]};

                snprintf(text, sizeof(text), PLAYER_JSON("{\"Version\":\"1\",\"ApiVersion\":\"%s\",\"MinAPIVersion\":\"%s\"}"), rows[i].newest, rows[i].oldest);
                snprintf(info, sizeof(info), "/v%s/info", rows[i].api ? rows[i].api : "none");
                player_start(&p, answers);
                int r = engine_open(&e, &err);
                player_stop(&p);
                if (rows[i].api) {
                        assert_int_equal(r, 0);
                        assert_string_equal(e.api, rows[i].api);
                        continue;
                }
                assert_true(r < 0);
                assert_int_equal(err.code, GB_E_UNAVAILABLE);
                assert_says(&err, rows[i].says);
        }
}

/* ---- bad ones ---- */

static const struct {
        const char *bytes, *says;
} bad[] = {
        {"", "ended the connection"},
        {"SSH-2.0-OpenSSH_9.2\r\n", "ended the connection"},
        {"220 mail.example.org ESMTP\r\n\r\n", "not HTTP/1.1"},
        {"HTTP/1.0 200 OK\r\n\r\n{}", "not HTTP/1.1"},
        {"HTTP/1.1 2000 OK\r\n\r\n", "no status"},
        {"HTTP/1.1 100 Continue\r\n\r\n", "none of an answer"},
        {"HTTP/1.1 200 OK\r\nno field\r\n\r\n", "no field"},
        {"HTTP/1.1 200 OK\nContent-Length: 2\r\n\r\n{}", "control character"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", "twice"},
        {"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\n{}", "no number"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n{}", "no number"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n{}", "two lengths"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}", "not plain chunked"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}", "size of a chunk"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nfffffffffffff\r\n{}", "too large"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}XX", "where it should"},
        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\x01\r\n\r\n", "where it should"},
        {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}more", "goes on after its end"},
        {PLAYER_JSON(""), "cannot be learnt"},
        {PLAYER_JSON("null"), "cannot be learnt"},
        {PLAYER_JSON("[]"), "cannot be learnt"},
        {PLAYER_JSON("{}"), "does not say its version"},
        {PLAYER_JSON("{\"Version\":7,\"ApiVersion\":1.41}"), "does not say its version"},
        {PLAYER_JSON("{\"Version\":\"\",\"ApiVersion\":\"1.41\"}"), "does not say its version"},
        {PLAYER_JSON("{\"Version\":\"1\\u001b[31m\",\"ApiVersion\":\"1.41\"}"), "does not say its version"},
        {PLAYER_JSON("{\"Version\":\"1\",\"ApiVersion\":1.41}"), "which version"},
        {PLAYER_JSON("{\"Version\":\"1\",\"Version\":\"2\",\"ApiVersion\":\"1.41\"}"), "a key twice"},
        {PLAYER_JSON("{\"Version\":"), "cut off"},
        {PLAYER_JSON("{\"Version\":\"1\"]"), "broken"},
        {PLAYER_JSON("{\"Version\":\"1\"}{}"), "something follows"},
        {PLAYER_JSON("{\"n\":1e999}"), "number that is too large"},
        {PLAYER_JSON("{\"n\":\"\xff\xfe\"}"), "broken"},
        {PLAYER_JSON("<html>Sign in</html>"), "not JSON"},
        {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\n\r\n<html>Sign in</html>", "cannot be learnt"},
        {"HTTP/1.1 301 Moved\r\nLocation: http://x/\r\nContent-Length: 0\r\n\r\n", "cannot be learnt"},
        {"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "cannot be learnt"},
        {"HTTP/1.1 101 Switching\r\n\r\n", "cannot be learnt"},
        {"HTTP/1.1 204 No Content\r\n\r\n", "cannot be learnt"},
        {"HTTP/1.1 500 Oops\r\nContent-Type: application/json\r\n\r\n{\"message\":\"oops\"}", "restart it"},
        {"HTTP/1.1 503 Busy\r\nContent-Type: text/html\r\n\r\n<html>", "restart it"},
};

static void bad_answers(void **state _unused_)
{
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                const struct player_answer answers[] = {{NULL, bad[i].bytes, 0, PLAYER_CLOSE}};
                struct player p;
                struct engine e = {.api = "untouched"};
                gb_error err = {0};

                player_start(&p, answers);
                assert_true(engine_open(&e, &err) < 0);
                player_stop(&p);
                assert_int_equal(err.code, GB_E_UNAVAILABLE);
                assert_says(&err, bad[i].says);
                assert_says(&err, p.socket);
                assert_string_equal(e.api, "untouched");
        }
}

static void bad_info(void **state _unused_)
{
        static const char *const texts[] = {
                PLAYER_JSON("{}"),
                PLAYER_JSON("{\"Runtimes\":[],\"DefaultRuntime\":\"runc\"}"),
                PLAYER_JSON("{\"Runtimes\":{},\"DefaultRuntime\":7}"),
                "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n",
                "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\n{",
        };

        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                const struct player_answer answers[] = {player_docker[0], {NULL, texts[i], 0, PLAYER_CLOSE}};
                struct player p;
                struct engine e;
                gb_error err = {0};

                player_start(&p, answers);
                assert_true(engine_open(&e, &err) < 0);
                player_stop(&p);
                assert_int_equal(err.code, GB_E_UNAVAILABLE);
        }
}

/* Names that do not fit or cannot be shown are no names. */
static void odd_info(void **state _unused_)
{
        char text[4096] = PLAYER_JSON("{\"DefaultRuntime\":\"runc\\n\",\"SecurityOptions\":[1,null,\"name=seccomp,profile=unconfined\",\"name=apparmorish\"],"
                                      "\"MemoryLimit\":\"true\",\"PidsLimit\":1,\"CgroupVersion\":2,\"Runtimes\":{\"bad\\u202e\":{},\"");
        const struct player_answer answers[] = {player_docker[0], {NULL, text, 0, PLAYER_CLOSE}};
        struct player p;
        struct engine e;
        gb_error err = {0};
        size_t used = strlen(text);

        memset(text + used, 'x', 80);
        used += 80;
        for (int i = 0; i < 40; i++)
                used += (size_t)snprintf(text + used, sizeof(text) - used, "\":{},\"r%d", i);
        snprintf(text + used, sizeof(text) - used, "\":{}}}");
        player_start(&p, answers);
        assert_int_equal(engine_open(&e, &err), 0);
        player_stop(&p);
        assert_int_equal(e.n_runtimes, ENGINE_RUNTIMES_MAX);
        assert_string_equal(e.default_runtime, "");
        assert_string_equal(e.runc_version, "");
        assert_false(e.seccomp || e.apparmor || e.memory || e.pids || e.cgroup_v2);
}

/* Wherever a good answer is cut, it is none. */
static void cut_everywhere(void **state _unused_)
{
        static const struct player_answer *const engines[] = {player_docker, player_podman};

        for (size_t i = 0; i < ARRAY_SIZE(engines); i++) {
                size_t whole = MAX(strlen(engines[i][0].bytes), strlen(engines[i][1].bytes));
                struct player p;
                struct engine e;
                gb_error err;

                player_start(&p, engines[i]);
                for (p.cut = 0; p.cut < whole; p.cut++) {
                        assert_true(engine_open(&e, &err) < 0);
                        assert_int_equal(err.code, GB_E_UNAVAILABLE);
                }
                assert_int_equal(engine_open(&e, &err), 0);
                player_stop(&p);
        }
}

static void hangs(void **state _unused_)
{
        static const struct player_answer answers[] = {{NULL, "HTTP/1.1 200 OK\r\n", 0, PLAYER_HANG}};
        struct player p;
        struct engine e;
        gb_error err = {0};
        uint64_t begin = monotonic_usec();

        player_start(&p, answers);
        assert_int_equal(engine_open(&e, &err), -ETIMEDOUT);
        assert_true(monotonic_usec() - begin < LATE_USEC);
        player_stop(&p);
        assert_int_equal(err.code, GB_E_UNAVAILABLE);
        assert_says(&err, "does not answer");
        assert_says(&err, "restart");
}

/* One byte at a time keeps nobody waiting for ever. */
static void endless_head(void **state _unused_)
{
        static const struct player_answer answers[] = {{NULL, "HTTP/1.1 200 OK\r\nX: yyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyyy", 0, PLAYER_REPEAT}};
        struct player p;
        struct engine e;
        gb_error err = {0};

        player_start(&p, answers);
        assert_int_equal(engine_open(&e, &err), -EBADMSG);
        player_stop(&p);
        assert_says(&err, "head does not end");
}

/* ---- the one of the process ---- */

static void *ask_shared(void *data)
{
        static const char yes[] = "yes";
        struct engine e;

        return engine_shared(&e, data) == 0 ? (void *)(uintptr_t)yes : NULL;
}

static void shared_breaker(void **state _unused_)
{
        static const struct player_answer broken[] = {{NULL, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n", 0, PLAYER_CLOSE}};
        pthread_t threads[8];
        gb_error errors[8] = {0};
        struct player p;
        struct engine e = {0};
        gb_error err = {0};
        void *got;

        player_start(&p, broken);
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
                assert_int_equal(pthread_create(&threads[i], NULL, ask_shared, &errors[i]), 0);
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
                pthread_join(threads[i], &got);
                assert_null(got);
                assert_int_equal(errors[i].code, GB_E_UNAVAILABLE);
                assert_says(&errors[i], "500");
        }
        /* Eight asked, the engine was not asked eight times: it may be twice when the machine is slow. */
        assert_in_range(p.asked, 1, 4);
        p.answers = player_docker;
        usleep((useconds_t)ENGINE_RETRY_USEC + 100000);
        assert_int_equal(engine_shared(&e, &err), 0);
        assert_string_equal(e.name, "Docker Engine");
        unsigned asked = p.asked;
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
                assert_int_equal(pthread_create(&threads[i], NULL, ask_shared, &errors[i]), 0);
        for (size_t i = 0; i < ARRAY_SIZE(threads); i++) {
                pthread_join(threads[i], &got);
                assert_non_null(got);
        }
        assert_int_equal(p.asked, asked);
        player_stop(&p);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(docker_facts),   cmocka_unit_test(podman_facts), cmocka_unit_test(negotiation),  cmocka_unit_test(bad_answers),
                cmocka_unit_test(bad_info),       cmocka_unit_test(odd_info),     cmocka_unit_test(cut_everywhere), cmocka_unit_test(hangs),
                cmocka_unit_test(endless_head),   cmocka_unit_test(shared_breaker),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
