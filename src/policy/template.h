/* SPDX-License-Identifier: Apache-2.0
 *
 * The table of templates, from config/templates.yaml. A template is a Python that has its imports
 * done; sessions and runs are forked from it. */
#ifndef POLICY_TEMPLATE_H
#define POLICY_TEMPLATE_H

#include "base/error.h"
#include "base/limits.h"

#include <stddef.h>

#define TEMPLATE_NAME_MAX 32

struct template {
        char *name;
        char *rootfs;                            /* absolute path of an image; NULL: the host */
        char *python;                            /* looked up in the PATH of the box, unless absolute */
        char *modules[TEMPLATE_MODULES_MAX + 1]; /* imported in this order; NULL-terminated */
        char *description;                       /* one line; never NULL */
        unsigned pool;                           /* children forked ahead; 0: fork when asked for */
};

struct templates {
        struct template rows[TEMPLATE_COUNT_MAX];
        size_t n;
};

/* NULL: the default file (see base/path.h), or when there is none a built-in table of "python". */
int templates_load(const char *file, struct templates **ret, gb_error *err);
/* The same from memory; name stands for the file in errors. */
int templates_parse(const char *name, const char *text, size_t size, struct templates **ret, gb_error *err);
void templates_free(struct templates *t);
DEFINE_CLEANUP(struct templates, templates_free)
#define _cleanup_templates_ _cleanup_(templates_free_ptr)

/* The error names the nearest and lists all. */
int template_by_name(const struct templates *t, const char *name, const struct template **ret, gb_error *err);

#endif
