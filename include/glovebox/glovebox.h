/* SPDX-License-Identifier: Apache-2.0
 *
 * The C API of glovebox: run code that nobody vouches for, sealed off.
 *
 * Functions that can fail return 0 or a negative errno and fill *err (which may be NULL); what
 * they would have returned through a pointer is then untouched. The library never exits, never
 * prints, and keeps no global state that a caller must set up. One thread at a time may use a
 * handle, but for sessions and contexts: see there. Text is NUL-terminated UTF-8 unless a size stands
 * beside it. */
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

/* Adds a secret, which the code gets and which is taken out of everything that comes back. name: of the variable, and in the
 * place of what was taken out: [scrubbed:NAME]. file: NULL, or "/run/secrets/...", where it lies in the box instead of being a variable. At
 * least 8 bytes; the policy has a copy and wipes it when it is freed. Take it from a file or from the environment: what stands in a
 * program's arguments all users of the host can read. */
GB_PUBLIC int gb_policy_add_secret(gb_policy *policy, const char *name, const void *value, size_t size, const char *file, gb_error *err);
/* Adds those of a file: lines NAME=VALUE, or a JSON object of names to values. fd stays the caller's. */
GB_PUBLIC int gb_policy_read_secrets(gb_policy *policy, int fd, gb_error *err);

/* Takes NULL. Results do not need their policy any more. */
GB_PUBLIC void gb_policy_free(gb_policy *policy);

/* ---- guard: what is known about code before it runs ----
 *
 * Code is looked at by the policy's rules before each run; this is the same look without a run. It stops the obvious early, with words that
 * whoever wrote the code can act on. It is no boundary: that is the box. */

typedef struct gb_findings gb_findings;

typedef struct gb_finding {
        const char *rule;      /* "container-socket" */
        const char *set;       /* of rules: "host-escape" */
        const char *action;    /* "block", "warn" or "log" */
        const char *message;   /* what is wrong, for whoever wrote the code */
        const char *remedy;    /* what to do instead */
        unsigned line, column; /* from 1, a column counts bytes; 0: not known */
} gb_finding;

/* code_size of code that is NUL-terminated text. */
#define GB_CODE_IS_TEXT ((size_t)-1)

/* Looks at code and runs nothing. *ret is NULL when nothing was found; the functions below take that. */
GB_PUBLIC int gb_guard_check(const gb_policy *policy, const char *language, const char *code, size_t code_size, gb_findings **ret, gb_error *err);
/* 1 when a run would be refused. */
GB_PUBLIC int gb_findings_is_blocked(const gb_findings *findings);
GB_PUBLIC size_t gb_findings_count(const gb_findings *findings);
/* The strongest come first, then by their place. -ERANGE when there is no such finding. */
GB_PUBLIC int gb_findings_get(const gb_findings *findings, size_t index, gb_finding *ret);
/* Findings beyond those that are kept (64). */
GB_PUBLIC uint64_t gb_findings_dropped(const gb_findings *findings);
/* Takes NULL. Not for those of a result. */
GB_PUBLIC void gb_findings_free(gb_findings *findings);

/* ---- run ---- */

typedef enum gb_stream { GB_STDOUT = 1, GB_STDERR = 2 } gb_stream;

