/* SPDX-License-Identifier: Apache-2.0
 *
 * The main of a fuzz target built without libFuzzer: runs it once over each file, and each
 * file of each directory, that is named on the command line. */
#include "base/fd.h"
#include "base/limits.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(int dirfd, const char *name)
{
        _cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
        _cleanup_free_ char *data = NULL;
        size_t size;

        if (fd < 0)
                return -errno;
        int r = fd_read_all(fd, CODE_BYTES_MAX, &data, &size);
        if (r < 0)
                return r;
        LLVMFuzzerTestOneInput((const uint8_t *)data, size);
        return 1;
}

/* How many files were run, or a negative errno. */
static int replay(const char *path)
{
        DIR *dir = opendir(path);
        int n = 0;

        if (!dir)
                return errno == ENOTDIR ? replay_file(AT_FDCWD, path) : -errno;
        for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
                if (entry->d_name[0] == '.')
                        continue;
                int r = replay_file(dirfd(dir), entry->d_name);
                if (r < 0) {
                        n = r;
                        break;
                }
                n += r;
        }
        closedir(dir);
        return n;
}

int main(int argc, char **argv)
{
        int files = 0;

        for (int i = 1; i < argc; i++) {
                int r = replay(argv[i]);
                if (r < 0) {
                        fprintf(stderr, "%s: %s\n", argv[i], strerror(-r));
                        return 1;
                }
                files += r;
        }
        printf("%d files\n", files);
        return files > 0 ? 0 : 1; /* an empty corpus tests nothing */
}
