/* SPDX-License-Identifier: Apache-2.0
 *
 * The network of a box, with the proxy of egress/test_client_proxy.c: what a policy becomes, whose traffic is whose, and that no secret is told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/fd.h"
#include "base/json.h"
#include "egress/rules.h"
#include "engine/network.h"
#include "engine/network_rules.h"
#include "engine/result.h"
#include "policy/network.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static char directory[] = "/tmp/glovebox-test-network-XXXXXX";

static int no_listener(struct backend_session *session, gb_error *err)
{
        return -1;
}

static const struct backend with = {.name = "with", .session_listener = no_listener}, without = {.name = "without"};

static struct policy *policy_of(const char *rule)
{
        static const char text[] = "network_mode: allowlist\n";
        struct policy *p = NULL;
        gb_error err = {0};

        if (policy_parse("test", text, strlen(text), NULL, &p, &err) < 0 || (rule && network_allow_add_text(p, rule, &err) < 0))
                fail_msg("%s", err.message);
        return p;
}

static void add_secret(struct policy *p, const char *name, const char *value)
{
        gb_error err = {0};

        if (policy_add_secret(p, name, value, strlen(value), NULL, &err) < 0)
                fail_msg("%s", err.message);
}

/* Has the proxy count a refused request to that host, now. */
static void refuse(struct network_box *n, const char *host)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com");
        gb_error err = {0};

        free(p->network_allow[0]->text);
        assert_true(asprintf(&p->network_allow[0]->text, "note:%s", host) > 0);
        if (network_box_change(n, p, &err) < 0)
                fail_msg("%s", err.message);
}

static struct network_box *open_box(const struct policy *p, const struct scrub *scrub)
{
        struct network_box *n = NULL;
        gb_error err = {0};
        int pair[2];

        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
        if (network_box_open(p, &with, true, scrub, &n, &err) < 0 || network_box_attach(n, pair[0], &err) < 0)
                fail_msg("%s", err.message);
        close(pair[1]);
        return n;
}

static uint64_t refused(const struct ledger_copy *l, const char *host)
{
        for (size_t i = 0; l && i < l->n; i++)
                if (strcmp(l->rows[i].host, host) == 0)
                        return l->rows[i].requests;
        return 0;
}

/* ---- rules ---- */

static void test_rules(void **state)
{
        static const char item[] = "{\"host\": \"*.example.com\", \"ports\": [443, \"8000-8010\"], \"methods\": [\"GET\"], \"paths\": [\"/a/\"], \"intercept\": true,"
                                   " \"headers\": {\"Authorization\": \"Bearer ${secret:TOKEN}, ${secret:TOKEN}!\"}}";
        _cleanup_policy_ struct policy *p = policy_of(NULL);
        _cleanup_json_ json_t *json = json_loads(item, 0, NULL);
        _cleanup_buffer_ struct buffer b = {0};
        gb_error err = {0};

        assert_non_null(json);
        if (network_allow_add_json(p, json, true, &err) < 0 || network_range_add_text(p, "10.0.0.0/8", &err) < 0)
                fail_msg("%s", err.message);
        assert_true(network_rules_make(p, p, &b, &err) < 0); /* without the secret */
        assert_int_equal(err.code, GB_E_USAGE);
        assert_non_null(strstr(err.message, "TOKEN"));
        add_secret(p, "TOKEN", "hunter2\nX-Evil: 1");
        assert_true(network_rules_make(p, p, &b, &err) < 0); /* that would be another header */
        assert_null(strstr(err.message, "hunter2"));
        add_secret(p, "TOKEN", "hunter2hunter2");
        if (network_rules_make(p, p, &b, &err) < 0)
                fail_msg("%s", err.message);
        assert_true(b.secret && egress_rules_valid(b.data, b.size));
        const struct egress_rules *r = (const void *)b.data;
        assert_int_equal(r->n_rules, 1);
        assert_int_equal(r->n_ranges, 1);
        assert_int_equal(r->rules[0].intercept, 1);
        assert_int_equal(r->rules[0].n_ports, 2);
        assert_int_equal(r->rules[0].ports[1].last, 8010);
        const char *name = egress_text(r, r->rules[0].headers);
        assert_string_equal(name, "Authorization");
        assert_string_equal(egress_list_next(name), "Bearer hunter2hunter2, hunter2hunter2!");
        assert_string_equal(egress_text(r, r->rules[0].paths), "/a/");
}

