/* SPDX-License-Identifier: Apache-2.0 */
#ifndef EGRESS_SEAL_H
#define EGRESS_SEAL_H

/* Should: hold sockets of boxes, talk to names and addresses of the internet. Mustn't: open a file, start a process, bind a port, be somebody whom others obey.
 * As root it becomes nobody. 0 or a negative errno: then nothing may be served. */
int egress_seal(void);

#endif
