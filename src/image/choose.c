/* SPDX-License-Identifier: Apache-2.0 */
#include "image/choose.h"

#include "base/quote.h"
#include "image/store.h"

#include <errno.h>
#include <string.h>

static int check(const struct policy *p, const char *rootfs, const char *template, gb_error *err)
{
        if (p->backend == BACKEND_DOCKER && rootfs)
                return error_set(err, GB_E_USAGE, EINVAL, "a root directory (%s) is for the native backend, and this is docker: name an image of the engine, or leave it out",
                                 quote(rootfs).text);
        if (p->backend == BACKEND_DOCKER && template)
                return error_set(err, GB_E_USAGE, EINVAL, "templates are of the native backend, and this is docker: leave out the template %s", quote(template).text);
        if (p->image && rootfs)
                return error_set(err, GB_E_USAGE, EINVAL, "both an image (%s) and a root directory (%s) were asked for: leave one of them out", quote(p->image).text,
                                 quote(rootfs).text);
        if (p->image && template)
                return error_set(err, GB_E_USAGE, EINVAL, "both an image (%s) and a template (%s) were asked for, and a template has its own: leave one of them out",
                                 quote(p->image).text, quote(template).text);
        return 0;
}

int image_choose(const struct policy *policy, const char *rootfs, const char *template, char **ret, gb_error *err)
{
        *ret = NULL;
        int r = check(policy, rootfs, template, err);
        if (r < 0)
                return r;
        if (policy->backend == BACKEND_NATIVE && policy->image)
                return image_store_root(policy->image, ret, err);
        if (rootfs && !(*ret = strdup(rootfs)))
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return 0;
}