static void test_no_way(void **state)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com");
        struct network_box *n = NULL;
        gb_error err = {0};

        assert_true(network_box_open(p, &without, true, NULL, &n, &err) < 0);
        assert_int_equal(err.code, GB_E_UNENFORCEABLE);
        assert_true(network_box_open(p, &with, false, NULL, &n, &err) < 0); /* it has sessions only */
        assert_null(n);
        p->network_mode = NETWORK_NONE;
        assert_int_equal(network_box_open(p, &without, true, NULL, &n, &err), 0);
        assert_null(n);
        /* Whoever has none can be asked all the same. */
        struct network_run run;
        assert_int_equal(network_run_begin(&run, NULL), 0);
        assert_null(network_run_ledger(&run));
        network_run_end(&run);
        assert_null(network_box_rest(NULL));
        assert_true(network_box_change(NULL, p, &err) < 0);
        assert_int_equal(err.code, GB_E_CONFLICT);
}

/* ---- whose traffic it is ---- */

static void test_runs(void **state)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com");
        _cleanup_(network_box_free_ptr) struct network_box *n = open_box(p, NULL);
        _cleanup_free_ struct ledger_copy *one = NULL, *two = NULL, *rest = NULL, *all = NULL;
        struct network_run a, b;

        refuse(n, "before.com");
        assert_int_equal(network_run_begin(&a, n), 0);
        refuse(n, "a.com");
        assert_int_equal(network_run_begin(&b, n), 0);
        refuse(n, "both.com");
        one = network_run_ledger(&a);
        network_run_end(&a);
        refuse(n, "b.com");
        two = network_run_ledger(&b);
        network_run_end(&b);
        refuse(n, "after.com");
        refuse(n, "before.com");
        network_box_end(n);
        rest = network_box_rest(n);
        all = network_box_ledger(n);

        assert_int_equal(refused(one, "before.com"), 0);
        assert_int_equal(refused(one, "a.com"), 1);
        assert_int_equal(refused(one, "both.com"), 1);
        assert_int_equal(refused(one, "b.com"), 0);
        assert_int_equal(one->denied, 2);
        assert_int_equal(refused(two, "a.com"), 0);
        assert_int_equal(refused(two, "both.com"), 1);
        assert_int_equal(refused(two, "b.com"), 1);
        assert_int_equal(refused(rest, "before.com"), 2); /* in one row */
        assert_int_equal(refused(rest, "after.com"), 1);
        assert_int_equal(refused(rest, "a.com") + refused(rest, "both.com") + refused(rest, "b.com"), 0);
        assert_int_equal(rest->denied, 3);
        assert_int_equal(all->denied, 6);
}

static bool no_memory;

void *__real_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_calloc(size_t n, size_t size)
{
        return no_memory ? NULL : __real_calloc(n, size);
}

void *__real_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size);
void *__wrap_realloc(void *p, size_t size)
{
        return no_memory ? NULL : __real_realloc(p, size);
}

/* Traffic that could not be counted is reported as missing; that of a run is not counted as outside of it. */
static void test_runs_without_memory(void **state)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com");
        _cleanup_(network_box_free_ptr) struct network_box *n = open_box(p, NULL);
        _cleanup_free_ struct ledger_copy *rest = NULL;
        struct network_run a;

        assert_int_equal(network_run_begin(&a, n), 0);
        refuse(n, "a.com");
        no_memory = true;
        network_run_end(&a);
        no_memory = false;
        refuse(n, "after.com");
        assert_int_equal(network_run_begin(&a, n), 0);
        network_run_end(&a);
        refuse(n, "last.com");
        rest = network_box_rest(n);
        assert_true(rest->incomplete && network_ledger_says(rest));
        assert_int_equal(refused(rest, "a.com"), 0);
        assert_int_equal(refused(rest, "last.com"), 1);
        assert_int_equal(rest->denied, 1);
        _cleanup_json_ json_t *json = network_ledger_to_json(rest, SIZE_MAX);
        assert_true(json_is_true(json_object_get(json, "incomplete")));
}

/* Nothing at all could be counted: that is not the same as nothing. */
static void test_rest_without_memory(void **state)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com");
        _cleanup_(network_box_free_ptr) struct network_box *n = open_box(p, NULL);

        refuse(n, "a.com");
        no_memory = true;
        _cleanup_free_ struct ledger_copy *rest = network_box_rest(n);
        no_memory = false;
        assert_true(rest && rest->incomplete && rest->n == 0);
}

