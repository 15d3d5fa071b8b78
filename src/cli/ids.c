/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/ids.h"

#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define DIGITS "0123456789abcdef"

static bool is_whole(const char *text)
{
        return strlen(text) == RESPONSE_ID_MAX - 1 && strspn(text, DIGITS) == RESPONSE_ID_MAX - 1;
}

static bool is_beginning(const char *text)
{
        size_t n = strlen(text);

        return n >= ID_PREFIX_MIN && n < RESPONSE_ID_MAX && strspn(text, DIGITS) == n;
}

/* The one that is meant. A name that is exactly so comes before ids that begin so. */
static int choose(const json_t *list, const char *text, const char *what, const char *verb, char ret[static RESPONSE_ID_MAX], gb_error *err)
{
        const char *named = NULL, *begun = NULL;
        size_t i, n_named = 0, n_begun = 0;
        json_t *item;

        json_array_foreach((json_t *)list, i, item) {
                const char *id = json_member(item, "id", ""), *name = json_member(item, "name", NULL);
                if (!is_whole(id))
                        continue;
                if (name && strcmp(name, text) == 0 && ++n_named)
                        named = id;
                if (is_beginning(text) && strncmp(id, text, strlen(text)) == 0 && ++n_begun)
                        begun = id;
        }
        if (n_named > 1 || (n_named == 0 && n_begun > 1))
                return error_set(err, GB_E_USAGE, ENOTUNIQ, "%s could be %zu %ss; give more digits of the id ('glovebox %s')", quote(text).text,
                                 n_named > 1 ? n_named : n_begun, what, verb);
        if (n_named + n_begun == 0)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no %s %s; 'glovebox %s' lists them", what, quote(text).text, verb);
        memcpy(ret, n_named > 0 ? named : begun, RESPONSE_ID_MAX);
        return 0;
}

static int find(struct service *s, const char *text, const char *target, const char *key, const char *what, const char *verb,
                char ret[static RESPONSE_ID_MAX], gb_error *err)
{
        _cleanup_json_ json_t *list = NULL;

        if (is_whole(text)) {
                memcpy(ret, text, RESPONSE_ID_MAX);
                return 0;
        }
        int r = service_list(s, target, key, &list, err);
        return r < 0 ? r : choose(list, text, what, verb, ret, err);
}

int ids_find_session(struct service *s, const char *text, char ret[static RESPONSE_ID_MAX], gb_error *err)
{
        return find(s, text, "/v1/sessions", "sessions", "session", "session ls", ret, err);
}

int ids_find_run(struct service *s, const char *text, char ret[static RESPONSE_ID_MAX], gb_error *err)
{
        if (!is_whole(text) && !is_beginning(text))
                return error_set(err, GB_E_USAGE, EINVAL, "%s is no id of a run: those are %d hex digits, of which %d or more from the beginning are enough",
                                 quote(text).text, RESPONSE_ID_MAX - 1, ID_PREFIX_MIN);
        return find(s, text, "/v1/runs", "runs", "run", "ps --all", ret, err);
}

int ids_find(struct service *s, const char *text, char ret[static RESPONSE_ID_MAX], bool *ret_is_run, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        char target[64];

        int r = ids_find_session(s, text, ret, err);
        if (r == 0 && is_whole(text)) {
                snprintf(target, sizeof(target), "/v1/sessions/%s", text);
                r = service_call(s, "GET", target, NULL, &answer, err);
        }
        *ret_is_run = r < 0 && err->code == GB_E_NOT_FOUND && (is_whole(text) || is_beginning(text));
        if (!*ret_is_run)
                return r;
        r = ids_find_run(s, text, ret, err);
        if (r < 0 && err->code == GB_E_NOT_FOUND)
                error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no session and no run %s; 'glovebox ps' lists them", quote(text).text);
        return r;
}
