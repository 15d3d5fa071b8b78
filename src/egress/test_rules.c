/* SPDX-License-Identifier: Apache-2.0
 *
 * What passes and what does not: attacks 115, 116 and 117, property P3; the block that the rules are in, and what is said about a refusal. */
#include "base/macro.h"
#include "egress/core.h"
#include "egress/rules_write.h"

#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include <cmocka.h>

struct spec {
        const char *pattern;
        enum egress_protocol protocol;
        uint16_t first, last;
        const char *method, *path; /* one, or NULL */
        bool intercept;
        const char *header; /* the value of "Authorization", or NULL */
};

#define SPECS_MAX 8

static int try_write(const struct egress_rules *head, const struct spec *specs, size_t n, struct buffer *ret)
{
        struct egress_rule_source sources[SPECS_MAX] = {0};
        const char *headers[SPECS_MAX][1][2], *methods[SPECS_MAX][1], *paths[SPECS_MAX][1];
        uint16_t ports[SPECS_MAX][1][2];

        for (size_t i = 0; i < n; i++) {
                const struct spec *s = &specs[i];
                assert_int_equal(host_pattern_parse(s->pattern, strlen(s->pattern), &sources[i].pattern), 0);
                ports[i][0][0] = s->first;
                ports[i][0][1] = s->last ? s->last : s->first;
                methods[i][0] = s->method;
                paths[i][0] = s->path;
                headers[i][0][0] = "Authorization";
                headers[i][0][1] = s->header;
                sources[i].protocol = s->protocol;
                sources[i].intercept = s->intercept;
                sources[i].n_ports = 1;
                sources[i].ports = (const uint16_t(*)[2])ports[i];
                sources[i].text = s->pattern;
                sources[i].methods = methods[i];
                sources[i].n_methods = s->method != NULL;
                sources[i].paths = paths[i];
                sources[i].n_paths = s->path != NULL;
                sources[i].headers = (const char *const(*)[2])headers[i];
                sources[i].n_headers = s->header != NULL;
        }
        return egress_rules_write(head, sources, n, ret);
}

static const struct egress_rules *make(const struct spec *specs, size_t n, struct buffer *ret)
{
        struct egress_rules head = {.connections_max = 64};

        *ret = (struct buffer){0};
        assert_int_equal(try_write(&head, specs, n, ret), 0);
        assert_true(ret->secret);
        assert_true(egress_rules_valid(ret->data, ret->size));
        return (const struct egress_rules *)(void *)ret->data;
}

static struct egress_verdict judge(const struct egress_rules *r, const char *host, uint16_t port, const char *method, const char *path)
{
        struct host h;

        if (host_parse(host, strlen(host), &h) < 0)
                fail_msg("%s is no host", host);
        struct egress_request q = {.host = &h, .port = port, .protocol = method ? EGRESS_HTTP : EGRESS_HTTPS, .method = method, .path = path};
        return egress_judge(r, &q);
}

/* A rule that lists nothing but GET and HEAD takes no body; another rule may. */
static void test_bodies(void **state)
{
        static const struct spec specs[] = {
                {"a.com", EGRESS_HTTP, 80, 0, "GET", NULL, false, NULL},
                {"a.com", EGRESS_HTTP, 80, 0, "HEAD", NULL, false, NULL},
                {"a.com", EGRESS_HTTPS, 443, 0, "GET", NULL, true, NULL},
                {"b.com", EGRESS_HTTP, 80, 0, "GET", NULL, false, NULL},
                {"b.com", EGRESS_HTTP, 80, 0, NULL, "/in/", false, NULL},
                {"c.com", EGRESS_HTTP, 80, 0, "SEARCH", NULL, false, NULL},
        };
        static const struct {
                const char *host, *method, *path;
                bool tls, has_body;
                enum egress_decision want;
        } rows[] = {
                {"a.com", "GET", "/", false, false, EGRESS_ALLOWED},
                {"a.com", "GET", "/", false, true, EGRESS_NO_BODY},
                {"a.com", "HEAD", "/", false, true, EGRESS_NO_BODY},
                {"a.com", "POST", "/", false, true, EGRESS_NO_METHOD},
                {"a.com", "GET", "/", true, false, EGRESS_ALLOWED},
                {"a.com", "GET", "/", true, true, EGRESS_NO_BODY},
                {"b.com", "GET", "/x", false, true, EGRESS_NO_BODY},
                {"b.com", "GET", "/in/x", false, true, EGRESS_ALLOWED},
                {"c.com", "SEARCH", "/", false, true, EGRESS_ALLOWED},
        };
        char text[SENTENCE_MAX];
        _cleanup_buffer_ struct buffer b;
        const struct egress_rules *r = make(specs, ARRAY_SIZE(specs), &b);

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                struct host h;
                assert_int_equal(host_parse(rows[i].host, strlen(rows[i].host), &h), 0);
                struct egress_request q = {.host = &h, .port = rows[i].tls ? 443 : 80, .protocol = rows[i].tls ? EGRESS_HTTPS : EGRESS_HTTP, .method = rows[i].method,
                                           .path = rows[i].path, .has_body = rows[i].has_body};
                struct egress_verdict v = egress_judge(r, &q);
                if (v.decision != rows[i].want)
                        fail_msg("row %zu: %s", i, egress_decision_word(v.decision));
                egress_explain(r, &q, &v, NULL, text, sizeof(text));
                if (v.decision == EGRESS_NO_BODY && (!strstr(text, "only reads from \"") || !strstr(text, "the request has a body")))
                        fail_msg("row %zu: %s", i, text);
        }
}

