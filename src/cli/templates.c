/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/template.h"

#include "base/json.h"
#include "cli/command.h"
#include "cli/output.h"
#include "engine/warm.h"

#include <errno.h>
#include <jansson.h>

static size_t count_modules(const struct template *t)
{
        size_t n = 0;

        while (t->modules[n])
                n++;
        return n;
}

static int write_table(const struct templates *all, bool names_only, struct buffer *out)
{
        int r = names_only ? 0
                           : buffer_printf(out, "%-16s %-5s %-5s %-8s %-20s %s\n", "TEMPLATE", "WARM", "POOL", "MODULES", "IMAGE",
                                           "DESCRIPTION");

        for (size_t i = 0; i < all->n && r == 0; i++) {
                const struct template *t = &all->rows[i];
                r = names_only ? buffer_printf(out, "%s\n", t->name)
                               : buffer_printf(out, "%-16s %-5s %-5u %-8zu %-20s %s\n", t->name, warm_has(t) ? "yes" : "no", t->pool,
                                               count_modules(t), t->rootfs ? t->rootfs : "host", t->description);
        }
        return r;
}

static json_t *template_to_json(const struct template *t)
{
        json_t *modules = json_array();

        for (size_t i = 0; t->modules[i]; i++)
                json_array_append_new(modules, json_string(t->modules[i]));
        return json_pack("{s:s, s:b, s:i, s:s, s:s, s:o, s:s}", "name", t->name, "warm", warm_has(t), "pool", (int)t->pool, "rootfs",
                         t->rootfs ? t->rootfs : "host", "python", t->python, "modules", modules, "description", t->description);
}

static json_t *templates_to_json(const struct templates *all)
{
        json_t *list = json_array();

        for (size_t i = 0; i < all->n; i++)
                json_array_append_new(list, template_to_json(&all->rows[i]));
        return json_pack("{s:o}", "templates", list);
}

int command_templates(const struct command *command, const struct arguments *arguments)
{
        _cleanup_templates_ struct templates *all = NULL;
        _cleanup_buffer_ struct buffer text;
        gb_error err = {0};

        buffer_init(&text, TEXT_BYTES_MAX);
        if (templates_load(NULL, &all, &err) < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON)) {
                _cleanup_json_ json_t *json = templates_to_json(all);
                return output_json(json);
        }
        if (write_table(all, arguments_has(arguments, OPT_NAMES), &text) < 0) {
                error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
                return command_fail(arguments, &err);
        }
        return output_text(&text);
}
