/* SPDX-License-Identifier: Apache-2.0
 *
 * Between who uses rules and the program that compiles them: a file on its way there (this, its name, its text), and what is written over the result. */
#ifndef GUARD_RULES_WIRE_H
#define GUARD_RULES_WIRE_H

#include "base/siphash.h"
#include "guard/rules.h"

#include <string.h>

struct rules_file {
        uint32_t name_size, size;
        uint32_t is_extra; /* 1: its rules take the place of earlier ones of the same id */
};

_Static_assert(offsetof(struct rules_head, checksum) + sizeof(uint64_t) == sizeof(struct rules_head), "the checksum is the last of the head");

/* Of a piece, without the checksum in its head. Against what a disk or a crash does to it: who may write the file may write this as well. */
static inline uint64_t rules_checksum(const void *bytes, size_t size)
{
        static const uint64_t key[2] = {0, 0};
        uint64_t head[offsetof(struct rules_head, checksum) / sizeof(uint64_t)];

        memcpy(head, bytes, sizeof(head));
        return siphash(key, head, ARRAY_SIZE(head), (const char *)bytes + sizeof(struct rules_head), size - sizeof(struct rules_head));
}

#endif