/* ---- attack 116 ---- */

static void test_hosts(void **state)
{
        static const struct {
                const char *pattern, *host;
                bool passes;
        } rows[] = {
                {"a.com", "a.com", true},
                {"a.com", "A.COM", true},
                {"A.Com", "a.com", true},
                {"a.com", "a.com.", true},
                {"a.com", "x.a.com", false},
                {"a.com", "xa.com", false},
                {"a.com", "a.com.evil.com", false},
                {"a.com", "a.co", false},
                {"a.com", "a.comm", false},
                {"a.com", "com", false},
                {"*.a.com", "a.com", false},
                {"*.a.com", "a.com.", false},
                {"*.a.com", "x.a.com", true},
                {"*.a.com", "x.a.com.", true},
                {"*.a.com", "X.A.cOm", true},
                {"*.a.com", "y.x.a.com", true},
                {"*.a.com", "xa.com", false},
                {"*.a.com", "x-a.com", false},
                {"*.a.com", "a.com.evil.com", false},
                {"*.a.com", "x.a.com.evil.com", false},
                {"*.com", "a.com", true},
                {"*.com", "com", false},
                {"*", "a.com", true},
                {"*", "localhost", true},
                {"*", "1.2.3.4", false},
                {"*", "[::1]", false},
                {"*.a.com", "1.2.3.4", false},
                {"1.2.3.4", "1.2.3.4", true},
                {"1.2.3.4", "1.2.3.5", false},
                {"1.2.3.4", "0x1.2.3.4", true}, /* what the resolver would make of it */
                {"1.2.3.4", "[::ffff:1.2.3.4]", true},
                {"127.0.0.1", "2130706433", true},
                {"[::1]", "[0:0::1]", true},
                {"xn--80ak6aa92e.com", "apple.com", false},
                {"apple.com", "xn--80ak6aa92e.com", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_buffer_ struct buffer b;
                struct spec spec = {rows[i].pattern, EGRESS_HTTPS, 443, 0, NULL, NULL, false, NULL};
                const struct egress_rules *r = make(&spec, 1, &b);
                struct egress_verdict v = judge(r, rows[i].host, 443, NULL, NULL);
                if (v.decision != (rows[i].passes ? EGRESS_ALLOWED : EGRESS_NO_RULE))
                        fail_msg("%s, %s: %s", rows[i].pattern, rows[i].host, egress_decision_word(v.decision));
                assert_ptr_equal(v.rule, rows[i].passes ? &r->rules[0] : NULL);
        }
}

/* ---- attack 117 ---- */

static void test_nothing(void **state)
{
        static const char *const hosts[] = {"a.com", "localhost", "127.0.0.1", "[::1]", "1.1.1.1"};
        _cleanup_buffer_ struct buffer b;
        const struct egress_rules *r = make(NULL, 0, &b);

        for (size_t i = 0; i < ARRAY_SIZE(hosts); i++)
                for (unsigned port = 1; port < 65536; port += 61) {
                        assert_int_equal(judge(r, hosts[i], (uint16_t)port, NULL, NULL).decision, EGRESS_NO_RULE);
                        assert_int_equal(judge(r, hosts[i], (uint16_t)port, "GET", "/").decision, EGRESS_NO_RULE);
                }
}

/* ---- reasons, one after the other ---- */

static void test_reasons(void **state)
{
        static const struct spec specs[] = {
                {"web.com", EGRESS_HTTP, 80, 89, "GET", "/a", false, NULL},
                {"web.com", EGRESS_HTTPS, 443, 0, NULL, NULL, false, NULL},
                {"ssh.com", EGRESS_TCP, 22, 0, NULL, NULL, false, NULL},
                {"api.com", EGRESS_HTTPS, 443, 0, "POST", "/v1/", true, "Bearer x"},
                {"web.com", EGRESS_HTTP, 80, 0, "PUT", NULL, false, NULL},
        };
        static const struct {
                const char *host;
                uint16_t port;
                const char *method, *path; /* a method with "tls:" before it is of a request inside of TLS */
                enum egress_decision want;
                int rule;
        } rows[] = {
                {"other.com", 443, NULL, NULL, EGRESS_NO_RULE, -1},
                {"web.com", 22, NULL, NULL, EGRESS_NO_PORT, 0},
                {"web.com", 90, "GET", "/a", EGRESS_NO_PORT, 0},
                {"web.com", 79, "GET", "/a", EGRESS_NO_PORT, 0},
                {"web.com", 443, NULL, NULL, EGRESS_ALLOWED, 1},
                {"web.com", 443, "GET", "/a", EGRESS_NO_PROTOCOL, 1}, /* never in the clear what is for TLS */
                {"web.com", 80, NULL, NULL, EGRESS_NO_PROTOCOL, 0},   /* and no tunnel around what is looked at */
                {"web.com", 80, "POST", "/a", EGRESS_NO_METHOD, 0},
                {"web.com", 80, "get", "/a", EGRESS_NO_METHOD, 0},
                {"web.com", 80, "GET", "/b", EGRESS_NO_PATH, 0},
                {"web.com", 80, "GET", "/a", EGRESS_ALLOWED, 0},
                {"web.com", 89, "GET", "/a/b?c=../d", EGRESS_ALLOWED, 0},
                {"web.com", 80, "PUT", "/b", EGRESS_ALLOWED, 4},
                {"web.com", 81, "PUT", "/a", EGRESS_NO_METHOD, 0},
                {"ssh.com", 22, NULL, NULL, EGRESS_ALLOWED, 2},
                {"ssh.com", 22, "GET", "/", EGRESS_NO_PROTOCOL, 2},
                {"ssh.com", 25, NULL, NULL, EGRESS_NO_PORT, 2},
                {"api.com", 443, NULL, NULL, EGRESS_ALLOWED, 3},
                {"api.com", 443, "POST", "/v1/x", EGRESS_NO_PROTOCOL, 3},
                {"api.com", 443, "tls:POST", "/v1/x", EGRESS_ALLOWED, 3},
                {"api.com", 443, "tls:GET", "/v1/x", EGRESS_NO_METHOD, 3},
                {"api.com", 443, "tls:POST", "/v1", EGRESS_NO_PATH, 3},
                {"web.com", 443, "tls:GET", "/", EGRESS_ALLOWED, 1},
                {"web.com", 443, "tls:TRACE", "/", EGRESS_NO_METHOD, 1},
        };
        _cleanup_buffer_ struct buffer b;
        const struct egress_rules *r = make(specs, ARRAY_SIZE(specs), &b);

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                bool inside = rows[i].method && strncmp(rows[i].method, "tls:", 4) == 0;
                struct host h;
                assert_int_equal(host_parse(rows[i].host, strlen(rows[i].host), &h), 0);
                struct egress_request q = {.host = &h, .port = rows[i].port, .method = inside ? rows[i].method + 4 : rows[i].method, .path = rows[i].path,
                                           .protocol = rows[i].method && !inside ? EGRESS_HTTP : EGRESS_HTTPS};
                struct egress_verdict v = egress_judge(r, &q);
                if (v.decision != rows[i].want || v.rule != (rows[i].rule < 0 ? NULL : &r->rules[rows[i].rule]))
                        fail_msg("row %zu: %s, rule %d", i, egress_decision_word(v.decision), v.rule ? (int)(v.rule - r->rules) : -1);
        }
}

