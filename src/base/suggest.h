/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

/* The name nearest to word by edit distance (case-blind; a swap of neighbours counts once), for
 * "did you mean". NULL when none is near enough to be meant. NULL entries are skipped. */
const char *suggest_nearest(const char *word, const char *const names[], size_t n);

#endif
