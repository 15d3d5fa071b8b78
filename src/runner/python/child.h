/* SPDX-License-Identifier: Apache-2.0
 *
 * How a template forks a child into a session's namespaces. */
#ifndef RUNNER_PYTHON_CHILD_H
#define RUNNER_PYTHON_CHILD_H

#include "runner/python/image.h"
#include "runner/runner.h"

/* Obeys orders from the socket for as long as there are any. Returns in each child, once it has joined everything,
 * given up everything and holds its standard streams and BOX_CONTROL_FD, and nothing else. In the template it does
 * not return. hot may be NULL. missing: what the template could not import. */
void child_serve(int socket, const struct image_hot *hot, const char *missing);

/* A plain fork without the C library's handlers. Returns as fork() does. */
pid_t child_fork(void);

#endif