static void test_methods(void **state)
{
        static const struct spec spec = {"a.com", EGRESS_HTTP, 80, 0, NULL, NULL, false, NULL};
        static const char *const good[] = {"GET", "POST", "PATCH", "PROPFIND"}, *const bad[] = {"CONNECT", "TRACE"};
        _cleanup_buffer_ struct buffer b;
        const struct egress_rules *r = make(&spec, 1, &b);

        for (size_t i = 0; i < ARRAY_SIZE(good); i++)
                assert_int_equal(judge(r, "a.com", 80, good[i], "/").decision, EGRESS_ALLOWED);
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_int_equal(judge(r, "a.com", 80, bad[i], "/").decision, EGRESS_NO_METHOD);
}

static void test_paths(void **state)
{
        static const struct {
                const char *prefix, *path;
                bool passes;
        } rows[] = {
                {"/a", "/a", true}, {"/a", "/a/", true}, {"/a", "/a/b", true}, {"/a", "/a?b", true}, {"/a", "/ab", false}, {"/a", "/", false}, {"/a", "/A", false},
                {"/a/", "/a/", true}, {"/a/", "/a", false}, {"/a/", "/a/b/c", true}, {"/", "/x", true}, {"/", "/", true},
                {"/a", "/a/../b", false}, {"/a", "/a/..", false}, {"/a", "/a/.", false}, {"/a", "/a/./b", false}, {"/a", "/a/...", true}, {"/a", "/a/..b", true},
                {"/a", "/a/.b", true}, {"/a", "/a/..;/b", false}, {"/a", "/a/..;x=1/b", false}, {"/a", "/./a", false}, {"/a", "//a", false},
                {"/a", "/a/%2e%2e/b", false}, {"/a", "/a/.%2E/b", false}, {"/a", "/a%2fb", false}, {"/a", "/a/%2Fb", false}, {"/a", "/a/%5c..", false},
                {"/a", "/a\\..\\b", false}, {"/a", "/a/%252e%252e/b", false}, {"/a", "/a/%25252fb", false}, {"/a", "/a/%25b", true}, {"/a", "/a/%20b", true},
                {"/a", "/a/b?x=%2e%2e/%2f", true}, {"/a", "/a#/../b", false}, {"/a", "/a/%2", true}, {"/a", "/a/%", true}, {"/", "/%2e", false},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                _cleanup_buffer_ struct buffer b;
                struct spec spec = {"a.com", EGRESS_HTTP, 80, 0, NULL, rows[i].prefix, false, NULL};
                const struct egress_rules *r = make(&spec, 1, &b);
                enum egress_decision d = judge(r, "a.com", 80, "GET", rows[i].path).decision;
                if (d != (rows[i].passes ? EGRESS_ALLOWED : EGRESS_NO_PATH))
                        fail_msg("%s, %s: %s", rows[i].prefix, rows[i].path, egress_decision_word(d));
        }
}

