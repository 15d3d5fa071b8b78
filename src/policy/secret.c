/* SPDX-License-Identifier: Apache-2.0
 *
 * Secrets of one session. They never come from a policy file, an argument or a log; where they were in memory it is wiped. */
#include "policy/list.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "policy/network.h"

#include <errno.h>
#include <string.h>

static void wipe(struct policy_secret *s)
{
        if (s->value)
                explicit_bzero(s->value, s->size);
        free(s->name);
        free(s->value);
        free(s->path);
        *s = (struct policy_secret){0};
}

void secrets_clear(struct policy *p)
{
        while (p->n_secrets > 0)
                wipe(&p->secrets[--p->n_secrets]);
}

static size_t bytes_of_all(const struct policy *p)
{
        size_t sum = 0;

        for (size_t i = 0; i < p->n_secrets; i++)
                sum += p->secrets[i].size;
        return sum;
}

/* A name of one piece: "/run/secrets/NAME". */
static bool is_path(const char *path)
{
        size_t n = strlen(SECRETS_DIR);
        const char *name = path + n + 1;

        return strncmp(path, SECRETS_DIR, n) == 0 && path[n] == '/' && *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0 &&
               strlen(path) < BOX_PATH_MAX && strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-") == strlen(name);
}

static int check(const struct policy *p, const char *name, const char *value, size_t size, const char *path, gb_error *err)
{
        int r = env_check_name(name, err);

        if (r < 0)
                return r;
        if (strlen(name) >= RULE_NAME_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "the name of a secret can have %d characters at most", RULE_NAME_MAX - 1);
        if (size < SECRET_BYTES_MIN)
                return error_set(err, GB_E_USAGE, EINVAL, "the secret %s has less than %d bytes: too short to be found in what comes out; give it as an ordinary variable",
                                 quote(name).text, SECRET_BYTES_MIN);
        if (size > SECRET_BYTES_MAX || bytes_of_all(p) + size > SECRETS_BYTES_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "the secret %s is too large; at most %llu KiB each, %llu KiB in all", quote(name).text,
                                 SECRET_BYTES_MAX / KIB, SECRETS_BYTES_MAX / KIB);
        if (!path && memchr(value, '\0', size))
                return error_set(err, GB_E_USAGE, EINVAL, "the secret %s has a NUL byte, which no variable can have; deliver it as a file", quote(name).text);
        if (path && !is_path(path))
                return error_set(err, GB_E_USAGE, EINVAL, "%s is no place for a secret; allowed: " SECRETS_DIR "/NAME", quote(path).text);
        return 0;
}

int policy_add_secret(struct policy *p, const char *name, const void *value, size_t size, const char *path, gb_error *err)
{
        struct policy_secret *slot = NULL, made = {.size = size};

        int r = check(p, name, value, size, path, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < p->n_secrets; i++)
                if (strcmp(p->secrets[i].name, name) == 0)
                        slot = &p->secrets[i];
        if (!slot && p->n_secrets == SECRETS_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many secrets; at most %d", SECRETS_MAX);
        made.name = strdup(name);
        made.value = calloc(1, size + 1);
        made.path = path ? strdup(path) : NULL;
        if (!made.name || !made.value || (path && !made.path)) {
                wipe(&made);
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        memcpy(made.value, value, size);
        if (slot)
                wipe(slot);
        else
                slot = &p->secrets[p->n_secrets++];
        *slot = made;
        return 0;
}

bool policy_has_secret_files(const struct policy *p)
{
        for (size_t i = 0; i < p->n_secrets; i++)
                if (p->secrets[i].path && !network_uses_secret(p, p->secrets[i].name))
                        return true;
        return false;
}

/* ---- files ---- */

static int read_object(struct policy *p, const json_t *object, gb_error *err)
{
        const char *name;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)object, name, value) {
                const json_t *text = json_is_object(value) ? json_object_get(value, "value") : value;
                const char *path = json_is_object(value) ? json_string_value(json_object_get(value, "file")) : NULL;
                if (!json_is_string(text) || (json_is_object(value) && json_object_size(value) != (path ? 2 : 1)))
                        return error_set(err, GB_E_USAGE, EINVAL, "%s: a text, or {\"value\": text, \"file\": \"" SECRETS_DIR "/NAME\"} is wanted", quote(name).text);
                int r = policy_add_secret(p, name, json_string_value(text), json_string_length(text), path, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* One line; what stands between quotes is the value, else all up to blanks at the end. */
static int read_line(struct policy *p, char *line, size_t number, gb_error *err)
{
        line += strspn(line, " \t");
        if (*line == '\0' || *line == '#')
                return 0;
        if (strncmp(line, "export ", 7) == 0)
                line += 7;
        char *equals = strchr(line, '=');
        if (!equals)
                return error_set(err, GB_E_USAGE, EINVAL, "line %zu is not NAME=VALUE", number);
        *equals = '\0';
        /* It is not repeated: a line of a secret that has several may have a "=", too. */
        if (env_check_name(line, err) < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "line %zu is not NAME=VALUE: what stands before \"=\" is not a variable's name; values of several lines need JSON, or a file of their own", number);
        char *value = equals + 1;
        size_t n = strlen(value);
        while (n > 0 && strchr(" \t\r", value[n - 1]))
                n--;
        if (n >= 2 && (value[0] == '"' || value[0] == '\'') && value[n - 1] == value[0]) {
                value++;
                n -= 2;
        }
        int r = policy_add_secret(p, line, value, n, NULL, err);
        return r < 0 ? error_prefix(err, "line %zu", number) : 0;
}

static int read_lines(struct policy *p, char *text, gb_error *err)
{
        char *rest = text;
        int r = 0;

        for (size_t number = 1; r == 0 && rest; number++)
                r = read_line(p, strsep(&rest, "\n"), number, err);
        return r;
}

int policy_read_secrets(struct policy *p, int fd, const char *what, gb_error *err)
{
        json_error_t where;
        char *text = NULL;
        size_t size = 0;

        int r = fd_read_all(fd, 2 * SECRETS_BYTES_MAX, &text, &size);
        if (r < 0)
                return error_set(err, GB_E_USAGE, -r, "%s: cannot be read: %s", what, r == -EFBIG ? "it is too large" : strerror(-r));
        if (memchr(text, '\0', size)) {
                r = error_set(err, GB_E_USAGE, EINVAL, "it has a NUL byte");
        } else if (text[strspn(text, " \t\r\n")] == '{') {
                json_t *object = json_loadb(text, size, JSON_REJECT_DUPLICATES, &where);
                r = object ? read_object(p, object, err) : error_set(err, GB_E_USAGE, EINVAL, "line %d is not JSON", where.line);
                json_decref(object);
        } else {
                r = read_lines(p, text, err);
        }
        explicit_bzero(text, size);
        free(text);
        return r < 0 ? error_prefix(err, "%s", what) : 0;
}
