/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may begin something: the quotas of each tenant and of all, and the host's memory. What was let in holds a
 * reservation for as long as it lives; the counters are the sum of the reservations, at every moment. */
#ifndef SERVER_ADMISSION_H
#define SERVER_ADMISSION_H

#include "server/config.h"

struct admission;
struct admission_tenant;

struct reservation {
        struct admission *admission; /* NULL: it holds nothing */
        struct admission_tenant *tenant;
        uint64_t sessions, runs, memory_bytes;
};

struct admission_counts {
        uint64_t sessions, runs, memory_bytes;
};

int admission_new(const struct server_config *config, struct admission **ret, gb_error *err);
/* Nobody holds a reservation. Takes NULL. */
void admission_free(struct admission *a);
DEFINE_CLEANUP(struct admission, admission_free)

/* Takes all of it or nothing. GB_E_LIMIT: more memory than the tenant may ever have; GB_E_QUOTA: the tenant has as much as it may have;
 * GB_E_UNAVAILABLE: the server has, or the host. */
int admission_take(struct admission *a, const char *tenant, const struct admission_counts *wanted, struct reservation *ret, gb_error *err);
/* Gives it back; one that holds nothing is well. */
void admission_release(struct reservation *r);
void admission_count(struct admission *a, const char *tenant, struct admission_counts *ret); /* NULL: of all */

/* No more reservations: GB_E_UNAVAILABLE from here on. */
void admission_close(struct admission *a);

#endif
