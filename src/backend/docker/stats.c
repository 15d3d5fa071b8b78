/* SPDX-License-Identifier: Apache-2.0
 *
 * Numbers of a container by its engine, for who cannot read its cgroups. */
#include "backend/docker/plan.h"

#include "base/json.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static uint64_t number(const json_t *value, const char *path)
{
        const json_t *v = json_below(value, path);

        if (json_is_integer(v))
                return json_integer_value(v) > 0 ? (uint64_t)json_integer_value(v) : 0;
        /* Larger than an int64 can be: a limit that is none. */
        return json_is_real(v) && json_real_value(v) > 0 && json_real_value(v) < 9e18 ? (uint64_t)json_real_value(v) : 0;
}

static void sum_io(const json_t *value, struct container_stats *ret)
{
        const json_t *rows = json_below(value, "blkio_stats.io_service_bytes_recursive");
        size_t i;
        json_t *row;

        json_array_foreach(rows, i, row) {
                const char *op = json_string_value(json_object_get(row, "op"));
                if (op && strcasecmp(op, "read") == 0)
                        ret->io_read_bytes += number(row, "value");
                else if (op && strcasecmp(op, "write") == 0)
                        ret->io_write_bytes += number(row, "value");
        }
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
        *ret = (struct container_stats){
                .cpu_usec = number(answer, "cpu_stats.cpu_usage.total_usage") / 1000,
                .memory_bytes = number(answer, "memory_stats.usage"),
                .memory_peak_bytes = number(answer, "memory_stats.max_usage"),
                .pids = number(answer, "pids_stats.current"),
        };
        /* What is only cache of files goes when there is need: v1 calls it cache, v2 inactive_file. */
        uint64_t cache = number(answer, "memory_stats.stats.inactive_file");
        ret->memory_bytes -= MIN(cache, ret->memory_bytes);
        sum_io(answer, ret);
        return 0;
}
