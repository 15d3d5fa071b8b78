/* SPDX-License-Identifier: Apache-2.0
 *
 * Targets of requests, and the names that Host and Origin have. */
#ifndef HTTP_URI_H
#define HTTP_URI_H

#include "base/limits.h"
#include "base/macro.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Percent-decoding into new memory: -EINVAL unless every % has two hexadecimal digits and the outcome is UTF-8 without NUL. plus: a + is a blank. */
int uri_decode(const char *text, size_t size, bool plus, char **ret);

struct uri_query {
        struct {
                char *name, *value; /* value "": "?name" or "?name=" */
        } items[HTTP_QUERY_MAX];
        size_t n;
};

/* What stands behind the ? of a target; NULL or "": nothing. -EINVAL, -E2BIG above HTTP_QUERY_MAX, -ENOMEM. */
int uri_query_parse(const char *text, struct uri_query **ret);
void uri_query_free(struct uri_query *q); /* takes NULL */
DEFINE_CLEANUP(struct uri_query, uri_query_free)
#define _cleanup_uri_query_ _cleanup_(uri_query_free_ptr)

/* "name", "name:80", "[::1]:80": a host as Host and Origin have it. */
#define URI_HOST_MAX 256
struct uri_host {
        char name[URI_HOST_MAX]; /* in lower case; addresses of IPv6 without brackets, in their canonical form */
        bool ipv6;
        int port; /* -1: none is named */
};
/* -EINVAL for everything else. */
int uri_host_parse(const char *text, struct uri_host *ret);
/* "http://host" or "https://host:1234", and no more. */
int uri_origin_parse(const char *text, bool *ret_secure, struct uri_host *ret);

#endif