/* ---- property P3 ---- */

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
        seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
        return (uint32_t)(seed >> 33) % n;
}

/* Names of few labels of few letters, so that they meet often. */
static void random_name(char *ret)
{
        static const char *const labels[] = {"a", "b", "ab", "A", "B", "aB", "a-b", "com", "Com", "x1"};
        size_t n = 1 + random_below(4);

        *ret = '\0';
        for (size_t i = 0; i < n; i++) {
                strcat(ret, i > 0 ? "." : "");
                strcat(ret, labels[random_below(ARRAY_SIZE(labels))]);
        }
}

/* Whether a pattern matches, said in another way: labels are taken from both ends until one side has no more. */
static bool reference_has(const char *pattern, const char *host)
{
        bool wild = pattern[0] == '*';
        size_t p = strlen(pattern), h = strlen(host);

        if (h > 0 && host[h - 1] == '.')
                h--;
        for (;;) {
                size_t pl = 0, hl = 0;
                while (pl < p && pattern[p - pl - 1] != '.')
                        pl++;
                while (hl < h && host[h - hl - 1] != '.')
                        hl++;
                if (wild && pl == p)
                        return h > 0; /* only the star is left: at least one label must be, too */
                if (pl != hl || strncasecmp(pattern + p - pl, host + h - hl, pl) != 0)
                        return false;
                if (pl == p || hl == h)
                        return pl == p && hl == h;
                p -= pl + 1;
                h -= hl + 1;
        }
}