static void test_change(void **state)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com"), *other = policy_of("example.org"), *now = NULL;
        _cleanup_(network_box_free_ptr) struct network_box *n = open_box(p, NULL);
        gb_error err = {0};

        other->network_bytes = 12345;
        assert_int_equal(network_box_change(n, other, &err), 0);
        now = network_box_policy(n, p);
        assert_int_equal(now->n_network_allow, 1);
        assert_non_null(strstr(now->network_allow[0]->text, "example.org"));
        assert_int_equal(now->network_bytes, 12345);
        /* None is an allowlist without rules. */
        other->network_mode = NETWORK_NONE;
        assert_int_equal(network_box_change(n, other, &err), 0);
        policy_free(now);
        now = network_box_policy(n, p);
        assert_int_equal(now->network_mode, NETWORK_ALLOWLIST);
        assert_int_equal(now->n_network_allow, 0);
        other->network_mode = NETWORK_HOST;
        assert_true(network_box_change(n, other, &err) < 0);
        assert_int_equal(err.code, GB_E_CONFLICT);
        other->network_mode = NETWORK_ALLOWLIST;
        other->network_allow[0]->intercept = true;
        assert_true(network_box_change(n, other, &err) < 0); /* nobody in the box would trust it */
        assert_int_equal(err.code, GB_E_CONFLICT);
}

static void test_authority(void **state)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com");

        p->network_allow[0]->intercept = true;
        _cleanup_(network_box_free_ptr) struct network_box *n = open_box(p, NULL);
        const struct box_file *ca = network_box_ca(n);
        assert_non_null(ca);
        assert_non_null(memmem(ca->bytes, ca->size, "AAAA\n-----END CERTIFICATE-----\n", strlen("AAAA\n-----END CERTIFICATE-----\n")));
        assert_null(memmem(ca->bytes, ca->size, "PRIVATE KEY", strlen("PRIVATE KEY")));
}

/* ---- what is told ---- */

static void test_secrets(void **state)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com");
        _cleanup_scrub_ struct scrub *scrub = NULL;
        _cleanup_free_ struct ledger_copy *l = NULL;
        gb_error err = {0};
        char hint[NETWORK_HINT_MAX];

        add_secret(p, "TOKEN", "Hunter2Hunter2");
        struct scrub_secret secret = {p->secrets[0].name, p->secrets[0].value, p->secrets[0].size};
        assert_int_equal(scrub_new(NULL, SCRUB_ON, &secret, 1, &scrub, &err), 0);
        _cleanup_(network_box_free_ptr) struct network_box *n = open_box(p, scrub);
        refuse(n, "hunter2hunter2.evil.com"); /* as a name of a host it has lost its capitals */
        l = network_box_ledger(n);
        assert_int_equal(refused(l, "[scrubbed:TOKEN].evil.com"), 1);
        assert_string_equal(network_hint(l, hint), "1 request was refused by the network policy: [scrubbed:TOKEN].evil.com:443 (no-rule).");
}

static struct ledger_copy *some_ledger(void)
{
        struct ledger_copy *l = calloc(1, sizeof(*l) + 3 * sizeof(l->rows[0]));

        *l = (struct ledger_copy){.requests = 7, .denied = 3, .bytes_up = 10, .bytes_down = UINT64_MAX, .cut = EGRESS_OVER_BYTES, .n = 3};
        l->rows[0] = (struct ledger_entry){.host = "evil.com", .port = 80, .decision = EGRESS_NO_RULE, .protocol = EGRESS_HTTP, .requests = 3};
        l->rows[1] = (struct ledger_entry){.host = "pypi.org", .port = 443, .decision = EGRESS_ALLOWED, .protocol = EGRESS_HTTPS, .rule = "https://pypi.org",
                                           .requests = 4};
        l->rows[2] = (struct ledger_entry){.decision = EGRESS_NO_RULE};
        return l;
}

