/* SPDX-License-Identifier: Apache-2.0 */
#include "policy/network_rule.h"

#include "base/quote.h"
#include "base/url_path.h"
#include "policy/list.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static int no_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

/* A piece of a text, made fit for a message. */
static struct quoted quote_piece(const char *text, size_t size)
{
        char piece[QUOTED_MAX];

        snprintf(piece, sizeof(piece), "%.*s", (int)MIN(size, sizeof(piece) - 1), text);
        return quote(piece);
}

struct network_rule *network_rule_new(void)
{
        return calloc(1, sizeof(struct network_rule));
}

static void wipe_header(struct network_header *h)
{
        if (h->value)
                explicit_bzero(h->value, strlen(h->value));
        free(h->name);
        free(h->value);
        *h = (struct network_header){0};
}

void network_rule_free(struct network_rule *r)
{
        if (!r)
                return;
        while (r->n_methods > 0)
                free(r->methods[--r->n_methods]);
        while (r->n_paths > 0)
                free(r->paths[--r->n_paths]);
        while (r->n_headers > 0)
                wipe_header(&r->headers[--r->n_headers]);
        free(r->text);
        free(r);
}

struct network_rule *network_rule_copy(const struct network_rule *from)
{
        _cleanup_network_rule_ struct network_rule *r = network_rule_new();

        if (!r)
                return NULL;
        r->pattern = from->pattern;
        r->protocol = from->protocol;
        r->intercept = from->intercept;
        r->n_ports = from->n_ports;
        memcpy(r->ports, from->ports, sizeof(r->ports));
        r->text = strdup(from->text);
        bool good = r->text;
        for (size_t i = 0; good && i < from->n_methods; i++)
                good = (r->methods[r->n_methods++] = strdup(from->methods[i]));
        for (size_t i = 0; good && i < from->n_paths; i++)
                good = (r->paths[r->n_paths++] = strdup(from->paths[i]));
        for (size_t i = 0; good && i < from->n_headers; i++) {
                struct network_header *h = &r->headers[r->n_headers++];
                *h = (struct network_header){strdup(from->headers[i].name), strdup(from->headers[i].value)};
                good = h->name && h->value;
        }
        return good ? TAKE_PTR(r) : NULL;
}

/* ---- host, ports, protocol ---- */

static int refuse_host(const char *text, size_t size, gb_error *err)
{
        struct quoted name = quote_piece(text, size);
        const char *why = "allowed: a.com, *.a.com, *, 1.2.3.4 or [::1]";

        for (size_t i = 0; i < size; i++)
                if ((unsigned char)text[i] >= 0x80)
                        why = "names in other scripts are written as xn--...";
        if (memchr(text, '@', size))
                why = "a user or password does not belong into it";
        else if (memchr(text, '*', size))
                why = "* stands alone, or for all labels in front: *.a.com";
        else if (size > 2 && memchr(text, ':', size) && text[0] != '[')
                why = "an address of IPv6 is written in brackets: [::1]";
        return error_set(err, GB_E_USAGE, EINVAL, "%s is not a host; %s", name.text, why);
}

int network_rule_set_host(struct network_rule *r, const char *text, size_t size, gb_error *err)
{
        return host_pattern_parse(text, size, &r->pattern) < 0 ? refuse_host(text, size, err) : 0;
}

char *network_rule_host(const struct network_rule *r, char buf[static NETWORK_HOST_TEXT_MAX])
{
        const struct host *h = &r->pattern.host;

        if (r->pattern.kind == PATTERN_ANY)
                return strcpy(buf, "*");
        bool brackets = h->kind == HOST_ADDRESS && strchr(h->text, ':');
        snprintf(buf, NETWORK_HOST_TEXT_MAX, "%s%s%s%s", r->pattern.kind == PATTERN_BELOW ? "*." : "", brackets ? "[" : "", h->text, brackets ? "]" : "");
        return buf;
}