static void random_specs(struct spec *specs, char (*names)[64], size_t n)
{
        for (size_t i = 0; i < n; i++) {
                char name[60];
                uint32_t kind = random_below(8);
                random_name(name);
                if (kind == 0)
                        strcpy(names[i], "*");
                else
                        snprintf(names[i], sizeof(names[i]), "%s%s", kind < 4 ? "*." : "", name);
                specs[i] = (struct spec){.pattern = names[i], .protocol = (enum egress_protocol)random_below(EGRESS_PROTOCOLS),
                                         .first = (uint16_t)(440 + random_below(4)),
                                         .last = (uint16_t)(443 + random_below(4))};
        }
}

static bool reference_passes(const struct spec *specs, size_t n, const char *host, uint16_t port, bool request)
{
        for (size_t i = 0; i < n; i++)
                if (reference_has(specs[i].pattern, host) && port >= specs[i].first && port <= specs[i].last && (specs[i].protocol == EGRESS_HTTP) == request)
                        return true;
        return false;
}

static void change_case(char *name)
{
        for (; *name; name++)
                *name = random_below(2) ? (char)toupper((unsigned char)*name) : (char)tolower((unsigned char)*name);
}

static void test_property(void **state)
{
        size_t passed = 0;

        seed = 116;
        for (int round = 0; round < 4000; round++) {
                _cleanup_buffer_ struct buffer b, more;
                struct spec specs[SPECS_MAX];
                char names[SPECS_MAX][64], host[64];
                size_t n = random_below(SPECS_MAX);
                random_specs(specs, names, n + 1);
                const struct egress_rules *r = make(specs, n, &b), *wider = make(specs, n + 1, &more);
                for (int i = 0; i < 20; i++) {
                        uint16_t port = (uint16_t)(438 + random_below(11));
                        const char *method = random_below(3) == 0 ? "GET" : NULL;
                        random_name(host);
                        if (random_below(4) == 0)
                                strcat(host, ".");
                        bool want = reference_passes(specs, n, host, port, method);
                        bool passes = judge(r, host, port, method, "/").decision == EGRESS_ALLOWED;
                        if (passes != want)
                                fail_msg("round %d: %s:%u %s: %d, not %d", round, host, port, method ? method : "tunnel", passes, want);
                        /* One rule more takes nothing away. */
                        if (passes)
                                assert_int_equal(judge(wider, host, port, method, "/").decision, EGRESS_ALLOWED);
                        change_case(host);
                        assert_int_equal(judge(r, host, port, method, "/").decision == EGRESS_ALLOWED, want);
                        passed += passes;
                }
        }
        assert_in_range(passed, 4000, 76000); /* neither always nor never */
}

/* ---- addresses ---- */

static void test_may_dial(void **state)
{
        struct egress_rules r = {.n_ranges = 1};
        static const struct {
                const char *address;
                bool may;
        } rows[] = {{"1.1.1.1", true}, {"10.1.2.3", true}, {"10.1.3.1", false}, {"127.0.0.1", false}, {"169.254.169.254", false}, {"::1", false}, {"2606:4700::1", true}};

        assert_int_equal(address_range_parse("10.1.2.0/24", 11, &r.ranges[0]), 0);
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                const char *why = NULL;
                struct address a;
                assert_int_equal(address_parse(rows[i].address, strlen(rows[i].address), &a), 0);
                assert_int_equal(egress_may_dial(&r, &a, &why), rows[i].may);
                assert_int_equal(why == NULL, rows[i].may);
        }
}

/* ---- the block ---- */

