/* SPDX-License-Identifier: Apache-2.0
 *
 * What the guard, the scrubber and the proxy have done, for people; from the objects "guard", "scrubbed" and "network" of a result, wherever it was made. */
#ifndef CLI_FINDINGS_H
#define CLI_FINDINGS_H

#include "cli/output.h"

#define FINDING_TEXT_MAX 1024

/* Where findings are told. */
struct findings_view {
        void (*say)(void *data, enum message_kind kind, const char *text); /* NULL: message_print() */
        void *data;
        const char *code; /* what they are about, to show their lines on a terminal; NULL: not known */
        size_t size;
};

/* Those that block or warn, one a line, the first few. told: the first is in the verdict already, only its line is shown. */
void findings_tell(const json_t *guard, bool told, const struct findings_view *view);
/* "2 secrets scrubbed: github-token 1, API_KEY 1", if there were any. */
void findings_tell_scrubbed(const json_t *scrubbed, const struct findings_view *view);
/* Whether a row of "hosts" is one that the policy did not let pass. */
bool findings_is_refused(const json_t *row);
/* "network: 2 requests refused: evil.com:443 (no rule)", if there were any, and what a budget has cut. From the object "network" of a result. */
void findings_tell_network(const json_t *network, const struct findings_view *view);

/* "file:line:column: action: rule: message" to out, for each of them. */
int findings_list(const json_t *findings, const char *name, const struct findings_view *view, struct buffer *out);

#endif
