/* SPDX-License-Identifier: Apache-2.0
 *
 * What a session may reach, and what it has reached: docs/api.md. Rules and budgets of one that lives can be replaced; callers from afar only by what the policy of its
 * trust level lets pass. */
#include "server/routes.h"

#include "base/json.h"
#include "base/parse.h"
#include "engine/network.h"
#include "policy/network.h"
#include "server/fields.h"
#include "server/reply.h"
#include "server/scrubbing.h"
#include "server/server.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *const no_query[] = {NULL};

/* ---- as an object ---- */

/* Rules as texts, for the audit: they can be long, and what is put into requests is nobody's business. */
static json_t *texts_of(const struct policy *p, const struct scrub *scrub)
{
        _cleanup_json_ json_t *list = json_array();

        for (size_t i = 0; i < p->n_network_allow; i++) {
                const char *text = p->network_allow[i]->text;
                if (json_array_append_new(list, scrubbed_text(scrub, text, strlen(text), NULL)) < 0)
                        return NULL;
        }
        return TAKE_PTR(list);
}

static json_t *rules_of(const struct policy *p)
{
        _cleanup_json_ json_t *list = json_array();

        for (size_t i = 0; i < p->n_network_allow; i++)
                if (json_array_append_new(list, network_rule_to_json(p->network_allow[i])) < 0)
                        return NULL;
        return TAKE_PTR(list);
}

static json_t *ranges_of(const struct policy *p)
{
        _cleanup_json_ json_t *list = json_array();
        char text[ADDRESS_TEXT_MAX + 4];

        for (size_t i = 0; i < p->n_network_ranges; i++)
                if (json_array_append_new(list, json_string(address_range_format(&p->network_ranges[i], text))) < 0)
                        return NULL;
        return TAKE_PTR(list);
}

static json_t *limits_of(const struct policy *p)
{
        return json_pack("{s:I, s:I, s:I}", "bytes", (json_int_t)p->network_bytes, "requests", (json_int_t)p->network_requests, "connections",
                         (json_int_t)p->network_connections);
}

/* What passes the proxy is counted there. With the host's network nothing passes it, and nobody counts. */
static json_t *totals_of(const struct policy *p, const json_t *all)
{
        static const char *const names[] = {"requests", "denied", "bytes_up", "bytes_down"};
        _cleanup_json_ json_t *used = json_object();
        int r = 0;

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                r |= p->network_mode == NETWORK_HOST ? json_object_set_new(used, names[i], json_null())
                                                     : json_object_set(used, names[i], json_object_get(all, names[i]));
        return r == 0 ? TAKE_PTR(used) : NULL;
}

static json_t *open_of(const struct policy *p, const struct ledger_copy *ledger)
{
        return p->network_mode == NETWORK_HOST ? json_null() : json_integer(ledger ? ledger->open : 0);
}

