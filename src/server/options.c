/* SPDX-License-Identifier: Apache-2.0 */
#include "server/options.h"

#include "base/parse.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#define KEY_MAX 48

struct flags {
        struct serve_options *options;
        bool replaced[64]; /* by row: the list of the file was emptied */
        gb_error *err;
};

static int set(struct flags *f, const char *key, const char *value, const char *what)
{
        const struct config_row *row = config_row_by_key(key);
        size_t i = row ? (size_t)(row - config_rows) : 0;

        _Static_assert(sizeof(f->replaced) >= 40, "a place for each row");
        if (row && !f->replaced[i]) {
                (void)server_config_clear(&f->options->config, key, NULL);
                f->replaced[i] = true;
        }
        return server_config_set(&f->options->config, key, value, what, f->err);
}

static int set_pair(struct flags *f, const char *pair)
{
        char key[KEY_MAX], what[KEY_MAX + 8];
        const char *equals = strchr(pair, '=');

        if (!equals || (size_t)(equals - pair) >= sizeof(key))
                return error_set(f->err, GB_E_USAGE, EINVAL, "--set takes KEY=VALUE, not %s", quote(pair).text);
        snprintf(key, sizeof(key), "%.*s", (int)(equals - pair), pair);
        bool known = config_row_by_key(key);
        snprintf(what, sizeof(what), "--set%s%s", known ? " " : "", known ? key : "");
        return set(f, key, equals + 1, what);
}

static int set_parent(struct flags *f, const char *value)
{
        uint64_t fd;

        if (parse_count(value, &fd) < 0 || fd > INT_MAX || fcntl((int)fd, F_GETFD) < 0)
                return error_set(f->err, GB_E_USAGE, EBADF, "--parent-fd takes the number of an open descriptor, not %s", quote(value).text);
        (void)fcntl((int)fd, F_SETFD, FD_CLOEXEC);
        f->options->config.parent_fd = (int)fd;
        return 0;
}

/* The configuration key of a flag: its name with _ for -. */
static const char *key_of(const char *name, size_t size, char buf[static KEY_MAX])
{
        if (size >= KEY_MAX)
                return "";
        for (size_t i = 0; i < size; i++)
                buf[i] = name[i] == '-' ? '_' : name[i];
        buf[size] = '\0';
        if (strcmp(buf, "tls_cert") == 0)
                strcpy(buf, "certificate");
        if (strcmp(buf, "tls_key") == 0)
                strcpy(buf, "key");
        return buf;
}

static bool take_switch(struct serve_options *o, const char *flag)
{
        if (strcmp(flag, "--json") == 0)
                o->json = true;
        else if (strcmp(flag, "--check") == 0)
                o->check = true;
        else if (strcmp(flag, "--print-config") == 0)
                o->print = true;
        else if (strcmp(flag, "--no-tokens") == 0)
                o->config.tokens = false;
        else
                return false;
        return true;
}

static int take_value(struct flags *f, const char *flag, size_t size, const char *value)
{
        char key[KEY_MAX], what[KEY_MAX + 4];

        snprintf(what, sizeof(what), "--%.*s", (int)(size < KEY_MAX ? size : KEY_MAX), flag);
        if (strcmp(what, "--config") == 0)
                return 0; /* was read first */
        if (strcmp(what, "--set") == 0)
                return set_pair(f, value);
        if (strcmp(what, "--parent-fd") == 0)
                return set_parent(f, value);
        if (strcmp(what, "--user") == 0) {
                f->options->user = value;
                return 0;
        }
        if (!config_row_by_key(key_of(flag, size, key)))
                return error_set(f->err, GB_E_USAGE, EINVAL, "unknown flag %s", quote(what).text);
        return set(f, key, value, what);
}

/* The value of the flag at argv[i], in the same word or the next one; *i moves on. NULL: there is none. */
static const char *value_at(int argc, char **argv, int *i, size_t *ret_size)
{
        const char *name = argv[*i] + 2, *equals = strchr(name, '=');

        *ret_size = equals ? (size_t)(equals - name) : strlen(name);
        if (equals)
                return equals + 1;
        return *i + 1 < argc ? argv[++*i] : NULL;
}

const char *serve_options_find(int argc, char **argv, const char *flag)
{
        size_t size, length = strlen(flag);
        const char *value = NULL;

        for (int i = 1; i < argc; i++)
                if (strncmp(argv[i], flag, length) == 0 && (argv[i][length] == '=' || argv[i][length] == '\0'))
                        value = value_at(argc, argv, &i, &size);
        return value;
}

int serve_options_parse(int argc, char **argv, struct serve_options *ret, gb_error *err)
{
        struct serve_options o = {0};
        struct flags f = {.options = &o, .err = err};

        int r = server_config_load(serve_options_find(argc, argv, "--config"), &o.config, err);
        if (r < 0)
                return r;
        for (int i = 1; r == 0 && i < argc; i++) {
                const char *flag = argv[i];
                size_t size;

                if (i == 1 && strcmp(flag, "serve") == 0)
                        continue;
                if (flag[0] != '-' || flag[1] != '-' || flag[2] == '\0')
                        r = error_set(err, GB_E_USAGE, EINVAL, "unexpected argument %s", quote(flag).text);
                else if (!take_switch(&o, flag)) {
                        const char *value = value_at(argc, argv, &i, &size);
                        r = value ? take_value(&f, flag + 2, size, value) : error_set(err, GB_E_USAGE, EINVAL, "%s needs a value", quote(flag).text);
                }
        }
        if (r < 0) {
                serve_options_done(&o);
                return r;
        }
        *ret = o;
        return 0;
}

void serve_options_done(struct serve_options *o)
{
        server_config_done(&o->config);
}