static int add_range(struct network_rule *r, const char *text, size_t size, gb_error *err)
{
        const char *dash = memchr(text, '-', size);
        size_t first_size = dash ? (size_t)(dash - text) : size;
        uint16_t first = 0, last = 0;

        int result = port_parse(text, first_size, &first);
        if (result == 0)
                last = first;
        if (result == 0 && dash)
                result = port_parse(dash + 1, size - first_size - 1, &last);
        if (result < 0 || first > last)
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not a port; allowed: 1 to 65535, or a range such as 8000-8010", quote_piece(text, size).text);
        if (r->n_ports == NETWORK_PORTS_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many ports; at most %d ports or ranges", NETWORK_PORTS_MAX);
        r->ports[r->n_ports][0] = first;
        r->ports[r->n_ports++][1] = last;
        return 0;
}

int network_rule_add_ports(struct network_rule *r, const char *text, size_t size, gb_error *err)
{
        for (;;) {
                const char *comma = memchr(text, ',', size);
                size_t n = comma ? (size_t)(comma - text) : size;
                int result = add_range(r, text, n, err);
                if (result < 0 || !comma)
                        return result;
                text = comma + 1;
                size -= n + 1;
        }
}

int network_rule_set_protocol(struct network_rule *r, const char *text, size_t size, gb_error *err)
{
        for (int i = NETWORK_HTTPS; i <= NETWORK_TCP; i++) {
                const char *name = network_protocol_name((enum network_protocol)i);
                if (strlen(name) == size && memcmp(name, text, size) == 0) {
                        r->protocol = (enum network_protocol)i;
                        return 0;
                }
        }
        return error_set(err, GB_E_USAGE, EINVAL, "%s is not a protocol of a rule; allowed: https, http, tcp", quote_piece(text, size).text);
}

/* ---- what is looked at in requests ---- */

int network_rule_add_method(struct network_rule *r, const char *text, size_t size, gb_error *err)
{
        char method[NETWORK_METHOD_MAX] = "";
        bool good = size > 0 && size < sizeof(method);

        for (size_t i = 0; good && i < size; i++) {
                method[i] = (char)toupper((unsigned char)text[i]);
                good = (method[i] >= 'A' && method[i] <= 'Z') || method[i] == '-';
        }
        if (!good)
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not a method; allowed: words such as GET, HEAD, POST", quote_piece(text, size).text);
        if (strcmp(method, "CONNECT") == 0 || strcmp(method, "TRACE") == 0)
                return error_set(err, GB_E_USAGE, EPERM, "the method %s is never passed on", method);
        if (r->n_methods == NETWORK_METHODS_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many methods; at most %d", NETWORK_METHODS_MAX);
        char *copy = strdup(method);
        if (!copy)
                return no_memory(err);
        r->methods[r->n_methods++] = copy;
        return 0;
}

int network_rule_add_path(struct network_rule *r, const char *text, gb_error *err)
{
        size_t n = strlen(text);

        if (text[0] != '/')
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not a path; it begins with /", quote(text).text);
        if (strpbrk(text, "?#"))
                return error_set(err, GB_E_USAGE, EINVAL, "%s has a query or a fragment; a rule has the beginning of a path only", quote(text).text);
        if (strchr(text, '*'))
                return error_set(err, GB_E_USAGE, EINVAL, "%s has a *; a rule has the beginning of a path: /a/ is all below it", quote(text).text);
        for (size_t i = 0; i < n; i++)
                if (text[i] <= ' ' || text[i] > '~' || strchr("\"<>\\^`{|}", text[i]))
                        return error_set(err, GB_E_USAGE, EINVAL, "%s has what no path of a URL has", quote(text).text);
        if (url_path_is_ambiguous(text, n))
                return error_set(err, GB_E_USAGE, EINVAL, "%s can be read in more than one way; write it without \".\" and \"..\", and nothing of it encoded",
                                 quote(text).text);
        if (n >= NETWORK_PATH_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "the path is too long; at most %d letters", NETWORK_PATH_MAX - 1);
        if (r->n_paths == NETWORK_PATHS_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many paths; at most %d", NETWORK_PATHS_MAX);
        char *copy = strdup(text);
        if (!copy)
                return no_memory(err);
        r->paths[r->n_paths++] = copy;
        return 0;
}

/* Those by which a message is framed, or which are between two neighbours only. */
static bool is_reserved(const char *name)
{
        static const char *const names[] = {"Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade", "TE", "Trailer", "Expect",
                                            "HTTP2-Settings"};

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strcasecmp(names[i], name) == 0)
                        return true;
        return strncasecmp(name, "Proxy-", 6) == 0;
}

int network_reference_next(const char **at, struct network_reference *ret)
{
        const char *begin = strstr(*at, "${");

        if (!begin)
                return 0;
        const char *end = strchr(begin, '}'), *colon = strchr(begin, ':');
        if (!end || !colon || colon > end)
                return -EINVAL;
        *ret = (struct network_reference){begin, end + 1, begin + 2, colon + 1, (size_t)(colon - begin - 2), (size_t)(end - colon - 1)};
        *at = end + 1;
        return 1;
}

static int check_references(const char *value, gb_error *err)
{
        struct network_reference ref;
        int r;

        while ((r = network_reference_next(&value, &ref)) > 0) {
                char name[RULE_NAME_MAX];
                if (ref.kind_size != 6 || memcmp(ref.kind, "secret", 6) != 0)
                        return error_set(err, GB_E_USAGE, EINVAL, "%s is not known here; allowed: ${secret:NAME}, and in a policy file ${file:PATH} and ${env:NAME}",
                                         quote_piece(ref.begin, (size_t)(ref.end - ref.begin)).text);
                snprintf(name, sizeof(name), "%.*s", (int)MIN(ref.name_size, sizeof(name) - 1), ref.name);
                if (ref.name_size >= sizeof(name) || env_check_name(name, err) < 0)
                        return error_set(err, GB_E_USAGE, EINVAL, "%s is not the name of a secret", quote(name).text);
        }
        return r < 0 ? error_set(err, GB_E_USAGE, EINVAL, "a \"${\" in a value begins ${secret:NAME}, ${file:PATH} or ${env:NAME}") : 0;
}

/* The value is not repeated: it may be a secret. */
static int check_header(const struct network_rule *r, const char *name, const char *value, gb_error *err)
{
        static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&'*+-.^_`|~";

        if (*name == '\0' || name[strspn(name, letters)] != '\0' || strlen(name) >= NETWORK_HEADER_NAME_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not the name of a header field", quote(name).text);
        if (is_reserved(name))
                return error_set(err, GB_E_USAGE, EPERM, "the header field %s is made by the proxy itself; a rule cannot set it", quote(name).text);
        for (size_t i = 0; i < r->n_headers; i++)
                if (strcasecmp(r->headers[i].name, name) == 0)
                        return error_set(err, GB_E_USAGE, EEXIST, "the header field %s is there twice", quote(name).text);
        for (const char *c = value; *c; c++)
                if (((unsigned char)*c < ' ' && *c != '\t') || *c == 0x7f)
                        return error_set(err, GB_E_USAGE, EINVAL, "the value of the header field %s has a line break or another control character", quote(name).text);
        size_t n = strlen(value);
        if (n == 0 || n >= NETWORK_HEADER_VALUE_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "the value of the header field %s is %s", quote(name).text, n == 0 ? "empty" : "too long");
        if (strchr(" \t", value[0]) || strchr(" \t", value[n - 1]))
                return error_set(err, GB_E_USAGE, EINVAL, "the value of the header field %s begins or ends with a blank", quote(name).text);
        return check_references(value, err);
}

int network_rule_add_header(struct network_rule *r, const char *name, const char *value, gb_error *err)
{
        int result = check_header(r, name, value, err);

        if (result < 0)
                return result;
        if (r->n_headers == NETWORK_HEADERS_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many header fields; at most %d", NETWORK_HEADERS_MAX);
        struct network_header *h = &r->headers[r->n_headers++];
        *h = (struct network_header){strdup(name), strdup(value)};
        return h->name && h->value ? 0 : no_memory(err);
}

/* ---- the whole ---- */

static int check_together(const struct network_rule *r, gb_error *err)
{
        const char *what = r->n_methods > 0 ? "methods" : r->n_paths > 0 ? "paths" : r->n_headers > 0 ? "headers" : NULL;

        if (r->intercept && r->protocol != NETWORK_HTTPS)
                return error_set(err, GB_E_USAGE, EINVAL, "intercept is for https only: there is no TLS to end in %s", network_protocol_name(r->protocol));
        if (what && r->protocol == NETWORK_TCP)
                return error_set(err, GB_E_USAGE, EINVAL, "a rule for tcp has no %s: its bytes are not looked at", what);
        if (what && r->protocol == NETWORK_HTTPS && !r->intercept)
                return error_set(err, GB_E_USAGE, EINVAL, "a rule for https has no %s: they cannot be seen inside TLS; use http, or the form with \"intercept: true\"",
                                 what);
        return 0;
}

static void append(char *text, size_t size, const char *more)
{
        size_t n = strlen(text);

        if (n + strlen(more) < size)
                strcpy(text + n, more);
        else if (n + 4 < size && (n < 3 || strcmp(text + n - 3, "...") != 0))
                strcpy(text + n, "...");
}

/* "GET,HEAD http://a.com:80,8080/x,/y": what network_allow_add_text() reads, as long as there is one path. Room is kept for the dots. */
static int make_text(struct network_rule *r, gb_error *err)
{
        char text[NETWORK_RULE_TEXT_MAX] = "", piece[NETWORK_HOST_TEXT_MAX];
        size_t size = sizeof(text);

        for (size_t i = 0; i < r->n_methods; i++) {
                append(text, size, r->methods[i]);
                append(text, size, i + 1 < r->n_methods ? "," : " ");
        }
        append(text, size, network_protocol_name(r->protocol));
        append(text, size, "://");
        append(text, size, network_rule_host(r, piece));
        append(text, size, ":");
        for (size_t i = 0; i < r->n_ports; i++) {
                int n = snprintf(piece, sizeof(piece), "%s%u", i > 0 ? "," : "", r->ports[i][0]);
                if (r->ports[i][1] != r->ports[i][0])
                        snprintf(piece + n, sizeof(piece) - (size_t)n, "-%u", r->ports[i][1]);
                append(text, size, piece);
        }
        for (size_t i = 0; i < r->n_paths; i++) {
                append(text, size, i > 0 ? "," : "");
                append(text, size, r->paths[i]);
        }
        free(r->text);
        r->text = strdup(text);
        return r->text ? 0 : no_memory(err);
}

int network_rule_finish(struct network_rule *r, bool has_protocol, gb_error *err)
{
        if (!has_protocol)
                r->protocol = r->n_ports == 1 && r->ports[0][0] == 80 && r->ports[0][1] == 80 ? NETWORK_HTTP : NETWORK_HTTPS;
        if (r->n_ports == 0 && r->protocol == NETWORK_TCP)
                return error_set(err, GB_E_USAGE, EINVAL, "a rule for tcp needs its ports: tcp://a.com:22");
        if (r->n_ports == 0) {
                r->ports[0][0] = r->ports[0][1] = r->protocol == NETWORK_HTTP ? 80 : 443;
                r->n_ports = 1;
        }
        int result = check_together(r, err);
        return result < 0 ? result : make_text(r, err);
}

int network_rule_add(struct policy *p, struct network_rule *taken, gb_error *err)
{
        _cleanup_network_rule_ struct network_rule *r = taken;

        if (p->n_network_allow == NETWORK_RULES_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many rules; at most %d, with those of presets", NETWORK_RULES_MAX);
        struct network_rule **grown = reallocarray(p->network_allow, p->n_network_allow + 1, sizeof(struct network_rule *));
        if (!grown)
                return no_memory(err);
        p->network_allow = grown;
        p->network_allow[p->n_network_allow++] = TAKE_PTR(r);
        return 0;
}
