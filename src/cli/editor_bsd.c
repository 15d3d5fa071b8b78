/* SPDX-License-Identifier: Apache-2.0
 *
 * The command is linked statically. libedit wants three functions of libbsd, and all of that would come with side effects:
 * its source of random numbers takes the place of the C library's in libevent, and asks for a library of hashes. Two
 * of the three are for history files of libedit's own, which we do not have: they fail. */
#include "base/macro.h"

#include <string.h>

/* Declared in headers of libbsd only. */
size_t strlcpy(char *to, const char *from, size_t size);
int strvis(char *to, const char *from, int flags);
int strunvis(char *to, const char *from);

size_t strlcpy(char *to, const char *from, size_t size)
{
        size_t length = strlen(from), n = length < size ? length : size - 1;

        if (size == 0)
                return length;
        memcpy(to, from, n);
        to[n] = '\0';
        return length;
}

int strvis(char _unused_ *to, const char _unused_ *from, int _unused_ flags)
{
        return -1;
}

int strunvis(char _unused_ *to, const char _unused_ *from)
{
        return -1;
}
