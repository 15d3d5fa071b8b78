/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets of a request. They are in the policy of its session from here on, and nowhere else: not in the journal, not in an answer, and no error repeats one. */
#include "server/fields.h"

#include <errno.h>
#include <string.h>

static const char wanted[] = "each is a text, or {\"value\": text, \"file\": \"" SECRETS_DIR "/NAME\"}";

static bool is_plain(const char *name)
{
        size_t n = strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_");

        return n > 0 && n < RULE_NAME_MAX && name[n] == '\0' && (*name < '0' || *name > '9');
}

static int add(struct fields *f, struct policy *p, const char *name, const json_t *value, gb_error *err)
{
        const json_t *text = json_is_object(value) ? json_object_get(value, "value") : value;
        const json_t *file = json_object_get(value, "file");
        gb_error why = {0};

        if (!json_is_string(text) || (file && !json_is_string(file)) || (json_is_object(value) && json_object_size(value) != (file ? 2 : 1)))
                return fields_error(f, "secrets", GB_E_USAGE, err, "%s", wanted);
        /* Not by the policy, which would repeat it: it may be the value, in the wrong place. */
        if (file && strncmp(json_string_value(file), SECRETS_DIR "/", strlen(SECRETS_DIR) + 1) != 0)
                return fields_error(f, "secrets", GB_E_USAGE, err, "files of secrets lie in " SECRETS_DIR ": %s", wanted);
        /* Nor what may be a value that stands where its name should. */
        if (!is_plain(name))
                return fields_error(f, "secrets", GB_E_USAGE, err, "each has the name of a variable: letters, digits and _, at most %d; %s", RULE_NAME_MAX - 1, wanted);
        if (policy_add_secret(p, name, json_string_value(text), json_string_length(text), json_string_value(file), &why) < 0)
                return fields_error(f, "secrets", (gb_error_code)why.code, err, "%s", why.message);
        return 0;
}

int fields_secrets(struct fields *f, struct policy *p, gb_error *err)
{
        const json_t *object = NULL;
        const char *name;
        json_t *value;

        int r = fields_object(f, "secrets", &object, err);
        if (r < 0 || !object)
                return r;
        json_object_foreach((json_t *)(uintptr_t)object, name, value) {
                r = add(f, p, name, value, err);
                if (r < 0)
                        return r;
        }
        return policy_validate(p, err);
}

static void wipe(const json_t *value)
{
        const char *key;
        json_t *member;
        size_t i;

        if (json_is_string(value))
                explicit_bzero((char *)(uintptr_t)json_string_value(value), json_string_length(value));
        json_object_foreach((json_t *)(uintptr_t)value, key, member) {
                wipe(member);
        }
        json_array_foreach(value, i, member) {
                wipe(member);
        }
}

void fields_wipe_secrets(json_t *body)
{
        wipe(json_object_get(body, "secrets"));
        wipe(json_object_get(json_object_get(body, "policy"), "network_allow")); /* values of headers */
        wipe(json_object_get(body, "allow"));
}
