/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/files_serve.h"

#include "base/fd.h"
#include "engine/files_wire.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

int files_serve(int fd)
{
        _cleanup_close_ int root = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        if (root < 0)
                return -errno;
        signal(SIGXFSZ, SIG_IGN); /* a file that is too large is an answer, not the end */
        struct files files = {.root_fd = root, .uid = geteuid(), .gid = getegid()};
        return files_server_run(fd, &files);
}