static void test_block(void **state)
{
        static const struct spec specs[] = {
                {"*.a.com", EGRESS_HTTPS, 443, 0, "GET", "/x", true, "Bearer abc"},
                {"*", EGRESS_TCP, 1, 65535, NULL, NULL, false, NULL},
        };
        _cleanup_buffer_ struct buffer b;
        const struct egress_rules *r = make(specs, 2, &b);

        assert_int_equal(r->n_rules, 2);
        assert_string_equal(egress_text(r, r->rules[0].text), "*.a.com");
        assert_string_equal(egress_text(r, r->rules[0].methods), "GET");
        assert_null(egress_list_next(egress_text(r, r->rules[0].methods)));
        const char *name = egress_text(r, r->rules[0].headers);
        assert_string_equal(name, "Authorization");
        assert_string_equal(egress_list_next(name), "Bearer abc");
        assert_null(egress_list_next(egress_list_next(name)));
        assert_null(egress_text(r, r->rules[1].headers));
        /* Cut anywhere it is none, nor with something behind it. */
        for (size_t size = 0; size < b.size; size++)
                assert_false(egress_rules_valid(b.data, size));
        assert_int_equal(buffer_add(&b, "x", 1), 0);
        assert_false(egress_rules_valid(b.data, b.size));
}

/* Each of these makes a good block a bad one. */
static void test_bad_blocks(void **state)
{
        static const struct spec specs[] = {{"a.com", EGRESS_HTTP, 80, 0, "GET", "/x", false, "v"}};
        _cleanup_buffer_ struct buffer b;
        make(specs, 1, &b);
        struct egress_rules *r = (struct egress_rules *)(void *)b.data;

#define BAD(field, value)                                                  \
        do {                                                               \
                typeof(field) old = field;                                 \
                field = (typeof(field))(value);                            \
                if (egress_rules_valid(b.data, b.size))                    \
                        fail_msg("%s", #field " = " #value);               \
                field = old;                                               \
                assert_true(egress_rules_valid(b.data, b.size));           \
        } while (0)
        BAD(r->version, 2);
        BAD(r->size, r->size - 1);
        BAD(r->n_rules, 2);
        BAD(r->n_rules, UINT32_MAX);
        BAD(r->n_ranges, NETWORK_RANGES_MAX + 1);
        BAD(r->connections_max, 0);
        BAD(r->reserved, 1);
        BAD(r->rules[0].pattern.kind, 3);
        BAD(r->rules[0].pattern.host.kind, 2);
        BAD(r->rules[0].pattern.host.kind, HOST_ADDRESS);
        BAD(r->rules[0].pattern.host.text[0], 'A');
        BAD(r->rules[0].pattern.host.text[0], '\0');
        BAD(r->rules[0].pattern.host.text[1], ' ');
        BAD(r->rules[0].protocol, EGRESS_PROTOCOLS);
        BAD(r->rules[0].protocol, EGRESS_TCP); /* which has no methods */
        BAD(r->rules[0].protocol, EGRESS_HTTPS); /* nor has this, without intercept */
        BAD(r->rules[0].intercept, 1);
        BAD(r->rules[0].n_ports, 0);
        BAD(r->rules[0].n_ports, NETWORK_PORTS_MAX + 1);
        BAD(r->rules[0].ports[0].first, 0);
        BAD(r->rules[0].ports[0].first, 81);
        BAD(r->rules[0].text, 0);
        BAD(r->rules[0].text, 8);
        BAD(r->rules[0].text, r->size);
        BAD(r->rules[0].methods, r->size - 1); /* an empty list */
        BAD(r->rules[0].paths, UINT32_MAX);
        BAD(r->rules[0].headers, r->rules[0].paths); /* a path is no name */
        BAD(b.data[b.size - 1], 'x');
        BAD(b.data[r->rules[0].headers], '\0');
        BAD(b.data[r->rules[0].headers + strlen("Authorization") + 1], '\r');
        BAD(b.data[r->rules[0].headers + strlen("Authorization") + 1], '\0'); /* a name without a value */
        BAD(b.data[r->rules[0].headers + 3], ':');
        BAD(b.data[r->rules[0].text], '\n');
        r->n_ranges = 1;
        BAD(r->ranges[0].bits, 129);

        static const struct spec address[] = {{"1.2.3.4", EGRESS_TCP, 22, 0, NULL, NULL, false, NULL}};
        buffer_done(&b);
        make(address, 1, &b);
        r = (struct egress_rules *)(void *)b.data;
        BAD(r->rules[0].pattern.host.address.bytes[15], 5); /* which is not what the text says */
        BAD(r->rules[0].pattern.kind, PATTERN_BELOW);
#undef BAD
}

static void test_write_refused(void **state)
{
        struct egress_rules head = {.connections_max = 1};
        static const struct spec bad[] = {
                {"a.com", EGRESS_HTTPS, 443, 0, "GET", NULL, false, NULL}, {"a.com", EGRESS_TCP, 22, 0, NULL, NULL, true, NULL},
                {"a.com", EGRESS_HTTPS, 443, 442, NULL, NULL, false, NULL},
                {"a.com", EGRESS_HTTP, 80, 0, NULL, NULL, false, "a\r\nEvil: b"}, {"a.com", EGRESS_HTTP, 0, 0, NULL, NULL, false, NULL},
        };

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
                _cleanup_buffer_ struct buffer b = {0};
                assert_int_equal(try_write(&head, &bad[i], 1, &b), -EINVAL);
                assert_null(b.data);
        }
        const char *many[NETWORK_METHODS_MAX + 1];
        for (size_t i = 0; i < ARRAY_SIZE(many); i++)
                many[i] = "GET";
        struct egress_rule_source source = {.pattern = {.kind = PATTERN_ANY}, .protocol = EGRESS_HTTP, .n_ports = 1, .ports = (const uint16_t[1][2]){{80, 80}}, .text = "*",
                                            .methods = many, .n_methods = ARRAY_SIZE(many)};
        _cleanup_buffer_ struct buffer full = {0}, more = {0};
        assert_int_equal(egress_rules_write(&head, &source, 1, &more), -EINVAL);
        source.n_methods--;
        assert_int_equal(egress_rules_write(&head, &source, 1, &full), 0);
        head.connections_max = 0;
        _cleanup_buffer_ struct buffer b = {0};
        assert_int_equal(try_write(&head, NULL, 0, &b), -EINVAL);
}

