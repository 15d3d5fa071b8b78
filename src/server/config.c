/* SPDX-License-Identifier: Apache-2.0
 *
 * One row for each key: the file, `--set` and the flags, the check, the default and the help are the same line. */
#include "server/config.h"

#include "base/limits.h"
#include "base/parse.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/suggest.h"
#include "base/document.h"
#include "policy/policy.h"
#include "server/address.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SEC 1000000ULL
#define HOUR (3600 * SEC)
#define YEAR (365 * 24 * HOUR)
#define TIB (1024 * GIB)
#define SECRET_NAME_MAX 256
#define NO_LIMIT "none" /* as a default: this word is allowed; the value is then UINT64_MAX */

#define FIELD(field) offsetof(struct server_config, field)
#define TEXT(key, field, placeholder, help) {key, CONFIG_PATH, FIELD(field), 0, 1, 0, 0, NULL, placeholder, help}
#define LIST(key, type, field, count, placeholder, help) \
        {key, type, FIELD(field), FIELD(count), ARRAY_SIZE(((struct server_config *)NULL)->field), 0, 0, NULL, placeholder, help}
#define LIST_WITH(key, type, field, count, fallback, placeholder, help) \
        {key, type, FIELD(field), FIELD(count), ARRAY_SIZE(((struct server_config *)NULL)->field), 0, 0, fallback, placeholder, help}
#define NUMBER(key, type, field, min, max, fallback, help) {key, type, FIELD(field), 0, 1, min, max, fallback, NULL, help}

