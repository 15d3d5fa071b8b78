/* SPDX-License-Identifier: Apache-2.0
 *
 * A hash to tell things apart that nobody makes alike on purpose (FNV-1a, 64 bits). Not for secrets. */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define HASH_INIT 0xcbf29ce484222325ULL

static inline uint64_t hash_bytes(uint64_t hash, const void *data, size_t size)
{
        const unsigned char *bytes = data;

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ bytes[i]) * 0x100000001b3ULL;
        return hash;
}

/* With its NUL, so that "ab", "c" is not "a", "bc". */
static inline uint64_t hash_string(uint64_t hash, const char *text)
{
        return hash_bytes(hash, text, strlen(text) + 1);
}

#endif
