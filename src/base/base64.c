/* SPDX-License-Identifier: Apache-2.0 */
#include "base/base64.h"

#include "base/macro.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static const char alphabet[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

int base64_encode(const void *bytes, size_t size, char **ret, size_t *ret_size)
{
        const unsigned char *p = bytes;

        if (size > SIZE_MAX / 4 * 3 - 8)
                return -ENOMEM;
        size_t length = (size + 2) / 3 * 4;
        char *text = malloc(length + 1);
        if (!text)
                return -ENOMEM;

        char *q = text;
        for (size_t i = 0; i < size; i += 3) {
                size_t left = size - i;
                uint32_t group = (uint32_t)p[i] << 16;
                if (left > 1)
                        group |= (uint32_t)p[i + 1] << 8;
                if (left > 2)
                        group |= p[i + 2];
                *q++ = alphabet[group >> 18];
                *q++ = alphabet[group >> 12 & 63];
                *q++ = left > 1 ? alphabet[group >> 6 & 63] : '=';
                *q++ = left > 2 ? alphabet[group & 63] : '=';
        }
        *q = '\0';
        *ret = text;
        if (ret_size)
                *ret_size = length;
        return 0;
}

static int digit(char c)
{
        const char *at = c ? strchr(alphabet, c) : NULL;
        return at ? (int)(at - alphabet) : -1;
}

/* One group of four characters with n_padding '=' at its end; -1 when it is wrong. */
static long decode_group(const char *text, size_t n_padding)
{
        long group = 0;

        for (size_t i = 0; i < 4; i++) {
                int d = i < 4 - n_padding ? digit(text[i]) : 0;
                if (d < 0)
                        return -1;
                group = group << 6 | d;
        }
        if ((n_padding == 1 && group & 0xff) || (n_padding == 2 && group & 0xffff))
                return -1;
        return group;
}

int base64_decode(const char *text, size_t size, void **ret, size_t *ret_size)
{
        if (size % 4 != 0)
                return -EINVAL;
        _cleanup_free_ unsigned char *bytes = malloc(size / 4 * 3 + 1);
        if (!bytes)
                return -ENOMEM;

        size_t n = 0;
        for (size_t i = 0; i < size; i += 4) {
                size_t n_padding = 0;
                if (i + 4 == size && text[i + 3] == '=')
                        n_padding = text[i + 2] == '=' ? 2 : 1;
                long group = decode_group(text + i, n_padding);
                if (group < 0)
                        return -EINVAL;
                bytes[n++] = (unsigned char)(group >> 16);
                if (n_padding < 2)
                        bytes[n++] = (unsigned char)(group >> 8 & 0xff);
                if (n_padding < 1)
                        bytes[n++] = (unsigned char)(group & 0xff);
        }
        bytes[n] = '\0';
        *ret = TAKE_PTR(bytes);
        *ret_size = n;
        return 0;
}