const struct config_row config_rows[] = {
        LIST("listen", CONFIG_LISTEN, listen, n_listen, "ADDRESS", "unix:/path, 127.0.0.1:8080, [::1]:8080; literal addresses only"),
        TEXT("directory", directory, "DIR", "of the state: journal and tokens; mode 0700"),
        TEXT("certificate", certificate, "FILE", "PEM, with what signed it; then every TCP address speaks TLS"),
        TEXT("key", key, "FILE", "PEM, of the certificate"),
        NUMBER("tokens", CONFIG_BOOL, tokens, 0, 1, "true", "TCP callers need a token; false only with loopback addresses"),
        LIST("hosts", CONFIG_HOST, hosts, n_hosts, "NAME", "names of this server that requests may carry in Host, besides localhost and the addresses"),
        LIST("origins", CONFIG_ORIGIN, origins, n_origins, "ORIGIN", "pages of which browsers may ask, such as https://tools.example.com"),
        TEXT("policy", policy_file, "FILE", "the policy file; sandbox.yaml of the configuration directory when absent"),
        TEXT("workspaces", workspaces, "DIR", "where kept workspaces are; without it there are none"),
        LIST("warm", CONFIG_NAME, warm, n_warm, "TEMPLATE", "templates that are started with the server and kept"),
        LIST_WITH("backends", CONFIG_BACKEND, backends, n_backends, "native", "NAME",
                  "backends that callers may ask for, besides the policy's; who can talk to an engine is root on this host"),
        LIST("runtimes", CONFIG_RUNTIME, runtimes, n_runtimes, "NAME", "runtimes of the engine that callers may ask for, besides the policy's; *: any"),
        LIST("images", CONFIG_IMAGE, images, n_images, "NAME", "images that callers may ask for, besides the policy's; *: any"),

        NUMBER("sessions", CONFIG_COUNT, all.sessions, 1, BOXES_MAX - 64, "2000", "sessions alive at a time, runs in boxes of their own among them"),
        NUMBER("runs", CONFIG_COUNT, all.runs, 1, 2048, "256", "runs at a time"),
        NUMBER("memory", CONFIG_SIZE, all.memory_bytes, 4 * MIB, 1024 * TIB, NO_LIMIT, "sum of the memory limits of what is alive"),
        NUMBER("free_memory", CONFIG_SIZE, free_memory_bytes, 0, TIB, "256m", "nothing is admitted while the host has less memory available"),
        NUMBER("tenant_sessions", CONFIG_COUNT, tenant.sessions, 1, BOXES_MAX - 64, "1000", "the same of one tenant"),
        NUMBER("tenant_runs", CONFIG_COUNT, tenant.runs, 1, 2048, "128", "the same of one tenant"),
        NUMBER("tenant_memory", CONFIG_SIZE, tenant.memory_bytes, 4 * MIB, 1024 * TIB, NO_LIMIT, "the same of one tenant"),

        NUMBER("idle_timeout", CONFIG_TIME, idle_usec, SEC, YEAR, "10m", "a session ends when it was not used for so long"),
        NUMBER("idle_timeout_max", CONFIG_TIME, idle_max_usec, SEC, YEAR, "24h", "the longest that may be asked for"),
        NUMBER("max_lifetime", CONFIG_TIME, lifetime_usec, SEC, YEAR, "1h", "a session ends so long after its creation"),
        NUMBER("max_lifetime_max", CONFIG_TIME, lifetime_max_usec, SEC, YEAR, "168h", "the longest that may be asked for"),
        NUMBER("drain", CONFIG_TIME, drain_usec, 0, HOUR, "30s", "from SIGTERM to the end of what still runs"),

        NUMBER("journal_age", CONFIG_TIME, journal.age_usec, 60 * SEC, 10 * YEAR, "168h", "runs that ended longer ago are removed from the journal"),
        NUMBER("journal_size", CONFIG_SIZE, journal.bytes, 4 * MIB, TIB, "1g", "of the journal's file; the oldest runs go first"),
        NUMBER("journal_runs", CONFIG_COUNT, journal.runs, 16, 100000000, "100000", "runs in the journal; the oldest go first"),
        NUMBER("journal_sync", CONFIG_BOOL, journal.sync, 0, 1, "false", "each record reaches the disk before it counts; slower, survives a loss of power"),
        NUMBER("audit_age", CONFIG_TIME, journal.audit_usec, 60 * SEC, 10 * YEAR, "2160h", "audit records that are older are removed"),
        NUMBER("audit_records", CONFIG_COUNT, journal.audit_records, 16, 100000000, "1000000", "audit records that are kept"),
        NUMBER("idempotency_age", CONFIG_TIME, journal.key_usec, 60 * SEC, YEAR, "24h", "an Idempotency-Key is remembered at least so long"),

        NUMBER("connections", CONFIG_COUNT, connections, 4, 1000000, "16384", "open at a time"),
        NUMBER("threads", CONFIG_COUNT, threads, 4, 4096, "512", "requests that are worked on at a time; one that waits for its run is one of them"),
        NUMBER("body_limit", CONFIG_SIZE, body_bytes, 4 * KIB, GIB, "64m", "of a JSON body"),
        NUMBER("upload_limit", CONFIG_SIZE, upload_bytes, 4 * KIB, TIB, "256m", "of a file or an archive that is sent"),
        NUMBER("header_timeout", CONFIG_TIME, header_usec, 100000, HOUR, "10s", "for the head of a request, TLS handshake included"),
        NUMBER("body_timeout", CONFIG_TIME, body_usec, 100000, HOUR, "120s", "for the body of a request"),
        NUMBER("keep_alive", CONFIG_TIME, keep_alive_usec, 100000, HOUR, "75s", "between two requests of a connection"),
        NUMBER("stalled_timeout", CONFIG_TIME, stalled_usec, 100000, HOUR, "30s", "a client that reads nothing for so long is cut off"),
};
const size_t n_config_rows = ARRAY_SIZE(config_rows);

/* ---- kinds of values ---- */

static int no_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

static bool is_path(const char *text)
{
        return text[0] == '/' && strlen(text) < HOST_PATH_MAX;
}

static bool is_host(const char *text)
{
        size_t n = strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789.-");

        return n > 0 && n <= SECRET_NAME_MAX && text[n] == '\0' && isalnum((unsigned char)text[0]);
}

/* scheme://host[:port], as browsers send it: without a path. */
static bool is_origin(const char *text)
{
        const char *rest = strncmp(text, "https://", 8) == 0 ? text + 8 : strncmp(text, "http://", 7) == 0 ? text + 7 : "";
        size_t n = strspn(rest, "abcdefghijklmnopqrstuvwxyz0123456789.-:[]");

        return n > 0 && n <= SECRET_NAME_MAX && rest[n] == '\0';
}

static bool is_name(const char *text)
{
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789_-");

        return n > 0 && n <= 64 && text[n] == '\0' && islower((unsigned char)text[0]);
}

