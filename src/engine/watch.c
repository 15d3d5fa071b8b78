/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/watch.h"

#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

_Static_assert((int)RULE_OFF == (int)GUARD_OFF && (int)RULE_LOG == (int)GUARD_LOG && (int)RULE_WARN == (int)GUARD_WARN && (int)RULE_BLOCK == (int)GUARD_BLOCK,
               "a policy's actions are the guard's");
_Static_assert((int)WATCH_OFF == (int)GUARD_MODE_OFF && (int)WATCH_ON == (int)GUARD_MODE_ON && (int)WATCH_STRICT == (int)GUARD_MODE_STRICT, "and its modes");
_Static_assert((int)WATCH_OFF == (int)SCRUB_OFF && (int)WATCH_ON == (int)SCRUB_ON && (int)WATCH_STRICT == (int)SCRUB_STRICT, "and the scrubber's");
_Static_assert(RULE_NAME_MAX == SCRUB_NAME_MAX && SECRET_BYTES_MIN == SCRUB_SECRET_MIN, "what a policy takes can be scrubbed");

struct watch {
        const struct rules *rules;
        struct scrub *scrub; /* NULL: nothing is scrubbed */
        struct guard_settings settings;
        struct guard_switch switches[POLICY_RULES_MAX];
};

static const char *const own_rules[] = {GUARD_UNREADABLE_RULE, GUARD_SECRET_RULE, GUARD_SECRET_INPUT_RULE, GUARD_SECRETS_SET};

static bool is_known(const struct rules *r, const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(own_rules); i++)
                if (strcmp(own_rules[i], name) == 0)
                        return true;
        for (size_t i = 0; i < r->n_code; i++)
                if (strcmp(rules_text(r, r->code[i].id), name) == 0 || strcmp(rules_text(r, r->code[i].set), name) == 0)
                        return true;
        return false;
}

static int unknown_rule(const struct rules *r, const char *name, gb_error *err)
{
        const char *names[2 * RULES_MAX];
        size_t n = 0;

        for (size_t i = 0; i < r->n_code && n + 2 <= ARRAY_SIZE(names); i++) {
                names[n++] = rules_text(r, r->code[i].id);
                names[n++] = rules_text(r, r->code[i].set);
        }
        const char *nearest = suggest_nearest(name, names, n);
        return error_set(err, GB_E_POLICY, EINVAL, "guard_rules: there is no rule or set %s%s%s%s; 'glovebox guard list' has them", quote(name).text,
                         nearest ? ", did you mean \"" : "", nearest ? nearest : "", nearest ? "\"" : "");
}

static int set_switches(struct watch *w, const struct policy *p, gb_error *err)
{
        if (!w->rules)
                return 0;
        for (size_t i = 0; i < p->n_rules; i++) {
                if (!is_known(w->rules, p->rules[i].name))
                        return unknown_rule(w->rules, p->rules[i].name, err);
                w->switches[i] = (struct guard_switch){p->rules[i].name, (enum guard_action)p->rules[i].action};
        }
        w->settings.switches = w->switches;
        w->settings.n_switches = p->n_rules;
        return 0;
}

static int make_scrub(struct watch *w, const struct policy *p, gb_error *err)
{
        struct scrub_secret secrets[SECRETS_MAX];

        if (p->scrub == WATCH_OFF)
                return 0;
        for (size_t i = 0; i < p->n_secrets; i++)
                secrets[i] = (struct scrub_secret){p->secrets[i].name, p->secrets[i].value, p->secrets[i].size};
        return scrub_new(w->rules, (enum scrub_mode)p->scrub, secrets, p->n_secrets, &w->scrub, err);
}

int watch_open(const struct policy *p, struct watch **ret, gb_error *err)
{
        _cleanup_watch_ struct watch *w = calloc(1, sizeof(*w));

        if (!w)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        /* Who wants none of it is not stopped by an operator's rule that is wrong. */
        int r = p->guard != WATCH_OFF || p->scrub != WATCH_OFF ? rules_get(&w->rules, err) : 0;
        if (r == 0)
                r = set_switches(w, p, err);
        if (r == 0)
                r = make_scrub(w, p, err);
        if (r < 0)
                return r;
        w->settings.mode = (enum guard_mode)p->guard;
        w->settings.scrub = w->scrub;
        w->settings.strict_scrub = p->scrub == WATCH_STRICT;
        w->settings.imports = p->has_imports ? (const char *const *)p->imports : NULL;
        *ret = TAKE_PTR(w);
        return 0;
}

void watch_close(struct watch *w)
{
        if (!w)
                return;
        scrub_free(w->scrub);
        free(w);
}

const struct scrub *watch_scrub(const struct watch *w)
{
        return w ? w->scrub : NULL;
}

/* ---- before the run ---- */

static void say_blocked(const struct guard_finding *f, struct verdict *v)
{
        char place[64] = "";

        if (f->line > 0)
                snprintf(place, sizeof(place), ", line %u, column %u", f->line, f->column);
        *v = (struct verdict){.kind = VERDICT_BLOCKED};
        snprintf(v->message, sizeof(v->message), "Nothing was run: the rule %s refused the code%s. %s %s", f->rule, place, f->message, f->remedy);
}

