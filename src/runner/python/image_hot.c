/* SPDX-License-Identifier: Apache-2.0
 *
 * The pages that a child writes first: references are counted in objects all over the heap, so it takes some
 * hundred faults until the first line of a program has run. They are the same pages in every child. */
#include "runner/python/image.h"

#include "base/macro.h"
#include "runner/python/image_maps.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <unistd.h>

#define FAULT_BYTES (16UL * 4096) /* that the kernel maps together for who reads a page of them; less is slower, more is late */

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Shared memory, so that the trial child does not note its own notes. */
struct record {
        int pagemap;
        struct image_maps reader;
        uint64_t pages[IMAGE_PAGES_AT_ONCE];
};

static void *shared_new(size_t size)
{
        void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

        return p == MAP_FAILED ? NULL : p;
}

static void record_free(struct record *rec)
{
        if (rec->pagemap >= 0)
                close(rec->pagemap);
        image_maps_close(&rec->reader);
        munmap(rec, sizeof(*rec));
}
DEFINE_CLEANUP(struct record, record_free)
#define _cleanup_record_ _cleanup_(record_free_ptr)

static struct record *record_new(void)
{
        struct record *rec = shared_new(sizeof(*rec));

        if (rec)
                rec->pagemap = rec->reader.fd = -1;
        return rec;
}

struct image_hot *image_hot_new(void)
{
        return shared_new(sizeof(struct image_hot));
}

void image_hot_free(struct image_hot *hot)
{
        if (hot)
                munmap(hot, sizeof(*hot));
}

/* Ranges come in the order of their addresses. */
static void pages_add(struct image_pages *pages, uintptr_t start, uintptr_t end)
{
        struct image_range *last = pages->n_ranges > 0 ? &pages->ranges[pages->n_ranges - 1] : NULL;

        if (last && last->end == start)
                last->end = end;
        else if (pages->n_ranges < IMAGE_HOT_RANGES_MAX)
                pages->ranges[pages->n_ranges++] = (struct image_range){start, end};
        else
                return;
        pages->n_pages += (uint32_t)((end - start) / (uintptr_t)getpagesize());
}

static int record_map(struct record *rec, const struct image_map *map, struct image_hot *hot)
{
        const size_t page_size = (size_t)getpagesize();

        for (uintptr_t at = map->start; at < map->end;) {
                int n = image_pages_read(rec->pagemap, at, map->end, rec->pages);
                if (n < 0)
                        return n;
                for (int i = 0; i < n; i++, at += page_size) {
                        uint64_t page = rec->pages[i];

                        if (!(page & IMAGE_PAGE_PRESENT))
                                continue;
                        if (page & IMAGE_PAGE_FILE)
                                pages_add(&hot->read, at, at + page_size);
                        else if (page & IMAGE_PAGE_EXCLUSIVE) /* else the template had written it before the fork */
                                pages_add(&hot->written, at, at + page_size);
                }
        }
        return 0;
}

int image_record(struct image_hot *hot)
{
        _cleanup_record_ struct record *rec = record_new();
        struct image_map map;

        if (!rec)
                return -errno;
        rec->pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
        if (rec->pagemap < 0)
                return -errno;
        int r = image_maps_open(&rec->reader);
        if (r < 0)
                return r;
        *hot = (struct image_hot){0};
        while ((r = image_maps_next(&rec->reader, &map)) > 0) {
                if (!map.writable || map.shared)
                        continue;
                r = record_map(rec, &map, hot);
                if (r < 0)
                        return r;
        }
        return r;
}

/* Pages of a that b has too go to common, the others to rest. */
static void pages_split(const struct image_pages *a, const struct image_pages *b, struct image_pages *common, struct image_pages *rest)
{
        uint32_t k = 0;

        for (uint32_t i = 0; i < a->n_ranges; i++)
                for (uintptr_t at = a->ranges[i].start, end = a->ranges[i].end, to; at < end; at = to) {
                        while (k < b->n_ranges && b->ranges[k].end <= at)
                                k++;
                        bool both = k < b->n_ranges && b->ranges[k].start <= at;

                        to = k == b->n_ranges ? end : MIN(end, both ? b->ranges[k].end : b->ranges[k].start);
                        if (both && common)
                                pages_add(common, at, to);
                        else if (!both)
                                pages_add(rest, at, to);
                }
}