static bool is_backend(const char *text)
{
        return strcmp(text, backend_kind_name(BACKEND_NATIVE)) == 0 || strcmp(text, backend_kind_name(BACKEND_DOCKER)) == 0;
}

static bool is_runtime(const char *text)
{
        return strcmp(text, SERVER_ANY) == 0 || runtime_name_is_valid(text);
}

static bool is_image(const char *text)
{
        return strcmp(text, SERVER_ANY) == 0 || image_name_is_valid(text);
}

static int parse_bool(const char *text, uint64_t *ret)
{
        if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0)
                return -EINVAL;
        *ret = text[0] == 't';
        return 0;
}

static char *format_count(uint64_t value, char buf[static FORMAT_MAX])
{
        snprintf(buf, FORMAT_MAX, "%" PRIu64, value);
        return buf;
}

static char *format_bool(uint64_t value, char buf[static FORMAT_MAX])
{
        return strcpy(buf, value ? "true" : "false");
}

static const struct {
        const char *allowed; /* of texts */
        bool (*good)(const char *text);
        int (*parse)(const char *text, uint64_t *ret); /* of numbers */
        char *(*format)(uint64_t value, char buf[static FORMAT_MAX]);
} types[] = {
        [CONFIG_PATH] = {.allowed = "an absolute path", .good = is_path},
        [CONFIG_HOST] = {.allowed = "a host name without its port", .good = is_host},
        [CONFIG_ORIGIN] = {.allowed = "https://NAME or http://NAME, with :PORT where there is one, in small letters", .good = is_origin},
        [CONFIG_NAME] = {.allowed = "the name of a template", .good = is_name},
        [CONFIG_BACKEND] = {.allowed = "native or docker", .good = is_backend},
        [CONFIG_RUNTIME] = {.allowed = "the name of a runtime, or *", .good = is_runtime},
        [CONFIG_IMAGE] = {.allowed = "the name of an image, or *", .good = is_image},
        [CONFIG_LISTEN] = {.allowed = "unix:/path, 127.0.0.1:8080, [::1]:8080"},
        [CONFIG_BOOL] = {.allowed = "true or false", .parse = parse_bool, .format = format_bool},
        [CONFIG_COUNT] = {.allowed = "a whole number", .parse = parse_count, .format = format_count},
        [CONFIG_SIZE] = {.allowed = "a size such as 512m", .parse = parse_size, .format = format_size},
        [CONFIG_TIME] = {.allowed = "a time such as 30s", .parse = parse_duration, .format = format_duration},
};

static bool is_list(const struct config_row *row)
{
        return row->count_offset != 0;
}

static bool may_be_unlimited(const struct config_row *row)
{
        return row->fallback && strcmp(row->fallback, NO_LIMIT) == 0;
}

char *config_row_range(const struct config_row *row, char buf[static CONFIG_RANGE_MAX])
{
        char min[FORMAT_MAX], max[FORMAT_MAX];

        if (!types[row->type].format || row->type == CONFIG_BOOL)
                snprintf(buf, CONFIG_RANGE_MAX, "%s", types[row->type].allowed);
        else
                snprintf(buf, CONFIG_RANGE_MAX, "%s, %s to %s%s", types[row->type].allowed, types[row->type].format(row->min, min),
                         types[row->type].format(row->max, max), may_be_unlimited(row) ? ", or " NO_LIMIT : "");
        return buf;
}

static int wrong(const struct config_row *row, const char *text, gb_error *err)
{
        char range[CONFIG_RANGE_MAX];

        return error_set(err, GB_E_USAGE, EINVAL, "%s; allowed: %s", quote(text).text, config_row_range(row, range));
}

static int apply_number(const struct config_row *row, struct server_config *c, const char *text, gb_error *err)
{
        uint64_t value = UINT64_MAX;
        char *field = (char *)c + row->offset;

        if (!may_be_unlimited(row) || strcmp(text, NO_LIMIT) != 0)
                if (types[row->type].parse(text, &value) < 0 || value < row->min || value > row->max)
                        return wrong(row, text, err);
        if (row->type == CONFIG_BOOL)
                *(bool *)field = value != 0;
        else
                *(uint64_t *)field = value;
        return 0;
}

