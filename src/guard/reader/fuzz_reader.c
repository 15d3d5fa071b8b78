/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as Python: it ends, and what it tells is within the bounds, in order of lines, and the same when it is told again. */
#include "base/limits.h"
#include "guard/reader/read.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct told {
        uint32_t n, line, sum;
        uint64_t bytes;
};

static void require(bool condition)
{
        if (!condition)
                abort();
}

static void take(void *data, enum reader_kind kind, uint32_t line, uint32_t column, const char *text, size_t size)
{
        struct told *t = data;

        require(kind > READER_END && kind <= READER_CALL && line > 0 && column > 0 && size > 0 && line >= t->line);
        require(kind != READER_CALL || size <= READER_CALL_BYTES_MAX);
        t->line = line;
        t->bytes += size;
        t->n++;
        for (size_t i = 0; i < size; i++)
                t->sum = t->sum * 31 + (unsigned char)text[i];
        require(t->n <= READER_ITEMS_MAX && t->bytes <= READER_ANSWER_BYTES_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        static void *memory;
        struct told first = {0}, again = {0};

        if (!memory)
                memory = mmap(NULL, reader_memory_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        require(memory != MAP_FAILED);
        int r = reader_read((const char *)data, size, memory, take, &first);
        require(r == 0 || r == 1);
        require(reader_read((const char *)data, size, memory, take, &again) == r && memcmp(&first, &again, sizeof(first)) == 0);
        return 0;
}
