/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside `glovebox repl`. */
#ifndef CLI_REPL_H
#define CLI_REPL_H

#include "cli/findings.h"
#include "cli/lines.h"
#include "cli/output.h"
#include "engine/context.h"
#include "engine/watch.h"
#include "policy/template.h"

#define REPL_WORDS_MAX 4 /* of a line that begins with % */

struct repl {
        /* As it was asked for */
        bool json, quiet, banner;
        struct policy *policy;
        struct languages *languages;
        struct templates *templates;
        const struct language *language;
        char *workspace; /* real path on the host; NULL: a private one */
        char *root;      /* directory of the image or of --rootfs; NULL: the host's */
        struct session_options options;

        struct watch *watch; /* for the history: what has a secret in it is not kept */

        struct session *session; /* NULL: the next input opens one */
        struct context *context;
        bool told_lost; /* the caller knows that the variables are gone */
        bool failed;    /* the last run */
        struct findings_view view; /* with the code of that */

        bool asks;       /* somebody types at a prompt */
        int terminal_fd; /* where; -1: nowhere */
        int cancel_fd;
        struct lines lines;
        struct sink sinks[2];    /* by enum run_stream */
        bool in_line[2];         /* what was last written there did not end with a newline */
        unsigned picture;        /* the number of the last one */
};

/* repl_session.c */

/* A session and an interpreter in it. */
int repl_open(struct repl *r, gb_error *err);
void repl_close(struct repl *r);
/* Runs a piece of code and shows what comes of it. A negative errno: nothing was run. */
int repl_run(struct repl *r, const char *code, size_t size, gb_error *err);
/* Opens a session when there is none any more, and says so. */
int repl_need_session(struct repl *r, gb_error *err);

/* repl_show.c */

extern const struct session_callbacks repl_callbacks; /* data: struct repl */
/* Text of ours or of the box; on a terminal made harmless. */
void repl_write(struct repl *r, enum run_stream stream, const void *bytes, size_t size);
void repl_print(struct repl *r, const char *format, ...) _printf_(2, 3);
/* Ends a line that somebody left open. */
void repl_fresh_line(struct repl *r, enum run_stream stream);
/* Before and after a run: how long a reader that stands still may hold up what is written. */
void repl_show_begin(struct repl *r);
void repl_show_end(struct repl *r);
/* What is to be said about the end of a run; gone: its session has ended, which is said elsewhere. */
void repl_show_result(struct repl *r, const struct result *result, bool gone);
/* A message on standard error, on a line of its own. */
void repl_say(struct repl *r, enum message_kind kind, const char *format, ...) _printf_(3, 4);

/* repl_picture.c */

/* False when no form of the value is a picture. */
bool repl_show_picture(struct repl *r, const struct result_value *value);

/* repl_command.c */

/* A line that begins with %. */
int repl_command(struct repl *r, const char *line, gb_error *err);

#endif
