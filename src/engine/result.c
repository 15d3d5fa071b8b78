/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/result.h"

#include "base/utf8.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

int result_make_id(char ret[static ID_DIGITS + 1])
{
        static const char digits[] = "0123456789abcdef";
        unsigned char random[ID_DIGITS / 2];

        ssize_t n = getrandom(random, sizeof(random), 0);
        if (n != sizeof(random))
                return n < 0 ? -errno : -EIO;
        for (size_t i = 0; i < sizeof(random); i++) {
                ret[2 * i] = digits[random[i] >> 4];
                ret[2 * i + 1] = digits[random[i] & 15];
        }
        ret[ID_DIGITS] = '\0';
        return 0;
}

struct result *result_new(const struct policy *policy, const struct language *language, const char *backend, bool keep_output)
{
        _cleanup_result_ struct result *result = calloc(1, sizeof(*result));

        if (!result || result_make_id(result->id) < 0)
                return NULL;
        if (keep_output) {
                buffer_init(&result->out, policy->output_limit_bytes);
                buffer_init(&result->err, policy->output_limit_bytes);
        }
        result->language = strdup(language->name);
        result->trust = strdup(policy->trust);
        result->policy_origin = strdup(policy->origin);
        result->backend = strdup(backend);
        if (!result->language || !result->trust || !result->policy_origin || !result->backend)
                return NULL;
        result->facts.language = language->name;
        result->facts.memory_min_bytes = language->memory_min_bytes;
        return TAKE_PTR(result);
}

void result_free(struct result *r)
{
        if (!r)
                return;
        buffer_done(&r->out);
        buffer_done(&r->err);
        free(r->language);
        free(r->trust);
        free(r->policy_origin);
        free(r->backend);
        for (size_t i = 0; i < r->n_values; i++)
                free(r->values[i]);
        free(r->values);
        free(r->error.name.bytes);
        free(r->error.value.bytes);
        free(r->error.traceback.bytes);
        free(r->findings);
        free(r->network);
        free(r->scrubbed_names);
        scrub_tally_done(&r->scrubbed);
        free(r);
}

void result_take_end(struct result *r, const struct box_end *end)
{
        static const enum stop_reason reasons[] = {
                [BOX_STOP_NONE] = STOP_NONE, [BOX_STOP_TIMEOUT] = STOP_TIMEOUT, [BOX_STOP_CPU] = STOP_CPU,
                [BOX_STOP_DISK] = STOP_DISK, [BOX_STOP_MEMORY] = STOP_MEMORY, [BOX_STOP_ASKED] = STOP_NONE, /* facts.stop has our reason */
        };
        struct run_facts *facts = &r->facts;

        facts->started = facts->started || ending_is_seen(&end->ending);
        facts->ending = end->ending;
        facts->compiling = end->compiling;
        facts->known = (struct known_amounts){.wall = true, .cpu = end->cpu_known, .memory = end->memory_known,
                .pids = end->pids_known, .disk = end->disk_known, .kills = end->kills_known};
        facts->wall_usec = end->wall_usec;
        facts->cpu_usec = end->cpu_usec;
        facts->memory_peak_bytes = end->memory_peak_bytes;
        facts->pids_peak = end->pids_peak;
        facts->disk_peak_bytes = end->disk_peak_bytes;
        facts->inodes_peak = end->inodes_peak;
        facts->oom_kills = end->oom_kills;
        facts->pids_refused = end->pids_refused;
        facts->disk_full = end->disk_full;
        facts->disk_hidden = facts->disk_hidden || (end->stop == BOX_STOP_DISK && end->disk_hidden);
        facts->pids_full = end->pids_full;
        facts->tasks_left = end->tasks_left;
        if (facts->stop == STOP_NONE && end->stop < ARRAY_SIZE(reasons))
                facts->stop = reasons[end->stop];
}

bool result_is_binary(const char *mime)
{
        if (strncmp(mime, "image/svg", strlen("image/svg")) == 0)
                return false; /* XML */
        return strncmp(mime, "image/", strlen("image/")) == 0 || strcmp(mime, "application/octet-stream") == 0 ||
               strcmp(mime, "application/pdf") == 0;
}

int result_name_scrubbed(struct result *r, const struct scrub *scrub)
{
        size_t n = 0;

        for (size_t i = 0; i < r->scrubbed.n; i++)
                n += r->scrubbed.counts[i] > 0;
        if (n == 0 || r->scrubbed_names)
                return 0;
        r->scrubbed_names = calloc(n, sizeof(*r->scrubbed_names));
        if (!r->scrubbed_names)
                return -ENOMEM;
        for (size_t i = 0; i < r->scrubbed.n; i++) {
                const char *name = r->scrubbed.counts[i] > 0 ? scrub_name(scrub, i) : NULL;
                if (!name)
                        continue;
                struct result_count *c = &r->scrubbed_names[r->n_scrubbed_names++];
                c->count = r->scrubbed.counts[i];
                snprintf(c->name, sizeof(c->name), "%s", name);
        }
        return 0;
}

static char *put(char **at, const void *bytes, size_t size)
{
        char *start = *at;

        if (size > 0)
                memcpy(start, bytes, size);
        start[size] = '\0';
        *at += size + 1;
        return start;
}

int result_add_value(struct result *r, bool main, const struct frame_part *parts, size_t n_parts)
{
        size_t size = 0;

        n_parts = MIN(n_parts, (size_t)FRAME_PARTS_MAX);
        for (size_t i = 0; i < n_parts; i++)
                size += strlen(parts[i].name) + parts[i].size + 2;
        /* Grown in steps: most runs have none or one. */
        if ((r->n_values & (r->n_values + 1)) == 0) {
                struct result_value **grown = realloc(r->values, (r->n_values + 1) * 2 * sizeof(*grown)); /* NOLINT: pointers are meant */
                if (!grown)
                        return -ENOMEM;
                r->values = grown;
        }
        struct result_value *v = malloc(sizeof(*v) + size);
        if (!v)
                return -ENOMEM;
        char *at = v->memory;
        v->main = main;
        v->n_parts = n_parts;
        for (size_t i = 0; i < n_parts; i++) {
                v->parts[i].mime = put(&at, parts[i].name, strlen(parts[i].name));
                v->parts[i].bytes = put(&at, parts[i].bytes, parts[i].size);
                v->parts[i].size = parts[i].size;
        }
        r->values[r->n_values++] = v;
        return 0;
}

int result_set_text(struct result_text *text, const char *bytes, size_t size)
{
        if (size > ERROR_TEXT_MAX)
                size = ERROR_TEXT_MAX - utf8_incomplete_tail(bytes, ERROR_TEXT_MAX);
        char *copy = malloc(size + 1), *at = copy;
        if (!copy)
                return -ENOMEM;
        put(&at, bytes, size);
        free(text->bytes);
        *text = (struct result_text){copy, size};
        return 0;
}
