/* SPDX-License-Identifier: Apache-2.0
 *
 * First everything is copied into the memfd, then one mmap() after the other puts the copy in the place of the
 * original. Between the copy of a page and its replacement nobody may write to it: there is one thread, signals
 * are blocked, and this code works on its stack and in memory of its own that is shared and so not replaced.
 * Only errno is written, and may be lost. The code that runs is replaced as well: by the same bytes.
 *
 * Whatever fails before the first replacement has changed nothing. One that fails later leaves a mixture that
 * reads the same. */
#include "runner/python/image.h"

#include "base/macro.h"
#include "runner/python/image_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <stdbool.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#define HAVE_RSEQ 1
#else
#define HAVE_RSEQ 0
#endif

#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif
#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

#define IMAGE_MAPPINGS_MAX 16384             /* of the process */
#define IMAGE_MAPPING_BYTES_MAX (1ULL << 30) /* a larger one is a reservation of some runtime, and stays */
#define IMAGE_WRITE_BYTES (1 << 20)          /* one write to the memfd */
#define IMAGE_TEXT_BYTES_MAX (8ULL << 20)    /* of one library; more stays in its file */
#define IMAGE_HUGE_BYTES (2ULL << 20)        /* what one entry of a page directory maps; elsewhere nothing is gained, nor lost */
#define IMAGE_GAP_BYTES_MIN (1ULL << 20)     /* of untouched memory that stays anonymous */

/* What malloc() arrives at by itself in a process that frees large blocks: see mallopt(3). */
#define MALLOC_MMAP_MAX 65536
#define MALLOC_MMAP_THRESHOLD (32 << 20)
#define MALLOC_TRIM_THRESHOLD (64 << 20)

/* A part of the address space that becomes one mapping. */
struct run {
        uintptr_t start, end;
        uint64_t offset; /* in the memfd */
};

struct work {
        int memfd, pagemap;
        uint64_t size;       /* of the memfd */
        uint64_t size_max;   /* RLIMIT_FSIZE */
        uint64_t copied;
        uint64_t program_inode;
        struct run keep;     /* what the kernel writes to by itself */
        size_t n_maps, n_runs;
        struct image_map maps[IMAGE_MAPPINGS_MAX];
        struct run runs[IMAGE_MAPPINGS_MAX];
        struct image_maps reader;
        uint64_t pages[IMAGE_PAGES_AT_ONCE];
};

void image_prepare(void)
{
        mallopt(M_MMAP_MAX, 0);
}

/* Uses up the holes that imports have left in the heap, for good: a child would take its memory from them, here and there,
 * and sort them first, which writes to a page for each. From now on malloc() goes on at the top, where pages are whole. In
 * the template the holes cost nothing: they are in memory once. */
static void fill_holes(void)
{
        char *p;

        free(malloc(64 << 20)); /* sorts what was freed */
        char *high = malloc(4 << 20);
        uintptr_t top = (uintptr_t)high;
        free(high);
        if (top == 0 || top > (uintptr_t)sbrk(0))
                return; /* it has a mapping of its own: image_prepare() was not called */
        for (size_t size = 1 << 20; size >= 24; size = size > 1040 ? size * 7 / 8 : size - 16) {
                while ((p = malloc(size)) && (uintptr_t)p < top)
                        ;
                free(p);
        }
        malloc_trim(0);
}

static void malloc_restore(void)
{
        mallopt(M_MMAP_MAX, MALLOC_MMAP_MAX);
        mallopt(M_MMAP_THRESHOLD, MALLOC_MMAP_THRESHOLD);
        mallopt(M_TRIM_THRESHOLD, MALLOC_TRIM_THRESHOLD);
}

static void work_free(struct work *w)
{
        if (w->memfd >= 0)
                close(w->memfd);
        if (w->pagemap >= 0)
                close(w->pagemap);
        image_maps_close(&w->reader);
        munmap(w, sizeof(*w));
}
DEFINE_CLEANUP(struct work, work_free)
#define _cleanup_work_ _cleanup_(work_free_ptr)

