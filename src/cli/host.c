/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/host.h"

#include "base/macro.h"

#include <stdarg.h>
#include <stdio.h>

const char *host_state_name(enum host_state state)
{
        static const char *const names[] = {"ok", "weaker", "missing", "info"};

        return (size_t)state < ARRAY_SIZE(names) ? names[state] : "unknown";
}

void host_found(struct host_finding *f, enum host_state state, const char *format, ...)
{
        va_list ap;

        f->state = state;
        va_start(ap, format);
        vsnprintf(f->found, sizeof(f->found), format, ap);
        va_end(ap);
}

void host_remedy(struct host_finding *f, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        vsnprintf(f->remedy, sizeof(f->remedy), format, ap);
        va_end(ap);
}

void host_means(struct host_finding *f, const char *format, ...)
{
        va_list ap;

        va_start(ap, format);
        vsnprintf(f->means, sizeof(f->means), format, ap);
        va_end(ap);
}

static void run_checks(struct host_report *ret, const struct host_check *checks, size_t n)
{
        for (size_t i = 0; i < n && ret->n < HOST_FINDINGS_MAX; i++) {
                struct host_finding *f = &ret->findings[ret->n++];
                *f = (struct host_finding){.name = checks[i].name, .state = HOST_MISSING, .required = checks[i].required};
                host_means(f, "%s", checks[i].means);
                checks[i].run(f);
        }
}

void host_examine(struct host_report *ret)
{
        ret->n = 0;
        run_checks(ret, host_kernel_checks, n_host_kernel_checks);
        run_checks(ret, host_service_checks, n_host_service_checks);
        host_examine_engine(ret);
}
