/* SPDX-License-Identifier: Apache-2.0
 *
 * What is looked for, what is counted, and whole texts. Streams: scrub_stream.c. */
#include "guard/scrub.h"

#include "guard/scrub_state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- what is looked for ---- */

static int copy_names(struct scrub *s, const struct scrub_secret *secrets, size_t n)
{
        s->names = calloc(n + 1, sizeof(*s->names));
        if (!s->names)
                return -ENOMEM;
        s->n_secrets = n;
        for (size_t i = 0; i < n; i++)
                snprintf(s->names[i], sizeof(s->names[i]), "%s", secrets[i].name);
        return 0;
}

int scrub_new(const struct rules *rules, enum scrub_mode mode, const struct scrub_secret *secrets, size_t n_secrets, struct scrub **ret, gb_error *err)
{
        _cleanup_scrub_ struct scrub *s = calloc(1, sizeof(*s));
        int r = s ? 0 : -ENOMEM;

        if (r == 0) {
                s->mode = mode;
                s->rules = mode != SCRUB_OFF && rules && rules->shape_db ? rules : NULL;
                r = copy_names(s, secrets, n_secrets);
        }
        if (r == 0 && mode != SCRUB_OFF)
                r = exact_new(secrets, n_secrets, &s->exact);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "cannot prepare the scrubber: %s", strerror(-r));
        *ret = TAKE_PTR(s);
        return 0;
}

void scrub_free(struct scrub *s)
{
        if (!s)
                return;
        exact_free(s->exact);
        free(s->names);
        free(s);
}

/* Secrets come first, then shapes. */
const char *scrub_name(const struct scrub *s, size_t number)
{
        if (number < s->n_secrets)
                return s->names[number];
        number -= s->n_secrets;
        return s->rules && number < s->rules->n_shapes ? rules_text(s->rules, s->rules->shapes[number].id) : NULL;
}

/* ---- counting ---- */

void scrub_tally_done(struct scrub_tally *t)
{
        free(t->counts);
        *t = (struct scrub_tally){0};
}

static int tally_grow(struct scrub_tally *t, size_t n)
{
        if (n <= t->n)
                return 0;
        uint64_t *grown = reallocarray(t->counts, n, sizeof(*grown));
        if (!grown)
                return -ENOMEM;
        memset(grown + t->n, 0, (n - t->n) * sizeof(*grown));
        t->counts = grown;
        t->n = n;
        return 0;
}

int scrub_tally_add(struct scrub_tally *t, const struct scrub_tally *more)
{
        int r = tally_grow(t, more->n);

        for (size_t i = 0; r == 0 && i < more->n; i++)
                t->counts[i] += more->counts[i];
        t->total += r == 0 ? more->total : 0;
        return r;
}

int scrub_tally_count(struct scrub_tally *t, size_t name)
{
        if (!t)
                return 0;
        int r = tally_grow(t, name + 1);
        if (r < 0)
                return r;
        t->counts[name]++;
        t->total++;
        return 0;
}

/* ---- a whole text ---- */

static int to_buffer(void *data, const void *bytes, size_t size)
{
        return buffer_add(data, bytes, size);
}

int scrub_text(const struct scrub *s, const void *bytes, size_t size, struct buffer *out, struct scrub_tally *tally)
{
        _cleanup_scrub_stream_ struct scrub_stream *st = NULL;
        _cleanup_buffer_ struct buffer text = {0};
        struct scrub_tally own = {0};

        buffer_init(&text, SIZE_MAX / 2);
        int r = scrub_stream_new(s, to_buffer, &text, &own, &st);
        if (r == 0)
                r = scrub_stream_write(st, bytes, size);
        if (r == 0)
                r = scrub_stream_end(st);
        if (r == 0 && own.total > 0)
                r = buffer_add(out, text.data, text.size);
        if (r == 0 && own.total > 0 && tally)
                r = scrub_tally_add(tally, &own);
        bool found = own.total > 0;
        scrub_tally_done(&own);
        return r < 0 ? r : found;
}
