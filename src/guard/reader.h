/* SPDX-License-Identifier: Apache-2.0
 *
 * What is in a piece of Python, told by a sealed process: imports, strings put together as far as they are constant, calls. The process
 * (glovebox-reader) can read from one socket and write to it, and nothing else; it serves one request and ends. So what hostile code makes of its
 * reader is, at most, a wrong answer about itself.
 *
 * Some wait already when they are asked for: they are children of one process that never sees any code. */
#ifndef GUARD_READER_H
#define GUARD_READER_H

#include "base/error.h"
#include "guard/reader/wire.h"

/* Starts readers early, and does not wait for them; optional. ahead: how many wait at a time (1 for a command, more for a server); who has asked only once gets
 * no other in advance. A second call does nothing. */
void reader_prepare(unsigned ahead);
/* Ends them. Nobody may be asking. */
void reader_forget(void);

struct reader_item {
        enum reader_kind kind;
        uint32_t line, column;
        const char *text; /* any bytes */
        size_t size;
};

/* From any thread. Calls take for each thing in the code, in order. Returns 0; 1 when the reader did not come to the end of it (it died, took too long,
 * broke the rules, or there was too much): what came before was taken; negative: none could be had, and err says why. */
int reader_ask(const char *code, size_t size, void (*take)(void *data, const struct reader_item *item), void *data, gb_error *err);
/* The same; meanwhile is called once, before anything is taken, while the reader reads. */
int reader_ask_meanwhile(const char *code, size_t size, void (*take)(void *data, const struct reader_item *item), void (*meanwhile)(void *data), void *data,
                         gb_error *err);

#endif
