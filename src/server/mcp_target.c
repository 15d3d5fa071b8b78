/* SPDX-License-Identifier: Apache-2.0 */
#include "server/mcp_target.h"

#include "base/quote.h"
#include "base/utf8.h"
#include "server/file_names.h"
#include "server/scrubbing.h"

#include <errno.h>
#include <string.h>

static int parse_uri(const json_t *arguments, const json_t *path, struct resource_uri *ret, gb_error *err)
{
        const char *text = json_string_value(path), *session = json_string_value(json_object_get(arguments, "session"));

        if (strlen(text) != json_string_length(path) || resource_uri_parse(text, ret) < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "%s is no address: they are as glovebox://sessions/ID/files/PATH or glovebox://runs/ID/stdout",
                                 quote(text).text);
        if (ret->kind == RESOURCE_FILE && session && strcmp(session, ret->id) != 0)
                return error_set(err, GB_E_CONFLICT, EINVAL, "the address names the session %s, and `session` another one: leave `session` out", ret->id);
        return 0;
}

int mcp_target_parse(const json_t *arguments, const char *fallback, struct resource_uri *ret, gb_error *err)
{
        const json_t *path = json_object_get(arguments, "path");
        const char *text = json_is_string(path) ? json_string_value(path) : fallback;
        size_t size = json_is_string(path) ? json_string_length(path) : fallback ? strlen(fallback) : 0;

        if (!text)
                return error_set(err, GB_E_USAGE, EINVAL, "path is missing");
        if (strncmp(text, RESOURCE_SCHEME, strlen(RESOURCE_SCHEME)) == 0)
                return parse_uri(arguments, path, ret, err);
        ret->kind = RESOURCE_FILE;
        ret->id[0] = '\0';
        return files_check_path(text, size, ret->path, err);
}

int mcp_target_check_looks(const json_t *arguments, gb_error *err)
{
        const char *session = json_string_value(json_object_get(arguments, "session"));

        if (!session || strcmp(session, "new") != 0)
                return 0;
        return error_set(err, GB_E_USAGE, EINVAL, "this tool only looks at a session, and makes none: give the handle of one instead of \"new\", or leave `session` out");
}

int mcp_target_session(struct mcp_call *c, const struct resource_uri *target, const json_t *arguments, bool make, struct live_session **ret, struct files *ret_files,
                       const char **ret_note, gb_error *err)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_json_ json_t *named = target->id[0] ? json_pack("{s:s}", "session", target->id) : NULL;

        if (target->id[0] && !named)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = make || named ? 0 : mcp_target_check_looks(arguments, err);
        if (r == 0)
                r = mcp_session_get(c, named ? named : arguments, make, &s, ret_note, err);
        if (r == 0)
                r = session_files(s->session, ret_files, err);
        if (r == 0)
                *ret = TAKE_PTR(s);
        return r;
}

int mcp_target_failed(struct mcp_call *c, const struct live_session *s, const struct resource_uri *target, const json_t *arguments, gb_error *error, json_t **ret,
                      struct rpc_error *err)
{
        _cleanup_live_session_ struct live_session *own = s ? NULL : mcp_session_own(c);
        const struct live_session *whose = s ? s : own;
        const struct scrub *scrub = whose ? session_scrub(whose->session) : NULL;
        const char *given = json_string_value(json_object_get(arguments, "path"));

        file_error_scrub(scrub, target->path, error);
        if (given)
                file_error_scrub(scrub, given, error);
        return mcp_tool_failed(c, whose, error, ret, err);
}

int mcp_target_set_names(json_t *o, const struct live_session *s, const char *path)
{
        _cleanup_json_ json_t *shown = scrubbed_text(session_scrub(s->session), path, strlen(path), NULL);
        _cleanup_free_ char *uri = shown ? resource_uri_file(s->id, json_string_value(shown)) : NULL;

        if (!uri)
                return -1;
        return json_object_set_new(o, "session", json_string(s->id)) | json_object_set(o, "path", shown) | json_object_set_new(o, "uri", json_string(uri));
}

int mcp_add_quoted(struct buffer *out, const char *name)
{
        int r = buffer_add_string(out, "\"");

        if (r == 0)
                r = mcp_add_name(out, name);
        return r == 0 ? buffer_add_string(out, "\"") : r;
}

int mcp_add_name(struct buffer *out, const char *name)
{
        size_t left = strlen(name);
        uint32_t c;
        int r = 0;

        while (left > 0 && r == 0) {
                size_t n = utf8_decode(name, left, &c);
                if (n > 0 && (c == '\\' || c == '"'))
                        r = buffer_printf(out, "\\%c", (char)c);
                else if (n > 0 && quote_is_printable(c))
                        r = buffer_add(out, name, n);
                else
                        r = buffer_printf(out, "\\x%02x", (unsigned char)*name);
                n = n > 0 && quote_is_printable(c) ? n : 1;
                name += n;
                left -= n;
        }
        return r;
}
