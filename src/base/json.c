/* SPDX-License-Identifier: Apache-2.0
 *
 * jansson 2.14 does not look at all of its allocations. When the buffer of its reader cannot grow, it goes on without the character, and then copies beyond what
 * it has allocated, or ends the process by an assertion; its writer leaves names out. So its memory comes through here.
 *
 *   reading   the first allocation that fails ends it, by a jump over jansson's frames, which hold nothing but memory. What was allocated until
 *             then is in a list, and freed
 *   others    the failure is remembered by the thread, and told by whoever writes a text or answers next */
#include "base/json.h"

#include <errno.h>
#include <malloc.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTERS_FIRST 64

static __thread struct {
        bool reading, lacked;
        jmp_buf out;
        void **pointers; /* what the reader has allocated and not freed; the newest last */
        size_t n, allocated;
} memory;

static int remember(void *p)
{
        if (memory.n == memory.allocated) {
                size_t want = memory.allocated > 0 ? 2 * memory.allocated : POINTERS_FIRST;
                void **grown = realloc(memory.pointers, want * sizeof(*grown)); /* NOLINT: pointers are meant */
                if (!grown)
                        return -ENOMEM;
                memory.pointers = grown;
                memory.allocated = want;
        }
        memory.pointers[memory.n++] = p;
        return 0;
}

/* From the end: mostly it is one of the newest. A name is older than all that is in its value, so the depth of the text bounds how often one is passed. */
static void forget(const void *p)
{
        for (size_t i = memory.n; i-- > 0;)
                if (memory.pointers[i] == p) {
                        memory.n--;
                        memmove(&memory.pointers[i], &memory.pointers[i + 1], (memory.n - i) * sizeof(*memory.pointers)); /* NOLINT: pointers are meant */
                        return;
                }
}

static void *take(size_t size)
{
        void *p = malloc(size);

        if (p && (!memory.reading || remember(p) == 0))
                return p;
        free(p);
        memory.lacked = true;
        if (memory.reading)
                longjmp(memory.out, 1); /* NOLINT: see above */
        return NULL;
}

static void give_back(void *p)
{
        if (memory.reading && p) {
                forget(p);
                explicit_bzero(p, malloc_usable_size(p)); /* a part of the text, which may have secrets in it */
        }
        free(p);
}

void json_guard_memory(void)
{
        json_object_seed(0); /* it would be made by the first that needs it, wherever that is */
        json_set_alloc_funcs(take, give_back);
}

bool json_lacked_memory(void)
{
        bool lacked = memory.lacked;

        memory.lacked = false;
        return lacked;
}

static void read_end(bool failed)
{
        memory.reading = false;
        for (size_t i = 0; failed && i < memory.n; i++)
                free(memory.pointers[i]);
        free(memory.pointers);
        memory.pointers = NULL;
        memory.n = memory.allocated = 0;
}

json_t *json_parse(const char *text, size_t size, size_t flags, json_error_t *why)
{
        if (setjmp(memory.out) != 0) { /* NOLINT: see above */
                read_end(true);
                if (why) {
                        *why = (json_error_t){.line = -1, .column = -1, .text = "out of memory"};
                        why->text[JSON_ERROR_TEXT_LENGTH - 1] = (char)json_error_out_of_memory;
                }
                return NULL;
        }
        memory.reading = true;
        json_t *value = json_loadb(text, size, flags, why);
        read_end(false);
        return value;
}
