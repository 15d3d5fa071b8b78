/* SPDX-License-Identifier: Apache-2.0
 *
 * Bodies of requests while they come: in memory, and in an unlinked file of the state directory when they are large. */
#ifndef SERVER_BODY_H
#define SERVER_BODY_H

#include "server/request.h"

void body_init(struct body *b);
void body_done(struct body *b);
/* GB_E_DISK_FULL when the file system has no room. */
int body_add(struct body *b, const char *directory, const void *bytes, size_t size, gb_error *err);
/* All of it has come: a file is read from its beginning. */
int body_end(struct body *b, gb_error *err);

#endif
