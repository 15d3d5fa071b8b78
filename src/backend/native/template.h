/* SPDX-License-Identifier: Apache-2.0
 *
 * Templates, as the front keeps them: started when the first session wants one, or ahead; started again when they have
 * died. */
#ifndef NATIVE_TEMPLATE_H
#define NATIVE_TEMPLATE_H

#include "backend/native/admit.h"
#include "policy/template.h"

#define TEMPLATE_WHY_MAX 128

/* Makes sure that it waits for orders; starting it takes as long as its imports. Fills the key by which the warden knows
 * it. Without `start` only the key: somebody else's warden may have it. A negative errno: it cannot be had, why says so; the caller goes on without. note says what it lacks. */
int template_ensure(const struct template *t, const struct native_host *host, bool start, struct template_key *ret_key,
                    char note[static TEMPLATE_WHY_MAX], char why[static TEMPLATE_WHY_MAX]);
/* The key alone. */
void template_make_key(const struct template *t, struct template_key *ret);
/* Readable when one of this process has ended; -1: there is none. */
int template_event_fd(const struct template *t);
/* Ends those of this process. */
void template_forget_all(void);

#endif
