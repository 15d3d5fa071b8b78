/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/tools.h"

#include "base/buffer.h"
#include "base/limits.h"
#include "base/suggest.h"
#include "mcp/schema.h"
#include "mcp/tools_text.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#define LANGUAGES_PLACE "@LANGUAGES@" /* in the text, where those of this host come */
#define DESCRIPTION_BYTES_MAX (16 * KIB)
#define NAME_SHOWN_MAX 64 /* of a tool that there is not; a longer name is not repeated */

struct mcp_tools {
        json_t *list; /* {"tools": [...]}: the place in the array is the id */
};

DEFINE_CLEANUP(struct mcp_tools, mcp_tools_free)

void mcp_tools_free(struct mcp_tools *t)
{
        if (t)
                json_decref(t->list);
        free(t);
}

static const json_t *definition_of(const struct mcp_tools *t, size_t id)
{
        return json_array_get(json_object_get(t->list, "tools"), id);
}

static const char *name_of(const struct mcp_tools *t, size_t id)
{
        return json_string_value(json_object_get(definition_of(t, id), "name"));
}

/* ---- what depends on the host ---- */

static int describe(json_t *tool, const char *const *languages)
{
        const char *text = json_string_value(json_object_get(tool, "description")), *place = text ? strstr(text, LANGUAGES_PLACE) : NULL;
        _cleanup_buffer_ struct buffer b = {0};
        int r = 0;

        if (!place)
                return -EINVAL;
        buffer_init(&b, DESCRIPTION_BYTES_MAX);
        r = buffer_add(&b, text, (size_t)(place - text));
        for (size_t i = 0; r == 0 && languages[i]; i++)
                r = buffer_printf(&b, "%s%s", i == 0 ? "" : ", ", languages[i]);
        if (r == 0 && !languages[0])
                r = buffer_add_string(&b, "none");
        if (r == 0)
                r = buffer_add_string(&b, place + strlen(LANGUAGES_PLACE));
        if (r < 0)
                return r;
        return json_object_set_new(tool, "description", json_stringn(b.data, b.size)) < 0 ? -ENOMEM : 0;
}

/* A list of values must not be empty: without languages there is none, and it is for the call to say so. */
static int enumerate(json_t *tool, const char *const *languages)
{
        json_t *property = json_object_get(json_object_get(json_object_get(tool, "inputSchema"), "properties"), "language");
        _cleanup_json_ json_t *all = json_array();
        int r = 0;

        if (!languages[0])
                return json_object_del(property, "enum") < 0 ? -EINVAL : 0;
        for (size_t i = 0; languages[i]; i++)
                r |= json_array_append_new(all, json_string(languages[i]));
        r |= json_object_set(property, "enum", all);
        return r < 0 ? -ENOMEM : 0;
}

/* ---- */

struct mcp_tools *mcp_tools_new(const char *const *languages)
{
        static const char *const none[] = {NULL};
        _cleanup_(mcp_tools_free_ptr) struct mcp_tools *t = calloc(1, sizeof(*t));
        _cleanup_json_ json_t *tools = json_parse((const char *)mcp_tools_text, mcp_tools_size, JSON_REJECT_DUPLICATES, NULL);

        if (!t || json_array_size(tools) != TOOLS_N)
                return NULL;
        json_t *run_code = json_array_get(tools, TOOL_RUN_CODE);
        if (describe(run_code, languages ? languages : none) < 0 || enumerate(run_code, languages ? languages : none) < 0)
                return NULL;
        t->list = json_object();
        if (json_object_set(t->list, "tools", tools) < 0)
                return NULL;
        return TAKE_PTR(t);
}

json_t *mcp_tools_list(const struct mcp_tools *t)
{
        return json_incref(t->list);
}

/* ---- calls ---- */

/* Whether a name that somebody has sent can stand in a sentence of ours. */
static bool can_be_shown(const char *name)
{
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");

        return n > 0 && n <= NAME_SHOWN_MAX && name[n] == '\0';
}

static int unknown(const struct mcp_tools *t, const char *name, struct rpc_error *err)
{
        const char *names[TOOLS_N];
        char all[RPC_MESSAGE_MAX / 2] = "";

        for (size_t i = 0; i < TOOLS_N; i++) {
                names[i] = name_of(t, i);
                if (strlen(all) + strlen(names[i]) + sizeof(", ") <= sizeof(all))
                        strcat(strcat(all, i == 0 ? "" : ", "), names[i]);
        }
        if (!name)
                return rpc_fail(err, RPC_PARAMS, "params.name must be the name of a tool; there are: %s", all);
        if (!can_be_shown(name))
                return rpc_fail(err, RPC_PARAMS, "there is no tool of that name; there are: %s", all);
        const char *nearest = suggest_nearest(name, names, TOOLS_N);
        if (nearest)
                return rpc_fail(err, RPC_PARAMS, "there is no tool %s; did you mean %s? There are: %s", name, nearest, all);
        return rpc_fail(err, RPC_PARAMS, "there is no tool %s; there are: %s", name, all);
}

int mcp_tool_find(const struct mcp_tools *t, const char *name, struct mcp_tool *ret, struct rpc_error *err)
{
        for (size_t i = 0; name && i < TOOLS_N; i++) {
                if (strcmp(name_of(t, i), name) != 0)
                        continue;
                const json_t *definition = definition_of(t, i);
                *ret = (struct mcp_tool){
                        .id = (enum mcp_tool_id)i,
                        .name = name_of(t, i),
                        .definition = definition,
                        .input = json_object_get(definition, "inputSchema"),
                        .output = json_object_get(definition, "outputSchema"),
                };
                return 0;
        }
        return unknown(t, name, err);
}

int mcp_tool_check(const struct mcp_tool *tool, const json_t *arguments, struct rpc_error *err)
{
        _cleanup_json_ json_t *none = arguments ? NULL : json_object();
        char why[SCHEMA_WHY_MAX];

        if (!arguments && !none)
                return rpc_fail(err, RPC_INTERNAL, "out of memory");
        if (schema_check(tool->input, arguments ? arguments : none, "arguments", why) < 0)
                return rpc_fail(err, RPC_PARAMS, "%s", why);
        return 0;
}
