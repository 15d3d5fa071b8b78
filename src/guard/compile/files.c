/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of files that hold credentials: mounts hide them (hide/). They stand with the rule that finds them in code, so that there is one list. */
#include "guard/compile/compile.h"

#include "base/quote.h"

#include <ctype.h>
#include <string.h>

#define NAME_BYTES_MAX 128

/* Lower case, since case does not count, and at most the last two parts of a path. */
static bool is_name(const char *text)
{
        const char *slash = strchr(text, '/');

        for (const char *c = text; *c; c++)
                if (!isprint((unsigned char)*c) || isupper((unsigned char)*c) || *c == '\\')
                        return false;
        if (slash && (slash == text || slash[1] == '\0' || strchr(slash + 1, '/')))
                return false;
        return *text && strlen(text) <= NAME_BYTES_MAX;
}

static int check_name(void *data, const struct place *at, const char *text, gb_error *err)
{
        return is_name(text) ? 0 : place_error(at, NULL, err, "%s is not a file name pattern; allowed: at most %d lower-case characters with "
                                               "*, ? and [...] as in a shell, and at most one / inside", quote(text).text, NAME_BYTES_MAX);
}

int entry_files(struct piece *p, const struct entry *e, struct code_rule *rule, gb_error *err)
{
        static const char *const keys[RULE_FILES_KINDS] = {"files", "files_shown", "files_with_keys"};
        int r = 0;

        for (int kind = 0; r == 0 && kind < RULE_FILES_KINDS; kind++) {
                r = entry_texts(e, keys[kind], false, check_name, NULL, err);
                if (r == 0)
                        r = entry_list(p, e, keys[kind], &rule->files[kind], err);
        }
        return r;
}
