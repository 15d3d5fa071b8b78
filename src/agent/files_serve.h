/* SPDX-License-Identifier: Apache-2.0 */
#ifndef AGENT_FILES_SERVE_H
#define AGENT_FILES_SERVE_H

/* Serves one operation on files of the workspace (engine/files_wire.h) on a stream socket, as who this process is, and returns at its end: 0, or a
 * negative errno when no answer could be given. */
int files_serve(int fd);

#endif
