/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules as one text, as flags and most files have them. */
#include "policy/network_rule.h"

#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <string.h>

/* What stands before "://"; *text goes behind that. */
static int read_scheme(struct network_rule *r, const char **text, bool *ret_has, gb_error *err)
{
        const char *mark = strstr(*text, "://");

        *ret_has = mark;
        if (!mark)
                return 0;
        int result = network_rule_set_protocol(r, *text, (size_t)(mark - *text), err);
        *text = mark + 3;
        return result;
}

/* "GET,HEAD " before all the rest. */
static int read_methods(struct network_rule *r, const char **text, gb_error *err)
{
        const char *blank = strchr(*text, ' '), *at = *text;
        int result = 0;

        if (!blank)
                return 0;
        while (result == 0 && at <= blank) {
                size_t n = strcspn(at, ", ");
                result = network_rule_add_method(r, at, n, err);
                at += n + 1;
        }
        *text = blank + 1;
        return result;
}

/* "HOST[:PORTS]", size bytes of it. */
static int read_authority(struct network_rule *r, const char *text, size_t size, gb_error *err)
{
        const char *bracket = text[0] == '[' ? memchr(text, ']', size) : NULL;
        const char *colon = bracket ? bracket + 1 : memchr(text, ':', size);
        size_t host_size = colon ? (size_t)(colon - text) : size;

        if (memchr(text, '@', size))
                return error_set(err, GB_E_USAGE, EINVAL, "%s: a user or password does not belong into a rule", quote(text).text);
        /* Several colons, but no brackets: told as a host that is none. */
        if (!bracket && colon && memchr(colon + 1, ':', size - host_size - 1))
                return network_rule_set_host(r, text, size, err);
        int result = network_rule_set_host(r, text, host_size, err);
        if (result < 0 || host_size == size)
                return result;
        if (*colon != ':')
                return error_set(err, GB_E_USAGE, EINVAL, "%s: behind the host there is room for \":\" and ports only", quote(text).text);
        return network_rule_add_ports(r, colon + 1, size - host_size - 1, err);
}

static int read_rule(struct network_rule *r, const char *text, gb_error *err)
{
        const char *whole = text;
        bool has_scheme;

        int result = read_methods(r, &text, err);
        if (result == 0)
                result = read_scheme(r, &text, &has_scheme, err);
        if (result < 0)
                return result;
        if (strpbrk(text, "?#"))
                return error_set(err, GB_E_USAGE, EINVAL, "%s has a query or a fragment; a rule has neither", quote(whole).text);
        const char *path = strchr(text, '/');
        result = read_authority(r, text, path ? (size_t)(path - text) : strlen(text), err);
        if (result < 0)
                return result;
        if (path && !has_scheme)
                return error_set(err, GB_E_USAGE, EINVAL, "%s has a path but no scheme; allowed: http://HOST/PATH%s", quote(whole).text,
                                 r->pattern.host.kind == HOST_ADDRESS ? " (ranges of addresses are for network_ranges)" : "");
        /* "/" alone is all of it. */
        if (path && path[1] != '\0')
                result = network_rule_add_path(r, path, err);
        return result < 0 ? result : network_rule_finish(r, has_scheme, err);
}

static int add_one(struct policy *p, const char *text, bool intercepted, gb_error *err)
{
        _cleanup_network_rule_ struct network_rule *r = network_rule_new();

        if (!r)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        r->intercept = intercepted;
        int result = read_rule(r, text, err);
        return result < 0 ? result : network_rule_add(p, TAKE_PTR(r), err);
}

int network_allow_add_text(struct policy *p, const char *text, gb_error *err)
{
        bool intercepted = false;
        const char *const *rules = network_preset_rules(text, &intercepted), *const *presets = network_presets();
        size_t before, n = 0;
        int r = 0;

        network_allow_begin(p);
        before = p->n_network_allow;
        if (!rules && !strpbrk(text, ".:/*[ ")) {
                while (presets[n])
                        n++;
                const char *near = suggest_nearest(text, presets, n);
                if (near)
                        return error_set(err, GB_E_USAGE, EINVAL, "%s is not a preset; did you mean %s? a host of that name is written with its port", quote(text).text,
                                         near);
        }
        if (!rules)
                return add_one(p, text, false, err);
        for (size_t i = 0; r == 0 && rules[i]; i++)
                r = add_one(p, rules[i], intercepted, err);
        /* All of a preset or nothing of it. */
        while (r < 0 && p->n_network_allow > before)
                network_rule_free(p->network_allow[--p->n_network_allow]);
        return r;
}

int network_range_add_text(struct policy *p, const char *text, gb_error *err)
{
        struct address_range range;

        if (address_range_parse(text, strlen(text), &range) < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not a range of addresses; allowed: 10.0.0.0/8, fd00::/8 or one address, with no bits behind the "
                                                          "prefix", quote(text).text);
        for (size_t i = 0; i < p->n_network_ranges; i++)
                if (p->network_ranges[i].bits == range.bits && address_equals(&p->network_ranges[i].first, &range.first))
                        return 0;
        if (p->n_network_ranges == NETWORK_RANGES_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many ranges; at most %d", NETWORK_RANGES_MAX);
        p->network_ranges[p->n_network_ranges++] = range;
        return 0;
}
