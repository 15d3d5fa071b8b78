/* SPDX-License-Identifier: Apache-2.0
 *
 * SipHash-2-4: a short tag under a key that only who knows the key can make. */
#ifndef BASE_SIPHASH_H
#define BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* Of the words of a head and the bytes behind it. */
uint64_t siphash(const uint64_t key[static 2], const uint64_t *head, size_t n_head, const void *bytes, size_t size);

#endif
