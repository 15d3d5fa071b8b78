/* SPDX-License-Identifier: Apache-2.0
 *
 * The layer of ours on an image: an archive with the agent, the runners and the places where something is mounted. A link of the image in the place of
 * a directory of ours is replaced by it when the archive is unpacked, and runtimes give a mounted tmpfs the mode of the directory under it. */
#include "backend/docker/plan.h"

#include "base/fd.h"
#include "base/hash.h"
#include "base/path.h"
#include "kernel/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define BLOCK_BYTES 512
#define LAYER_FORMAT 2 /* another one makes other images */

static const char *const runner_files[] = {"glovebox_runner.py", "glovebox_runner_results.py", "glovebox_runner_run.py", "bash_runner.bash", "node_runner.js"};

/* In this order: what holds another comes before it. */
static const struct {
        const char *path;
        unsigned mode;
        const char *link; /* of a symbolic link: where it leads */
} places[] = {
        {".glovebox", 0755, NULL}, {".glovebox/runner", 0755, NULL}, {"sandbox", 0755, NULL}, {"tmp", 01777, NULL},
        {"tmp/sandbox", 0755, NULL},
        {"run", 0755, NULL},       {"var", 0755, NULL},              {"var/tmp", 01777, NULL}, {"workspace", 0777, "sandbox"},
};

/* POSIX.1-1988 */
struct header {
        char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], checksum[8], type, link[100], magic[6], version[2];
        char user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct header) == BLOCK_BYTES, "a header is one block");

static int add_header(int fd, const char *path, char type, unsigned mode, uint64_t size, const char *link)
{
        struct header h = {.type = type, .magic = "ustar", .version = {'0', '0'}};
        unsigned sum = 0;

        memcpy(h.name, path, strnlen(path, sizeof(h.name)));
        if (link)
                memcpy(h.link, link, strnlen(link, sizeof(h.link)));
        snprintf(h.mode, sizeof(h.mode), "%07o", mode);
        snprintf(h.uid, sizeof(h.uid), "%07o", 0U);
        snprintf(h.gid, sizeof(h.gid), "%07o", 0U);
        snprintf(h.size, sizeof(h.size), "%011" PRIo64, size);
        snprintf(h.mtime, sizeof(h.mtime), "%011o", 0U);
        memset(h.checksum, ' ', sizeof(h.checksum));
        for (size_t i = 0; i < sizeof(h); i++)
                sum += ((const unsigned char *)&h)[i];
        snprintf(h.checksum, sizeof(h.checksum), "%06o", sum);
        return fd_write_all(fd, &h, sizeof(h));
}

/* One of our files: its bytes, to be freed. i: -1 is the agent. */
static int read_own(int i, char **ret, size_t *ret_size, gb_error *err)
{
        _cleanup_free_ char *path = NULL;

        int r = i < 0 ? path_libexec("glovebox-agent", &path) : path_runner(runner_files[i], &path);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "out of memory");
        _cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
        r = fd < 0 ? -errno : fd_read_all(fd, LAYER_FILE_BYTES_MAX, ret, ret_size);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot read %s: %s; reinstall glovebox, or set %s", path, strerror(-r),
                                 i < 0 ? "GLOVEBOX_LIBEXEC_DIR" : "GLOVEBOX_RUNNER_DIR");
        return 0;
}

/* Of this machine, too: then nobody who builds images elsewhere can make one that passes for ours. */
int layer_hash(uint64_t *ret_hash, gb_error *err)
{
        uint64_t hash = hash_bytes(HASH_INIT, &(int){LAYER_FORMAT}, sizeof(int));
        char machine[64] = "";

        if (file_read_at(AT_FDCWD, "/etc/machine-id", machine, sizeof(machine)) <= 0)
                (void)file_read_at(AT_FDCWD, "/proc/sys/kernel/random/boot_id", machine, sizeof(machine));
        hash = hash_string(hash, machine);
        for (int i = -1; i < (int)ARRAY_SIZE(runner_files); i++) {
                _cleanup_free_ char *data = NULL;
                size_t size;
                int r = read_own(i, &data, &size, err);
                if (r < 0)
                        return r;
                hash = hash_bytes(hash_string(hash, i < 0 ? "agent" : runner_files[i]), data, size);
        }
        *ret_hash = hash;
        return 0;
}

static int add_file(int fd, int i, gb_error *err)
{
        static const char zeros[BLOCK_BYTES];
        _cleanup_free_ char *data = NULL;
        char path[100] = ".glovebox/agent";
        size_t size;

        int r = read_own(i, &data, &size, err);
        if (r < 0)
                return r;
        if (i >= 0)
                snprintf(path, sizeof(path), ".glovebox/runner/%s", runner_files[i]);
        r = add_header(fd, path, '0', i < 0 ? 0755 : 0644, size, NULL);
        if (r == 0)
                r = fd_write_all(fd, data, size);
        if (r == 0)
                r = fd_write_all(fd, zeros, -size % BLOCK_BYTES);
        return r < 0 ? error_set(err, GB_E_INTERNAL, -r, "cannot write the archive of our layer: %s", strerror(-r)) : 0;
}

int layer_make(int *ret_fd, uint64_t *ret_size, gb_error *err)
{
        static const char end[2 * BLOCK_BYTES];
        _cleanup_close_ int fd = memfd_create("glovebox-layer", MFD_CLOEXEC);
        int r = fd < 0 ? -errno : 0;

        for (size_t i = 0; r == 0 && i < ARRAY_SIZE(places); i++)
                r = add_header(fd, places[i].path, places[i].link ? '2' : '5', places[i].mode, 0, places[i].link);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot write the archive of our layer: %s", strerror(-r));
        for (int i = -1; i < (int)ARRAY_SIZE(runner_files); i++)
                if ((r = add_file(fd, i, err)) < 0)
                        return r;
        r = fd_write_all(fd, end, sizeof(end));
        off_t size = lseek(fd, 0, SEEK_CUR);
        if (r < 0 || size < 0 || lseek(fd, 0, SEEK_SET) < 0)
                return error_set(err, GB_E_INTERNAL, EIO, "cannot write the archive of our layer");
        *ret_size = (uint64_t)size;
        *ret_fd = TAKE_FD(fd);
        return 0;
}
