/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions and runs as people name them: whole ids, beginnings of ids, names of sessions. */
#ifndef CLI_IDS_H
#define CLI_IDS_H

#include "cli/service.h"

#define ID_PREFIX_MIN 4 /* digits of an id that stand for it */

/* GB_E_NOT_FOUND; GB_E_USAGE when it could be several. */
int ids_find_session(struct service *s, const char *text, char ret[static RESPONSE_ID_MAX], gb_error *err);
int ids_find_run(struct service *s, const char *text, char ret[static RESPONSE_ID_MAX], gb_error *err);
/* Of either; sessions first. */
int ids_find(struct service *s, const char *text, char ret[static RESPONSE_ID_MAX], bool *ret_is_run, gb_error *err);

#endif
