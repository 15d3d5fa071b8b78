/* SPDX-License-Identifier: Apache-2.0
 *
 * A rule as text and as JSON. What is taken is within itself, is shown as something that means the same, and holds nothing that could end a line of HTTP. */
#include "policy/network.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct policy *make(void)
{
        struct policy *p = NULL;

        if (policy_parse("x.yaml", "network_mode: allowlist\n", 24, NULL, &p, NULL) < 0)
                abort();
        return p;
}

static void check_again(const struct policy *p, const struct network_rule *r)
{
        _cleanup_policy_ struct policy *again = make();

        /* What the text does not say, or not in full. */
        if (r->intercept || r->n_headers > 0 || r->n_paths > 1 || strstr(r->text, "..."))
                return;
        if (network_allow_add_text(again, r->text, NULL) < 0 || again->n_network_allow != 1 || strcmp(again->network_allow[0]->text, r->text) != 0)
                abort();
        if (network_is_within(again, p, NULL) < 0)
                abort();
}

static void check(const struct policy *p)
{
        _cleanup_policy_ struct policy *copy = policy_copy(p);

        if (!copy || network_is_within(p, copy, NULL) < 0 || network_is_within(copy, p, NULL) < 0)
                abort();
        for (size_t i = 0; i < p->n_network_allow; i++) {
                const struct network_rule *r = p->network_allow[i];
                if (r->n_ports == 0 || strlen(r->text) >= NETWORK_RULE_TEXT_MAX || strpbrk(r->text, "\r\n"))
                        abort();
                for (size_t k = 0; k < r->n_headers; k++)
                        if (strpbrk(r->headers[k].value, "\r\n") || strpbrk(r->headers[k].name, "\r\n: "))
                                abort();
                json_decref(network_rule_to_json(r));
                check_again(p, r);
        }
        if (network_narrow(copy, p, NULL) < 0)
                abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_policy_ struct policy *p = make();
        _cleanup_free_ char *text = strndup((const char *)data, size);
        gb_error err = {0};

        if (!text)
                return 0;
        if (network_allow_add_text(p, text, &err) < 0 && (p->n_network_allow > 0 || err.message[0] == '\0'))
                abort();
        (void)network_range_add_text(p, text, &err);
        /* Not from a file: nothing of this host is read. */
        json_t *value = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, NULL);
        if (value)
                (void)network_allow_add_json(p, value, false, &err);
        json_decref(value);
        check(p);
        return 0;
}