static void test_json(void **state)
{
        _cleanup_free_ struct ledger_copy *l = some_ledger();
        _cleanup_json_ json_t *all = network_ledger_to_json(l, SIZE_MAX), *one = network_ledger_to_json(l, 1), *none = network_ledger_to_json(NULL, SIZE_MAX);
        _cleanup_free_ char *text = json_dumps(one, JSON_COMPACT), *empty = json_dumps(none, JSON_COMPACT);
        char hint[NETWORK_HINT_MAX];

        assert_int_equal(json_array_size(json_object_get(all, "hosts")), 3);
        assert_null(json_object_get(all, "hosts_more"));
        assert_true(json_integer_value(json_object_get(all, "bytes_down")) == INT64_MAX);
        assert_string_equal(text, "{\"requests\":7,\"denied\":3,\"bytes_up\":10,\"bytes_down\":9223372036854775807,\"cut\":\"bytes\",\"hosts\":["
                                  "{\"host\":\"pypi.org\",\"port\":443,\"protocol\":\"https\",\"decision\":\"allowed\",\"rule\":\"https://pypi.org\","
                                  "\"requests\":4,\"bytes_up\":0,\"bytes_down\":0}],\"hosts_more\":2}");
        assert_string_equal(empty, "{\"requests\":0,\"denied\":0,\"bytes_up\":0,\"bytes_down\":0,\"cut\":null,\"hosts\":[]}");
        assert_string_equal(network_hint(l, hint), "The network policy's budget of bytes was used up. 3 requests were refused by the network policy, the first of them: "
                                                   "evil.com:80 (no-rule).");
        assert_string_equal(network_hint(NULL, hint), "");
        l->unserved = true;
        assert_non_null(strstr(network_hint(l, hint), "open a new session. 3 requests were refused"));
        assert_true(network_ledger_says(l) && !network_ledger_says(NULL));
}

/* In a result: its own key with an allowlist, and only then; a sentence in the verdict of what failed, a note where it did not. */
static void test_result(void **state)
{
        _cleanup_policy_ struct policy *p = policy_of("example.com");
        const struct language language = {.name = (char *)(uintptr_t)"python"};
        _cleanup_result_ struct result *r = result_new(p, &language, "native", false);
        char hint[NETWORK_HINT_MAX];

        r->network = some_ledger();
        r->facts = (struct run_facts){
                .started = true, .ending = ENDING_OF_EXIT(1), .network_hint = network_hint(r->network, hint)};
        verdict_decide(&r->facts, p, &r->verdict);
        assert_non_null(strstr(r->verdict.message, "exited with status 1. The network policy's budget"));
        assert_non_null(strstr(r->verdict.message, "evil.com:80 (no-rule)."));
        r->facts.ending = ENDING_OF_EXIT(0);
        verdict_decide(&r->facts, p, &r->verdict);
        assert_null(strstr(r->verdict.message, "evil.com"));
        r->facts.network_hint = NULL;
        _cleanup_json_ json_t *json = result_to_json(r, p);
        assert_int_equal(json_integer_value(json_object_get(json_object_get(json, "network"), "denied")), 3);
        assert_non_null(strstr(json_string_value(json_array_get(json_object_get(json, "notes"), 0)), "evil.com:80"));
        free(r->network);
        r->network = NULL;
        /* A lost ledger is not one of zeros; that of a run that did not start is. */
        _cleanup_json_ json_t *lost = result_to_json(r, p);
        assert_true(json_is_null(json_object_get(lost, "network")));
        r->verdict.kind = VERDICT_BLOCKED;
        _cleanup_json_ json_t *blocked = result_to_json(r, p);
        assert_true(json_is_integer(json_object_get(json_object_get(blocked, "network"), "requests")));
        p->network_mode = NETWORK_NONE;
        _cleanup_json_ json_t *other = result_to_json(r, p);
        assert_null(json_object_get(other, "network"));
}

static int make_directory(void **state)
{
        char path[64];

        if (!mkdtemp(directory))
                return -1;
        snprintf(path, sizeof(path), "%s/glovebox-egress", directory);
        setenv("GLOVEBOX_LIBEXEC_DIR", directory, 1);
        return symlink(TEST_PROXY, path);
}

static int remove_directory(void **state)
{
        char path[64];

        snprintf(path, sizeof(path), "%s/glovebox-egress", directory);
        return unlink(path) | rmdir(directory);
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_rules), cmocka_unit_test(test_no_way), cmocka_unit_test(test_runs),
                cmocka_unit_test(test_runs_without_memory),
                cmocka_unit_test(test_rest_without_memory), cmocka_unit_test(test_change),
                cmocka_unit_test(test_authority), cmocka_unit_test(test_secrets), cmocka_unit_test(test_json), cmocka_unit_test(test_result),
        };

        return cmocka_run_group_tests(tests, make_directory, remove_directory);
}
