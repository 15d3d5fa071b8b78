/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/template.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A row that was taken must be complete, and be found under its own name. */
static void check_row(const struct templates *t, const struct template *row)
{
        const struct template *found = NULL;
        gb_error err;

        if (template_by_name(t, row->name, &found, &err) < 0 || found != row)
                abort();
        if (!row->python || !*row->python || !row->description || row->pool > TEMPLATE_POOL_MAX)
                abort();
        if (row->rootfs && row->rootfs[0] != '/')
                abort();
        for (char *const *module = row->modules; *module; module++)
                if (!**module || strpbrk(*module, " '\"\\;()\n"))
                        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_templates_ struct templates *t = NULL;
        const struct template *row = NULL;
        gb_error err = {0};

        if (templates_parse("x.yaml", (const char *)data, size, &t, &err) < 0) {
                if (t || err.code == GB_E_NONE || err.message[0] == '\0')
                        abort();
                return 0;
        }
        for (size_t i = 0; i < t->n; i++)
                check_row(t, &t->rows[i]);
        if (template_by_name(t, "No such name", &row, &err) == 0 || row)
                abort();
        return 0;
}