/* ---- what is said ---- */

static char *explain(const struct egress_rules *r, const char *host, uint16_t port, const char *method, const char *path, enum egress_decision d, const char *detail,
                     char buf[static SENTENCE_MAX])
{
        struct host h;

        assert_int_equal(host_parse(host, strlen(host), &h), 0);
        struct egress_request q = {.host = &h, .port = port, .protocol = method ? EGRESS_HTTP : EGRESS_HTTPS, .method = method, .path = path};
        struct egress_verdict v = egress_judge(r, &q);
        if (d != EGRESS_ALLOWED)
                v.decision = d;
        egress_explain(r, &q, &v, detail, buf, SENTENCE_MAX);
        return buf;
}

static void test_explain(void **state)
{
        static const struct spec specs[] = {
                {"pypi.org", EGRESS_HTTPS, 443, 0, NULL, NULL, false, NULL},
                {"*.pythonhosted.org", EGRESS_HTTPS, 443, 0, NULL, NULL, false, NULL},
                {"deb.debian.org", EGRESS_HTTP, 80, 0, "GET", "/debian/", false, "Basic c2VjcmV0"},
                {"10.0.0.5", EGRESS_TCP, 5432, 5440, NULL, NULL, false, NULL},
        };
        char text[SENTENCE_MAX];
        _cleanup_buffer_ struct buffer b;
        const struct egress_rules *r = make(specs, ARRAY_SIZE(specs), &b);

        assert_string_equal(explain(r, "EVIL.com.", 443, NULL, NULL, 0, NULL, text),
                            "glovebox: \"evil.com\" is not in the allowlist of this sandbox, so the request was not sent. Allowed hosts: pypi.org:443, "
                            "*.pythonhosted.org:443, http://deb.debian.org:80, tcp://10.0.0.5:5432-5440. Do not retry; use an allowed host or ask the operator to "
                            "add evil.com:443 to "
                            "network_allow.");
        assert_string_equal(explain(r, "pypi.org", 22, NULL, NULL, 0, NULL, text),
                            "glovebox: port 22 of \"pypi.org\" is not in the allowlist of this sandbox, so the request was not sent. Allowed for this host: "
                            "pypi.org:443. Do not retry; use an allowed port or ask the operator to add pypi.org:22 (tcp://pypi.org:22 if it is not TLS) to "
                            "network_allow.");
        assert_non_null(strstr(explain(r, "pypi.org", 443, "GET", "/", 0, NULL, text), "use https://pypi.org:443/ instead"));
        assert_non_null(strstr(explain(r, "deb.debian.org", 80, NULL, NULL, 0, NULL, text), "use http://deb.debian.org:80/ instead"));
        assert_non_null(strstr(explain(r, "deb.debian.org", 80, "POST", "/", 0, NULL, text), "Allowed methods: GET."));
        assert_non_null(strstr(explain(r, "deb.debian.org", 80, "GET", "/x", 0, NULL, text), "Allowed paths begin with: /debian/."));
        assert_non_null(strstr(explain(r, "[2001:db8::1]", 80, "GET", "/x", 0, NULL, text), "add http://[2001:db8::1]:80 to network_allow"));
        assert_non_null(strstr(explain(r, "pypi.org", 443, NULL, NULL, EGRESS_NO_SNI, "evil.com", text), "asked for \"evil.com\""));
        assert_non_null(strstr(explain(r, "pypi.org", 443, NULL, NULL, EGRESS_NO_ADDRESS, "private", text), "network_ranges"));
        /* Of every kind there is one, and a header's value in none. */
        for (int d = 0; d < EGRESS_DECISION_COUNT; d++) {
                explain(r, "deb.debian.org", 80, "GET", "/debian/x\x1b[31m\n", (enum egress_decision)d, "a\nb\x1b[2J", text);
                assert_int_equal(strncmp(text, "glovebox: ", 10), 0);
                assert_int_equal(text[strlen(text) - 1], '.');
                assert_null(strstr(text, "c2VjcmV0"));
                assert_null(strpbrk(text, "\n\r\x1b"));
        }
        _cleanup_buffer_ struct buffer none;
        assert_non_null(strstr(explain(make(NULL, 0, &none), "a.com", 443, NULL, NULL, 0, NULL, text), "Allowed hosts: none. Do not retry; ask the operator"));
}

