/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/request.h"

#include "base/base64.h"
#include "base/fd.h"
#include "base/parse.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "cli/secrets.h"
#include "cli/settings.h"
#include "policy/network.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

/* Values are checked against this before they are sent: everything that may be asked for somewhere. */
#define WIDEST_POLICY "timeout_max: 24h\n"

int request_set_text(json_t *object, const char *key, const char *bytes, size_t size)
{
        if (memchr(bytes, '\0', size) || !utf8_is_valid(bytes, size))
                return -EILSEQ;
        return json_object_set_new(object, key, json_stringn_nocheck(bytes, size)) < 0 ? -ENOMEM : 0;
}

int request_set_bytes(json_t *object, const char *key, const void *bytes, size_t size)
{
        _cleanup_free_ char *text = NULL;
        size_t length;

        int r = request_set_text(object, key, bytes, size);
        if (r != -EILSEQ)
                return r;
        r = base64_encode(bytes, size, &text, &length);
        if (r < 0)
                return r;
        return json_object_set_new(object, key, json_pack("{s:s%}", "base64", text, length)) < 0 ? -ENOMEM : 0;
}

int request_set_words(json_t *object, const char *key, char *const words[])
{
        json_t *list = json_array();

        if (json_object_set_new(object, key, list) < 0)
                return -ENOMEM;
        for (size_t i = 0; words && words[i]; i++) {
                size_t size = strlen(words[i]);
                if (!utf8_is_valid(words[i], size))
                        return -EILSEQ;
                if (json_array_append_new(list, json_stringn_nocheck(words[i], size)) < 0)
                        return -ENOMEM;
        }
        return 0;
}

