/* SPDX-License-Identifier: Apache-2.0 */
#include "hide/content.h"

#include "base/macro.h"
#include "base/utf8.h"
#include "hide/names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define TOKEN_BYTES_MIN 20 /* letters and digits in a row: no word is that long */
#define COPIES_MAX 2

static bool ends_with(const char *text, const char *end)
{
        size_t n = strlen(text), m = strlen(end);

        return n >= m && strcasecmp(text + n - m, end) == 0;
}

static bool has(const char *bytes, size_t size, const char *text)
{
        return memmem(bytes, size, text, strlen(text)) != NULL;
}

enum hide_content hide_content_of(const char *name)
{
        static const struct {
                const char *end;
                enum hide_content kind;
        } rows[] = {{".pem", HIDE_CONTENT_PEM}, {".key", HIDE_CONTENT_KEY}, {"auth.json", HIDE_CONTENT_AUTH}, {"config", HIDE_CONTENT_CONFIG}};
        char copy[NAME_MAX + 1], *inner;

        snprintf(copy, sizeof(copy), "%s", name);
        for (int copies = 0; copies < COPIES_MAX && hide_names_strip(copy, &inner); copies++)
                ;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (ends_with(copy, rows[i].end))
                        return rows[i].kind;
        return HIDE_CONTENT_ANY;
}

/* Letters and digits in a row, both of them, as keys have it in hexadecimal and Base64. */
static bool has_token(const char *bytes, size_t size)
{
        size_t run = 0;
        bool letter = false, digit = false;

        for (size_t i = 0; i < size; i++) {
                unsigned char c = (unsigned char)bytes[i];
                if (!isalnum(c) && (c == '\0' || !strchr("+/=_-", c))) {
                        run = 0;
                        letter = digit = false;
                        continue;
                }
                run++;
                letter = letter || isalpha(c);
                digit = digit || isdigit(c);
                if (run >= TOKEN_BYTES_MIN && letter && digit)
                        return true;
        }
        return false;
}

/* A text of translations or settings has lines; a password has one. */
static bool has_lines(const char *bytes, size_t size)
{
        size_t lines = 0;

        for (size_t i = 0; i < size && lines < 2;) {
                const char *end = memchr(bytes + i, '\n', size - i);
                size_t next = end ? (size_t)(end - bytes) + 1 : size;
                bool filled = false;
                for (; i < next; i++)
                        filled = filled || !isspace((unsigned char)bytes[i]);
                lines += filled;
        }
        return lines >= 2;
}

/* An address with a password, or with a name that is as long as a token. */
static bool has_address_with_token(const char *bytes, size_t size)
{
        for (const char *at = bytes, *end = bytes + size; (at = memmem(at, (size_t)(end - at), "://", 3));) {
                at += 3;
                size_t left = (size_t)(end - at), host = 0;
                while (host < left && at[host] != '/' && !isspace((unsigned char)at[host]))
                        host++;
                const char *sign = memrchr(at, '@', host);
                if (sign && (memchr(at, ':', (size_t)(sign - at)) || sign - at >= TOKEN_BYTES_MIN))
                        return true;
        }
        return false;
}

static bool is_auth(const char *bytes, size_t size)
{
        static const char *const words[] = {"http-basic", "-oauth\"", "gitlab-token", "\"bearer\"", "access_token", "refresh_token", "API_KEY", "api_key", "\"auths\""};

        for (size_t i = 0; i < ARRAY_SIZE(words); i++)
                if (has(bytes, size, words[i]))
                        return true;
        return false;
}

bool hide_is_key(enum hide_content kind, const char *bytes, size_t size, bool is_whole)
{
        if (has(bytes, size, "PRIVATE KEY"))
                return true;
        if (kind == HIDE_CONTENT_PEM)
                return !has(bytes, size, "-----BEGIN ");
        if (kind == HIDE_CONTENT_KEY)
                return memchr(bytes, '\0', size) || has_token(bytes, size) || (is_whole && (!utf8_is_valid(bytes, size) || !has_lines(bytes, size)));
        if (kind == HIDE_CONTENT_AUTH)
                return is_auth(bytes, size);
        return kind == HIDE_CONTENT_CONFIG && (has_address_with_token(bytes, size) || has(bytes, size, "uthorization:") || has(bytes, size, "AUTHORIZATION:"));
}