/* Everything together, of a copy that is the caller's own. */
static json_t *network_of(const struct policy *p, struct session *session)
{
        _cleanup_free_ struct ledger_copy *ledger = session_network_ledger(session);
        bool listed = p->network_mode == NETWORK_ALLOWLIST;

        if (listed && !ledger)
                return NULL;
        _cleanup_json_ json_t *all = network_ledger_to_json(ledger, LEDGER_ROWS_ALL), *o = json_object();
        int r = all ? 0 : -1;
        r |= json_object_set_new(o, "mode", json_string(network_mode_name(p->network_mode)));
        r |= json_object_set_new(o, "rules", listed ? rules_of(p) : json_array());
        r |= json_object_set_new(o, "ranges", listed ? ranges_of(p) : json_array());
        r |= json_object_set_new(o, "limits", limits_of(p));
        r |= json_object_set_new(o, "used", totals_of(p, all));
        r |= json_object_set_new(o, "open", open_of(p, ledger));
        r |= json_object_set(o, "cut", json_object_get(all, "cut"));
        r |= json_object_set(o, "hosts", json_object_get(all, "hosts"));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static void reply_network(struct request *r, struct live_session *s)
{
        _cleanup_policy_ struct policy *p = session_network_policy(s->session);

        reply_json(r, 200, p ? network_of(p, s->session) : NULL);
}

void api_network_get(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = live_session_get(r->server->live, &r->caller, r->params[0], false, &s, &err);
        if (status < 0)
                reply_error(r, &err);
        else
                reply_network(r, s);
}

/* ---- other rules ---- */

static int read_budget(struct fields *f, struct policy *p, const char *name, const char *key, gb_error *err)
{
        const json_t *value = json_object_get(f->object, name);
        char number[FORMAT_MAX];
        const char *text = json_string_value(value);
        gb_error why = {0};

        if (!value)
                return 0;
        if (json_is_integer(value)) {
                snprintf(number, sizeof(number), "%" JSON_INTEGER_FORMAT, json_integer_value(value));
                text = number;
        }
        if (!text)
                return fields_error(f, name, GB_E_USAGE, err, "a whole number, or text, is wanted");
        if (policy_set(p, key, text, name, &why) < 0) {
                snprintf(f->wrong, sizeof(f->wrong), "%s", name);
                return error_set(err, (gb_error_code)why.code, EINVAL, "%s", why.message);
        }
        return 0;
}

static int read_change(struct fields *f, struct policy *p, gb_error *err)
{
        static const char *const names[] = {"allow", "ranges", "bytes", "requests", "connections", NULL};

        int r = fields_check(f, names, err);
        if (r == 0)
                r = fields_network_allow(f, "allow", p, err);
        if (r == 0 && json_object_get(f->object, "ranges"))
                r = fields_network_ranges(f, "ranges", p, err);
        if (r == 0)
                r = read_budget(f, p, "bytes", "network_bytes", err);
        if (r == 0)
                r = read_budget(f, p, "requests", "network_requests", err);
        if (r == 0)
                r = read_budget(f, p, "connections", "network_connections", err);
        return r == 0 ? network_check(p, err) : r;
}

/* What a caller from afar may have is what the file of the operator lets pass at this trust level, whatever the session has now. */
static int check_level(struct fields *f, struct live *live, struct policy *p, gb_error *err)
{
        const struct policy *level = NULL;
        gb_error why = {0};

        int r = live_policy(live, p->trust, &level, err);
        if (r < 0 || (p->n_network_allow == 0 && json_object_size(f->object) == 1))
                return r;
        if (network_narrow(p, level, &why) == 0)
                return 0;
        return fields_error(f, "allow", (gb_error_code)why.code, err, "%s%s", why.message,
                            why.code == GB_E_DENIED ? "; only callers through the server's unix socket may do that" : "");
}

/* It is written down before it holds. */
static int note_change(struct request *r, const struct live_session *s, const struct policy *p, gb_error *err)
{
        _cleanup_json_ json_t *o = json_pack("{s:{s:o, s:o, s:o}}", "network", "rules", texts_of(p, session_scrub(s->session)), "ranges", ranges_of(p), "limits",
                                             limits_of(p));
        _cleanup_free_ char *text = o ? json_dumps(o, JSON_COMPACT) : NULL;

        if (!text)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return journal_session_note(r->server->journal, s->id, s->tenant, r->caller.token, p->trust, "session.network", text, err);
}

static int change(struct request *r, struct live_session *s, struct fields *f, gb_error *err)
{
        _cleanup_policy_ struct policy *p = session_network_policy(s->session);

        if (!p)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (p->network_mode != NETWORK_ALLOWLIST)
                return error_set(err, GB_E_CONFLICT, EINVAL, "the network of this session is \"%s\", and only an allowlist can be changed; make a session with network_mode allowlist",
                                 network_mode_name(p->network_mode));
        int status = read_change(f, p, err);
        if (status == 0 && !r->caller.local)
                status = check_level(f, r->server->live, p, err);
        if (status == 0)
                status = note_change(r, s, p, err);
        return status == 0 ? session_network_change(s->session, p, err) : status;
}

void api_network_put(struct request *r)
{
        _cleanup_live_session_ struct live_session *s = NULL;
        _cleanup_json_ json_t *body = NULL;
        struct fields f = {.prefix = ""};
        gb_error err = {0};

        int status = request_check_query(r, no_query, &err);
        if (status == 0)
                status = live_session_get(r->server->live, &r->caller, r->params[0], true, &s, &err);
        if (status == 0)
                status = request_json(r, false, &body, &err);
        f.object = body;
        if (status == 0)
                status = change(r, s, &f, &err);
        fields_wipe_secrets(body);
        request_forget_body(r);
        if (status < 0) {
                if (s)
                        scrubbing_error(r->server->scrubbing, session_scrub(s->session), &err);
                fields_refuse(r, &f, &err);
        } else
                reply_network(r, s);
}