static int apply_listen(struct server_config *c, const char *text, gb_error *err)
{
        struct listen_address address;

        int r = listen_address_parse(text, &address, err);
        if (r < 0)
                return r;
        for (size_t i = 0; i < c->n_listen; i++)
                if (strcmp(c->listen[i].address, text) == 0)
                        return error_set(err, GB_E_USAGE, EEXIST, "%s is named twice", quote(text).text);
        struct server_listen *l = &c->listen[c->n_listen];
        *l = (struct server_listen){.address = strdup(text)};
        if (!l->address)
                return no_memory(err);
        c->n_listen++;
        return 0;
}

static int apply_text(const struct config_row *row, struct server_config *c, const char *text, gb_error *err)
{
        char **field = (char **)((char *)c + row->offset);
        size_t *n = is_list(row) ? (size_t *)((char *)c + row->count_offset) : NULL;

        if (!types[row->type].good(text))
                return wrong(row, text, err);
        char *copy = strdup(text);
        if (!copy)
                return no_memory(err);
        if (n)
                field += (*n)++;
        free(*field);
        *field = copy;
        return 0;
}

static int apply(const struct config_row *row, struct server_config *c, const char *text, gb_error *err)
{
        if (types[row->type].parse)
                return apply_number(row, c, text, err);
        if (is_list(row) && *(size_t *)((char *)c + row->count_offset) == row->max_items)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many; at most %zu", row->max_items);
        return row->type == CONFIG_LISTEN ? apply_listen(c, text, err) : apply_text(row, c, text, err);
}

static void clear(const struct config_row *row, struct server_config *c)
{
        size_t *n = is_list(row) ? (size_t *)((char *)c + row->count_offset) : NULL;

        for (size_t i = 0; i < (n ? *n : 1); i++) {
                char **field = row->type == CONFIG_LISTEN ? &c->listen[i].address : (char **)((char *)c + row->offset) + i;
                free(*field);
                *field = NULL;
        }
        if (n)
                *n = 0;
}

/* ---- the file ---- */

const struct config_row *config_row_by_key(const char *key)
{
        for (size_t i = 0; i < n_config_rows; i++)
                if (strcmp(config_rows[i].key, key) == 0)
                        return &config_rows[i];
        return NULL;
}

static void list_keys(const char *names[static ARRAY_SIZE(config_rows)])
{
        for (size_t i = 0; i < n_config_rows; i++)
                names[i] = config_rows[i].key;
}

static int read_list(const struct config_row *row, struct server_config *c, const struct place *at, gb_error *err)
{
        const json_t *list = place_value(at);
        char range[CONFIG_RANGE_MAX];

        clear(row, c);
        for (size_t i = 0; i < json_array_size(list); i++) {
                struct place item = {at->doc, list, NULL, i};
                const char *text = place_text(&item);

                if (!text)
                        return place_error(&item, at->key, err, "%s; allowed: %s", place_kind(&item), config_row_range(row, range));
                if (apply(row, c, text, err) < 0)
                        return place_fail(&item, at->key, err);
        }
        return 0;
}

static int read_key(struct server_config *c, const struct place *at, gb_error *err)
{
        const char *names[ARRAY_SIZE(config_rows)], *text = place_text(at);
        const struct config_row *row = config_row_by_key(at->key);
        char range[CONFIG_RANGE_MAX];

        if (!row) {
                list_keys(names);
                return place_unknown_key(at, names, n_config_rows, err);
        }
        if (is_list(row) && json_is_array(place_value(at)))
                return read_list(row, c, at, err);
        if (!text && json_is_null(place_value(at)) && !types[row->type].parse)
                return 0; /* `certificate:` without a value: as if it was not there */
        if (!text)
                return place_error(at, NULL, err, "%s; allowed: %s%s", place_kind(at), is_list(row) ? "a list of " : "", config_row_range(row, range));
        if (is_list(row))
                clear(row, c);
        return apply(row, c, text, err) < 0 ? place_fail(at, NULL, err) : 0;
}

static int read_document(struct server_config *c, const struct document *doc, gb_error *err)
{
        json_t *root = doc->yaml->root, *value;
        const char *key;

        if (json_is_null(root))
                return 0;
        if (!json_is_object(root)) {
                struct place at = {doc, NULL, NULL, 0};
                return place_error(&at, NULL, err, "%s; allowed: a mapping of keys", place_kind(&at));
        }
        json_object_foreach(root, key, value) {
                int r = read_key(c, &(struct place){doc, root, key, 0}, err);
                if (r < 0)
                        return r;
        }
        return 0;
}

