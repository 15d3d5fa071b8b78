/* SPDX-License-Identifier: Apache-2.0
 *
 * The command is linked statically. libevent carries helpers that look up host names; nothing here calls
 * them, but they would pull in glibc's resolver, which even in a static program loads shared
 * libraries. These stand in its place and fail. */
#include "base/macro.h"

#include <netdb.h>

int getaddrinfo(const char *_unused_ node, const char *_unused_ service, const struct addrinfo *_unused_ hints,
                struct addrinfo **_unused_ ret)
{
        return EAI_FAIL;
}

void freeaddrinfo(struct addrinfo *_unused_ list)
{
}

struct servent *getservbyname(const char *_unused_ name, const char *_unused_ protocol)
{
        return NULL;
}

struct protoent *getprotobynumber(int _unused_ protocol)
{
        return NULL;
}
