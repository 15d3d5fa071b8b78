/* SPDX-License-Identifier: Apache-2.0
 *
 * The same text as a policy file, as a table of languages, and as the value of each key. */
#include "policy/language.h"
#include "policy/policy.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void set_all(struct policy *p, const char *value)
{
        static const char *const lists[] = {"mounts", "env", "allow_weaker", "network_allow", "network_ranges"};
        gb_error err;

        for (size_t i = 0; i < n_policy_options; i++)
                policy_set(p, policy_options[i].key, value, "--flag", &err);
        for (size_t i = 0; i < ARRAY_SIZE(lists); i++)
                policy_set(p, lists[i], value, "--flag", &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_policy_ struct policy *p = NULL, *plain = NULL;
        _cleanup_languages_ struct languages *l = NULL;
        _cleanup_free_ char *text = strndup((const char *)data, size);
        gb_error err = {0};

        if (!text)
                return 0;
        if (policy_parse("x.yaml", (const char *)data, size, NULL, &p, &err) < 0) {
                if (p || err.code == GB_E_NONE || err.message[0] == '\0')
                        abort();
        } else if (policy_validate(p, &err) < 0) {
                abort(); /* the file was taken, so it must be good as it stands */
        }
        languages_parse("x.yaml", (const char *)data, size, &l, &err);

        if (policy_parse("x.yaml", "", 0, NULL, &plain, &err) < 0)
                abort();
        set_all(plain, text);
        policy_validate(plain, &err);
        return 0;
}
