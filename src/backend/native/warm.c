/* SPDX-License-Identifier: Apache-2.0
 *
 * Who serves has a warden with a listening socket, and its templates belong to the process that serves: each ends with
 * its channel, and the warden with its first one. Others connect to the socket (warden.c) and open sessions. */
#include "backend/native/warm.h"

#include "backend/native/admit.h"
#include "backend/native/template.h"
#include "backend/native/warden.h"
#include "base/fd.h"
#include "base/message.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ASK_USEC 2000000ULL

static bool native_warm_is_served(void)
{
        return warden_find_served();
}

/* Asks for a session of which everything is missing but the template. The warden looks for that first. */
static bool native_warm_has(const struct template *t)
{
        _cleanup_free_ struct warden_request *m = calloc(1, sizeof(*m));
        _cleanup_close_ int channel = -1;
        struct warden_event event;
        gb_error err = {0};

        if (!m || !warden_find_served() || warden_channel(&channel, NULL) < 0)
                return false;
        *m = (struct warden_request){
                .version = WARDEN_PROTOCOL_VERSION, .kind = WARDEN_OPEN, .spec = {.uid = BOX_UID_DEFAULT, .gid = BOX_UID_DEFAULT},
        };
        template_make_key(t, &m->spec.template);
        if (message_send(channel, m, sizeof(*m), NULL, 0) < 0)
                return false;
        int r = warden_wait(channel, ASK_USEC, &event, NULL, NULL, &err);
        return r < 0 && err.code != GB_E_NOT_FOUND && err.code != GB_E_LOST;
}

static int native_warm_serve(int listen_fd, gb_error *err)
{
        template_forget_all();
        return warden_serve(listen_fd, err);
}

static int native_warm_own(gb_error *err)
{
        return warden_own(err);
}

static int native_warm_start(const struct template *t, char missing[static WARM_MISSING_MAX], gb_error *err)
{
        char note[TEMPLATE_WHY_MAX] = "", why[TEMPLATE_WHY_MAX] = "";
        struct template_key key;
        struct native_host host;

        if (!warden_serves())
                return error_set(err, GB_E_LOST, EPIPE, "the warden that serves the templates has ended");
        int r = native_host_probe(&host, true);
        if (r < 0)
                return native_host_fail(r, err);
        bool counts = host.cgroup.memory && host.cgroup.pids && host.cgroup.cpu;
        r = counts ? template_ensure(t, &host, true, &key, note, why)
                   : error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "templates need cgroups for memory, tasks and processors: %s",
                               host.cgroup.why_not);
        native_host_done(&host);
        if (!counts)
                return r;
        if (r < 0 && !warden_serves())
                return error_set(err, GB_E_LOST, EPIPE, "the warden that serves the templates has ended");
        if (r < 0)
                return error_set(err, GB_E_UNENFORCEABLE, -r, "the template %s cannot be started: %s", t->name, why);
        snprintf(missing, WARM_MISSING_MAX, "%s", note);
        return 0;
}

static void native_warm_end(void)
{
        template_forget_all();
        warden_forget();
}

const struct backend_warm native_warm = {
        .is_served = native_warm_is_served,
        .has = native_warm_has,
        .serve = native_warm_serve,
        .own = native_warm_own,
        .start = native_warm_start,
        .event_fd = template_event_fd,
        .end = native_warm_end,
};
