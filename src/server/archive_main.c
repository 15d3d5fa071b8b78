/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-archive check|unpack|image BYTES ENTRIES: reads a tar, plain or compressed by gzip, from standard input, and writes to
 * standard output what is in it (archive_record.h); with "unpack" also the bytes of the files. At most so many BYTES of
 * files and so many ENTRIES are looked at. "image" is for archives of a root file system, which hold more than files (image/record.h).
 *
 * Should: read standard input, write standard output, use a bounded amount of memory and time.
 * Mustn't: anything else. It opens no file, has no capability, is nobody, and under a filter of a dozen system calls before it has
 * read the first byte. Who started it does not trust it either. */
#include "base/fd.h"
#include "base/limits.h"
#include "base/parse.h"
#include "server/archive_program.h"
#include "server/archive_record.h"

#include <archive.h>
#include <archive_entry.h>
#include <errno.h>
#include <grp.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <locale.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NOBODY 65534
#define READ_BLOCK_BYTES (64 * KIB)
#define ZEROS_BYTES (16 * KIB)

/* ---- giving up ---- */

#if defined(__x86_64__)
#define OWN_ARCH AUDIT_ARCH_X86_64
#else
#define OWN_ARCH AUDIT_ARCH_AARCH64
#endif

static int load_filter(void)
{
        static const int calls[] = {
                SYS_read, SYS_write, SYS_lseek, SYS_fstat, SYS_newfstatat, SYS_brk, SYS_mmap, SYS_munmap, SYS_mremap, SYS_madvise, SYS_futex,
                SYS_getrandom, SYS_clock_gettime, SYS_rt_sigreturn, SYS_exit, SYS_exit_group,
        };
        enum { N = ARRAY_SIZE(calls) };
        struct sock_filter filter[N + 6] = {
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
                BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, OWN_ARCH, 1, 0),
                BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
                BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        };
        struct sock_fprog program = {.len = ARRAY_SIZE(filter), .filter = filter};

        for (size_t i = 0; i < N; i++)
                filter[4 + i] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)calls[i], (uint8_t)(N - i), 0);
        /* Not the end of it: the library may ask for something in vain (a time zone, another character set) and go on. */
        filter[4 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM);
        filter[5 + N] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0 ? 0 : -errno;
}

static int lower(int resource, uint64_t value)
{
        struct rlimit limit;

        if (getrlimit(resource, &limit) < 0)
                return -errno;
        limit.rlim_cur = limit.rlim_max = MIN((rlim_t)value, limit.rlim_max);
        return setrlimit(resource, &limit) < 0 ? -errno : 0;
}

/* Who started us had closed everything else already; this makes sure. */
static int give_up(uint64_t cpu_seconds)
{
        if (close_range(3, ~0U, 0) < 0 || chdir("/") < 0)
                return -errno;
        if (geteuid() == 0 && (setgroups(0, NULL) < 0 || setresgid(NOBODY, NOBODY, NOBODY) < 0 || setresuid(NOBODY, NOBODY, NOBODY) < 0))
                return -errno; /* all capabilities go with it */
        if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
                return -errno;
        int r = lower(RLIMIT_CORE, 0);
        if (r == 0)
                r = lower(RLIMIT_CPU, cpu_seconds);
        if (r == 0)
                r = lower(RLIMIT_FSIZE, 0);
        /* The runtime of the sanitizers needs more of everything. */
        if (r == 0 && !GLOVEBOX_SANITIZED)
                r = lower(RLIMIT_AS, ARCHIVE_MEMORY_BYTES);
        if (r == 0 && !GLOVEBOX_SANITIZED)
                r = lower(RLIMIT_NOFILE, 3);
        return r == 0 && !GLOVEBOX_SANITIZED ? load_filter() : r;
}

/* ---- records ---- */

int archive_put(const void *data, size_t size)
{
        return fd_write_all(STDOUT_FILENO, data, size);
}

static int put_record(uint32_t kind, uint32_t mode, uint64_t size, const char *text, size_t text_size)
{
        uint32_t kept = (uint32_t)MIN(text_size, (size_t)HOST_PATH_MAX);
        struct archive_record record = {.magic = ARCHIVE_RECORD_MAGIC, .kind = kind, .mode = mode, .size = size, .text_size = kept};

        int r = archive_put(&record, sizeof(record));
        return r < 0 ? r : archive_put(text, record.text_size);
}

/* The last word. */
static int give_in(uint32_t kind, const char *text)
{
        int r = put_record(kind, 0, 0, text ? text : "", text ? strlen(text) : 0);

        return r < 0 ? r : -EBADMSG;
}

static int refuse(const char *path, const char *what)
{
        char text[HOST_PATH_MAX];

        int n = snprintf(text, sizeof(text), "%.*s", HOST_PATH_MAX - 64, path);
        n += snprintf(text + n + 1, sizeof(text) - (size_t)n - 1, "%s", what) + 1;
        int r = put_record(ARCHIVE_REFUSED, 0, 0, text, (size_t)n);
        return r < 0 ? r : -EBADMSG;
}

/* ---- entries ---- */

static int put_zeros(uint64_t size)
{
        static const char zeros[ZEROS_BYTES];
        int r = 0;

        for (; size > 0 && r == 0; size -= MIN(size, (uint64_t)ZEROS_BYTES))
                r = archive_put(zeros, (size_t)MIN(size, (uint64_t)ZEROS_BYTES));
        return r;
}

