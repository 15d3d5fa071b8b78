/* SPDX-License-Identifier: Apache-2.0
 *
 * Looks at code before it runs. No boundary: it stops the obvious early, with a message that a model can act on. */
#ifndef GUARD_CODE_H
#define GUARD_CODE_H

#include "base/limits.h"
#include "guard/rules.h"
#include "guard/scrub.h"

#define GUARD_FINDINGS_MAX 64 /* that are kept of one piece of code; the others are counted */

enum guard_mode { GUARD_MODE_OFF, GUARD_MODE_ON, GUARD_MODE_STRICT };

/* A rule or a set by name, and what is done about it instead of what the rule says. */
struct guard_switch {
        const char *name;
        enum guard_action action;
};

/* Of a policy. */
struct guard_settings {
        enum guard_mode mode;      /* off: only secrets are looked for */
        const struct scrub *scrub; /* code with a secret in it is remarked; NULL: not looked for */
        bool strict_scrub;         /* it is refused instead */
        const struct guard_switch *switches; /* that of a rule is stronger than that of its set */
        size_t n_switches;
        void (*meanwhile)(void *data); /* NULL, or: called once, while somebody reads the code; not when it could not be looked at */
        void *data;
        const char *const *imports; /* modules in the place of those of the rule GUARD_IMPORTS_RULE; NULL: its own */
};
#define GUARD_IMPORTS_RULE "browser-automation"
/* Rules that no file has. */
#define GUARD_UNREADABLE_RULE "unreadable-code" /* the reader could not follow the code to its end */
#define GUARD_SECRET_RULE "secret-in-code"
#define GUARD_SECRET_INPUT_RULE "secret-in-stdin"
#define GUARD_SECRETS_SET "secrets" /* of both */
#define GUARD_SECRET_REMEDY "Give secrets to the session (\"secrets\", --secret) and read them from the environment."

struct guard_finding {
        char rule[SCRUB_NAME_MAX], set[SCRUB_NAME_MAX];
        enum guard_action action;
        uint32_t line, column; /* from 1; 0: not known. A column counts bytes */
        char message[GUARD_TEXT_MAX], remedy[GUARD_TEXT_MAX];
};

struct guard_findings {
        size_t n;
        uint64_t more; /* found and not kept */
        struct guard_finding rows[GUARD_FINDINGS_MAX]; /* by action, the strongest first, then by place */
};

/* language: as in languages.yaml. Returns 0: ret->rows[0] says whether it is blocked (guard_blocks()). Negative: it could not be looked at (memory, no
 * reader): nothing may run then. */
int guard_check(const struct rules *rules, const struct guard_settings *settings, const char *language, const char *code, size_t size,
                struct guard_findings *ret, gb_error *err);
/* What a policy makes of the action of a rule. */
enum guard_action guard_action_of(const struct guard_settings *s, const char *rule, const char *set, enum guard_action own);
/* The first that blocks; NULL: none does. */
const struct guard_finding *guard_blocks(const struct guard_findings *f);
/* Adds one; keeps the order. */
void guard_add(struct guard_findings *f, const struct guard_finding *row);

#endif
