/* SPDX-License-Identifier: Apache-2.0 */
#include "server/session_object.h"

#include "base/fd.h"
#include "policy/network.h"
#include "server/run_object.h"
#include "server/scrubbing.h"

#include <string.h>

static json_t *seconds(uint64_t usec)
{
        return json_real((double)usec / 1e6);
}

static json_t *policy_to_json(const struct policy *p)
{
        return json_pack("{s:s, s:s, s:b, s:b, s:s, s:s, s:o}", "trust", p->trust, "network", network_mode_name(p->network_mode), "read_only",
                         p->read_only, "scratch_only", p->scratch_only, "guard", watch_mode_name(p->guard), "scrub", watch_mode_name(p->scrub), "limits", policy_limits_to_json(p));
}

/* Their names. */
static json_t *secrets_to_json(const struct live_session *s)
{
        _cleanup_json_ json_t *names = json_array();
        const struct policy *p = s->policy;

        for (size_t i = 0; i < p->n_secrets; i++)
                if (json_array_append_new(names, scrubbed_text(session_scrub(s->session), p->secrets[i].name, strlen(p->secrets[i].name), NULL)) < 0)
                        return NULL;
        return TAKE_PTR(names);
}

static json_t *workspace_to_json(const struct live_session *s, const struct caller *caller)
{
        json_t *o = json_pack("{s:s}", "kind", s->kept ? "kept" : s->workspace ? "path" : "private");

        /* Where the host keeps things is nobody's business from afar. */
        if (s->workspace && caller->local)
                (void)json_object_set_new(o, "path", json_readable(s->workspace, strlen(s->workspace)));
        return o;
}

/* With the session's lock: its end, by CLOCK_MONOTONIC. */
static uint64_t end_usec(const struct live_session *s)
{
        uint64_t end = s->born_usec + s->lifetime_usec;

        return s->runs_active == 0 && s->idle_usec < end - MIN(end, s->used_usec) ? s->used_usec + s->idle_usec : end;
}

uint64_t session_left_usec(struct live_session *s)
{
        pthread_mutex_lock(&s->lock);
        uint64_t now = monotonic_usec(), end = end_usec(s);
        pthread_mutex_unlock(&s->lock);
        return end - MIN(end, now);
}

/* With the session's lock. */
static int set_times(json_t *o, const struct live_session *s)
{
        uint64_t now = monotonic_usec(), wall = live_wall_usec(), end = end_usec(s);

        /* Of two clocks: their difference may lie a little before what the one has said then. */
        uint64_t used = s->runs_active > 0 ? wall : wall - (now - MIN(now, s->used_usec));
        int r = json_object_set_new(o, "created_at", time_to_json(s->created_usec));
        r |= json_object_set_new(o, "last_used_at", time_to_json(MAX(used, s->created_usec)));
        r |= json_object_set_new(o, "expires_at", time_to_json(end > now ? wall + (end - now) : wall));
        r |= json_object_set_new(o, "idle_timeout", seconds(s->idle_usec));
        r |= json_object_set_new(o, "max_lifetime", seconds(s->lifetime_usec));
        return r;
}

json_t *session_to_json(struct live_session *s, const struct caller *caller)
{
        _cleanup_json_ json_t *o = json_object();
        int r = 0;

        pthread_mutex_lock(&s->lock);
        r |= json_object_set_new(o, "id", json_string(s->id));
        r |= json_object_set_new(o, "name", s->name ? json_string(s->name) : json_null());
        r |= json_object_set_new(o, "state", json_string("ready"));
        r |= set_times(o, s);
        r |= json_object_set_new(o, "policy", policy_to_json(s->policy));
        r |= json_object_set_new(o, "secrets", secrets_to_json(s));
        r |= json_object_set_new(o, "template", s->template ? json_string(s->template->name) : json_null());
        r |= json_object_set_new(o, "warm", json_boolean(s->warm));
        r |= json_object_set_new(o, "backend", json_string(backend_for(s->policy)->name));
        r |= json_object_set_new(o, "runtime", s->policy->runtime ? json_string(s->policy->runtime) : json_null());
        r |= json_object_set_new(o, "image", s->policy->image ? json_string(s->policy->image) : json_null());
        r |= json_object_set_new(o, "workspace", workspace_to_json(s, caller));
        r |= json_object_set(o, "metadata", s->metadata);
        r |= json_object_set_new(o, "runs", json_pack("{s:i, s:I}", "active", (int)s->runs_active, "total", (json_int_t)s->runs_total));
        r |= json_object_set_new(o, "controls", controls_to_json(session_controls(s->session)));
        pthread_mutex_unlock(&s->lock);
        return r == 0 ? TAKE_PTR(o) : NULL;
}