/* Shared memory, so that it is not part of the image. */
static struct work *work_new(void)
{
        struct work *w = mmap(NULL, sizeof(*w), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        if (w == MAP_FAILED)
                return NULL;
        w->memfd = w->pagemap = w->reader.fd = -1;
        return w;
}

/* An executable memfd may be refused (vm.memfd_noexec), but to map it executable does not need that. */
static int memfd_open(void)
{
        int fd = memfd_create("glovebox-image", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);

        if (fd < 0 && errno == EINVAL) /* before Linux 6.3 */
                fd = memfd_create("glovebox-image", MFD_CLOEXEC | MFD_ALLOW_SEALING);
        return fd < 0 ? -errno : fd;
}

/* A security module may refuse to run what was written. Better to know before anything is replaced. */
static int memfd_try(int fd)
{
        const size_t size = (size_t)getpagesize();

        if (ftruncate(fd, (off_t)size) < 0)
                return -errno;
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_NORESERVE, fd, 0);
        if (p == MAP_FAILED)
                return -errno;
        munmap(p, size);
        return ftruncate(fd, 0) < 0 ? -errno : 0;
}

/* The kernel notes the processor that the thread runs on whenever that changes, also between copy and replacement.
 * So that page stays. */
static void find_rseq(struct work *w)
{
#if HAVE_RSEQ
        const uintptr_t page_size = (uintptr_t)getpagesize();
        uintptr_t area = (uintptr_t)__builtin_thread_pointer() + (uintptr_t)__rseq_offset;

        if (__rseq_size == 0)
                return;
        w->keep.start = area / page_size * page_size;
        w->keep.end = (area + MAX((size_t)__rseq_size, sizeof(struct rseq)) + page_size - 1) / page_size * page_size;
#endif
}

static int work_open(struct work *w)
{
        struct rlimit limit;
        struct stat st;

        /* One link for each thread, and two as any directory. */
        if (stat("/proc/self/task", &st) < 0)
                return -errno;
        if (st.st_nlink != 3)
                return -EBUSY;
        if (getrlimit(RLIMIT_FSIZE, &limit) < 0)
                return -errno;
        w->size_max = limit.rlim_cur;
        if (w->size_max < (uint64_t)getpagesize())
                return -EFBIG;
        find_rseq(w);
        w->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        if (w->pagemap < 0)
                return -errno;
        w->memfd = memfd_open();
        return w->memfd < 0 ? w->memfd : memfd_try(w->memfd);
}

static int maps_read(struct work *w)
{
        int r = image_maps_open(&w->reader);

        while (r >= 0) {
                if (w->n_maps == ARRAY_SIZE(w->maps))
                        return -E2BIG;
                r = image_maps_next(&w->reader, &w->maps[w->n_maps]);
                if (r <= 0)
                        break;
                const struct image_map *map = &w->maps[w->n_maps++];
                if (map->start <= getauxval(AT_ENTRY) && getauxval(AT_ENTRY) < map->end)
                        w->program_inode = map->inode;
        }
        image_maps_close(&w->reader);
        return r;
}

static bool map_is_ours(const struct image_map *map)
{
        return map->readable && !map->shared && !map->special && map->end - map->start <= IMAGE_MAPPING_BYTES_MAX;
}

/* Code and constants as they are in the file. */
static bool map_is_text(const struct image_map *map)
{
        return map_is_ours(map) && map->inode != 0 && !map->writable && map->clean;
}

static bool map_follows(const struct image_map *a, const struct image_map *b)
{
        return b->start == a->end && b->inode == a->inode && b->major == a->major && b->minor == a->minor &&
               b->offset == a->offset + (a->end - a->start);
}

/* Before a span that begins at this address. One that does not follow the last goes to an offset that differs from its address by a
 * multiple of the size of huge pages: only so can they be mapped as such. */
static void span_begin(struct work *w, uintptr_t start)
{
        const struct run *last = w->n_runs > 0 ? &w->runs[w->n_runs - 1] : NULL;

        if (!last || last->end != start)
                w->size += (start - w->size) % IMAGE_HUGE_BYTES;
}

/* A span is what will follow in the memfd: its first byte goes to w->size. Copies a part of it. */
static int span_copy(struct work *w, uintptr_t span, uintptr_t start, uintptr_t end)
{
        uint64_t offset = w->size + (start - span);

        /* Beyond the limit there would be a SIGXFSZ. */
        if (offset + (end - start) > w->size_max)
                return -EFBIG;
        while (start < end) {
                size_t size = MIN(end - start, (uintptr_t)IMAGE_WRITE_BYTES);
                ssize_t n = pwrite(w->memfd, (void *)start, size, (off_t)offset);

                if (n <= 0)
                        return n < 0 ? -errno : -EIO;
                start += (size_t)n;
                offset += (size_t)n;
                w->copied += (size_t)n;
        }
        return 0;
}

