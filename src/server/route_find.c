/* SPDX-License-Identifier: Apache-2.0 */
#include "server/routes.h"

#include "base/quote.h"
#include "http/uri.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* A piece of the path that stands for a {name}. */
struct span {
        const char *text;
        size_t size;
};

/* Segment by segment, as they were sent: what was encoded is never a separator. */
static bool matches(const char *pattern, const char *path, size_t size, struct span spans[static ROUTE_PARAMS_MAX], size_t *ret_n)
{
        const char *end = path + size;
        size_t n = 0;

        while (*pattern) {
                if (*pattern != '{') {
                        if (path == end || *path++ != *pattern++)
                                return false;
                        continue;
                }
                const char *name_end = strchr(pattern, '}');
                bool rest = strncmp(name_end - 3, "...", 3) == 0;
                const char *slash = rest ? NULL : memchr(path, '/', (size_t)(end - path));
                const char *stop = slash ? slash : end;
                if (stop == path || n == ROUTE_PARAMS_MAX)
                        return false;
                spans[n++] = (struct span){path, (size_t)(stop - path)};
                path = stop;
                pattern = name_end + 1;
        }
        *ret_n = n;
        return path == end;
}

static bool method_fits(const char *method, const struct route *route)
{
        return strcmp(route->method, method) == 0 || (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

static void allow_add(char allow[static ROUTE_ALLOW_MAX], const char *method)
{
        size_t used = strlen(allow);

        snprintf(allow + used, ROUTE_ALLOW_MAX - used, "%s%s", used > 0 ? ", " : "", method);
}

static int decode_params(const struct span *spans, size_t n, char *params[static ROUTE_PARAMS_MAX], gb_error *err)
{
        for (size_t i = 0; i < n; i++) {
                int r = uri_decode(spans[i].text, spans[i].size, false, &params[i]);
                if (r == -ENOMEM)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "there is no memory for the address");
                if (r < 0)
                        return error_set(err, GB_E_USAGE, EINVAL, "the address is not well encoded: %% has two hexadecimal digits behind it, and all is UTF-8 without NUL");
        }
        return 0;
}

int route_find(const char *method, const char *path, const struct route **ret, char *params[static ROUTE_PARAMS_MAX], char ret_allow[static ROUTE_ALLOW_MAX],
               gb_error *err)
{
        size_t size = strcspn(path, "?"), n;
        struct span spans[ROUTE_PARAMS_MAX];

        ret_allow[0] = '\0';
        for (size_t i = 0; i < n_routes; i++) {
                if (!matches(routes[i].pattern, path, size, spans, &n))
                        continue;
                if (!method_fits(method, &routes[i])) {
                        allow_add(ret_allow, routes[i].method);
                        continue;
                }
                int r = decode_params(spans, n, params, err);
                if (r < 0)
                        return r;
                *ret = &routes[i];
                return 0;
        }
        if (ret_allow[0])
                return error_set(err, GB_E_METHOD, EOPNOTSUPP, "%s is not for this address; these are: %s", quote(method).text, ret_allow);
        return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is nothing at this address; /openapi.json has those there are");
}