/* Start from GB_RUN_OPTIONS_INIT, so that fields of later versions have their defaults. */
typedef struct gb_run_options {
        size_t size;              /* sizeof(struct gb_run_options), set by the initializer */
        const char *language;     /* "python"; NULL: by the extension of name */
        const char *code;         /* required */
        size_t code_size;         /* bytes, or GB_CODE_IS_TEXT */
        const char *name;         /* file name of the code inside, without '/'; NULL: the language's own */
        const char *const *args;  /* arguments of the program, NULL-terminated; NULL: none */
        const char *workspace;    /* directory of the host to work in; NULL: a private one that goes with the run */
        const char *rootfs;       /* root directory of an image; NULL: that of the policy's `image`, or the host's /usr, read-only */
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

/* ---- sessions: one box that lives over several runs ----
 *
 * In a session there are files, contexts (interpreters that keep their variables from run to run), and programs that
 * run to their end. A session may be used by several threads, and runs in different contexts may overlap;
 * one context takes one run at a time (EBUSY). When a session is closed nobody may be inside it. */

typedef struct gb_session gb_session;
typedef struct gb_context gb_context;

/* Start from GB_SESSION_OPTIONS_INIT. */
typedef struct gb_session_options {
        size_t size;
        const char *template_name; /* what Python is forked from, already warm: "python-data". NULL: "python", when the policy
                                    * has warm: true; "": none */
        const char *workspace;     /* directory of the host to work in; NULL: a private one that goes with the session */
        const char *rootfs;        /* root directory of an image; NULL: that of the policy's `image` or of the template, else the host's /usr */
} gb_session_options;

#define GB_SESSION_OPTIONS_INIT \
        { sizeof(struct gb_session_options), 0, 0, 0 }

/* Builds the box: when it returned 0, it stands. The policy can be changed or freed afterwards, the session has
 * its own copy. options NULL: the defaults. */
GB_PUBLIC int gb_session_open(const gb_policy *policy, const gb_session_options *options, gb_session **ret, gb_error *err);
/* 32 hexadecimal digits that nobody can guess. */
GB_PUBLIC const char *gb_session_id(const gb_session *session);
/* Ends everything in it. Its contexts are closed with it: their handles are good no more. Takes NULL. */
GB_PUBLIC void gb_session_close(gb_session *session);

/* Runs code to its end in the session's box, in any language: as gb_run(), where workspace and rootfs are the session's
 * and must not be set. */
GB_PUBLIC int gb_session_run(gb_session *session, const gb_run_options *options, gb_result **ret, gb_error *err);

/* Of a session whose policy has network_mode allowlist: rules, ranges and budgets of this policy take the place of those that it has, at once and for what is open, too. -ENOTSUP:
 * it was opened with another network. */
GB_PUBLIC int gb_session_set_network(gb_session *session, const gb_policy *policy, gb_error *err);
/* What it has sent where since it was opened, as JSON text, to be freed by gb_free(): {"requests", "denied", "bytes_up", "bytes_down", "cut", "hosts": [...]}. NULL: it has
 * no allowlist, or out of memory. */
GB_PUBLIC char *gb_session_network_json(gb_session *session);

/* An interpreter of a language that has contexts: "python", "bash", "javascript". It comes up while the caller goes on. */
GB_PUBLIC int gb_context_open(gb_session *session, const char *language, gb_context **ret, gb_error *err);
/* Its number in the session, as text. */
GB_PUBLIC const char *gb_context_id(const gb_context *context);
/* Ends the interpreter with all its variables, and starts a new one. */
GB_PUBLIC int gb_context_restart(gb_context *context, gb_error *err);
/* From any thread: asks the code that runs to stop, as Ctrl-C would. -ESRCH when nothing runs. Code that does not
 * listen is killed after two seconds, and its variables are lost. */
GB_PUBLIC int gb_context_interrupt(gb_context *context, gb_error *err);
/* The session's contexts as JSON text, to be freed by gb_free(): [{"id", "language", "alive", "busy", "runs"}...]. An
 * interpreter that is not alive is started anew by the next run. NULL when out of memory. */
GB_PUBLIC char *gb_session_contexts_json(gb_session *session);
/* Takes NULL. -EBUSY while something runs in it. */
GB_PUBLIC int gb_context_close(gb_context *context, gb_error *err);

/* One form of a value: its type, and the bytes with a NUL behind them that is not counted. */
typedef struct gb_part {
        const char *mime; /* "text/plain", "image/png" */
        const void *bytes;
        size_t size;
} gb_part;

/* Start from GB_CONTEXT_RUN_OPTIONS_INIT. */
typedef struct gb_context_run_options {
        size_t size;
        const char *code; /* required; UTF-8 */
        size_t code_size; /* bytes, or GB_CODE_IS_TEXT */
        int stdin_fd;     /* what the code reads; -1: nothing. Stays the caller's */
        int cancel_fd;    /* an eventfd: adding 1 interrupts the code, once more kills it; -1: none */

        /* Called from inside gb_context_run(), on its thread; NULL: not called. t_usec counts from the
         * call. Output that was written before a result comes before it. */
        void (*started)(void *data, uint64_t t_usec);
        void (*output)(void *data, gb_stream stream, const void *bytes, size_t size, uint64_t t_usec);
        /* The value of the last expression (is_main), or something that was displayed. */
        void (*result)(void *data, int is_main, const gb_part *parts, size_t n_parts, uint64_t t_usec);
        void (*error)(void *data, const char *name, const char *value, const char *traceback, uint64_t t_usec);
        void *data;

        /* Not 0: the interpreter ends after the code, as a program does: threads are waited for, exit functions are
         * called, and gb_result_exit_code() is its exit status. Its state is lost. */
        int last;
} gb_context_run_options;

#define GB_CONTEXT_RUN_OPTIONS_INIT \
        { sizeof(struct gb_context_run_options), 0, GB_CODE_IS_TEXT, -1, -1, 0, 0, 0, 0, 0, 0 }

/* Runs code in the context to its end. As gb_run(): 0 and a result for everything that happened to the code. When an
 * earlier run has lost the interpreter, a new one is started first; gb_result_state_restarted() tells. */
GB_PUBLIC int gb_context_run(gb_context *context, const gb_context_run_options *options, gb_result **ret, gb_error *err);

/* Files of the session's workspace. A path is relative to it, or begins with /sandbox/. Links are never followed. */

/* Makes or replaces a file at once: nobody sees a part of it. At most 64 MB. mode 0: 0644. */
GB_PUBLIC int gb_file_write(gb_session *session, const char *path, const void *bytes, size_t size, unsigned mode, gb_error *err);
/* A regular file; *ret_bytes has a NUL behind it that is not counted, and goes back by gb_free(). */
GB_PUBLIC int gb_file_read(gb_session *session, const char *path, void **ret_bytes, size_t *ret_size, gb_error *err);
/* A file, or an empty directory. */
GB_PUBLIC int gb_file_remove(gb_session *session, const char *path, gb_error *err);
/* mode 0: 0755. */
GB_PUBLIC int gb_directory_make(gb_session *session, const char *path, unsigned mode, gb_error *err);

typedef struct gb_file_list gb_file_list;

typedef struct gb_file_info {
        const char *name; /* any bytes but '/' and NUL; good until gb_file_list_free() */
        unsigned mode;    /* as st_mode of stat(2) */
        uint64_t size;
        int64_t modified_usec; /* since 1970 */
} gb_file_info;

/* What is in a directory ("." for the workspace itself), by name. */
GB_PUBLIC int gb_file_list_read(gb_session *session, const char *path, gb_file_list **ret, gb_error *err);
GB_PUBLIC size_t gb_file_list_count(const gb_file_list *list);
/* 1 when the directory has more entries than are listed (4096). */
GB_PUBLIC int gb_file_list_is_truncated(const gb_file_list *list);
/* -ERANGE when there is no such entry. */
GB_PUBLIC int gb_file_list_get(const gb_file_list *list, size_t index, gb_file_info *ret);
/* Takes NULL. */
GB_PUBLIC void gb_file_list_free(gb_file_list *list);

/* ---- result: what happened. Pointers are good until gb_result_free(). ---- */

/* How often [scrubbed:NAME] stands in what came back. */
typedef struct gb_scrubbed {
        const char *name; /* of a secret of the policy, or of a shape: "github-token" */
        uint64_t count;
} gb_scrubbed;

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
/* What the guard found in the code: NULL when nothing. A run whose verdict is "blocked" never began, and the first says why. */
GB_PUBLIC const gb_findings *gb_result_findings(const gb_result *result);
/* How many secrets were taken out of output, values and errors; and by name: how many names, and one of them (-ERANGE when there is none). */
GB_PUBLIC uint64_t gb_result_scrubbed_total(const gb_result *result);
GB_PUBLIC size_t gb_result_scrubbed_count(const gb_result *result);
GB_PUBLIC int gb_result_scrubbed(const gb_result *result, size_t index, gb_scrubbed *ret);
/* Runs in a context. What the code gave and said is its own word, never a fact. */

/* Values that it gave: how many, whether one is that of the last expression, how many forms it has, and one of them by
 * its number (-ERANGE when there is none), or by its type (NULL when there is none). size may be NULL. */
GB_PUBLIC size_t gb_result_value_count(const gb_result *result);
GB_PUBLIC int gb_result_value_is_main(const gb_result *result, size_t value);
GB_PUBLIC size_t gb_result_part_count(const gb_result *result, size_t value);
GB_PUBLIC int gb_result_part(const gb_result *result, size_t value, size_t part, gb_part *ret);
GB_PUBLIC const void *gb_result_value(const gb_result *result, size_t value, const char *mime, size_t *size);
/* Values beyond the policy's result_count or result_limit. */
GB_PUBLIC uint64_t gb_result_values_dropped(const gb_result *result);
/* What the code failed with; NULL when it said nothing of the kind. */
GB_PUBLIC const char *gb_result_error_name(const gb_result *result);
GB_PUBLIC const char *gb_result_error_value(const gb_result *result);
GB_PUBLIC const char *gb_result_error_traceback(const gb_result *result);
/* 1 when the interpreter lives and has its variables; 0 when it is lost, and for runs outside of a context. */
GB_PUBLIC int gb_result_state_kept(const gb_result *result);
/* 1 when this run began without the variables of earlier ones, because they were lost. */
GB_PUBLIC int gb_result_state_restarted(const gb_result *result);

/* All of it as JSON text, to be freed by gb_free(); NULL when out of memory. */
GB_PUBLIC char *gb_result_json(const gb_result *result);
/* Takes NULL. */
GB_PUBLIC void gb_result_free(gb_result *result);

#ifdef __cplusplus
}
#endif
#endif