/* Makes the span a part of the image. */
static int span_add(struct work *w, uintptr_t start, uintptr_t end)
{
        struct run *last = w->n_runs > 0 ? &w->runs[w->n_runs - 1] : NULL;

        if (w->size > w->size_max || end - start > w->size_max - w->size)
                return -EFBIG;
        if (last && last->end == start) {
                last->end = end;
        } else {
                if (w->n_runs == ARRAY_SIZE(w->runs))
                        return -E2BIG;
                w->runs[w->n_runs++] = (struct run){start, end, w->size};
        }
        w->size += end - start;
        return 0;
}

/* What cannot be read stays as it is: a file that is shorter than its mapping, a guard before Linux 6.15. */
static int span_drop(struct work *w, int r)
{
        if (r != -EFAULT)
                return r;
        return ftruncate(w->memfd, (off_t)w->size) < 0 ? -errno : 0;
}

static int take_file(struct work *w, uintptr_t start, uintptr_t end)
{
        span_begin(w, start);
        int r = span_copy(w, start, start, end);

        return r < 0 ? span_drop(w, r) : span_add(w, start, end);
}

/* The next pages that were ever touched: [*start, *ret_end). 0: there are none. *ret_guard: there was a guard before
 * them. */
static int touched_next(struct work *w, uintptr_t *start, uintptr_t end, uintptr_t *ret_end, bool *ret_guard)
{
        const size_t page_size = (size_t)getpagesize();
        bool found = false;

        *ret_guard = false;
        for (uintptr_t at = *start; at < end;) {
                int n = image_pages_read(w->pagemap, at, end, w->pages);
                if (n < 0)
                        return n;
                for (int i = 0; i < n; i++, at += page_size) {
                        bool guard = w->pages[i] & IMAGE_PAGE_GUARD;
                        bool touched = !guard && w->pages[i] & (IMAGE_PAGE_PRESENT | IMAGE_PAGE_SWAPPED);

                        if (found && !touched) {
                                *ret_end = at;
                                return 1;
                        }
                        if (!found && touched)
                                *start = at;
                        found = touched;
                        *ret_guard |= guard;
                }
        }
        *ret_end = end;
        return found;
}

/* Untouched pages become holes of the memfd. Guards, and many untouched pages together, stay what they are. */
static int take_anonymous(struct work *w, uintptr_t start, uintptr_t end)
{
        uintptr_t span = start, used = start, from = start, to = start;
        bool guard;
        int r;

        while ((r = touched_next(w, &from, end, &to, &guard)) > 0) {
                if (guard || from - used >= IMAGE_GAP_BYTES_MIN) {
                        if (used > span && (r = span_add(w, span, used)) < 0)
                                return r;
                        span = from;
                }
                span_begin(w, span);
                r = span_copy(w, span, from, to);
                if (r < 0)
                        return span_drop(w, r);
                from = used = to;
        }
        if (r < 0)
                return r;
        if (!guard && end - used < IMAGE_GAP_BYTES_MIN)
                used = end;
        span_begin(w, span);
        return used > span ? span_add(w, span, used) : 0;
}

static int take_map(struct work *w, const struct image_map *map)
{
        int (*take)(struct work *, uintptr_t, uintptr_t) = map->inode != 0 ? take_file : take_anonymous;
        /* The part to keep, seen from this mapping: empty when it lies elsewhere. */
        uintptr_t before = MAX(map->start, w->keep.start);
        uintptr_t after = MIN(map->end, w->keep.end);
        int r = 0;

        if (before >= after)
                return take(w, map->start, map->end);
        if (map->start < before)
                r = take(w, map->start, before);
        if (r >= 0 && after < map->end)
                r = take(w, after, map->end);
        return r;
}

/* A library's code and constants lie in the file as they lie in memory, so they can be one mapping of it. They
 * have no private pages: a fork does not look at them. */
static void join_text(const struct image_map *map, size_t n)
{
        bool executable = false;

        for (size_t i = 0; i < n; i++)
                executable |= map[i].executable;
        if (executable)
                mprotect((void *)map->start, map[n - 1].end - map->start, PROT_READ | PROT_EXEC);
}

/* How many mappings from the i-th on are the code and constants of one large file, and stay; 0: none. The program
 * itself does not: every child runs in it, and a fork hands on its page table only as part of the image. */
static size_t text_stays(const struct work *w, size_t i)
{
        const struct image_map *map = &w->maps[i];
        uint64_t bytes = 0;
        size_t n = 0;

        if (map->inode == w->program_inode)
                return 0;
        while (i + n < w->n_maps && map_is_text(map + n) && (n == 0 || map_follows(map + n - 1, map + n))) {
                bytes += map[n].end - map[n].start;
                n++;
        }
        return bytes > IMAGE_TEXT_BYTES_MAX ? n : 0;
}

