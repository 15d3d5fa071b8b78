/* SPDX-License-Identifier: Apache-2.0
 *
 * The server's own table: every row is found by its address, and by no other. */
#include "server/routes.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

static void params_done(char *params[static ROUTE_PARAMS_MAX])
{
        for (size_t i = 0; i < ROUTE_PARAMS_MAX; i++) {
                free(params[i]);
                params[i] = NULL;
        }
}

/* The pattern with something in the place of each name. */
static size_t fill(const char *pattern, char *path, size_t size)
{
        size_t n = 0, used = 0;

        for (const char *p = pattern; *p;) {
                if (*p != '{') {
                        path[used++] = *p++;
                        continue;
                }
                const char *end = strchr(p, '}');
                bool rest = end[-1] == '.';
                used += (size_t)snprintf(path + used, size - used, rest ? "d%zu/e%%20f%%2Fg" : "v%zu", n++);
                p = end + 1;
        }
        path[used] = '\0';
        return n;
}

static void test_every_row(void **state)
{
        for (size_t i = 0; i < n_routes; i++) {
                const struct route *route = NULL;
                char *params[ROUTE_PARAMS_MAX] = {0}, allow[ROUTE_ALLOW_MAX], path[512], expected[64];
                gb_error err = {0};
                size_t n = fill(routes[i].pattern, path, sizeof(path) - 16);
                assert_int_equal(route_find(routes[i].method, path, &route, params, allow, &err), 0);
                assert_ptr_equal(route, &routes[i]);
                for (size_t k = 0; k < ROUTE_PARAMS_MAX; k++) {
                        if (k >= n) {
                                assert_null(params[k]);
                                continue;
                        }
                        bool rest = k == n - 1 && strstr(routes[i].pattern, "...}");
                        snprintf(expected, sizeof(expected), rest ? "d%zu/e f/g" : "v%zu", k);
                        assert_string_equal(params[k], expected);
                }
                params_done(params);
                /* With a query, and for its head alone */
                strcat(path, "?x=/%zz");
                assert_int_equal(route_find(strcmp(routes[i].method, "GET") == 0 ? "HEAD" : routes[i].method, path, &route, params, allow, &err), 0);
                assert_ptr_equal(route, &routes[i]);
                params_done(params);
                /* With another method: what there is, and all of it */
                assert_true(route_find("BREW", path, &route, params, allow, &err) < 0);
                assert_int_equal(err.code, GB_E_METHOD);
                assert_non_null(strstr(allow, routes[i].method));
                assert_true(strlen(allow) < ROUTE_ALLOW_MAX - 8);
        }
}

static void test_others(void **state)
{
        static const struct {
                const char *path;
                int code;
        } rows[] = {
                {"/", GB_E_NOT_FOUND}, {"/v1", GB_E_NOT_FOUND}, {"/v1/", GB_E_NOT_FOUND}, {"/v1/runs/", GB_E_NOT_FOUND}, {"/v1//runs", GB_E_NOT_FOUND}, {"//v1/runs", GB_E_NOT_FOUND},
                {"/V1/runs", GB_E_NOT_FOUND}, {"/v1/runs/a/b", GB_E_NOT_FOUND}, {"/v1/runs/a/events/", GB_E_NOT_FOUND}, {"/v1/%72uns", GB_E_NOT_FOUND}, {"/v1/../v1/runs", GB_E_NOT_FOUND},
                {"/healthz/", GB_E_NOT_FOUND}, {"/v1/runs/%zz", GB_E_USAGE}, {"/v1/runs/%00", GB_E_USAGE}, {"/v1/runs/%ff", GB_E_USAGE}, {"/v1/runs/%", GB_E_USAGE},
                {"/v1/sessions/a/files/", GB_E_NOT_FOUND}, {"/v1/sessions//files/a", GB_E_NOT_FOUND}, {"?", GB_E_NOT_FOUND}, {"", GB_E_NOT_FOUND},
        };
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const struct route *route = NULL;
                char *params[ROUTE_PARAMS_MAX] = {0}, allow[ROUTE_ALLOW_MAX];
                gb_error err = {0};
                assert_true(route_find("GET", rows[i].path, &route, params, allow, &err) < 0);
                assert_int_equal(err.code, rows[i].code);
                assert_null(route);
                params_done(params);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_row), cmocka_unit_test(test_others)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
