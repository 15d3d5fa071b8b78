/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/examples.h"

#include "guard/code.h"

#include <errno.h>
#include <string.h>

/* 1: the rule has found it. */
static int try_code(const struct rules *r, const struct rule_example *e, struct guard_findings *found, gb_error *err)
{
        static const struct guard_settings settings = {.mode = GUARD_MODE_ON};
        const char *id = rules_text(r, r->code[e->rule].id);

        int k = guard_check(r, &settings, rules_text(r, e->language), rules_text(r, e->text), e->size, found, err);
        for (size_t i = 0; k == 0 && i < found->n; i++)
                if (strcmp(found->rows[i].rule, id) == 0)
                        return 1;
        return k;
}

static int try_shape(const struct rules *r, const struct rule_example *e, const struct scrub *scrub, gb_error *err)
{
        _cleanup_buffer_ struct buffer out = {0};
        struct scrub_tally tally = {0};

        buffer_init(&out, SIZE_MAX / 2);
        int k = scrub_text(scrub, rules_text(r, e->text), e->size, &out, &tally);
        bool found = e->rule < tally.n && tally.counts[e->rule] > 0; /* without secrets the numbers of names are those of shapes */
        scrub_tally_done(&tally);
        return k < 0 ? error_set(err, GB_E_INTERNAL, -k, "out of memory") : found;
}

static void tell(const struct rules *r, const struct rule_example *e, void (*on_failure)(void *data, const struct example_failure *f), void *data)
{
        struct example_failure f = {.must_match = e->matches, .text = rules_text(r, e->text), .size = e->size};

        f.rule = rules_text(r, e->is_shape ? r->shapes[e->rule].id : r->code[e->rule].id);
        f.set = rules_text(r, e->is_shape ? r->shapes[e->rule].set : r->code[e->rule].set);
        f.language = e->is_shape ? NULL : rules_text(r, e->language);
        on_failure(data, &f);
}

int examples_try(const struct rules *r, void (*on_failure)(void *data, const struct example_failure *f), void *data, struct example_counts *ret, gb_error *err)
{
        _cleanup_free_ struct guard_findings *found = malloc(sizeof(*found));
        _cleanup_scrub_ struct scrub *scrub = NULL;

        if (!found)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int k = scrub_new(r, SCRUB_STRICT, NULL, 0, &scrub, err);
        if (k < 0)
                return k;
        *ret = (struct example_counts){0};
        for (size_t i = 0; i < r->n_examples; i++) {
                const struct rule_example *e = &r->examples[i];
                k = e->is_shape ? try_shape(r, e, scrub, err) : try_code(r, e, found, err);
                if (k < 0)
                        return k;
                ret->tried++;
                if ((k == 1) == (e->matches == 1))
                        continue;
                ret->failed++;
                tell(r, e, on_failure, data);
        }
        return 0;
}
