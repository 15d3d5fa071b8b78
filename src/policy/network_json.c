/* SPDX-License-Identifier: Apache-2.0
 *
 * Rules as mappings, of files and of requests, and the values of their header fields. */
#include "policy/network_rule.h"

#include "base/buffer.h"
#include "base/fd.h"
#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#define SCALAR_MAX 32 /* a number as text */

/* Text or a whole number; NULL for anything else. Nothing with a NUL in it is text here. */
static const char *scalar(const json_t *value, char buf[static SCALAR_MAX])
{
        if (json_is_integer(value)) {
                snprintf(buf, SCALAR_MAX, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
                return buf;
        }
        const char *text = json_string_value(value);
        return text && strlen(text) == json_string_length(value) ? text : NULL;
}

/* ---- values of header fields ---- */

static int add_bytes(struct buffer *out, const char *bytes, size_t size, gb_error *err)
{
        return buffer_add(out, bytes, size) < 0 ? error_set(err, GB_E_LIMIT, E2BIG, "the value of a header field is too long") : 0;
}

/* A file of one line; the line break at its end is not part of it. */
static int add_file(struct buffer *out, const char *path, gb_error *err)
{
        _cleanup_close_ int fd = path[0] == '/' ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK) : -1;
        char *text = NULL;
        size_t size = 0;
        struct stat st;

        if (path[0] != '/')
                return error_set(err, GB_E_USAGE, EINVAL, "${file:%s}: the path begins with /", quote_path(path).text);
        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, GB_E_USAGE, errno, "${file:%s} cannot be opened: %s", quote_path(path).text, strerror(errno));
        if (!S_ISREG(st.st_mode))
                return error_set(err, GB_E_USAGE, EINVAL, "${file:%s} is not a regular file", quote_path(path).text);
        int r = fd_read_all(fd, NETWORK_HEADER_VALUE_MAX, &text, &size);
        if (r < 0)
                return error_set(err, GB_E_USAGE, -r, "${file:%s} cannot be read: %s", quote_path(path).text, r == -EFBIG ? "it is too large" : strerror(-r));
        size_t length = size;
        while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r'))
                length--;
        if (memchr(text, '\0', length) || strstr(text, "${"))
                r = error_set(err, GB_E_USAGE, EINVAL, "${file:%s} has a NUL byte or a \"${\" in it", quote_path(path).text);
        else
                r = add_bytes(out, text, length, err);
        explicit_bzero(text, size);
        free(text);
        return r;
}

static int add_variable(struct buffer *out, const char *name, gb_error *err)
{
        const char *value = getenv(name);

        if (!value || !*value)
                return error_set(err, GB_E_USAGE, ENOENT, "${env:%s}: there is no such variable", quote_path(name).text);
        if (strstr(value, "${"))
                return error_set(err, GB_E_USAGE, EINVAL, "${env:%s} has a \"${\" in it", quote_path(name).text);
        return add_bytes(out, value, strlen(value), err);
}