static int set_defaults(struct server_config *c, gb_error *err)
{
        *c = (struct server_config){.parent_fd = -1};
        for (size_t i = 0; i < n_config_rows; i++) {
                int r = config_rows[i].fallback ? apply(&config_rows[i], c, config_rows[i].fallback, err) : 0;
                if (r < 0)
                        return error_prefix(err, "default of %s", config_rows[i].key);
        }
        /* Without HOME there is no default, and --directory may come yet: server_config_check() looks. */
        int r = path_state(&c->directory);
        return r < 0 && r != -ENOENT ? no_memory(err) : 0;
}

int server_config_load(const char *file, struct server_config *ret, gb_error *err)
{
        _cleanup_document_ struct document *doc = NULL;
        _cleanup_free_ char *path = NULL;
        struct server_config c;

        if (!file && path_config_file("server.yaml", &path) < 0)
                return no_memory(err);
        int r = set_defaults(&c, err);
        if (r == 0)
                r = document_read(file ? file : path, &doc, err);
        if (r == 0)
                r = read_document(&c, doc, err);
        else if (r == -ENOENT && !file && !doc && path_config_is_optional())
                r = 0;
        if (r < 0) {
                if (err && err->code == GB_E_POLICY)
                        err->code = GB_E_USAGE; /* it is a file, and not the one of the policy */
                server_config_done(&c);
                return r;
        }
        *ret = c;
        return 0;
}

void server_config_done(struct server_config *c)
{
        for (size_t i = 0; i < n_config_rows; i++)
                if (!types[config_rows[i].type].parse)
                        clear(&config_rows[i], c);
}

int server_config_set(struct server_config *c, const char *key, const char *value, const char *what, gb_error *err)
{
        const char *names[ARRAY_SIZE(config_rows)];
        const struct config_row *row = config_row_by_key(key);

        if (!row) {
                list_keys(names);
                const char *nearest = suggest_nearest(key, names, n_config_rows);
                return error_set(err, GB_E_USAGE, ENOENT, "%s: unknown key %s%s%s%s", what, quote(key).text, nearest ? "; did you mean \"" : "",
                                 nearest ? nearest : "", nearest ? "\"?" : "");
        }
        return apply(row, c, value, err) < 0 ? error_prefix(err, "%s", what) : 0;
}

int server_config_clear(struct server_config *c, const char *key, gb_error *err)
{
        const struct config_row *row = config_row_by_key(key);

        if (row && is_list(row))
                clear(row, c);
        return 0;
}

/* ---- the last check ---- */

static int check_times(const struct server_config *c, gb_error *err)
{
        if (c->idle_usec > c->idle_max_usec)
                return error_set(err, GB_E_USAGE, EINVAL, "idle_timeout is above idle_timeout_max");
        if (c->lifetime_usec > c->lifetime_max_usec)
                return error_set(err, GB_E_USAGE, EINVAL, "max_lifetime is above max_lifetime_max");
        return 0;
}

int server_config_check(const struct server_config *c, gb_error *err)
{
        if (!c->certificate != !c->key)
                return error_set(err, GB_E_USAGE, EINVAL, "TLS takes both a certificate and its key: %s is missing", c->certificate ? "key" : "certificate");
        if (c->n_listen == 0)
                return error_set(err, GB_E_USAGE, EINVAL, "there is no address to listen at");
        if (!c->directory)
                return error_set(err, GB_E_USAGE, EINVAL, STATE_UNKNOWN);
        for (size_t i = 0; i < c->n_listen; i++) {
                struct listen_address address;
                int r = listen_address_parse(c->listen[i].address, &address, err);
                if (r < 0)
                        return r;
                if (!c->tokens && !listen_address_is_local(&address))
                        return error_set(err, GB_E_USAGE, EPERM, "%s can be reached by others, and without tokens everybody could run code here: "
                                         "switch tokens on, or listen at a loopback address or a unix socket", c->listen[i].address);
        }
        return check_times(c, err);
}
