/* SPDX-License-Identifier: Apache-2.0
 *
 * Who may talk to the engine is who may write to its socket, and that is, but for the mode of a careless operator, root and one group. A server that gives up
 * root keeps this group when it is to use the engine. */
#include "backend/docker/access.h"

#include "backend/docker/engine.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define REMEDY "make its socket that of a group of its own (dockerd --group docker; of Podman SocketGroup=)"

int docker_keep_access(gid_t *ret, gb_error *err)
{
        char host[sizeof("unix://") + sizeof(((struct engine *)NULL)->socket)];
        struct engine engine = {0};
        struct stat st;

        int r = engine_address(&engine, err);
        if (r < 0)
                return r;
        if (stat(engine.socket, &st) < 0 || !S_ISSOCK(st.st_mode))
                return error_set(err, GB_E_UNAVAILABLE, ENOENT, "there is no engine at %s (%s): start it first", quote_path(engine.socket).text, engine.from);
        if (!(st.st_mode & S_IWGRP) || st.st_gid == 0)
                return error_set(err, GB_E_UNAVAILABLE, EACCES, "the engine at %s lets only root talk to it: " REMEDY, quote_path(engine.socket).text);
        /* The files by which root has found it may be closed to who we become. */
        snprintf(host, sizeof(host), "unix://%s", engine.socket);
        if (setenv("DOCKER_HOST", host, 1) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        *ret = st.st_gid;
        return 0;
}
