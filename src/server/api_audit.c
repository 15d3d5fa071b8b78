/* SPDX-License-Identifier: Apache-2.0
 *
 * GET /v1/audit: docs/api.md. A tenant sees what is its own; with the scope admin one sees all. */
#include "server/routes.h"

#include "base/json.h"
#include "base/quote.h"
#include "engine/verdict.h"
#include "server/reply.h"
#include "server/server.h"

#include <errno.h>
#include <string.h>

static int read_time(const struct request *r, const char *name, uint64_t *ret, gb_error *err)
{
        const char *text = request_query(r, name);

        if (!text || journal_time_parse(text, ret) == 0)
                return 0;
        return error_set(err, GB_E_USAGE, EINVAL, "%s: %s is not a time such as 2026-01-05T10:00:00Z", name, quote(text).text);
}

static int check_verdict(const char *name, gb_error *err)
{
        if (!name)
                return 0;
        for (int i = 0; i <= VERDICT_LOST; i++)
                if (strcmp(verdict_name((enum verdict_kind)i), name) == 0)
                        return 0;
#define ONE(id, text, exit_status) " " text
        return error_set(err, GB_E_USAGE, EINVAL, "verdict: there is no %s; there are:" VERDICTS(ONE), quote(name).text);
#undef ONE
}

static int read_tenant(const struct request *r, struct journal_query *q, gb_error *err)
{
        const char *tenant = request_query(r, "tenant");

        if (r->caller.scopes & SCOPE_ADMIN) {
                q->tenant = tenant;
                return 0;
        }
        q->tenant = r->caller.tenant;
        return tenant ? error_set(err, GB_E_DENIED, EPERM, "tenant: that needs the scope admin") : 0;
}

static int read_query(const struct request *r, struct journal_query *q, gb_error *err)
{
        static const char *const names[] = {"since", "until", "verdict", "session", "tenant", "limit", "cursor", NULL};
        uint64_t limit = 100;

        int e = request_check_query(r, names, err);
        e = e < 0 ? e : request_query_number(r, "limit", 1, 1000, 100, &limit, err);
        e = e < 0 ? e : request_query_number(r, "cursor", 1, INT64_MAX, 0, &q->before, err);
        e = e < 0 ? e : read_time(r, "since", &q->since_usec, err);
        e = e < 0 ? e : read_time(r, "until", &q->until_usec, err);
        e = e < 0 ? e : check_verdict(request_query(r, "verdict"), err);
        e = e < 0 ? e : read_tenant(r, q, err);
        q->limit = (size_t)limit;
        q->verdict = request_query(r, "verdict");
        q->session = request_query(r, "session");
        return e;
}

static int add_record(void *data, uint64_t cursor, const char *json)
{
        json_t *record = json_parse(json, strlen(json), 0, NULL);

        return record && json_array_append_new(data, record) == 0 ? 0 : -ENOMEM;
}

void api_audit(struct request *r)
{
        struct journal_query q = {.state = -1};
        _cleanup_json_ json_t *records = json_array(), *o = json_object();
        uint64_t next = 0;
        gb_error err = {0};

        int e = read_query(r, &q, &err);
        if (e == 0)
                e = records ? journal_audit(r->server->journal, &q, add_record, records, &next, &err) : -ENOMEM;
        if (e < 0 && err.code != GB_E_NONE) {
                reply_error(r, &err);
                return;
        }
        e |= json_object_set(o, "records", records);
        e |= json_object_set_new(o, "next", next > 0 ? json_sprintf("%llu", (unsigned long long)next) : json_null());
        reply_json(r, 200, e == 0 ? TAKE_PTR(o) : NULL);
}
