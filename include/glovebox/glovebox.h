/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API of glovebox: run code that nobody vouches for, sealed off.
 *
 * Functions that can fail return 0 or a negative errno and fill *err (which may be NULL); what
 * they would have returned through a pointer is then untouched. The library never exits, never
 * prints, and keeps no global state that a caller must set up. One thread at a time may use a
 * handle. Text is NUL-terminated UTF-8 unless a size stands beside it. */
#ifndef GLOVEBOX_GLOVEBOX_H
#define GLOVEBOX_GLOVEBOX_H

#include <glovebox/error.h>

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define GB_PUBLIC __attribute__((visibility("default")))

/* The version of the library that is loaded: "0.1.0". */
GB_PUBLIC const char *gb_version(void);

/* The name of an error's code, as it is in JSON: "policy", "unenforceable"... */
GB_PUBLIC const char *gb_error_name(int code);

/* Frees what the library allocated for the caller. Takes NULL. */
GB_PUBLIC void gb_free(void *memory);

/* ---- policy: what the code may use ---- */

typedef struct gb_policy gb_policy;

/* Reads a policy file for a trust level. file NULL: the installed default; trust NULL: the level
 * the file names as its default. A wrong file is refused whole. */
GB_PUBLIC int gb_policy_load(const char *file, const char *trust, gb_policy **ret, gb_error *err);

/* Sets one value as text, by its key in the policy file: ("mem_limit", "256MB"). */
GB_PUBLIC int gb_policy_set(gb_policy *policy, const char *key, const char *value, gb_error *err);

/* Takes NULL. Results do not need their policy any more. */
GB_PUBLIC void gb_policy_free(gb_policy *policy);

/* ---- run ---- */

typedef enum gb_stream { GB_STDOUT = 1, GB_STDERR = 2 } gb_stream;

/* code_size of code that is NUL-terminated text. */
#define GB_CODE_IS_TEXT ((size_t)-1)

/* Start from GB_RUN_OPTIONS_INIT, so that fields of later versions have their defaults. */
typedef struct gb_run_options {
        size_t size;              /* sizeof(struct gb_run_options), set by the initializer */
        const char *language;     /* "python"; NULL: by the extension of name */
        const char *code;         /* required */
        size_t code_size;         /* bytes, or GB_CODE_IS_TEXT */
        const char *name;         /* file name of the code inside, without '/'; NULL: the language's own */
        const char *const *args;  /* arguments of the program, NULL-terminated; NULL: none */
        const char *workspace;    /* directory of the host to work in; NULL: a private one that goes with the run */
        const char *rootfs;       /* root directory of an image; NULL: the host's /usr, read-only */
        int stdin_fd;             /* what the program reads; -1: nothing. Stays the caller's */
        int cancel_fd;            /* an eventfd: adding 1 interrupts the program, once more kills it; -1: none */

        /* Called from inside gb_run(), on its thread; NULL: not called. t_usec counts from the
         * start of the run. Bytes come as the program wrote them, each once. */
        void (*started)(void *data, uint64_t t_usec);
        void (*output)(void *data, gb_stream stream, const void *bytes, size_t size, uint64_t t_usec);
        void *data;
} gb_run_options;

/* By position, because C++ before 20 knows no other way. */
#define GB_RUN_OPTIONS_INIT \
        { sizeof(struct gb_run_options), 0, 0, GB_CODE_IS_TEXT, 0, 0, 0, 0, -1, -1, 0, 0, 0 }

typedef struct gb_result gb_result;

/* Runs the code to its end. Returns 0 and a result for everything that happened to the code, also
 * when it failed or hit a limit; a negative errno when nothing was run. */
GB_PUBLIC int gb_run(const gb_policy *policy, const gb_run_options *options, gb_result **ret, gb_error *err);

/* ---- result: what happened. Pointers are good until gb_result_free(). ---- */

/* "ok", "error", "timeout", "cpu", "memory", "pids", "disk", "output", "syscall", "blocked",
 * "cancelled" or "lost". */
GB_PUBLIC const char *gb_result_verdict(const gb_result *result);
/* One sentence that says why, and what to do about it. */
GB_PUBLIC const char *gb_result_message(const gb_result *result);
/* The program's exit status; -1 when it has none (ended by a signal, or never seen to end). */
GB_PUBLIC int gb_result_exit_code(const gb_result *result);
/* The number of the signal that ended the program; 0 when none did. */
GB_PUBLIC int gb_result_signal(const gb_result *result);
/* What the program wrote, up to the policy's output limit: any bytes, and a NUL after them that
 * is not counted. size may be NULL. */
GB_PUBLIC const char *gb_result_stdout(const gb_result *result, size_t *size);
GB_PUBLIC const char *gb_result_stderr(const gb_result *result, size_t *size);
/* All of it as JSON text, to be freed by gb_free(); NULL when out of memory. */
GB_PUBLIC char *gb_result_json(const gb_result *result);
/* Takes NULL. */
GB_PUBLIC void gb_result_free(gb_result *result);

#ifdef __cplusplus
}
#endif
#endif