/* However much there is to say, it ends. */
static void test_explain_bounded(void **state)
{
        char label[64], name[HOST_TEXT_MAX] = "", text[SENTENCE_MAX];
        struct spec specs[SPECS_MAX];

        memset(label, 'a', 60);
        label[60] = '\0';
        snprintf(name, sizeof(name), "%.60s.%.60s.%.60s.%.60s", label, label, label, label);
        for (size_t i = 0; i < SPECS_MAX; i++)
                specs[i] = (struct spec){name, EGRESS_HTTP, 80, 90, "GET", "/a", false, NULL};
        _cleanup_buffer_ struct buffer b;
        const struct egress_rules *r = make(specs, SPECS_MAX, &b);
        for (int d = 0; d < EGRESS_DECISION_COUNT; d++) {
                memset(text, 'x', sizeof(text));
                explain(r, name, 80, "POST", "/a", (enum egress_decision)d, name, text);
                assert_in_range(strnlen(text, sizeof(text)), 10, sizeof(text) - 1);
        }
        explain(r, "b.com", 80, "GET", "/a", 0, NULL, text);
        assert_non_null(strstr(text, ", and 7 more. Do not retry"));
}

static void test_words(void **state)
{
        for (int d = 0; d < EGRESS_DECISION_COUNT; d++) {
                assert_true(strlen(egress_decision_word((enum egress_decision)d)) > 0);
                for (int k = 0; k < d; k++)
                        assert_string_not_equal(egress_decision_word((enum egress_decision)d), egress_decision_word((enum egress_decision)k));
        }
        assert_false(egress_is_denied(EGRESS_ALLOWED));
        assert_false(egress_is_denied(EGRESS_UNREACHED));
        assert_true(egress_is_denied(EGRESS_NO_RULE));
        assert_true(egress_is_denied(EGRESS_OVER_BYTES));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_hosts),      cmocka_unit_test(test_nothing),       cmocka_unit_test(test_reasons),
                cmocka_unit_test(test_methods),    cmocka_unit_test(test_paths),         cmocka_unit_test(test_property),
                cmocka_unit_test(test_may_dial),   cmocka_unit_test(test_block),         cmocka_unit_test(test_bad_blocks),
                cmocka_unit_test(test_write_refused), cmocka_unit_test(test_explain),    cmocka_unit_test(test_explain_bounded),
                cmocka_unit_test(test_words),         cmocka_unit_test(test_bodies),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
