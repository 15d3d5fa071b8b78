/* SPDX-License-Identifier: Apache-2.0
 *
 * A file of rules on its way to the program that compiles them: this, its name, its text. */
#ifndef GUARD_RULES_WIRE_H
#define GUARD_RULES_WIRE_H

#include <stdint.h>

struct rules_file {
        uint32_t name_size, size;
        uint32_t is_extra; /* 1: its rules take the place of earlier ones of the same id */
};

#endif
