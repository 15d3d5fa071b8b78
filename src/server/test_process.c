/* SPDX-License-Identifier: Apache-2.0
 *
 * The small parts of the server's process: addresses, configuration, flags, lines of the log. */
#include "base/fd.h"
#include "server/address.h"
#include "server/config.h"
#include "server/log.h"
#include "server/options.h"

#include <fcntl.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void test_addresses(void **state)
{
        static const struct {
                const char *text;
                bool local;
        } good[] = {
                {"unix:/run/x.sock", true}, {"127.0.0.1:8080", true}, {"127.255.0.9:0", true}, {"[::1]:8080", true},
                {"0.0.0.0:80", false},      {"[::]:80", false},       {"10.0.0.1:65535", false}, {"[2001:db8::1]:443", false}, {"[::ffff:127.0.0.1]:80", false},
        };
        static const char *const bad[] = {
                "", ":", "80", ":80", "unix:", "unix:x", "unix:/", "unix:/a/", "localhost:80", "127.0.0.1", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:-1",
                "127.0.0.1:+1", "127.0.0.1: 1", " 127.0.0.1:1", "127.1:80", "::1:80", "[::1]", "[::1]80", "[]:80", "[127.0.0.1]:80", "[::1%lo]:80", "1.2.3.4.5:80", "http://127.0.0.1:80",
        };
        char text[LISTEN_ADDRESS_TEXT_MAX], long_path[200] = "unix:/";
        struct listen_address a;
        gb_error err;

        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                assert_int_equal(listen_address_parse(good[i].text, &a, &err), 0);
                assert_int_equal(listen_address_is_local(&a), good[i].local);
                assert_string_equal(listen_address_text(&a, text), good[i].text);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                if (listen_address_parse(bad[i], &a, &err) == 0)
                        fail_msg("%s is taken for an address", bad[i]);
        memset(long_path + 6, 'x', 150);
        assert_true(listen_address_parse(long_path, &a, &err) < 0);
}

static void test_defaults_are_in_their_ranges(void **state)
{
        struct server_config c;
        gb_error err = {0};

        assert_int_equal(setenv("GLOVEBOX_CONFIG_DIR", "/tmp", 1), 0); /* no server.yaml there */
        assert_int_equal(setenv("GLOVEBOX_STATE_DIR", "/nowhere/state", 1), 0);
        assert_int_equal(server_config_load(NULL, &c, &err), 0);
        assert_string_equal(c.directory, "/nowhere/state");
        assert_true(c.tokens && c.n_listen == 0 && c.parent_fd == -1);
        assert_true(c.tenant.memory_bytes == UINT64_MAX && c.all.sessions == 2000);
        /* Each row: what is out of its range is refused, and changes nothing. */
        for (size_t i = 0; i < n_config_rows; i++) {
                char range[CONFIG_RANGE_MAX];
                assert_true(strlen(config_rows[i].help) > 0 && strlen(config_row_range(&config_rows[i], range)) > 0);
                assert_true(server_config_set(&c, config_rows[i].key, "\x1b nonsense", "--x", &err) < 0);
                assert_null(strchr(err.message, '\x1b'));
                assert_true(server_config_set(&c, config_rows[i].key, "", "--x", &err) < 0);
                assert_true(server_config_set(&c, config_rows[i].key, "-1", "--x", &err) < 0);
        }
        assert_true(server_config_check(&c, &err) < 0); /* nowhere to listen */
        assert_int_equal(server_config_set(&c, "listen", "unix:/x", "--listen", &err), 0);
        assert_int_equal(server_config_check(&c, &err), 0);
        server_config_done(&c);
}

static void test_lists_are_bounded(void **state)
{
        struct server_config c;
        gb_error err = {0};
        char text[32];
        int n = 0;

        assert_int_equal(server_config_load(NULL, &c, &err), 0);
        do
                snprintf(text, sizeof(text), "unix:/socket%d", n);
        while (server_config_set(&c, "listen", text, "--listen", &err) == 0 && ++n < 100);
        assert_int_equal(n, SERVER_LISTEN_MAX);
        assert_int_equal(err.code, GB_E_LIMIT);
        server_config_done(&c);
}