static void pages_part(struct image_pages *a, struct image_pages *b, struct image_pages *common, struct image_pages *work)
{
        *work = (struct image_pages){0};
        pages_split(b, a, NULL, work);
        struct image_pages *rest_of_b = work + 1;
        *rest_of_b = *work;
        *work = (struct image_pages){0};
        pages_split(a, b, common, work);
        *a = *work;
        *b = *rest_of_b;
}

void image_hot_split(struct image_hot *a, struct image_hot *b, struct image_hot *common)
{
        struct image_pages *work = shared_new(2 * sizeof(*work));

        if (!work)
                return; /* nothing is common, then */
        pages_part(&a->written, &b->written, &common->written, work);
        pages_part(&a->read, &b->read, &common->read, work);
        munmap(work, 2 * sizeof(*work));
}

/* The part of the pages that is mapped in this process, too. The trial may have made mappings of its own. */
static int pages_filter(struct record *rec, const struct image_pages *pages, struct image_pages *ret)
{
        struct image_map map;

        int r = image_maps_open(&rec->reader);
        if (r < 0)
                return r;
        while ((r = image_maps_next(&rec->reader, &map)) > 0) {
                if (!map.writable || map.shared)
                        continue;
                for (uint32_t i = 0; i < pages->n_ranges; i++) {
                        uintptr_t start = MAX(map.start, pages->ranges[i].start);
                        uintptr_t end = MIN(map.end, pages->ranges[i].end);

                        if (start < end)
                                pages_add(ret, start, end);
                }
        }
        image_maps_close(&rec->reader);
        return r;
}

int image_hot_settle(struct image_hot *hot)
{
        _cleanup_record_ struct record *rec = record_new();
        struct image_hot ours = {0};

        if (!rec)
                return -errno;
        int r = pages_filter(rec, &hot->written, &ours.written);
        if (r < 0)
                return r;
        r = pages_filter(rec, &hot->read, &ours.read);
        if (r < 0)
                return r;
        void *p = mmap(hot, sizeof(*hot), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (p == MAP_FAILED)
                return -errno;
        *hot = ours;
        if (mprotect(hot, sizeof(*hot), PROT_READ) < 0)
                return -errno;
        /* Not known before Linux 5.14. It only saves time. */
        for (uint32_t i = 0; i < hot->read.n_ranges; i++) {
                const struct image_range *range = &hot->read.ranges[i];

                madvise((void *)range->start, range->end - range->start, MADV_POPULATE_READ);
        }
        return 0;
}

/* Not MADV_POPULATE_WRITE: the ranges are short, and there a system call each takes longer than the fault. What is only
 * read comes last: the kernel maps neighbours with it, and would map pages that are to be copied in vain. */
void image_prefault(const struct image_hot *hot)
{
        const struct image_pages *pages = &hot->written;
        const size_t page_size = (size_t)getpagesize();
        char zero = 0;

        __asm__ volatile("" : "+r"(zero)); /* a compiler that knew it would only read */
        for (uint32_t i = 0; i < pages->n_ranges; i++)
                for (uintptr_t at = pages->ranges[i].start; at < pages->ranges[i].end; at += page_size)
                        __atomic_fetch_or((char *)at, zero, __ATOMIC_RELAXED);
        pages = &hot->read;
        for (uint32_t i = 0; i < pages->n_ranges; i++)
                for (uintptr_t at = pages->ranges[i].start; at < pages->ranges[i].end; at = (at / FAULT_BYTES + 1) * FAULT_BYTES)
                        (void)*(const volatile char *)at;
}
