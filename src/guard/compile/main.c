/* SPDX-License-Identifier: Apache-2.0
 *
 *   glovebox-rules FILE...   compiles the files; what comes out goes to standard output, errors to standard error. The build does this
 *   glovebox-rules -         the same for who links no compiler: files come on standard input, and the answer goes to standard output: 'R' and the rules,
 *                            or 'E' and what is wrong. A file is struct rules_file (rules_wire.h), its name and its text; the end of input ends them
 *
 * Should: compile, or say which line is wrong and what to do. Mustn't: open anything in the second form, or write half of a result. */
#include "guard/compile/compile.h"

#include "base/fd.h"
#include "guard/rules_wire.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

struct work {
        struct document *docs[RULES_FILES_MAX];
        size_t n_docs;
        struct entries entries;
        struct piece piece;
        struct buffer out;
};

static int add_document(struct work *w, struct document *doc, bool is_extra, gb_error *err)
{
        w->docs[w->n_docs++] = doc;
        return entries_add(&w->entries, doc, is_extra, err);
}

static int read_named(struct work *w, char *const *names, gb_error *err)
{
        int r = 0;

        for (; r == 0 && *names; names++) {
                struct document *doc = NULL;
                if (w->n_docs == RULES_FILES_MAX)
                        return error_set(err, GB_E_LIMIT, E2BIG, "too many files of rules; at most %d", RULES_FILES_MAX);
                r = document_read(*names, &doc, err);
                if (r == 0)
                        r = add_document(w, doc, false, err);
        }
        return r;
}

/* One of what came on standard input. Returns the bytes it takes there. */
static ssize_t take_file(struct work *w, const char *bytes, size_t size, gb_error *err)
{
        struct rules_file f;
        struct document *doc = NULL;

        if (size < sizeof(f))
                return error_set(err, GB_E_INTERNAL, EPROTO, "half of a file came");
        memcpy(&f, bytes, sizeof(f));
        if (f.name_size > HOST_PATH_MAX || f.size > YAML_BYTES_MAX || size - sizeof(f) < (size_t)f.name_size + f.size || w->n_docs == RULES_FILES_MAX)
                return error_set(err, GB_E_LIMIT, E2BIG, "too many or too large files of rules");
        _cleanup_free_ char *name = strndup(bytes + sizeof(f), f.name_size);
        if (!name)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = document_parse(name, bytes + sizeof(f) + f.name_size, f.size, &doc, err);
        if (r == 0)
                r = add_document(w, doc, f.is_extra != 0, err);
        return r < 0 ? r : (ssize_t)(sizeof(f) + f.name_size + f.size);
}

static int read_piped(struct work *w, gb_error *err)
{
        _cleanup_free_ char *bytes = NULL;
        size_t size, at = 0;

        int r = fd_read_all(STDIN_FILENO, RULES_FILES_MAX * (YAML_BYTES_MAX + HOST_PATH_MAX), &bytes, &size);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot read the rules: %s", strerror(-r));
        while (at < size) {
                ssize_t n = take_file(w, bytes + at, size - at, err);
                if (n < 0)
                        return (int)n;
                at += (size_t)n;
        }
        return 0;
}

static int build(struct work *w, gb_error *err)
{
        int r = 0;

        /* Those of an operator first: a mistake is told at once, and not after all the shipped ones were compiled. */
        for (size_t i = 0; r == 0 && i < 2 * w->entries.n; i++) {
                const struct entry *e = &w->entries.rows[i % w->entries.n];
                if (e->is_extra != (i < w->entries.n))
                        continue;
                r = e->is_shape ? piece_add_shape(&w->piece, e, err) : piece_add_code(&w->piece, e, err);
        }
        return r < 0 ? r : piece_write(&w->piece, &w->out, err);
}

static void work_init(struct work *w)
{
        struct buffer *all[] = {&w->piece.texts, &w->piece.code, &w->piece.code_patterns, &w->piece.shapes, &w->piece.starts, &w->piece.examples, &w->out};

        for (size_t i = 0; i < ARRAY_SIZE(all); i++)
                buffer_init(all[i], RULES_BYTES_MAX);
}

static void work_done(struct work *w)
{
        piece_done(&w->piece);
        free(w->entries.rows);
        for (size_t i = 0; i < w->n_docs; i++)
                document_free(w->docs[i]);
        buffer_done(&w->out);
}

static int answer(char kind, const void *bytes, size_t size)
{
        return fd_write_all(STDOUT_FILENO, &kind, 1) < 0 || fd_write_all(STDOUT_FILENO, bytes, size) < 0 ? 1 : 0;
}

/* Patterns of an operator can be made to cost a compiler much. */
static void limit(void)
{
        (void)setrlimit(RLIMIT_CPU, &(struct rlimit){RULES_CPU_SECONDS, RULES_CPU_SECONDS});
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

int main(int argc, char **argv)
{
        _cleanup_(work_done) struct work w = {0};
        gb_error err = {0};

        if (argc < 2) {
                fputs("usage: glovebox-rules FILE... >RULES\n", stderr);
                return 2;
        }
        bool piped = argc == 2 && strcmp(argv[1], "-") == 0;
        limit();
        if (piped)
                (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* nobody waits for the answer any more */
        work_init(&w);
        int r = piped ? read_piped(&w, &err) : read_named(&w, argv + 1, &err);
        if (r == 0)
                r = build(&w, &err);
        if (r < 0 && piped)
                return answer('E', err.message, strlen(err.message));
        if (r < 0) {
                fprintf(stderr, "glovebox-rules: %s\n", err.message);
                return 1;
        }
        return piped ? answer('R', w.out.data, w.out.size) : fd_write_all(STDOUT_FILENO, w.out.data, w.out.size) < 0;
}
