/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules of the network: how they are written, what is refused and why, what is less than what, and what of it gets into the box. */
#include "base/fd.h"
#include "policy/network.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct policy *make(void)
{
        struct policy *p = NULL;
        gb_error err;

        if (policy_parse("x.yaml", "network_mode: allowlist\n", 24, NULL, &p, &err) < 0)
                fail_msg("%s", err.message);
        return p;
}

static json_t *json(const char *text)
{
        json_error_t where;
        json_t *value = json_loads(text, JSON_DECODE_ANY, &where);

        if (!value)
                fail_msg("%s: %s", text, where.text);
        return value;
}

/* A policy with these rules, each a JSON value: text or a mapping. */
static struct policy *with(const char *const *rules)
{
        struct policy *p = make();
        gb_error err;

        for (; *rules; rules++) {
                json_t *value = json(*rules);
                if (network_allow_add_json(p, value, true, &err) < 0)
                        fail_msg("%s: %s", *rules, err.message);
                json_decref(value);
        }
        return p;
}
#define WITH(...) with((const char *const[]){__VA_ARGS__, NULL})

/* ---- how they are written ---- */

static void test_texts(void **state)
{
        static const struct {
                const char *text, *shown;
        } rows[] = {
                {"pypi.org", "https://pypi.org:443"},
                {"PyPI.org.", "https://pypi.org:443"},
                {"pypi.org:443", "https://pypi.org:443"},
                {"pypi.org:80", "http://pypi.org:80"},
                {"pypi.org:80,443", "https://pypi.org:80,443"},
                {"pypi.org:80-90", "https://pypi.org:80-90"},
                {"pypi.org:443,8000-8010", "https://pypi.org:443,8000-8010"},
                {"https://pypi.org", "https://pypi.org:443"},
                {"https://pypi.org/", "https://pypi.org:443"},
                {"https://pypi.org:80", "https://pypi.org:80"},
                {"http://pypi.org", "http://pypi.org:80"},
                {"http://pypi.org/", "http://pypi.org:80"},
                {"http://deb.debian.org/debian/", "http://deb.debian.org:80/debian/"},
                {"http://deb.debian.org:8080/debian", "http://deb.debian.org:8080/debian"},
                {"GET,head http://a.com/x", "GET,HEAD http://a.com:80/x"},
                {"tcp://github.com:22", "tcp://github.com:22"},
                {"*.a.com", "https://*.a.com:443"},
                {"*.com:1-65535", "https://*.com:1-65535"},
                {"*", "https://*:443"},
                {"*:80", "http://*:80"},
                {"1.2.3.4:443", "https://1.2.3.4:443"},
                {"tcp://[::1]:22", "tcp://[::1]:22"},
                {"[2001:DB8:0::1]", "https://[2001:db8::1]:443"},
                {"localhost:8080", "https://localhost:8080"},
                {"db", "https://db:443"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_policy_ struct policy *p = make(), *again = make();
                gb_error err;
                if (network_allow_add_text(p, rows[i].text, &err) < 0)
                        fail_msg("%s: %s", rows[i].text, err.message);
                assert_int_equal(p->n_network_allow, 1);
                assert_string_equal(p->network_allow[0]->text, rows[i].shown);
                /* And what is shown means the same. */
                assert_int_equal(network_allow_add_text(again, rows[i].shown, &err), 0);
                assert_string_equal(again->network_allow[0]->text, rows[i].shown);
                assert_int_equal(network_is_within(p, again, &err), 0);
                assert_int_equal(network_is_within(again, p, &err), 0);
        }
}

static void test_refused_texts(void **state)
{
        static const struct {
                const char *text, *why;
        } rows[] = {
                {"", "\"\" is not a host"},
                {"ftp://a.com", "\"ftp\" is not a protocol of a rule; allowed: https, http, tcp"},
                {"HTTPS://a.com", "\"HTTPS\" is not a protocol"},
                {"https://user@a.com", "a user or password does not belong into a rule"},
                {"https://user:pw@a.com", "a user or password does not belong into a rule"},
                {"http://a.com/x?y=1", "has a query or a fragment"},
                {"http://a.com/#x", "has a query or a fragment"},
                {"a*.com", "* stands alone, or for all labels in front: *.a.com"},
                {"a.*.com", "* stands alone"},
                {"**.com", "* stands alone"},
                {"*.*.com", "* stands alone"},
                {"a.com:0", "\"0\" is not a port; allowed: 1 to 65535"},
                {"a.com:65536", "\"65536\" is not a port"},
                {"a.com:", "\"\" is not a port"},
                {"a.com:443,", "\"\" is not a port"},
                {"a.com:90-80", "\"90-80\" is not a port"},
                {"a.com:+1", "\"+1\" is not a port"},
                {"a.com:*", "\"*\" is not a port"},
                {"tcp://a.com", "a rule for tcp needs its ports"},
                {"tcp://a.com:22/x", "a rule for tcp has no paths"},
                {"https://a.com/x", "they cannot be seen inside TLS"},
                {"GET a.com", "a rule for https has no methods: they cannot be seen inside TLS"},
                {"a.com/x", "has a path but no scheme"},
                {"10.0.0.0/8", "network_ranges"},
                {"2001:db8::1", "in brackets"},
                {"[::1", "is not a host"},
                {"[::1]x:443", "room for \":\" and ports only"},
                {"b\xc3\xbc""cher.de", "xn--"},
                {"a..com", "is not a host"},
                {"a.x b.com", "is not a method"},
                {"a b.com", "a rule for https has no methods"},
                {"GET,TRACE http://a.com", "the method TRACE is never passed on"},
                {"CONNECT http://a.com", "the method CONNECT is never passed on"},
                {"G\tT http://a.com", "is not a method"},
                {"http://a.com/../x", "more than one way"},
                {"http://a.com/%2e%2e/x", "more than one way"},
                {"http://a.com/a*", "has a *"},
                {"http://a.com/a\nb", "has what no path of a URL has"},
                {"python-package", "did you mean python-packages?"},
                {"gihtub", "did you mean github?"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_policy_ struct policy *p = make();
                gb_error err = {0};
                assert_true(network_allow_add_text(p, rows[i].text, &err) < 0);
                if (!strstr(err.message, rows[i].why))
                        fail_msg("%s: %s", rows[i].text, err.message);
                assert_int_equal(p->n_network_allow, 0);
        }
}

static void test_mappings(void **state)
{
        static const char text[] = "{\"host\": \"*.a.com\", \"ports\": [443, \"8000-8010\"], \"protocol\": \"https\", \"methods\": [\"get\", \"POST\"], \"paths\": "
                                   "[\"/v1\", \"/v2/\"],"
                                   " \"headers\": {\"Authorization\": \"Bearer ${secret:TOKEN}\", \"X-A\": 5}, \"intercept\": true}";
        _cleanup_policy_ struct policy *p = WITH(text), *copy = policy_copy(p);

        assert_non_null(copy);
        for (int i = 0; i < 2; i++) {
                const struct network_rule *r = (i == 0 ? p : copy)->network_allow[0];
                assert_int_equal(r->pattern.kind, PATTERN_BELOW);
                assert_int_equal(r->n_ports, 2);
                assert_int_equal(r->ports[1][1], 8010);
                assert_true(r->intercept);
                assert_string_equal(r->methods[0], "GET");
                assert_int_equal(r->n_paths, 2);
                assert_string_equal(r->headers[0].value, "Bearer ${secret:TOKEN}");
                assert_string_equal(r->headers[1].value, "5");
                assert_string_equal(r->text, "GET,POST https://*.a.com:443,8000-8010/v1,/v2/");
        }
        json_t *shown = network_rule_to_json(p->network_allow[0]);
        char *dump = json_dumps(shown, JSON_COMPACT);
        assert_string_equal(dump, "{\"rule\":\"GET,POST https://*.a.com:443,8000-8010/v1,/v2/\",\"host\":\"*.a.com\",\"ports\":[443,\"8000-8010\"],"
                                  "\"protocol\":\"https\","
                                  "\"methods\":[\"GET\",\"POST\"],\"paths\":[\"/v1\",\"/v2/\"],\"headers\":[\"Authorization\",\"X-A\"],\"intercept\":true}");
        free(dump);
        json_decref(shown);

        _cleanup_policy_ struct policy *plain = WITH("{\"host\": \"a.com\"}", "{\"host\": \"a.com\", \"ports\": 80}",
                                                     "{\"host\": \"a.com\", \"ports\": \"22\", \"protocol\": \"tcp\"}");
        assert_string_equal(plain->network_allow[0]->text, "https://a.com:443");
        assert_string_equal(plain->network_allow[1]->text, "http://a.com:80");
        assert_string_equal(plain->network_allow[2]->text, "tcp://a.com:22");
}

#define HTTP(more) "{\"host\": \"a.com\", \"protocol\": \"http\", " more "}"

static void test_refused_mappings(void **state)
{
        static const struct {
                const char *text, *why;
        } rows[] = {
                {"5", "a rule is a text"},
                {"null", "a rule is a text"},
                {"[\"a.com\"]", "a rule is a text"},
                {"{}", "a rule needs its host"},
                {"{\"hosts\": \"a.com\"}", "a rule has no key \"hosts\"; did you mean host"},
                {"{\"host\": [\"a.com\"]}", "host: a text is wanted"},
                {"{\"host\": \"https://a.com\"}", "is not a host"},
                {"{\"host\": \"a.com\\u0000b\"}", "host: a text is wanted"},
                {"{\"host\": \"a.com\", \"ports\": []}", "ports: an empty list"},
                {"{\"host\": \"a.com\", \"ports\": 0}", "is not a port"},
                {"{\"host\": \"a.com\", \"ports\": -1}", "is not a port"},
                {"{\"host\": \"a.com\", \"ports\": 44.3}", "ports: a list of texts"},
                {"{\"host\": \"a.com\", \"protocol\": \"udp\"}", "allowed: https, http, tcp"},
                {"{\"host\": \"a.com\", \"protocol\": \"tcp\"}", "a rule for tcp needs its ports"},
                {"{\"host\": \"a.com\", \"methods\": [\"GET\"]}", "cannot be seen inside TLS"},
                {"{\"host\": \"a.com\", \"paths\": [\"/a\"]}", "cannot be seen inside TLS"},
                {"{\"host\": \"a.com\", \"headers\": {\"X\": \"a\"}}", "cannot be seen inside TLS"},
                {"{\"host\": \"a.com\", \"intercept\": \"yes\"}", "intercept: true or false"},
                {HTTP("\"intercept\": true"), "intercept is for https only"},
                {"{\"host\": \"a.com\", \"ports\": 22, \"protocol\": \"tcp\", \"intercept\": true}", "intercept is for https only"},
                {HTTP("\"methods\": []"), "methods: an empty list"},
                {HTTP("\"paths\": [\"a\"]"), "it begins with /"},
                {HTTP("\"headers\": []"), "headers: a mapping"},
                {HTTP("\"headers\": {\"X\": \"a\\r\\nY: b\"}"), "a line break or another control"},
                {HTTP("\"headers\": {\"X\": \"a\\nb\"}"), "a line break or another control"},
                {HTTP("\"headers\": {\"X\": \"a\\u0000b\"}"), "has a NUL in it"},
                {HTTP("\"headers\": {\"X\": \"\"}"), "is empty"},
                {HTTP("\"headers\": {\"X\": \" a\"}"), "begins or ends with a blank"},
                {HTTP("\"headers\": {\"X\": null}"), "is no text"},
                {HTTP("\"headers\": {\"X Y\": \"a\"}"), "is not the name of a header field"},
                {HTTP("\"headers\": {\"X:\": \"a\"}"), "is not the name of a header field"},
                {HTTP("\"headers\": {\"X\": \"a\", \"x\": \"b\"}"), "is there twice"},
                {HTTP("\"headers\": {\"Host\": \"b.com\"}"), "made by the proxy itself"},
                {HTTP("\"headers\": {\"content-length\": \"1\"}"), "made by the proxy itself"},
                {HTTP("\"headers\": {\"Transfer-Encoding\": \"chunked\"}"), "made by the proxy itself"},
                {HTTP("\"headers\": {\"CONNECTION\": \"close\"}"), "made by the proxy itself"},
                {HTTP("\"headers\": {\"Proxy-Authorization\": \"x\"}"), "made by the proxy itself"},
                {HTTP("\"headers\": {\"Upgrade\": \"x\"}"), "made by the proxy itself"},
                {HTTP("\"headers\": {\"TE\": \"x\"}"), "made by the proxy itself"},
                {HTTP("\"headers\": {\"Trailer\": \"x\"}"), "made by the proxy itself"},
                {HTTP("\"headers\": {\"X\": \"${SECRET}\"}"), "begins ${secret:NAME}"},
                {HTTP("\"headers\": {\"X\": \"${secret:A\"}"), "begins ${secret:NAME}"},
                {HTTP("\"headers\": {\"X\": \"${vault:A}\"}"), "\"${vault:A}\" is not known here"},
                {HTTP("\"headers\": {\"X\": \"${secret:a-b}\"}"), "is not the name of a secret"},
                {HTTP("\"headers\": {\"X\": \"${secret:}\"}"), "is not the name of a secret"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_policy_ struct policy *p = make();
                gb_error err = {0};
                json_t *value = json_loads(rows[i].text, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
                assert_non_null(value);
                assert_true(network_allow_add_json(p, value, true, &err) < 0);
                if (!strstr(err.message, rows[i].why))
                        fail_msg("%s: %s", rows[i].text, err.message);
                assert_int_equal(p->n_network_allow, 0);
                json_decref(value);
        }
}

static void test_presets(void **state)
{
        const char *const *names = network_presets();
        size_t n = 0;

        for (; names[n]; n++) {
                _cleanup_policy_ struct policy *p = make();
                gb_error err;
                bool intercepted;
                const char *const *rules = network_preset_rules(names[n], &intercepted);
                assert_non_null(rules);
                assert_int_equal(network_allow_add_text(p, names[n], &err), 0);
                for (size_t i = 0; i < p->n_network_allow; i++) {
                        assert_string_equal(p->network_allow[i]->text, rules[i]); /* shown as they are written */
                        assert_int_equal(p->network_allow[i]->intercept, intercepted);
                }
                assert_null(rules[p->n_network_allow]);
        }
        assert_int_equal(n, 5);
        bool intercepted;
        assert_null(network_preset_rules("none", &intercepted));
}

/* An allowlist that has rules when none are named. Whatever comes first in a file, rules that are named take their place. */
static void test_whitelist(void **state)
{
        static const struct {
                const char *text;
                size_t n;
                const char *first;
        } rows[] = {
                {"network_mode: whitelist\n", 4, "GET,HEAD https://pypi.org:443"},
                {"network_mode: whitelist\nnetwork_allow: []\n", 4, "GET,HEAD https://pypi.org:443"},
                {"network_allow: []\nnetwork_mode: whitelist\n", 4, "GET,HEAD https://pypi.org:443"},
                {"network_mode: whitelist\nnetwork_allow: [a.com]\n", 1, "https://a.com:443"},
                {"network_allow: [a.com]\nnetwork_mode: whitelist\n", 1, "https://a.com:443"},
                {"network_mode: whitelist\nnetwork_allow: [{host: a.com}]\n", 1, "https://a.com:443"},
                {"network_mode: allowlist\nnetwork_allow: []\n", 0, NULL},
                {"network_mode: allowlist\nnetwork_allow: [dependencies]\n", 4, "GET,HEAD https://pypi.org:443"},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_policy_ struct policy *p = NULL;
                gb_error err;
                if (policy_parse("x.yaml", rows[i].text, strlen(rows[i].text), NULL, &p, &err) < 0)
                        fail_msg("%s: %s", rows[i].text, err.message);
                assert_int_equal(p->network_mode, NETWORK_ALLOWLIST);
                assert_int_equal(p->n_network_allow, rows[i].n);
                if (rows[i].n > 0)
                        assert_string_equal(p->network_allow[0]->text, rows[i].first);
                _cleanup_policy_ struct policy *copy = policy_copy(p);
                assert_int_equal(copy->n_network_allow, rows[i].n);
                assert_int_equal(network_allow_add_text(copy, "b.com", &err), 0);
                assert_int_equal(copy->n_network_allow, p->network_is_whitelist ? 1 : rows[i].n + 1);
        }
        _cleanup_policy_ struct policy *p = NULL;
        gb_error err;
        assert_int_equal(policy_parse("x.yaml", "timeout: 5\n", 11, NULL, &p, &err), 0);
        assert_int_equal(policy_set(p, "network_mode", "whitelist", "--network", &err), 0);
        assert_int_equal(p->n_network_allow, 4);
        assert_int_equal(policy_set(p, "network_allow", "a.com", "--allow", &err), 0);
        assert_int_equal(policy_set(p, "network_allow", "b.com", "--allow", &err), 0);
        assert_int_equal(p->n_network_allow, 2);

        /* They do not pass on to a mode that is named later, nor to a trust level with another one. */
        static const char text[] = "network_mode: whitelist\ntrust_levels:\n  mine: {network_mode: allowlist}\n";
        _cleanup_policy_ struct policy *level = NULL, *top = NULL;
        assert_int_equal(policy_parse("x.yaml", text, strlen(text), "mine", &level, &err), 0);
        assert_int_equal(level->n_network_allow, 0);
        assert_int_equal(policy_parse("x.yaml", text, strlen(text), NULL, &top, &err), 0);
        assert_int_equal(top->n_network_allow, 4);
        assert_int_equal(policy_set(top, "network_mode", "allowlist", "--network", &err), 0);
        assert_int_equal(top->n_network_allow, 0);
}

static void test_bounds(void **state)
{
        _cleanup_policy_ struct policy *p = make();
        char text[64];
        gb_error err;

        for (int i = 0; i < NETWORK_RULES_MAX - 1; i++) {
                snprintf(text, sizeof(text), "x%d.com", i);
                assert_int_equal(network_allow_add_text(p, text, &err), 0);
        }
        /* All of a preset or nothing. */
        assert_true(network_allow_add_text(p, "python-packages", &err) < 0);
        assert_int_equal(err.code, GB_E_LIMIT);
        assert_int_equal(p->n_network_allow, NETWORK_RULES_MAX - 1);
        assert_int_equal(network_allow_add_text(p, "a.com", &err), 0);
        assert_true(network_allow_add_text(p, "b.com", &err) < 0);
        assert_true(network_allow_add_text(p, "a.com:1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17", &err) < 0);
        assert_non_null(strstr(err.message, "too many ports"));
        for (int i = 0; i < NETWORK_RANGES_MAX; i++) {
                snprintf(text, sizeof(text), "10.0.%d.0/24", i);
                assert_int_equal(network_range_add_text(p, text, &err), 0);
                assert_int_equal(network_range_add_text(p, text, &err), 0); /* the same again is no other */
        }
        assert_true(network_range_add_text(p, "10.1.0.0/16", &err) < 0);
        assert_true(network_range_add_text(p, "10.0.0.1/24", &err) < 0);
        assert_non_null(strstr(err.message, "not a range of addresses"));
}

/* ---- files and the environment ---- */

static void test_fill(void **state)
{
        char path[] = "/tmp/test-network-XXXXXX", text[256];
        _cleanup_close_ int fd = mkstemp(path);
        gb_error err;

        assert_true(fd >= 0);
        assert_int_equal(write(fd, "s3cret\n", 7), 7);
        setenv("TEST_NETWORK", "abc", 1);
        snprintf(text, sizeof(text), "{\"host\": \"a.com\", \"protocol\": \"http\", \"headers\": {\"X\": \"a ${file:%s} ${env:TEST_NETWORK} ${secret:B}.\"}}", path);
        _cleanup_policy_ struct policy *p = WITH(text);
        assert_string_equal(p->network_allow[0]->headers[0].value, "a s3cret abc ${secret:B}.");
        /* Not for those who do not read this host's files. */
        json_t *value = json(text);
        assert_true(network_allow_add_json(p, value, false, &err) < 0);
        assert_int_equal(err.code, GB_E_DENIED);
        json_decref(value);

        static const struct {
                const char *value, *why;
        } bad[] = {{"${file:relative}", "begins with /"},          {"${file:/nonexistent/x}", "cannot be opened"}, {"${file:/tmp}", "not a regular file"},
                   {"${env:TEST_NETWORK_NOT}", "no such variable"}, {"${file:/dev/zero}", "not a regular file"},    {"${env:TEST_NESTED}", "has a \"${\" in it"},
                   {"${env:TEST_LINES}", "a line break"}};
        setenv("TEST_NESTED", "${secret:OTHER}", 1); /* would become a secret that nobody meant */
        setenv("TEST_LINES", "a\r\nHost: b", 1);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                snprintf(text, sizeof(text), "{\"host\": \"a.com\", \"protocol\": \"http\", \"headers\": {\"X\": \"%s\"}}", bad[i].value);
                value = json(text);
                assert_true(network_allow_add_json(p, value, true, &err) < 0);
                if (!strstr(err.message, bad[i].why))
                        fail_msg("%s: %s", bad[i].value, err.message);
                json_decref(value);
        }
        snprintf(text, sizeof(text), "{\"host\": \"a.com\", \"protocol\": \"http\", \"headers\": {\"X\": \"${file:%s}\"}}", path);
        assert_int_equal(pwrite(fd, "${secret:B}", 11, 0), 11);
        value = json(text);
        assert_true(network_allow_add_json(p, value, true, &err) < 0);
        assert_non_null(strstr(err.message, "a \"${\" in it"));
        json_decref(value);
        unlink(path);
}

/* ---- less than another ---- */

#define RULE_A "{\"host\": \"api.com\", \"intercept\": true, \"methods\": [\"GET\", \"POST\"], \"paths\": [\"/v1\"], \"headers\": {\"Authorization\": \"x\"}}"

static void test_within(void **state)
{
        static const struct {
                const char *a, *b; /* JSON */
                bool within;
        } rows[] = {
                {"\"a.com\"", "\"a.com\"", true},
                {"\"a.com\"", "\"*.com\"", true},
                {"\"*.a.com\"", "\"*.com\"", true},
                {"\"a.com\"", "\"*\"", true},
                {"\"*.com\"", "\"a.com\"", false},
                {"\"*\"", "\"*.com\"", false},
                {"\"a.com\"", "\"*.a.com\"", false},
                {"\"1.2.3.4\"", "\"*\"", false},
                {"\"a.com:444\"", "\"a.com\"", false},
                {"\"a.com:443-450\"", "\"a.com:440-445,446-460\"", true},
                {"\"a.com:443-450\"", "\"a.com:440-445,447-460\"", false},
                {"\"a.com:65535\"", "\"a.com:1-65535\"", true},
                {"\"a.com:80\"", "\"https://a.com:80\"", false},
                {"\"a.com\"", "\"tcp://a.com:443\"", true},
                {"\"tcp://a.com:443\"", "\"a.com\"", false},
                {"\"http://a.com:80\"", "\"tcp://a.com:80\"", false},
                {"\"http://a.com\"", "\"http://a.com/x\"", false},
                {"\"http://a.com/x/y\"", "\"http://a.com/x\"", true},
                {"\"http://a.com/xy\"", "\"http://a.com/x\"", false},
                {"\"http://a.com/x\"", "\"http://a.com/x/\"", false},
                {"\"GET http://a.com\"", "\"GET,HEAD http://a.com\"", true},
                {"\"GET,PUT http://a.com\"", "\"GET,HEAD http://a.com\"", false},
                {"\"http://a.com\"", "\"GET http://a.com\"", false},
                {RULE_A, RULE_A, true},
                {"\"api.com\"", RULE_A, false},
                {"{\"host\": \"api.com\", \"intercept\": true, \"methods\": \"GET\", \"paths\": \"/v1/x\"}", RULE_A, true},
                {"{\"host\": \"api.com\", \"intercept\": true, \"methods\": \"GET\", \"paths\": \"/v1\", \"headers\": {\"authorization\": \"x\"}}", RULE_A, true},
                {"{\"host\": \"api.com\", \"intercept\": true, \"methods\": \"GET\", \"paths\": \"/v1\", \"headers\": {\"Authorization\": \"y\"}}", RULE_A, false},
                {"{\"host\": \"api.com\", \"intercept\": true, \"methods\": \"GET\", \"paths\": \"/v1\", \"headers\": {\"X\": \"x\"}}", RULE_A, false},
                {"{\"host\": \"a.com\", \"intercept\": true}", "\"a.com\"", true},
                {"\"a.com\"", "{\"host\": \"a.com\", \"intercept\": true}", false},
                {"{\"host\": \"a.com\", \"intercept\": true, \"headers\": {\"X\": \"x\"}}", "\"a.com\"", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_policy_ struct policy *a = WITH(rows[i].a), *b = WITH(rows[i].b), *nothing = make();
                gb_error err = {0};
                int r = network_is_within(a, b, &err);
                if ((r == 0) != rows[i].within)
                        fail_msg("%s, %s: %d %s", rows[i].a, rows[i].b, r, err.message);
                assert_int_equal(err.code, rows[i].within ? GB_E_NONE : GB_E_DENIED);
                assert_int_equal(network_is_within(a, a, &err), 0);
                assert_int_equal(network_is_within(nothing, b, &err), 0);
                assert_true(network_is_within(a, nothing, &err) < 0);
        }
}

static void test_within_modes(void **state)
{
        _cleanup_policy_ struct policy *a = WITH("\"a.com\""), *b = WITH("\"a.com\"");
        gb_error err = {0};

        for (int x = NETWORK_NONE; x <= NETWORK_HOST; x++)
                for (int y = NETWORK_NONE; y <= NETWORK_HOST; y++) {
                        a->network_mode = (enum network_mode)x;
                        b->network_mode = (enum network_mode)y;
                        assert_int_equal(network_is_within(a, b, &err) == 0, x <= y);
                }
        a->network_mode = b->network_mode = NETWORK_ALLOWLIST;
        _cleanup_policy_ struct policy *wide = make(), *part = make();
        assert_int_equal(network_range_add_text(wide, "10.0.0.0/8", &err), 0);
        assert_int_equal(network_range_add_text(part, "10.0.0.0/24", &err), 0);
        assert_int_equal(network_is_within(part, wide, &err), 0);
        assert_true(network_is_within(wide, part, &err) < 0);
        assert_int_equal(network_range_add_text(a, "10.1.2.0/24", &err), 0);
        assert_true(network_is_within(a, b, &err) < 0);
        assert_string_equal(err.message, "the range 10.1.2.0/24 is not within those that are allowed here");
        assert_int_equal(network_range_add_text(b, "10.1.3.0/24", &err), 0);
        assert_true(network_is_within(a, b, &err) < 0);
        assert_int_equal(network_range_add_text(b, "10.0.0.0/8", &err), 0);
        assert_int_equal(network_is_within(a, b, &err), 0);
        assert_true(network_is_within(b, a, &err) < 0);
        b->network_bytes = 100;
        assert_true(network_is_within(a, b, &err) < 0); /* none is more than any */
        a->network_bytes = 101;
        assert_true(network_is_within(a, b, &err) < 0);
        a->network_bytes = 100;
        assert_int_equal(network_is_within(a, b, &err), 0);
        b->network_requests = 5;
        assert_true(network_is_within(a, b, &err) < 0);
        a->network_requests = 5;
        a->network_connections = b->network_connections + 1;
        assert_true(network_is_within(a, b, &err) < 0);
}

/* A caller who may ask for less keeps the credentials of what is left, and cannot take them elsewhere. */
static void test_narrow(void **state)
{
        _cleanup_policy_ struct policy *level = WITH(RULE_A, "\"*.com\"", "\"GET,HEAD http://deb.com\"");
        _cleanup_policy_ struct policy *a = WITH("\"api.com\"", "\"other.com\"", "\"http://deb.com/x\"");
        gb_error err = {0};

        if (network_narrow(a, level, &err) < 0)
                fail_msg("%s", err.message);
        const struct network_rule *r = a->network_allow[0];
        assert_true(r->intercept);
        assert_int_equal(r->n_methods, 2);
        assert_string_equal(r->paths[0], "/v1");
        assert_string_equal(r->headers[0].value, "x");
        assert_false(a->network_allow[1]->intercept);
        assert_int_equal(a->network_allow[1]->n_headers, 0);
        assert_string_equal(a->network_allow[2]->text, "GET,HEAD http://deb.com:80/x");

        static const char *const bad[] = {
                "\"*\"", "\"api.com:22\"", "\"http://api.com\"", "\"POST http://deb.com\"",
                "{\"host\": \"api.com\", \"intercept\": true, \"headers\": {\"Authorization\": \"${secret:MINE}\"}}",
        };
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                _cleanup_policy_ struct policy *more = WITH(bad[i]);
                if (network_narrow(more, level, &err) == 0)
                        fail_msg("%s", bad[i]);
                assert_int_equal(err.code, GB_E_DENIED);
        }
}

/* ---- what the box gets ---- */

static bool has_env(const struct policy *p, const char *text)
{
        for (const char *const *e = network_env(p); *e; e++)
                if (strcmp(*e, text) == 0)
                        return true;
        return false;
}

static void test_env(void **state)
{
        _cleanup_policy_ struct policy *p = WITH("\"a.com\""), *intercepted = WITH(RULE_A);

        assert_true(has_env(p, "HTTP_PROXY=http://127.0.0.1:3128"));
        assert_true(has_env(p, "https_proxy=http://127.0.0.1:3128"));
        assert_true(has_env(p, "no_proxy=localhost,127.0.0.1,::1"));
        assert_false(has_env(p, "SSL_CERT_FILE=/run/secrets/glovebox-ca.pem"));
        assert_true(has_env(intercepted, "SSL_CERT_FILE=/run/secrets/glovebox-ca.pem"));
        assert_true(network_intercepts(intercepted));
        for (int mode = NETWORK_NONE; mode <= NETWORK_HOST; mode += NETWORK_HOST) {
                intercepted->network_mode = (enum network_mode)mode;
                assert_null(network_env(intercepted)[0]);
                assert_false(network_intercepts(intercepted));
        }
}

static void test_secrets(void **state)
{
        _cleanup_policy_ struct policy *p = WITH("{\"host\": \"a.com\", \"protocol\": \"http\", \"headers\": {\"X\": \"a ${secret:ONE}${secret:TWO}\"}}");
        gb_error err = {0};

        assert_true(network_uses_secret(p, "ONE"));
        assert_true(network_uses_secret(p, "TWO"));
        assert_false(network_uses_secret(p, "ON"));
        assert_false(network_uses_secret(p, "THREE"));
        /* A policy is good before it has secrets; a run with it is not. */
        assert_int_equal(policy_validate(p, &err), 0);
        assert_true(network_check(p, &err) < 0);
        assert_non_null(strstr(err.message, "uses the secret ONE, and there is none of that name"));
        assert_int_equal(policy_add_secret(p, "ONE", "12345678", 8, SECRETS_DIR "/one", &err), 0);
        assert_true(network_check(p, &err) < 0);
        assert_int_equal(policy_add_secret(p, "TWO", "12345678", 8, NULL, &err), 0);
        assert_int_equal(network_check(p, &err), 0);
        assert_false(policy_has_secret_files(p)); /* it stays outside */
        p->network_mode = NETWORK_NONE;
        assert_false(network_uses_secret(p, "ONE"));
        assert_true(policy_has_secret_files(p));
}

/* ---- flags and files ---- */

static void test_set(void **state)
{
        _cleanup_policy_ struct policy *p = NULL;
        gb_error err;

        assert_int_equal(policy_parse("x.yaml", "network_allow: [a.com, python-packages]\n", 40, NULL, &p, &err), 0);
        assert_int_equal(p->network_mode, NETWORK_NONE); /* a file says that by itself */
        assert_int_equal(p->n_network_allow, 3);
        assert_int_equal(policy_set(p, "network_ranges", "10.0.0.0/8", "--allow-range", &err), 0);
        assert_int_equal(p->network_mode, NETWORK_NONE);
        assert_true(policy_set(p, "network_allow", "a*.com", "--allow", &err) < 0);
        assert_int_equal(strncmp(err.message, "--allow: \"a*.com\" is not a host", 31), 0);
        assert_int_equal(p->network_mode, NETWORK_NONE);
        assert_int_equal(policy_set(p, "network_allow", "b.com", "--allow", &err), 0);
        assert_int_equal(p->network_mode, NETWORK_ALLOWLIST);
        assert_int_equal(p->n_network_allow, 4);
        assert_int_equal(policy_set(p, "network_bytes", "1g", "--network-bytes", &err), 0);
        assert_int_equal(p->network_bytes, GIB);
        assert_int_equal(policy_set(p, "network_bytes", "none", "--network-bytes", &err), 0);
        assert_int_equal(p->network_bytes, 0);
        assert_int_equal(policy_set(p, "network_requests", "0", "--network-requests", &err), 0);
        assert_true(policy_set(p, "network_connections", "0", "--network-connections", &err) < 0);
}

static void test_files(void **state)
{
        static const char text[] = "network_mode: allowlist\n"
                                   "network_allow:\n"
                                   "  - pypi.org\n"
                                   "  - {host: api.com, ports: [443, 8000-8010], intercept: true, headers: {X: \"${secret:A}\"}}\n"
                                   "network_ranges: [10.0.0.0/8, 'fd00::/8']\n"
                                   "trust_levels:\n"
                                   "  untrusted: {network_allow: [], network_ranges: []}\n"
                                   "  some: {network_allow: ['*']}\n";
        _cleanup_policy_ struct policy *standard = NULL, *untrusted = NULL, *some = NULL;
        gb_error err;

        assert_int_equal(policy_parse("x.yaml", text, strlen(text), NULL, &standard, &err), 0);
        assert_int_equal(policy_parse("x.yaml", text, strlen(text), "untrusted", &untrusted, &err), 0);
        assert_int_equal(policy_parse("x.yaml", text, strlen(text), "some", &some, &err), 0);
        assert_int_equal(standard->n_network_allow, 2);
        assert_int_equal(standard->n_network_ranges, 2);
        assert_int_equal(untrusted->network_mode, NETWORK_ALLOWLIST); /* which is not the host's */
        assert_int_equal(untrusted->n_network_allow, 0);
        assert_int_equal(untrusted->n_network_ranges, 0);
        assert_int_equal(some->n_network_allow, 1);

        static const struct {
                const char *text, *why;
        } bad[] = {
                {"network_allow: a.com\n", "x.yaml:1:16: network_allow: a value; allowed: a list of rules"},
                {"network_allow:\n  - a.com\n  - b.com:0\n", "x.yaml:3:5: network_allow: \"0\" is not a port"},
                {"network_allow:\n  - {host: a.com, path: /x}\n", "x.yaml:2:5: network_allow: a rule has no key \"path\"; did you mean paths"},
                {"network_allow: [[a.com]]\n", "x.yaml:1:17: network_allow: a rule is a text"},
                {"network_ranges: [10.0.0.1/8]\n", "x.yaml:1:18: network_ranges: \"10.0.0.1/8\" is not a range"},
                {"network_ranges: 10.0.0.0/8\n", "x.yaml:1:17: network_ranges: "},
                {"trust_levels: {x: {network_allow: [a*]}}\n", "x.yaml:1:36: network_allow: \"a*\" is not a host"},
        };
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                _cleanup_policy_ struct policy *p = NULL;
                assert_true(policy_parse("x.yaml", bad[i].text, strlen(bad[i].text), NULL, &p, &err) < 0);
                if (strncmp(err.message, bad[i].why, strlen(bad[i].why)) != 0)
                        fail_msg("%s: %s", bad[i].text, err.message);
                assert_int_equal(err.code, GB_E_POLICY);
        }
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_texts),   cmocka_unit_test(test_refused_texts), cmocka_unit_test(test_mappings), cmocka_unit_test(test_refused_mappings),
                cmocka_unit_test(test_presets), cmocka_unit_test(test_whitelist), cmocka_unit_test(test_bounds),        cmocka_unit_test(test_fill),     cmocka_unit_test(test_within),
                cmocka_unit_test(test_within_modes), cmocka_unit_test(test_narrow),   cmocka_unit_test(test_env),      cmocka_unit_test(test_secrets),
                cmocka_unit_test(test_set),     cmocka_unit_test(test_files),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