static int parse(struct serve_options *o, gb_error *err, const char *a, const char *b, const char *c)
{
        char *argv[] = {(char *)(uintptr_t)"glovebox-server", (char *)(uintptr_t)a, (char *)(uintptr_t)b, (char *)(uintptr_t)c, NULL};

        return serve_options_parse(1 + !!a + !!b + !!c, argv, o, err);
}

static void test_flags(void **state)
{
        struct serve_options o;
        gb_error err = {0};

        assert_int_equal(parse(&o, &err, "--listen=unix:/a", "--listen=unix:/b", "--no-tokens"), 0);
        assert_true(o.config.n_listen == 2 && !o.config.tokens);
        serve_options_done(&o);
        assert_int_equal(parse(&o, &err, "serve", "--idle-timeout", "5m"), 0);
        assert_true(o.config.idle_usec == 300000000);
        serve_options_done(&o);
        assert_int_equal(parse(&o, &err, "--set", "tls_cert=/x", NULL), -2); /* a flag, not a key */
        assert_int_equal(parse(&o, &err, "--tls-cert", "/x", "--json"), 0);
        assert_true(o.json && strcmp(o.config.certificate, "/x") == 0);
        serve_options_done(&o);
        assert_true(parse(&o, &err, "--", NULL, NULL) < 0);
        assert_true(parse(&o, &err, "-x", NULL, NULL) < 0);
        assert_true(parse(&o, &err, "--parent-fd", "1000000", NULL) < 0);
        assert_true(parse(&o, &err, "--aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "1", NULL) < 0);
}

/* What one call writes to standard error. */
static void logged(bool json, const char *text, char *ret, size_t size)
{
        int pair[2], saved = dup(STDERR_FILENO);

        assert_true(saved >= 0 && pipe(pair) == 0 && dup2(pair[1], STDERR_FILENO) >= 0);
        log_open(json);
        log_info("event", "%s", text);
        ssize_t n = read(pair[0], ret, size - 1);
        assert_true(n > 0);
        ret[n] = '\0';
        dup2(saved, STDERR_FILENO);
        safe_close(saved);
        safe_close(pair[0]);
        safe_close(pair[1]);
}

static void test_lines_of_the_log(void **state)
{
        char line[8192], huge[4000];
        static const char hostile[] = "\x1b[31m\r\n\"\\ \xff\xc3 \x7f\xc3\xa9 {\"level\":\"error\"}\n2026-01-01T00:00:00Z error fake: line";

        logged(true, hostile, line, sizeof(line));
        assert_int_equal(strcspn(line, "\n"), strlen(line) - 1);
        json_t *object = json_loads(line, 0, NULL);
        assert_non_null(object);
        assert_string_equal(json_string_value(json_object_get(object, "level")), "info");
        assert_non_null(strstr(json_string_value(json_object_get(object, "message")), "\xc3\xa9 {\"level\""));
        json_decref(object);

        logged(false, hostile, line, sizeof(line));
        assert_int_equal(strcspn(line, "\n"), strlen(line) - 1);
        for (const char *p = line; *p; p++)
                assert_true((unsigned char)*p >= ' ' || (*p == '\n' && !p[1]));

        memset(huge, '\x01', sizeof(huge) - 1);
        huge[sizeof(huge) - 1] = '\0';
        logged(true, huge, line, sizeof(line));
        object = json_loads(line, 0, NULL);
        assert_non_null(object);
        json_decref(object);
        logged(false, huge, line, sizeof(line));
        assert_true(line[strlen(line) - 1] == '\n');
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_addresses), cmocka_unit_test(test_defaults_are_in_their_ranges), cmocka_unit_test(test_lists_are_bounded),
                cmocka_unit_test(test_flags),     cmocka_unit_test(test_lines_of_the_log),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
