/* SPDX-License-Identifier: Apache-2.0
 *
 * The bounds of a payload. Who uses one after this said yes may follow every range and every
 * string in it. */
#include "warden/payload.h"

#include <string.h>

static bool range_valid(struct payload_range range, size_t size)
{
        return range.offset <= size && range.size <= size - range.offset;
}

/* Ranges of strings must end with a NUL, so that no reader runs past them. */
static bool strings_valid(const struct payload *p, struct payload_range range, size_t size)
{
        return range_valid(range, size) &&
               (range.size == 0 || ((const char *)p)[range.offset + range.size - 1] == '\0');
}

static bool op_valid(const struct payload *p, const struct box_op *op, size_t size)
{
        if (op->path[0] != '/' || !memchr(op->path, '\0', sizeof(op->path)))
                return false;
        if (op->kind == BOX_OP_SYMLINK)
                return op->data.size > 1 && strings_valid(p, op->data, size);
        return range_valid(op->data, size);
}

bool payload_valid(const struct payload *p, size_t size)
{
        if (size < sizeof(*p) || p->version != WARDEN_PROTOCOL_VERSION)
                return false;
        if (p->n_ops > BOX_OPS_MAX || p->n_commands > BOX_COMMANDS_MAX)
                return false;
        if (size < sizeof(*p) + p->n_ops * sizeof(p->ops[0]))
                return false;
        if (!strings_valid(p, p->env, size) || !memchr(p->cwd, '\0', sizeof(p->cwd)))
                return false;
        for (uint32_t i = 0; i < p->n_commands; i++)
                if (!strings_valid(p, p->commands[i], size))
                        return false;
        for (uint32_t i = 0; i < p->n_ops; i++)
                if (!op_valid(p, &p->ops[i], size))
                        return false;
        return true;
}
