/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/language.h"

#include "base/json.h"
#include "cli/command.h"
#include "cli/output.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

static int add_joined(struct buffer *out, char *const *words, const char *before, const char *between)
{
        int r = 0;

        for (size_t i = 0; words[i] && r == 0; i++)
                r = buffer_printf(out, "%s%s%s", i > 0 ? between : "", before, words[i]);
        return r;
}

static int add_row(struct buffer *out, const struct language *l)
{
        _cleanup_buffer_ struct buffer extensions;

        buffer_init(&extensions, 1024);
        int r = add_joined(&extensions, l->extensions, ".", " ");
        if (r == 0)
                r = buffer_printf(out, "%-12s %-18s %-6s %-8s ", l->name, extensions.size > 0 ? extensions.data : "-",
                                  language_is_found(l) ? "yes" : "no", l->context ? l->context : "-");
        if (r == 0 && l->compile[0]) {
                r = add_joined(out, l->compile, "", " ");
                if (r == 0)
                        r = buffer_add_string(out, "; ");
        }
        if (r == 0)
                r = add_joined(out, l->run, "", " ");
        return r < 0 ? r : buffer_add_string(out, "\n");
}

static int write_table(const struct languages *l, bool names_only, struct buffer *out)
{
        int r = names_only ? 0
                           : buffer_printf(out, "%-12s %-18s %-6s %-8s %s\n", "LANGUAGE", "EXTENSIONS", "FOUND", "CONTEXT",
                                           "COMMAND");

        for (size_t i = 0; i < l->n && r == 0; i++)
                r = names_only ? buffer_printf(out, "%s\n", l->rows[i].name) : add_row(out, &l->rows[i]);
        return r;
}

static json_t *strings_to_json(char *const *words)
{
        json_t *list = json_array();

        for (size_t i = 0; words[i]; i++)
                json_array_append_new(list, json_string(words[i]));
        return list;
}

static json_t *languages_to_json(const struct languages *l)
{
        json_t *list = json_array();

        for (size_t i = 0; i < l->n; i++) {
                const struct language *row = &l->rows[i];
                json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:b, s:s?}", "name", row->name, "aliases",
                                                      strings_to_json(row->aliases), "extensions",
                                                      strings_to_json(row->extensions), "compile",
                                                      strings_to_json(row->compile), "command",
                                                      strings_to_json(row->run), "found", language_is_found(row),
                                                      "context", row->context));
        }
        return json_pack("{s:o}", "languages", list);
}

int command_languages(const struct command *command, const struct arguments *arguments)
{
        _cleanup_languages_ struct languages *languages = NULL;
        _cleanup_buffer_ struct buffer text;
        gb_error err = {0};

        buffer_init(&text, TEXT_BYTES_MAX);
        if (languages_load(NULL, &languages, &err) < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON)) {
                _cleanup_json_ json_t *json = languages_to_json(languages);
                return output_json(json);
        }
        if (write_table(languages, arguments_has(arguments, OPT_NAMES), &text) < 0) {
                error_set(&err, GB_E_INTERNAL, ENOMEM, "out of memory");
                return command_fail(arguments, &err);
        }
        return output_text(&text);
}