int request_set_duration(json_t *object, const char *key, const char *text, const char *what, gb_error *err)
{
        char with_unit[FORMAT_MAX];
        uint64_t usec;

        if (parse_duration(text, &usec) < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "%s: %s is not a time, such as 90s or 10m", what, quote(text).text);
        if (json_object_set_new(object, key, json_string(format_duration(usec, with_unit))) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return 0;
}

/* ---- the policy ---- */

/* A value that was set, in the form that the API has for its type. */
static json_t *value_to_json(const struct policy_option *o, const struct policy *p)
{
        char text[POLICY_VALUE_MAX];
        uint64_t number;

        policy_option_value(o, p, text);
        if (o->type == OPTION_BOOL)
                return json_boolean(strcmp(text, "true") == 0);
        if (o->type == OPTION_COUNT && parse_count(text, &number) == 0)
                return json_integer((json_int_t)number);
        if (o->type == OPTION_CPUS && parse_cpus(text, &number) == 0)
                return json_real((double)number / 1000.0);
        return json_string(text);
}

static int add_env(json_t *policy, const struct policy *p)
{
        _cleanup_json_ json_t *env = json_object();

        for (size_t i = 0; i < p->n_env; i++) {
                int r = request_set_text(env, p->env[i].name, p->env[i].value, strlen(p->env[i].value));
                if (r < 0)
                        return r;
        }
        if (p->n_env == 0)
                return 0;
        return json_object_set(policy, "env", env) < 0 ? -ENOMEM : 0;
}

static int add_rules(json_t *policy, const struct policy *p)
{
        _cleanup_json_ json_t *rules = json_object();
        int r = 0;

        for (size_t i = 0; i < p->n_rules; i++)
                r |= json_object_set_new(rules, p->rules[i].name, json_string(rule_action_name(p->rules[i].action)));
        if (r == 0 && p->n_rules > 0)
                r = json_object_set(policy, "guard_rules", rules);
        return r < 0 ? -ENOMEM : 0;
}

/* A list with commas. Which names there are the server knows. */
static int add_weaker(json_t *policy, const char *value)
{
        _cleanup_free_ char *copy = strdup(value);
        json_t *list = json_object_get(policy, "allow_weaker");
        char *state = NULL;

        if (!list && json_object_set_new(policy, "allow_weaker", list = json_array()) < 0)
                return -ENOMEM;
        for (char *name = copy ? strtok_r(copy, ",", &state) : NULL; name; name = strtok_r(NULL, ",", &state))
                if (json_array_append_new(list, json_string(name)) < 0)
                        return -EILSEQ;
        return copy ? 0 : -ENOMEM;
}

/* A rule or a range, as text; the list takes the place of the server's. */
static int add_network(json_t *policy, const char *key, const char *value)
{
        json_t *list = json_object_get(policy, key);
        int r = 0;

        if (!list)
                r = json_object_set_new(policy, key, list = json_array());
        if (r == 0)
                r = json_array_append_new(list, json_string(value));
        if (r == 0 && strcmp(key, "network_allow") == 0)
                r = json_object_set_new(policy, "network_mode", json_string(network_mode_name(NETWORK_ALLOWLIST)));
        return r;
}

static int take(struct policy *scratch, json_t *policy, const struct option *o, const char *value, const char *what, gb_error *err)
{
        const struct policy_option *row = policy_option_by_key(o->key);

        if (strcmp(o->key, "mounts") == 0)
                return error_set(err, GB_E_USAGE, EOPNOTSUPP, "%s cannot be asked of a server: its own policy says that", what);
        if (o->id == OPT_ALLOW_WEAKER && add_weaker(policy, value) < 0)
                return error_set(err, GB_E_USAGE, EINVAL, "%s: names of controls with commas are wanted", what);
        if (o->id == OPT_ALLOW_WEAKER)
                return 0;
        int r = policy_set(scratch, o->key, o->value == VALUE_OPTIONAL && !value ? "true" : value, what, err);
        if (r == 0 && (strcmp(o->key, "network_allow") == 0 || strcmp(o->key, "network_ranges") == 0) && add_network(policy, o->key, value) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r < 0 || !row)
                return r;
        return json_object_set_new(policy, row->key, value_to_json(row, scratch)) < 0 ? error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory") : 0;
}

int request_policy(const struct option_set *set, const struct arguments *a, json_t **ret, gb_error *err)
{
        _cleanup_policy_ struct policy *scratch = NULL;
        _cleanup_json_ json_t *policy = json_object();
        const char *trust = arguments_get_or_env(set, a, OPT_TRUST);
        struct option o;

        int r = settings_check_network(a, err);
        if (r == 0)
                r = policy_parse("the request", WIDEST_POLICY, strlen(WIDEST_POLICY), NULL, &scratch, err);
        for (size_t i = 0; r == 0 && options_next(set, &i, &o);) {
                const char *value = o.key && o.env ? getenv(o.env) : NULL;
                if (value && *value)
                        r = take(scratch, policy, &o, value, o.env, err);
        }
        for (size_t i = 0; r == 0 && i < a->n_uses; i++) {
                const struct option_use *use = &a->uses[i];
                char what[64];
                snprintf(what, sizeof(what), "--%s", use->option.name ? use->option.name : "");
                if (use->option.key)
                        r = take(scratch, policy, &use->option, use->value, what, err);
        }
        if (r < 0)
                return r;
        r = add_env(policy, scratch);
        if (r == 0)
                r = add_rules(policy, scratch);
        if (r == 0 && trust)
                r = request_set_text(policy, "trust", trust, strlen(trust));
        if (r == -EILSEQ)
                return error_set(err, GB_E_USAGE, EILSEQ, "the values of --env and --trust are UTF-8 when they go to a server");
        if (r < 0 || !policy)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        *ret = TAKE_PTR(policy);
        return 0;
}

/* ---- a session ---- */

/* Options that are text of the request. */
static const struct {
        enum option_id id;
        const char *key;
        const char *time; /* the flag of one that is a time */
} texts[] = {{OPT_TEMPLATE, "template", NULL},
             {OPT_IDLE, "idle_timeout", "--idle"},
             {OPT_LIFETIME, "max_lifetime", "--lifetime"},
             {OPT_NAME, "name", NULL}};

static int add_texts(json_t *body, const struct option_set *set, const struct arguments *a, gb_error *err)
{
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(texts) && r == 0; i++) {
                const char *value = arguments_get_or_env(set, a, texts[i].id);
                /* Without a template every interpreter is started afresh. */
                if (value && texts[i].id == OPT_TEMPLATE && strcmp(value, "none") == 0)
                        r = json_object_set_new(body, texts[i].key, json_null()) < 0 ? -ENOMEM : 0;
                else if (value && texts[i].time) {
                        r = request_set_duration(body, texts[i].key, value, texts[i].time, err);
                        if (r < 0)
                                return r;
                } else if (value)
                        r = request_set_text(body, texts[i].key, value, strlen(value));
        }
        if (r == -EILSEQ)
                return error_set(err, GB_E_USAGE, EILSEQ, "names are UTF-8");
        return r < 0 ? error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory") : 0;
}

