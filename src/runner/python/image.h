/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory image of a warmed interpreter, made cheap to fork.
 *
 * What a fork costs is not the bytes but the mappings and the page tables it copies, and later the faults in
 * the child. An interpreter with its libraries has many hundred mappings, most of them with private pages. A
 * template therefore replaces them by private mappings of one memfd with the same bytes: neighbours become
 * one mapping, and the kernel copies no page table for one that was not written yet. What every child touches
 * is found out by a trial, and taken ahead.
 *
 * A template calls, in this order: image_prepare(), its imports, image_merge(), image_hot_new(), a fork
 * whose child does what children do and calls image_record(), and image_hot_settle() when that child is gone.
 * Where children do different things there is a trial for each, and image_hot_split() before they are settled.
 * Each later child calls image_prefault(). From image_merge() on the template itself should do as little as it
 * can, and nothing in Python: what it has touched each fork copies. */
#ifndef RUNNER_PYTHON_IMAGE_H
#define RUNNER_PYTHON_IMAGE_H

#include <stddef.h>
#include <stdint.h>

struct image_stats {
        uint32_t mappings_before;
        uint32_t mappings_after; /* 0: not known */
        uint64_t image_bytes;    /* of address space that the image covers */
        uint64_t copied_bytes;
        uint64_t resident_bytes; /* of the memfd: in memory once, for the template and all its children */
};

/* Lets malloc() take everything from the heap until image_merge(). A block that has a mapping of its own is
 * enlarged by mremap(), which in the image would run past the end of the memfd: SIGBUS. Afterwards blocks from
 * 32 MB on have mappings of their own again. */
void image_prepare(void);

/* Replaces the private mappings of this process: heap, anonymous memory, data of the libraries, and the code
 * of all but the largest libraries. 0, or a negative errno, and then memory reads as it did before.
 * -EBUSY: there are other threads. -EFBIG: RLIMIT_FSIZE is below the size of the image.
 *
 * All of the image is readable, writable and executable. That includes what the linker made read-only.
 * Whoever runs in it runs native code of his own anyway: the box is the boundary, not this. */
int image_merge(struct image_stats *ret_stats);

#define IMAGE_HOT_RANGES_MAX 2048

struct image_pages {
        uint32_t n_ranges;
        uint32_t n_pages;
        struct image_range {
                uintptr_t start, end;
        } ranges[IMAGE_HOT_RANGES_MAX];
};

struct image_hot {
        struct image_pages written; /* anywhere */
        struct image_pages read;    /* in the image, and not written */
};

/* In the template, before or after image_merge(): memory that a trial child can write to. NULL: there is none. */
struct image_hot *image_hot_new(void);
/* Until it is settled all forks share it, and can write to it: what is not settled has to go. NULL: nothing. */
void image_hot_free(struct image_hot *hot);

/* In the trial child, at its end: notes the pages that it has touched. When a table is full, no more of them. 0
 * or a negative errno. */
int image_record(struct image_hot *hot);

/* What two trials have both touched goes to common, which was empty, and is taken from them. */
void image_hot_split(struct image_hot *a, struct image_hot *b, struct image_hot *common);

/* In the template, when the trial child is gone: maps what it has read, so that children inherit that, and takes
 * hot away from other processes; children have it at the same address, to read. Before this no child may run
 * what is not trusted. After it the template must not unmap anything it had at the fork. 0, or a negative errno:
 * then hot must not be used. */
int image_hot_settle(struct image_hot *hot);

/* In a child, soon after the fork: writes to the pages that were written in the trial, without changing them, and reads
 * those that were read. One fault each; without this many would take two, since they are read first. */
void image_prefault(const struct image_hot *hot);

#endif