int archive_copy_data(struct reader *rd, uint64_t size)
{
        const void *block;
        size_t n;
        int64_t offset;
        uint64_t at = 0;
        int r;

        while ((r = archive_read_data_block(rd->archive, &block, &n, &offset)) == ARCHIVE_OK || r == ARCHIVE_WARN) {
                if (offset < 0 || (uint64_t)offset < at || (uint64_t)offset > size || n > size - (uint64_t)offset)
                        return -EBADMSG;
                int e = rd->unpack ? put_zeros((uint64_t)offset - at) : 0;
                if (e == 0 && rd->unpack)
                        e = archive_put(block, n);
                if (e < 0)
                        return e;
                at = (uint64_t)offset + n;
        }
        if (r != ARCHIVE_EOF)
                return -EBADMSG;
        return rd->unpack ? put_zeros(size - at) : 0;
}

static const char *what_is(struct archive_entry *e)
{
        if (archive_entry_hardlink(e) || archive_entry_hardlink_w(e))
                return "a hard link";
        switch (archive_entry_filetype(e)) {
        case AE_IFREG:
        case AE_IFDIR:
                return NULL;
        case AE_IFLNK:
                return "a symbolic link";
        case AE_IFCHR:
        case AE_IFBLK:
                return "a device";
        case AE_IFIFO:
                return "a FIFO";
        default:
                return "neither a file nor a directory";
        }
}

static int take_entry(struct reader *rd, struct archive_entry *e)
{
        const char *path = archive_entry_pathname(e);

        if (!path)
                return give_in(ARCHIVE_BROKEN, "the name of an entry cannot be read");
        const char *what = what_is(e);
        if (what)
                return refuse(path, what);
        if (strlen(path) >= HOST_PATH_MAX)
                return refuse(path, "a path that is too long");
        bool file = archive_entry_filetype(e) == AE_IFREG;
        int64_t size = file ? archive_entry_size(e) : 0;
        if (size < 0 || ++rd->entries > rd->max_entries || (uint64_t)size > rd->max_bytes - rd->bytes)
                return give_in(ARCHIVE_MANY, path);
        rd->bytes += (uint64_t)size;
        int r = put_record(file ? ARCHIVE_FILE : ARCHIVE_DIRECTORY, archive_entry_perm(e) & 07777, (uint64_t)size, path, strlen(path));
        if (r < 0 || !file)
                return r;
        r = archive_copy_data(rd, (uint64_t)size);
        /* In the midst of a file's bytes there is no place for words: the end of the stream says it. */
        if (r == -EBADMSG && !rd->unpack)
                return give_in(ARCHIVE_BROKEN, archive_error_string(rd->archive));
        return r;
}

/* at: where the last entry ends. A tar goes on from there with two blocks of zeros; one that was cut between two
 * entries does not, and the library sees no difference. */
static int put_end(struct reader *rd, int64_t at)
{
        if (archive_filter_bytes(rd->archive, 0) <= at)
                return give_in(ARCHIVE_BROKEN, "it has no blocks of zeros at its end, so a part of it may be missing");
        return put_record(ARCHIVE_END, 0, 0, "", 0);
}

static int read_archive(struct reader *rd)
{
        struct archive_entry *e;
        int64_t at = 0;
        int r = 0;

        if (archive_read_support_filter_gzip(rd->archive) != ARCHIVE_OK || archive_read_support_format_tar(rd->archive) != ARCHIVE_OK ||
            archive_read_open_fd(rd->archive, STDIN_FILENO, READ_BLOCK_BYTES) != ARCHIVE_OK)
                return give_in(ARCHIVE_BROKEN, archive_error_string(rd->archive));
        while (r == 0) {
                int a = archive_read_next_header(rd->archive, &e);
                if (a == ARCHIVE_EOF)
                        return put_end(rd, at);
                if (a != ARCHIVE_OK && a != ARCHIVE_WARN)
                        return give_in(ARCHIVE_BROKEN, archive_error_string(rd->archive));
                r = take_entry(rd, e);
                /* With what fills its last block. */
                if (r == 0 && archive_read_data_skip(rd->archive) < ARCHIVE_WARN)
                        return give_in(ARCHIVE_BROKEN, archive_error_string(rd->archive));
                at = archive_filter_bytes(rd->archive, 0);
        }
        return r;
}

int main(int argc, char **argv)
{
        bool image = argc > 1 && strcmp(argv[1], "image") == 0;
        struct reader rd = {.unpack = image || (argc > 1 && strcmp(argv[1], "unpack") == 0)};

        if (argc != 4 || parse_count(argv[2], &rd.max_bytes) < 0 || parse_count(argv[3], &rd.max_entries) < 0)
                return 2;
        (void)setlocale(LC_CTYPE, "C.UTF-8"); /* names are bytes; without it those beyond ASCII are refused */
        if (give_up(image ? IMAGE_CPU_SECONDS : ARCHIVE_CPU_SECONDS) < 0)
                return 3;
        rd.archive = archive_read_new();
        if (!rd.archive)
                return 4;
        int r = image ? archive_read_image(&rd) : read_archive(&rd);
        archive_read_free(rd.archive);
        return r < 0 ? 1 : 0;
}
