/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ENGINE_RESULT_H
#define ENGINE_RESULT_H

#include "backend/backend.h"
#include "base/buffer.h"
#include "base/json.h"
#include "egress/ledger.h"
#include "engine/frame.h"
#include "engine/verdict.h"
#include "guard/code.h"
#include "policy/control.h"


#define ID_DIGITS 32         /* of a run's and of a session's id: 128 random bits in hex */
#define CONTEXT_ID_MAX 24    /* a number as text, with its NUL */
#define ERROR_TEXT_MAX 65536 /* bytes of an error's name, value or traceback that are kept */

/* Bytes the code gave us, any bytes, with a NUL behind them that is not counted. */
struct result_text {
        char *bytes;
        size_t size;
};

/* One form of a value: "text/plain", "image/png". */
struct result_part {
        const char *mime;
        const char *bytes; /* with a NUL behind them */
        size_t size;
};

/* What a run in a context gave besides output: the value of its last expression (main), or something it
 * displayed. The pieces point into memory. */
struct result_value {
        bool main;
        size_t n_parts;
        struct result_part parts[FRAME_PARTS_MAX];
        char memory[];
};

/* What the code ended with, as it says itself. Nothing in it is a fact. */
struct result_error {
        struct result_text name, value, traceback;
};

/* How often something of that name was scrubbed. */
struct result_count {
        char name[RULE_NAME_MAX];
        uint64_t count;
};

struct result {
        char id[ID_DIGITS + 1];
        struct run_facts facts;
        struct verdict verdict;
        struct controls controls;
        struct buffer out, err; /* when the request asked to keep them */
        bool truncated;         /* output went on after its limit and was dropped */
        char *language, *trust, *policy_origin, *backend;
        struct guard_findings *findings; /* about the code; NULL: none. Shorter than its type: rows[n] is the end */
        struct scrub_tally scrubbed;     /* by number, while the run lasts */
        struct result_count *scrubbed_names; /* then by name */
        size_t n_scrubbed_names;
        struct ledger_copy *network;     /* what was sent where meanwhile; NULL: no allowlist, or nothing ran */
        uint64_t setup_usec; /* from the request to the first instruction of the program */
        bool setup_known;    /* that instruction was seen */

        /* Runs in a session */
        char session[ID_DIGITS + 1];  /* empty: a box of its own */
        char context[CONTEXT_ID_MAX]; /* empty: not in a context, and what is below says nothing */
        bool state_kept;              /* the interpreter lives, with all its variables */
        bool state_restarted;         /* it was new, because the one before was lost */
        struct result_value **values;
        size_t n_values;
        uint64_t values_dropped; /* beyond the policy's limits */
        bool has_error;
        struct result_error error;
};

/* With an id of its own; NULL when out of memory. */
struct result *result_new(const struct policy *policy, const struct language *language, const char *backend, bool keep_output);
void result_free(struct result *r);
DEFINE_CLEANUP(struct result, result_free)
#define _cleanup_result_ _cleanup_(result_free_ptr)

/* Takes what the backend says about the end of the program into the facts. */
void result_take_end(struct result *r, const struct box_end *end);

/* Copies of what came with a frame; 0 or -ENOMEM. */
int result_add_value(struct result *r, bool main, const struct frame_part *parts, size_t n_parts);
int result_set_text(struct result_text *text, const char *bytes, size_t size);

/* The run is over: what was scrubbed gets its names. 0 or -ENOMEM. */
int result_name_scrubbed(struct result *r, const struct scrub *scrub);
/* Whether a form of a value is no text: a picture, say. */
bool result_is_binary(const char *mime);

/* Fills ret with random hex digits. 0 or a negative errno. */
int result_make_id(char ret[static ID_DIGITS + 1]);

/* The result object of --json and of the API; NULL when out of memory. Output that is not
 * UTF-8 is given losslessly as stdout_base64 / stderr_base64 beside a readable version. */
json_t *result_to_json(const struct result *r, const struct policy *policy);
json_t *controls_to_json(const struct controls *c); /* may be others' as well: not to be changed */
/* Its "limits". */
json_t *policy_limits_to_json(const struct policy *p);

/* One value as {"main": bool, "data": {mime: text or {"base64": text}}}, an error as {"name", "value", "traceback"};
 * used by events too. */
json_t *result_value_to_json(const struct result_value *v);
json_t *result_error_to_json(const struct result_error *e);

/* {"data": text} for UTF-8, {"data_base64": ...} otherwise; used by events too. */
int json_set_bytes(json_t *object, const char *key, const void *bytes, size_t size);

#endif
