/* SPDX-License-Identifier: Apache-2.0 */
#ifndef CLI_LANGUAGES_H
#define CLI_LANGUAGES_H

#include "policy/language.h"

#include <stdbool.h>

/* Whether a box that is made of the host's /usr would find the language's first command. */
bool language_is_found(const struct language *l);

#endif
