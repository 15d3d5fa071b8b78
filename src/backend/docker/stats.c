/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a container by its engine, for who cannot read its cgroups. */
#include "backend/docker/plan.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Whether the answer has such a number. Podman's counters have been negative; "no limit" is larger than an int64. */
static bool take_number(const json_t *value, const char *path, uint64_t *ret)
{
        const json_t *v = json_below(value, path);

        if (json_is_integer(v) && json_integer_value(v) >= 0)
                *ret = (uint64_t)json_integer_value(v);
        else if (json_is_real(v) && json_real_value(v) >= 0 && json_real_value(v) < 9e18)
                *ret = (uint64_t)json_real_value(v);
        else
                return false;
        return true;
}

/* Without rows it is not known whether nothing was read and written, or it is not counted. */
static bool sum_io(const json_t *value, struct container_stats *ret)
{
        const json_t *rows = json_below(value, "blkio_stats.io_service_bytes_recursive");
        uint64_t read = 0, written = 0;
        bool any = false;
        size_t i;
        json_t *row;

        json_array_foreach(rows, i, row) {
                const char *op = json_string_value(json_object_get(row, "op"));
                bool is_read = op && strcasecmp(op, "read") == 0;
                uint64_t bytes;
                if (!is_read && (!op || strcasecmp(op, "write") != 0))
                        continue;
                if (!take_number(row, "value", &bytes))
                        return false;
                *(is_read ? &read : &written) += bytes;
                any = true;
        }
        ret->io_read_bytes = read;
        ret->io_write_bytes = written;
        return any;
}

/* For a container that does not run Docker answers with zeros, and the year 1 as the time of the sample. */
static bool is_sample(const json_t *answer)
{
        const char *when = json_string_value(json_object_get(answer, "read"));

        return when && strncmp(when, "0001-", 5) != 0;
}

static void take_stats(const json_t *answer, struct container_stats *ret)
{
        uint64_t cpu_nsec, cache, peak;

        *ret = (struct container_stats){0};
        if (!is_sample(answer))
                return;
        ret->cpu_known = take_number(answer, "cpu_stats.cpu_usage.total_usage", &cpu_nsec);
        ret->cpu_usec = ret->cpu_known ? cpu_nsec / 1000 : 0;
        ret->pids_known = take_number(answer, "pids_stats.current", &ret->pids);
        ret->memory_known = take_number(answer, "memory_stats.usage", &ret->memory_bytes);
        /* Cached files are dropped when memory is needed: v1 calls them cache, v2 inactive_file. */
        if (ret->memory_known && take_number(answer, "memory_stats.stats.inactive_file", &cache))
                ret->memory_bytes -= MIN(cache, ret->memory_bytes);
        /* Of a v2 host an engine reports no peak. */
        ret->memory_peak_known = ret->memory_known && take_number(answer, "memory_stats.max_usage", &peak);
        ret->memory_peak_bytes = ret->memory_peak_known ? MAX(peak, ret->memory_bytes) : ret->memory_bytes;
        ret->io_known = sum_io(answer, ret);
}

int container_stats(const struct engine *e, const struct container *c, struct container_stats *ret, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        char target[CONTAINER_ID_MAX + 48];
        int status;

        snprintf(target, sizeof(target), "/containers/%s/stats?stream=false&one-shot=true", c->id);
        int r = engine_call(e, "GET", target, NULL, 0, &status, &answer, err);
        if (r < 0)
                return r;
        if (status != 200)
                return engine_refusal(e, status, answer, "cannot ask for the numbers of the container", err);
        take_stats(answer, ret);
        return 0;
}
