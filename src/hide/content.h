/* SPDX-License-Identifier: Apache-2.0
 *
 * Which files with a name of keys are hidden: those whose content is a credential (docs/hiding.md). */
#ifndef HIDE_CONTENT_H
#define HIDE_CONTENT_H

#include <stdbool.h>
#include <stddef.h>

/* What is looked for, besides a private key. */
enum hide_content {
        HIDE_CONTENT_ANY,
        HIDE_CONTENT_PEM,    /* *.pem: something without an armour is taken for a key */
        HIDE_CONTENT_KEY,    /* *.key: whatever is not a text of several words */
        HIDE_CONTENT_AUTH,   /* auth.json: tokens */
        HIDE_CONTENT_CONFIG, /* config of git: tokens in addresses and headers */
};

enum hide_content hide_content_of(const char *name);

/* Whether it is hidden. !is_whole: bytes are its beginning, and true says that no more has to be read. */
bool hide_is_key(enum hide_content kind, const char *bytes, size_t size, bool is_whole);

#endif