/* A directory of this host: the server does not know where we are. */
static int add_workspace(json_t *body, const char *directory, gb_error *err)
{
        _cleanup_free_ char *path = realpath(directory, NULL);
        json_t *value = json_object();
        struct stat st;

        if (!path || stat(path, &st) < 0 || !S_ISDIR(st.st_mode)) {
                int errnum = path ? ENOTDIR : errno;
                json_decref(value);
                return error_set(err, GB_E_NOT_FOUND, errnum, "--workspace %s: %s", quote(directory).text, strerror(errnum));
        }
        int r = json_object_set_new(body, "workspace", value) < 0 ? -ENOMEM : request_set_text(value, "path", path, strlen(path));
        if (r == -EILSEQ)
                return error_set(err, GB_E_USAGE, EILSEQ, "--workspace: the path must be UTF-8");
        return r < 0 ? error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory") : 0;
}

int request_session(const struct option_set *set, const struct arguments *a, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *body = json_object(), *policy = NULL;
        const char *workspace = arguments_get_or_env(set, a, OPT_WORKSPACE);

        int r = body ? request_policy(set, a, &policy, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = add_texts(body, set, a, err);
        if (r == 0 && workspace)
                r = add_workspace(body, workspace, err);
        if (r < 0)
                return r;
        if (arguments_has(a, OPT_KEPT))
                r |= json_object_set_new(body, "workspace", json_string("kept"));
        if (json_object_size(policy) > 0)
                r |= json_object_set(body, "policy", policy);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        r = secrets_set_request(body, a, NULL, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(body);
        return 0;
}

/* ---- standard input ---- */

void request_input_done(struct request_input *in)
{
        free(in->bytes);
        in->bytes = NULL;
}

static bool is_null_device(const struct stat *st)
{
        return S_ISCHR(st->st_mode) && st->st_rdev == makedev(1, 3);
}

/* What is left of a file, when that is little. The file's position is not moved: the run may take another way yet. */
static int read_file(int fd, const struct stat *st, struct request_input *in)
{
        off_t at = lseek(fd, 0, SEEK_CUR);
        size_t size = at >= 0 && at < st->st_size ? (size_t)(st->st_size - at) : 0;

        if (at < 0 || (at < st->st_size && (uint64_t)size > CLIENT_STDIN_BYTES_MAX))
                return -EFBIG;
        in->bytes = malloc(size + 1);
        if (!in->bytes)
                return -ENOMEM;
        while (in->size < size) {
                ssize_t n = pread(fd, in->bytes + in->size, size - in->size, at + (off_t)in->size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0) /* it has become shorter: that is its end now */
                        break;
                in->size += (size_t)n;
        }
        return 0;
}

int request_input_read(int fd, struct request_input *ret, gb_error *err)
{
        struct stat st;

        *ret = (struct request_input){.fd = -1};
        if (fd < 0 || fstat(fd, &st) < 0 || is_null_device(&st))
                return 0;
        int r = S_ISREG(st.st_mode) ? read_file(fd, &st, ret) : -EFBIG;
        if (r == -EFBIG) {
                ret->fd = fd;
                return 0;
        }
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot read standard input: %s", strerror(-r)) : 0;
}

int request_set_input(json_t *object, const struct request_input *in)
{
        if (in->bytes && in->size > 0)
                return request_set_bytes(object, "stdin", in->bytes, in->size);
        if (in->fd >= 0)
                return json_object_set_new(object, "interactive", json_true()) < 0 ? -ENOMEM : 0;
        return 0;
}