/* How much of a part of the memfd the image has. */
static uint64_t part_used(const struct work *w, uint64_t start, uint64_t end)
{
        uint64_t used = 0;

        for (size_t i = 0; i < w->n_runs; i++) {
                uint64_t from = MAX(start, w->runs[i].offset);
                uint64_t to = MIN(end, w->runs[i].offset + (w->runs[i].end - w->runs[i].start));

                used += from < to ? to - from : 0;
        }
        return used;
}

/* Gathers the pages of the memfd into huge ones. A child maps one of those by a single fault where it writes to none of its pages, and
 * sixteen pages of it quickly where it does; to let go of them is as cheap. Not known before Linux 6.1; where it cannot be done forks
 * cost more. */
static void collapse_all(struct work *w)
{
        char *room = mmap(NULL, w->size + IMAGE_HUGE_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

        if (room == MAP_FAILED)
                return;
        char *at = room + (IMAGE_HUGE_BYTES - (uintptr_t)room % IMAGE_HUGE_BYTES);
        if (mmap(at, w->size, PROT_READ, MAP_SHARED | MAP_FIXED, w->memfd, 0) != MAP_FAILED)
                for (uint64_t offset = 0; offset + IMAGE_HUGE_BYTES <= w->size; offset += IMAGE_HUGE_BYTES)
                        if (part_used(w, offset, offset + IMAGE_HUGE_BYTES) >= IMAGE_HUGE_BYTES / 2)
                                (void)madvise(at + offset, IMAGE_HUGE_BYTES, MADV_COLLAPSE);
        munmap(room, w->size + IMAGE_HUGE_BYTES); /* a mapping that can be written through would keep it from being sealed */
}

/* Copies what becomes part of the image. */
static int image_copy(struct work *w)
{
        uintptr_t here = (uintptr_t)__builtin_frame_address(0);

        for (size_t i = 0; i < w->n_maps;) {
                const struct image_map *map = &w->maps[i];
                size_t n = text_stays(w, i);

                i += MAX(n, (size_t)1);
                if (n > 0 || !map_is_ours(map))
                        continue;
                if (here >= map->start && here < map->end)
                        return -ENOTSUP; /* not the stack of the process: it would be replaced in use */
                int r = take_map(w, map);
                if (r < 0)
                        return r;
        }
        if (ftruncate(w->memfd, (off_t)w->size) < 0)
                return -errno;
        collapse_all(w);
        /* A write to the memfd would reach the template and all its children. */
        return fcntl(w->memfd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) < 0 ? -errno : 0;
}

static int image_replace(struct work *w)
{
        for (size_t i = 0; i < w->n_runs; i++) {
                const struct run *run = &w->runs[i];

                if (mmap((void *)run->start, run->end - run->start, PROT_READ | PROT_WRITE | PROT_EXEC,
                         MAP_PRIVATE | MAP_FIXED | MAP_NORESERVE, w->memfd, (off_t)run->offset) == MAP_FAILED)
                        return -errno;
        }
        for (size_t i = 0, n; i < w->n_maps; i += MAX(n, (size_t)1)) {
                n = text_stays(w, i);
                if (n > 1)
                        join_text(&w->maps[i], n);
        }
        return 0;
}

static int image_build(struct work *w, struct image_stats *ret)
{
        struct image_stats stats = {0};
        struct stat st;

        int r = work_open(w);
        if (r < 0)
                return r;
        r = maps_read(w);
        if (r < 0)
                return r;
        stats.mappings_before = (uint32_t)w->n_maps;
        r = image_copy(w);
        if (r < 0)
                return r;
        r = image_replace(w);
        if (r < 0)
                return r;
        stats.image_bytes = w->size;
        stats.copied_bytes = w->copied;
        if (fstat(w->memfd, &st) >= 0)
                stats.resident_bytes = (uint64_t)st.st_blocks * 512;
        w->n_maps = 0;
        if (maps_read(w) >= 0)
                stats.mappings_after = (uint32_t)w->n_maps;
        *ret = stats;
        return 0;
}

int image_merge(struct image_stats *ret_stats)
{
        _cleanup_work_ struct work *w = work_new();
        sigset_t all, before;

        if (!w)
                return -errno;
        fill_holes();
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before);
        int r = image_build(w, ret_stats);
        sigprocmask(SIG_SETMASK, &before, NULL);
        malloc_restore();
        return r;
}
