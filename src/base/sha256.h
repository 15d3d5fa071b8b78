/* SPDX-License-Identifier: Apache-2.0
 *
 * SHA-256 (FIPS 180-4), for programs that are linked without a library for it. */
#ifndef BASE_SHA256_H
#define BASE_SHA256_H

#include <stddef.h>
#include <stdint.h>

#define SHA256_TEXT_MAX 65 /* 64 hexadecimal digits and a NUL */

struct sha256 {
        uint32_t state[8];
        uint64_t size;
        unsigned char block[64];
};

void sha256_init(struct sha256 *s);
void sha256_add(struct sha256 *s, const void *data, size_t size);
/* The end of it, as text. */
void sha256_text(struct sha256 *s, char ret[static SHA256_TEXT_MAX]);

#endif