/* Fills in what comes from files and the environment. */
static int fill(const char *value, bool from_file, struct buffer *out, gb_error *err)
{
        struct network_reference ref;
        const char *at = value, *done = value;
        int r = 0, found;

        while (r == 0 && (found = network_reference_next(&at, &ref)) > 0) {
                bool is_file = ref.kind_size == 4 && memcmp(ref.kind, "file", 4) == 0, is_env = ref.kind_size == 3 && memcmp(ref.kind, "env", 3) == 0;
                _cleanup_free_ char *name = strndup(ref.name, ref.name_size);
                if (!is_file && !is_env)
                        continue;
                if (!from_file)
                        return error_set(err, GB_E_DENIED, EPERM, "${file:...} and ${env:...} are for policy files; allowed here: ${secret:NAME}");
                r = name ? add_bytes(out, done, (size_t)(ref.begin - done), err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                if (r == 0)
                        r = is_file ? add_file(out, name, err) : add_variable(out, name, err);
                done = ref.end;
        }
        return r < 0 ? r : add_bytes(out, done, strlen(done), err);
}

static int read_headers(struct network_rule *rule, const json_t *map, bool from_file, gb_error *err)
{
        const char *name;
        json_t *value;

        if (!json_is_object(map))
                return error_set(err, GB_E_USAGE, EINVAL, "headers: a mapping of names to values is wanted");
        json_object_foreach((json_t *)(uintptr_t)map, name, value) {
                _cleanup_buffer_ struct buffer filled;
                char number[SCALAR_MAX];
                const char *text = scalar(value, number);
                buffer_init(&filled, NETWORK_HEADER_VALUE_MAX);
                filled.secret = true;
                if (!text)
                        return error_set(err, GB_E_USAGE, EINVAL, "the value of the header field %s is no text, or has a NUL in it", quote(name).text);
                int r = fill(text, from_file, &filled, err);
                if (r == 0)
                        r = network_rule_add_header(rule, name, filled.data, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

/* ---- the mapping ---- */

static int read_host(struct network_rule *rule, const json_t *value, bool from_file, gb_error *err)
{
        char number[SCALAR_MAX];
        const char *text = scalar(value, number);

        (void)from_file;
        if (!text)
                return error_set(err, GB_E_USAGE, EINVAL, "host: a text is wanted");
        return network_rule_set_host(rule, text, strlen(text), err);
}

static int read_protocol(struct network_rule *rule, const json_t *value, bool from_file, gb_error *err)
{
        char number[SCALAR_MAX];
        const char *text = scalar(value, number);

        (void)from_file;
        if (!text)
                return error_set(err, GB_E_USAGE, EINVAL, "protocol: https, http or tcp is wanted");
        return network_rule_set_protocol(rule, text, strlen(text), err);
}

static int read_intercept(struct network_rule *rule, const json_t *value, bool from_file, gb_error *err)
{
        (void)from_file;
        if (!json_is_boolean(value))
                return error_set(err, GB_E_USAGE, EINVAL, "intercept: true or false is wanted");
        rule->intercept = json_is_true(value);
        return 0;
}

/* A list, or one item alone. */
static int read_items(struct network_rule *rule, const char *key, const json_t *value, int (*add)(struct network_rule *, const char *, gb_error *), gb_error *err)
{
        size_t n = json_is_array(value) ? json_array_size(value) : 1;

        if (n == 0)
                return error_set(err, GB_E_USAGE, EINVAL, "%s: an empty list lets nothing pass; leave the key out for all, or the rule for nothing", key);
        for (size_t i = 0; i < n; i++) {
                char number[SCALAR_MAX];
                const char *text = scalar(json_is_array(value) ? json_array_get(value, i) : value, number);
                int r = text ? add(rule, text, err) : error_set(err, GB_E_USAGE, EINVAL, "%s: a list of texts is wanted", key);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int add_ports(struct network_rule *rule, const char *text, gb_error *err)
{
        return network_rule_add_ports(rule, text, strlen(text), err);
}

static int read_ports(struct network_rule *rule, const json_t *value, bool from_file, gb_error *err)
{
        (void)from_file;
        return read_items(rule, "ports", value, add_ports, err);
}

static int add_method(struct network_rule *rule, const char *text, gb_error *err)
{
        return network_rule_add_method(rule, text, strlen(text), err);
}

static int read_methods(struct network_rule *rule, const json_t *value, bool from_file, gb_error *err)
{
        (void)from_file;
        return read_items(rule, "methods", value, add_method, err);
}

static int read_paths(struct network_rule *rule, const json_t *value, bool from_file, gb_error *err)
{
        (void)from_file;
        return read_items(rule, "paths", value, network_rule_add_path, err);
}

static const struct {
        const char *key;
        int (*read)(struct network_rule *rule, const json_t *value, bool from_file, gb_error *err);
} keys[] = {
        {"host", read_host},       {"ports", read_ports}, {"protocol", read_protocol}, {"methods", read_methods},
        {"paths", read_paths}, {"headers", read_headers}, {"intercept", read_intercept},
};

static int unknown_key(const char *key, gb_error *err)
{
        const char *names[ARRAY_SIZE(keys)];

        for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
                names[i] = keys[i].key;
        const char *near = suggest_nearest(key, names, ARRAY_SIZE(names));
        return error_set(err, GB_E_USAGE, EINVAL, "a rule has no key %s; %s%s", quote(key).text, near ? "did you mean " : "allowed: ",
                         near ? near : "host, ports, protocol, methods, paths, headers, intercept");
}

static int read_map(struct network_rule *rule, const json_t *map, bool from_file, gb_error *err)
{
        const char *key;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)map, key, value) {
                size_t i = 0;
                while (i < ARRAY_SIZE(keys) && strcmp(keys[i].key, key) != 0)
                        i++;
                int r = i == ARRAY_SIZE(keys) ? unknown_key(key, err) : keys[i].read(rule, value, from_file, err);
                if (r < 0)
                        return r;
        }
        if (!json_object_get(map, "host"))
                return error_set(err, GB_E_USAGE, EINVAL, "a rule needs its host");
        return network_rule_finish(rule, json_object_get(map, "protocol"), err);
}

int network_allow_add_json(struct policy *p, const json_t *item, bool from_file, gb_error *err)
{
        _cleanup_network_rule_ struct network_rule *rule = NULL;
        char number[SCALAR_MAX];

        if (!json_is_object(item)) {
                const char *text = json_is_string(item) ? scalar(item, number) : NULL;
                if (!text)
                        return error_set(err, GB_E_USAGE, EINVAL, "a rule is a text such as \"pypi.org:443\", or a mapping with host, ports, protocol, methods, "
                                                                  "paths, headers, intercept");
                return network_allow_add_text(p, text, err);
        }
        rule = network_rule_new();
        if (!rule)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        network_allow_begin(p);
        int r = read_map(rule, item, from_file, err);
        return r < 0 ? r : network_rule_add(p, TAKE_PTR(rule), err);
}

/* ---- and back ---- */

static json_t *texts_to_json(char *const *texts, size_t n)
{
        json_t *list = json_array();

        for (size_t i = 0; i < n; i++)
                json_array_append_new(list, json_string(texts[i]));
        return list;
}

json_t *network_rule_to_json(const struct network_rule *r)
{
        json_t *o = json_object(), *ports = json_array(), *names = json_array();
        char text[NETWORK_HOST_TEXT_MAX];

        network_rule_host(r, text);
        json_object_set_new(o, "rule", json_string(r->text));
        json_object_set_new(o, "host", json_string(text));
        for (size_t i = 0; i < r->n_ports; i++) {
                snprintf(text, sizeof(text), "%u-%u", r->ports[i][0], r->ports[i][1]);
                json_array_append_new(ports, r->ports[i][0] == r->ports[i][1] ? json_integer(r->ports[i][0]) : json_string(text));
        }
        json_object_set_new(o, "ports", ports);
        json_object_set_new(o, "protocol", json_string(network_protocol_name(r->protocol)));
        if (r->n_methods > 0)
                json_object_set_new(o, "methods", texts_to_json(r->methods, r->n_methods));
        if (r->n_paths > 0)
                json_object_set_new(o, "paths", texts_to_json(r->paths, r->n_paths));
        for (size_t i = 0; i < r->n_headers; i++)
                json_array_append_new(names, json_string(r->headers[i].name));
        if (r->n_headers > 0)
                json_object_set(o, "headers", names);
        json_decref(names);
        json_object_set_new(o, "intercept", json_boolean(r->intercept));
        return o;
}
