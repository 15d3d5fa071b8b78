/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox image list, glovebox image rm, and what the other verbs of it share. */
#include "cli/image.h"

#include "base/json.h"
#include "cli/events.h"
#include "cli/human.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "cli/table.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

int image_fail(const struct arguments *a, const gb_error *err)
{
        if (err->errnum != ECANCELED)
                return command_fail(a, err);
        (void)command_fail(a, err);
        return STATUS_INTERRUPTED;
}

void image_progress(void *data, uint64_t bytes)
{
        progress_show(data, bytes);
}

int image_report(const struct arguments *a, const json_t *about)
{
        _cleanup_buffer_ struct buffer text;
        char size[HUMAN_TEXT_MAX];
        json_int_t entries = json_integer_value(json_object_get(about, "entries")), skipped = json_integer_value(json_object_get(about, "skipped"));

        buffer_init(&text, TEXT_BYTES_MAX);
        if (arguments_has(a, OPT_JSON))
                return output_json(about);
        (void)buffer_printf(&text, "%s: %s", json_string_value(json_object_get(about, "name")), human_json_size(json_object_get(about, "bytes"), size));
        if (entries > 0)
                (void)buffer_printf(&text, ", %" JSON_INTEGER_FORMAT " files and directories", entries);
        if (skipped > 0)
                (void)buffer_printf(&text, ", %" JSON_INTEGER_FORMAT " device%s left out", skipped, skipped == 1 ? "" : "s");
        (void)buffer_printf(&text, "%s\n", json_is_true(json_object_get(about, "verified")) ? ", verified" : "");
        return output_text(&text);
}

/* ---- list ---- */

static int print_names(const json_t *list)
{
        _cleanup_buffer_ struct buffer text;
        const json_t *item;
        size_t i;

        buffer_init(&text, TEXT_BYTES_MAX);
        json_array_foreach(list, i, item) {
                (void)buffer_printf(&text, "%s\n", json_string_value(json_object_get(item, "name")));
        }
        return output_text(&text);
}

static int print_table(const json_t *list)
{
        static const struct table_column columns[] = {
                {"NAME", .min = 16}, {"SIZE", .right = true}, {"CREATED", .drop = 2}, {"SOURCE", .min = 12, .drop = 1}, {"VERIFIED", .drop = 3},
        };
        _cleanup_table_ struct table t;
        char size[HUMAN_TEXT_MAX];
        const json_t *item;
        size_t i;

        table_init(&t, columns, ARRAY_SIZE(columns));
        json_array_foreach(list, i, item) {
                const json_t *verified = json_object_get(item, "verified");
                table_add(&t, (const char *const[]){
                                      json_string_value(json_object_get(item, "name")),
                                      human_json_size(json_object_get(item, "bytes"), size),
                                      json_string_value(json_object_get(item, "created")),
                                      json_string_value(json_object_get(item, "source")),
                                      json_is_boolean(verified) ? json_is_true(verified) ? "yes" : "no" : NULL,
                              });
        }
        return table_print(&t);
}

int command_image_list(const struct command *command, const struct arguments *arguments)
{
        _cleanup_json_ json_t *list = NULL;
        _cleanup_policy_ struct policy *policy = NULL;
        gb_error err = {0};

        int r = settings_policy(&command->options, arguments, &policy, &err);
        bool engine = r == 0 && policy->backend == BACKEND_DOCKER;
        if (r == 0)
                r = engine ? image_engine_list(&list, &err) : image_store_list(&list, &err);
        if (r < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_JSON)) {
                _cleanup_json_ json_t *whole = json_pack("{s:s, s:O}", "backend", engine ? "docker" : "native", "images", list);
                return output_json(whole);
        }
        if (arguments_has(arguments, OPT_QUIET))
                return print_names(list);
        if (json_array_size(list) == 0) {
                message_print(MESSAGE_PLAIN, "there is no image%s; 'glovebox image build glovebox-python%s' makes one", engine ? " at the engine" : "",
                              engine ? " --backend docker" : "");
                return 0;
        }
        return print_table(list);
}

/* ---- rm ---- */

/* What has failed is told as it comes; the first failure is the command's. */
static int remove_images(const struct policy *policy, const struct arguments *a, json_t *removed, gb_error *err)
{
        int first = 0;

        for (size_t i = 0; i < a->n_words; i++) {
                gb_error one = {0};
                int r = policy->backend == BACKEND_DOCKER ? image_engine_remove(a->words[i], &one) : image_store_remove(a->words[i], &one);
                if (r == 0) {
                        json_array_append_new(removed, json_string(a->words[i]));
                        continue;
                }
                message_print(MESSAGE_ERROR, "%s", one.message);
                if (first == 0) {
                        first = r;
                        *err = one;
                }
        }
        return first;
}

int command_image_rm(const struct command *command, const struct arguments *arguments)
{
        _cleanup_json_ json_t *removed = json_array();
        _cleanup_policy_ struct policy *policy = NULL;
        gb_error err = {0};
        int r = arguments->n_words > 0 ? 0 : error_set(&err, GB_E_USAGE, 0, "give the names of images; 'glovebox image list' shows them");

        if (r == 0)
                r = settings_policy(&command->options, arguments, &policy, &err);
        if (r < 0)
                return command_fail(arguments, &err);
        r = remove_images(policy, arguments, removed, &err);
        int status = r < 0 ? error_exit_status(err.code) : 0;
        if (!arguments_has(arguments, OPT_JSON))
                return status;
        _cleanup_json_ json_t *whole = r < 0 ? error_to_json(&err, false) : json_object();
        json_object_set(whole, "removed", removed);
        int written = output_json(whole);
        return status ? status : written;
}
