/* SPDX-License-Identifier: Apache-2.0
 *
 * A block of rules as the proxy gets it. What is taken for good can be judged by and spoken about without a step outside of it. */
#include "egress/rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const struct egress_rules *r)
{
        static const char *const hosts[] = {"a.com", "x.a.com", "127.0.0.1", "pypi.org"};
        static const char *const paths[] = {"/", "/a/b?c", "/a/../b", "/%2e"};
        static const uint16_t ports[] = {80, 443, 22};
        char text[64];

        for (size_t i = 0; i < 48; i++) {
                const char *name = hosts[i % 4];
                struct host host;
                if (host_parse(name, strlen(name), &host) < 0)
                        abort();
                struct egress_request q = {.host = &host, .port = ports[i % 3], .protocol = (enum egress_protocol)(i / 4 % 2), .method = i & 8 ? "GET" : NULL,
                                           .path = paths[i / 4 % 4]};
                struct egress_verdict v = egress_judge(r, &q);
                if ((v.decision == EGRESS_ALLOWED && !v.rule) || v.decision > EGRESS_NO_PATH || (r->n_rules == 0 && v.decision != EGRESS_NO_RULE))
                        abort();
                egress_explain(r, &q, &v, NULL, text, sizeof(text));
                if (strnlen(text, sizeof(text)) == sizeof(text))
                        abort();
        }
        for (size_t i = 0; i < r->n_rules; i++) {
                size_t n = 0;
                for (const char *item = egress_text(r, r->rules[i].headers); item; item = egress_list_next(item))
                        n++;
                if (n > 2 * NETWORK_HEADERS_MAX)
                        abort();
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        uint8_t *block = malloc(size > 0 ? size : 1); /* aligned, and no byte more than it is */
        const char *why;

        if (!block)
                return 0;
        memcpy(block, data, size);
        if (egress_rules_valid(block, size)) {
                const struct egress_rules *r = (const struct egress_rules *)(void *)block;
                use(r);
                egress_may_dial(r, &(struct address){{1}}, &why);
        }
        free(block);
        return 0;
}
