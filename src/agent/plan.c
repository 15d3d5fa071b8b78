/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/plan.h"

#include "base/macro.h"

#include <errno.h>
#include <string.h>

struct cursor {
        char *at, *end;
};

static char *take_text(struct cursor *c)
{
        char *text = c->at;
        char *nul = memchr(text, '\0', (size_t)(c->end - text));

        if (!nul)
                return NULL;
        c->at = nul + 1;
        return text;
}

static int take_list(struct cursor *c, uint32_t n, char **list, size_t max)
{
        if (n > max)
                return -EPROTO;
        for (uint32_t i = 0; i < n; i++)
                if (!(list[i] = take_text(c)))
                        return -EPROTO;
        list[n] = NULL;
        return 0;
}

int plan_parse(char *bytes, size_t size, struct plan *ret)
{
        struct cursor c = {bytes, bytes + size};

        if (size < sizeof(ret->head))
                return -EPROTO;
        memcpy(&ret->head, bytes, sizeof(ret->head));
        c.at += sizeof(ret->head);
        const struct wire_plan *h = &ret->head;
        if (h->flags & ~(WIRE_PLAN_CONTEXT | WIRE_PLAN_STDIN | WIRE_PLAN_FILES) || h->reserved != 0)
                return -EPROTO;
        if (!(ret->cwd = take_text(&c)) || !(ret->code_path = take_text(&c)) || strlen(ret->code_path) >= BOX_PATH_MAX)
                return -EPROTO;
        if (take_list(&c, h->n_compile, ret->compile, ARRAY_SIZE(ret->compile) - 1) < 0 ||
            take_list(&c, h->n_run, ret->run, ARRAY_SIZE(ret->run) - 1) < 0 || take_list(&c, h->n_env, ret->env, ARRAY_SIZE(ret->env) - 1) < 0)
                return -EPROTO;
        ret->code = c.at;
        if ((size_t)(c.end - c.at) != h->code_size)
                return -EPROTO;
        if (!(h->flags & WIRE_PLAN_FILES) && h->n_run == 0)
                return -EPROTO;
        return 0;
}