/* Keeps a list, no longer than it has to be, when there is something on it. */
static void keep(struct result *result, struct guard_findings *found)
{
        if (found->n == 0) {
                free(found);
                return;
        }
        struct guard_findings *smaller = realloc(found, offsetof(struct guard_findings, rows) + found->n * sizeof(found->rows[0]));
        result->findings = smaller ? smaller : found;
}

static struct guard_finding input_finding(const struct watch *w, bool too_late)
{
        struct guard_finding f = {.rule = GUARD_SECRET_INPUT_RULE, .set = GUARD_SECRETS_SET, .action = GUARD_WARN};

        if (w->settings.strict_scrub && !too_late)
                f.action = GUARD_BLOCK;
        f.action = guard_action_of(&w->settings, f.rule, f.set, f.action);
        if (too_late && f.action == GUARD_BLOCK)
                f.action = GUARD_WARN;
        snprintf(f.message, sizeof(f.message), "Standard input carries what looks like a secret.");
        snprintf(f.remedy, sizeof(f.remedy), "%s", GUARD_SECRET_REMEDY);
        return f;
}

static int drop(void *data, const void *bytes, size_t size)
{
        return 0;
}

/* A file, without moving where its reader stands. */
static int look_into(const struct watch *w, int fd, struct guard_findings *found)
{
        _cleanup_scrub_stream_ struct scrub_stream *stream = NULL;
        struct scrub_tally tally = {0};
        char bytes[16 * KIB];
        struct stat st;
        ssize_t n = 0;

        if (!w->scrub || fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
                return 0;
        off_t from = lseek(fd, 0, SEEK_CUR), at = from;
        int r = scrub_stream_new(w->scrub, drop, NULL, &tally, &stream);
        while (r == 0 && at - from < (off_t)WATCH_INPUT_MAX && (n = pread(fd, bytes, sizeof(bytes), at)) > 0) {
                r = scrub_stream_write(stream, bytes, (size_t)n);
                at += n;
        }
        if (r == 0)
                r = n < 0 ? -errno : scrub_stream_end(stream);
        explicit_bzero(bytes, sizeof(bytes));
        struct guard_finding f = input_finding(w, false);
        if (r == 0 && tally.total == 0 && w->settings.strict_scrub && st.st_size - at > 0) {
                snprintf(f.message, sizeof(f.message), "Standard input is too large to be looked at for secrets.");
                snprintf(f.remedy, sizeof(f.remedy), "Put the data into a file of the workspace.");
                tally.total = 1;
        }
        if (r == 0 && tally.total > 0 && f.action != GUARD_OFF)
                guard_add(found, &f);
        scrub_tally_done(&tally);
        return r;
}

int watch_before(const struct watch *w, const struct watch_subject *q, struct result *result, gb_error *err)
{
        struct guard_findings *found = malloc(sizeof(*found));

        if (!found)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        struct guard_settings settings = w->settings;
        settings.meanwhile = q->meanwhile;
        settings.data = q->data;
        int r = guard_check(w->rules, &settings, q->language->name, q->code, q->code_size, found, err);
        int looked = r == 0 ? look_into(w, q->stdin_fd, found) : 0;
        if (looked < 0)
                r = error_set(err, GB_E_INTERNAL, -looked, "cannot look at standard input: %s", strerror(-looked));
        if (r < 0) {
                free(found);
                return r;
        }
        keep(result, found);
        const struct guard_finding *f = result->findings ? guard_blocks(result->findings) : NULL;
        if (f) {
                say_blocked(f, &result->verdict);
                /* Nothing was run, so nothing was used. */
                result->facts.known = ALL_KNOWN;
                result->setup_known = true;
        }
        return f != NULL;
}

int watch_add(const struct guard_findings *more, struct result *result)
{
        struct guard_findings *old = result->findings;

        if (!more || more->n == 0)
                return 0;
        struct guard_findings *found = malloc(sizeof(*found));
        if (!found)
                return -ENOMEM;
        found->n = old ? old->n : 0;
        found->more = (old ? old->more : 0) + more->more;
        if (old)
                memcpy(found->rows, old->rows, old->n * sizeof(old->rows[0]));
        for (size_t i = 0; i < more->n; i++)
                guard_add(found, &more->rows[i]);
        free(old);
        keep(result, found);
        return 0;
}

int watch_note_input(const struct watch *w, struct result *result)
{
        _cleanup_free_ struct guard_findings *one = malloc(sizeof(*one));

        if (!one)
                return -ENOMEM;
        one->rows[0] = input_finding(w, true);
        one->n = one->rows[0].action != GUARD_OFF;
        one->more = 0;
        return watch_add(one, result);
}

/* ---- what comes out ---- */

int watch_text(const struct watch *w, const void *bytes, size_t size, struct result *result, struct buffer *ret)
{
        if (!watch_scrub(w) || size == 0)
                return 0;
        buffer_init(ret, SIZE_MAX / 2);
        return scrub_text(w->scrub, bytes, size, ret, &result->scrubbed);
}
