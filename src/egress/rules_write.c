/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/rules_write.h"

#include <errno.h>
#include <string.h>

/* Texts are written behind the rules; base: where those end. */
struct texts {
        struct buffer buffer;
        size_t base;
};

static void texts_done(struct texts *t)
{
        buffer_done(&t->buffer);
}

static int add_text(struct texts *t, const char *text)
{
        return buffer_add(&t->buffer, text, strlen(text) + 1);
}

static uint32_t here(const struct texts *t)
{
        return (uint32_t)(t->base + t->buffer.size);
}

static int add_list(struct texts *t, const char *const *items, size_t n, uint32_t *ret)
{
        uint32_t offset = here(t);
        int r = 0;

        if (n == 0)
                return 0;
        for (size_t i = 0; r == 0 && i < n; i++)
                r = add_text(t, items[i]);
        if (r == 0)
                r = add_text(t, "");
        *ret = offset;
        return r;
}

static int add_rule(struct texts *t, const struct egress_rule_source *source, struct egress_rule *ret)
{
        *ret = (struct egress_rule){.pattern = source->pattern, .protocol = source->protocol, .intercept = source->intercept, .n_ports = source->n_ports,
                                    .text = here(t)};
        if (source->n_ports > NETWORK_PORTS_MAX)
                return -EINVAL;
        for (size_t i = 0; i < source->n_ports; i++) {
                ret->ports[i].first = source->ports[i][0];
                ret->ports[i].last = source->ports[i][1];
        }
        int r = add_text(t, source->text);
        if (r == 0)
                r = add_list(t, source->methods, source->n_methods, &ret->methods);
        if (r == 0)
                r = add_list(t, source->paths, source->n_paths, &ret->paths);
        if (r == 0)
                r = add_list(t, source->n_headers > 0 ? source->headers[0] : NULL, 2 * source->n_headers, &ret->headers);
        return r;
}

int egress_rules_write(const struct egress_rules *head, const struct egress_rule_source *rules, size_t n_rules, struct buffer *ret)
{
        _cleanup_(texts_done) struct texts texts = {.base = sizeof(*head) + n_rules * sizeof(struct egress_rule)};
        _cleanup_buffer_ struct buffer block;
        struct egress_rules first = *head;
        int r = 0;

        buffer_init(&block, EGRESS_POLICY_BYTES_MAX);
        buffer_init(&texts.buffer, EGRESS_POLICY_BYTES_MAX);
        block.secret = texts.buffer.secret = true;
        if (n_rules > NETWORK_RULES_MAX)
                return -EINVAL;
        _cleanup_free_ struct egress_rule *made = calloc(n_rules + 1, sizeof(*made));
        if (!made)
                return -ENOMEM;
        for (size_t i = 0; r == 0 && i < n_rules; i++)
                r = add_rule(&texts, &rules[i], &made[i]);
        if (r < 0)
                return r;
        first.version = EGRESS_RULES_VERSION;
        first.n_rules = (uint32_t)n_rules;
        first.reserved = 0;
        first.size = here(&texts);
        r = buffer_add(&block, &first, sizeof(first));
        if (r == 0)
                r = buffer_add(&block, made, n_rules * sizeof(*made));
        if (r == 0)
                r = buffer_add(&block, texts.buffer.data, texts.buffer.size);
        if (r < 0)
                return r;
        if (!egress_rules_valid(block.data, block.size))
                return -EINVAL;
        *ret = block;
        block = (struct buffer){.max = block.max};
        return 0;
}
