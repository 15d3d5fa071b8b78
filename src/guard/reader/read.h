/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a piece of Python. Linear in its size, in memory that the caller gives, without any system call. */
#ifndef GUARD_READER_READ_H
#define GUARD_READER_READ_H

#include "guard/reader/wire.h"

#include <stddef.h>

typedef void reader_sink(void *data, enum reader_kind kind, uint32_t line, uint32_t column, const char *text, size_t size);

/* Memory that reader_read() needs, all of it zero at the first call; it may be used again. */
size_t reader_memory_size(void);

/* Fetches of that memory what a code of some pages needs, and leaves it as new. */
void reader_touch(void *memory);

/* Items in order of their places, a statement at a time. 0, or 1: there was more than the bounds let through, and some of it is missing. */
int reader_read(const char *code, size_t size, void *memory, reader_sink *sink, void *data);

#endif
