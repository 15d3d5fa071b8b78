/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/network_rules.h"

#include "base/quote.h"
#include "egress/protocol.h"
#include "egress/rules_write.h"
#include "policy/network.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

_Static_assert(NETWORK_PROXY_PORT == EGRESS_PORT, "programs in the box look for the proxy where it is");

#define SECRET_BEGIN "${secret:"

static const struct policy_secret *find_secret(const struct policy *p, const char *name, size_t size)
{
        for (size_t i = 0; i < p->n_secrets; i++)
                if (strlen(p->secrets[i].name) == size && memcmp(p->secrets[i].name, name, size) == 0)
                        return &p->secrets[i];
        return NULL;
}

/* What would end the field and begin another. */
static bool fits_header(const struct policy_secret *s)
{
        for (size_t i = 0; i < s->size; i++) {
                unsigned char c = (unsigned char)s->value[i];
                if ((c < ' ' && c != '\t') || c == 0x7f)
                        return false;
        }
        return true;
}

static int add_secret(struct buffer *to, const struct network_rule *rule, const struct policy *secrets, const char *name, size_t size, gb_error *err)
{
        char text[RULE_NAME_MAX];
        const struct policy_secret *s = find_secret(secrets, name, size);

        snprintf(text, sizeof(text), "%.*s", (int)MIN(size, sizeof(text) - 1), name);
        if (!s)
                return error_set(err, GB_E_USAGE, ENOENT, "the rule %s needs the secret %s, which this run or session does not have: give it one of that name",
                                 quote(rule->text).text, quote(text).text);
        if (!fits_header(s))
                return error_set(err, GB_E_USAGE, EINVAL, "the secret %s cannot stand in a header, as the rule %s wants it: it has a line break or a control character",
                                 quote(text).text, quote(rule->text).text);
        return buffer_add(to, s->value, s->size);
}

/* The value of a header with secrets in their places. */
static int fill(struct buffer *to, const struct network_rule *rule, const char *value, const struct policy *secrets, gb_error *err)
{
        for (const char *at = value;;) {
                const char *begin = strstr(at, SECRET_BEGIN), *end = begin ? strchr(begin, '}') : NULL;
                int r = buffer_add(to, at, end ? (size_t)(begin - at) : strlen(at));
                if (r == 0 && !end)
                        return 0;
                const char *name = begin + strlen(SECRET_BEGIN);
                gb_error why = {0};
                if (r == 0)
                        r = add_secret(to, rule, secrets, name, (size_t)(end - name), &why);
                if (r < 0 && why.code != GB_E_NONE) {
                        if (err)
                                *err = why;
                        return r;
                }
                if (r < 0)
                        return error_set(err, GB_E_LIMIT, -r, "a header of the rule %s is too long with its secrets", quote(rule->text).text);
                at = end + 1;
        }
}

/* The values of one rule; they point into buffers that are wiped. */
struct filled {
        struct buffer values[NETWORK_HEADERS_MAX];
        const char *headers[NETWORK_HEADERS_MAX][2];
};

static void filled_free(struct filled *f, size_t n)
{
        for (size_t i = 0; f && i < n; i++)
                for (size_t k = 0; k < NETWORK_HEADERS_MAX; k++)
                        buffer_done(&f[i].values[k]);
        free(f);
}

static int fill_rule(const struct network_rule *rule, const struct policy *secrets, struct filled *f, struct egress_rule_source *ret, gb_error *err)
{
        for (size_t i = 0; i < rule->n_headers; i++) {
                buffer_init(&f->values[i], NETWORK_HEADER_VALUE_MAX - 1);
                f->values[i].secret = true;
                int r = fill(&f->values[i], rule, rule->headers[i].value, secrets, err);
                if (r < 0)
                        return r;
                f->headers[i][0] = rule->headers[i].name;
                f->headers[i][1] = f->values[i].data ? f->values[i].data : "";
        }
        *ret = (struct egress_rule_source){
                .pattern = rule->pattern, .protocol = (enum egress_protocol)rule->protocol, .intercept = rule->intercept, .n_ports = (uint32_t)rule->n_ports,
                .ports = rule->ports, .text = rule->text, .methods = (const char *const *)rule->methods, .paths = (const char *const *)rule->paths,
                .n_methods = rule->n_methods, .n_paths = rule->n_paths, .headers = (const char *const(*)[2])f->headers, .n_headers = rule->n_headers,
        };
        return 0;
}

int network_rules_make(const struct policy *p, const struct policy *secrets, struct buffer *ret, gb_error *err)
{
        uint64_t connections = MIN(p->network_connections, (uint64_t)UINT32_MAX);
        struct egress_rules head = {
                .n_ranges = (uint32_t)p->n_network_ranges, .bytes_max = p->network_bytes, .requests_max = p->network_requests,
                .connections_max = (uint32_t)connections,
        };
        size_t n = p->n_network_allow;
        _cleanup_free_ struct egress_rule_source *sources = calloc(n + 1, sizeof(*sources));
        struct filled *filled = calloc(n + 1, sizeof(*filled));
        int r = 0;

        memcpy(head.ranges, p->network_ranges, p->n_network_ranges * sizeof(head.ranges[0]));
        if (!sources || !filled)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        for (size_t i = 0; r == 0 && i < n; i++)
                r = fill_rule(p->network_allow[i], secrets, &filled[i], &sources[i], err);
        if (r == 0) {
                r = egress_rules_write(&head, sources, n, ret);
                if (r < 0)
                        (void)error_set(err, r == -EFBIG ? GB_E_LIMIT : GB_E_INTERNAL, -r, "the rules of the network cannot be made: %s", strerror(-r));
        }
        filled_free(filled, n);
        return r;
}
