/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox doctor: what this host offers, control by control, and whether the policy could be
 * enforced. The last is decided by the backend's admission, the same that refuses a run. */
#include "backend/native/admit.h"
#include "base/json.h"
#include "cli/command.h"
#include "cli/host.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "engine/result.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BOX_ID 1000
#define NAME_WIDTH 16
#define STATE_WIDTH 9

struct diagnosis {
        struct policy *policy;
        struct host_report report;
        struct controls controls;
        gb_error refusal; /* its code is GB_E_NONE when a run would be admitted */
};

static void diagnosis_done(struct diagnosis *d)
{
        policy_free(d->policy);
}

/* What admission of the native backend takes for granted, and the start of a box would find missing. */
static void look_for_missing(struct diagnosis *d)
{
        for (size_t i = 0; i < d->report.n; i++) {
                const struct host_finding *f = &d->report.findings[i];
                if (f->required && f->state == HOST_MISSING) {
                        error_set(&d->refusal, GB_E_UNENFORCEABLE, ENOTSUP, "no box can be made without \"%s\" (%s)%s%s", f->name,
                                  f->found, f->remedy[0] ? ": " : "", f->remedy);
                        return;
                }
        }
}

/* Would a run be refused, and why? */
static void admit(struct diagnosis *d)
{
        if (d->policy->backend != BACKEND_NATIVE) {
                (void)backend_for(d->policy)->admit(d->policy, &d->controls, &d->refusal);
                return;
        }
        struct box_request request = {.policy = d->policy, .workspace_fd = -1, .uid = BOX_ID, .gid = BOX_ID,
                                      .stdio = {-1, -1, -1}};
        struct native_host host;
        struct box_spec spec = {0};

        (void)native_host_probe(&host, false);
        (void)native_admit(&host, &request, &spec, &d->controls, &d->refusal); /* the refusal tells */
        native_host_done(&host);
        look_for_missing(d);
}

static json_t *diagnosis_to_json(const struct diagnosis *d)
{
        json_t *list = json_array();
        bool enforceable = d->refusal.code == GB_E_NONE;

        for (size_t i = 0; i < d->report.n; i++) {
                const struct host_finding *f = &d->report.findings[i];
                json_array_append_new(list, json_pack("{s:s, s:s, s:b, s:s, s:s, s:s}", "name", f->name, "state",
                                                      host_state_name(f->state), "required", f->required, "found", f->found,
                                                      "means", f->means, "remedy", f->remedy));
        }
        return json_pack("{s:b, s:o, s:{s:s, s:s, s:s}, s:o, s:o}", "enforceable", enforceable, "reason",
                         enforceable ? json_null() : json_string(d->refusal.message), "policy", "trust", d->policy->trust, "origin",
                         d->policy->origin, "backend", backend_kind_name(d->policy->backend), "checks", list, "controls", controls_to_json(&d->controls));
}

static const char *colour_of(enum host_state state, bool colours)
{
        static const char *const codes[] = {[HOST_OK] = "\033[32m", [HOST_WEAKER] = "\033[33m", [HOST_MISSING] = "\033[31m",
                                            [HOST_INFO] = "\033[36m"};

        return colours ? codes[state] : "";
}

static int write_row(struct buffer *out, const struct host_finding *f, bool colours)
{
        const char *end = colours ? "\033[0m" : "";
        int indent = NAME_WIDTH + 1 + STATE_WIDTH;

        int r = buffer_printf(out, "%-*s %s%-*s%s%s\n", NAME_WIDTH, f->name, colour_of(f->state, colours), STATE_WIDTH,
                              host_state_name(f->state), end, f->found);
        if (r == 0)
                r = buffer_printf(out, "%*s %s%s%s\n", indent - 1, "", colours ? "\033[2m" : "", f->means, end);
        if (r == 0 && f->state != HOST_OK && f->remedy[0])
                r = buffer_printf(out, "%*s to do: %s\n", indent - 1, "", f->remedy);
        return r;
}

static int write_controls(struct buffer *out, const struct diagnosis *d, bool colours)
{
        static const enum host_state states[] = {[CONTROL_UNKNOWN] = HOST_MISSING, [CONTROL_ENFORCED] = HOST_OK,
                                                 [CONTROL_WEAKER] = HOST_WEAKER, [CONTROL_OFF] = HOST_MISSING};
        int r = buffer_printf(out, "\nA run under the policy \"%s\" of %s with the backend %s, once admitted, has:\n", d->policy->trust, d->policy->origin,
                              backend_kind_name(d->policy->backend));

        for (int i = 0; i < CONTROL_COUNT && r == 0; i++) {
                const struct control_status *s = &d->controls.status[i];
                r = buffer_printf(out, "%-*s %s%-*s%s%s\n", NAME_WIDTH, control_name((enum control_id)i),
                                  colour_of(states[s->state], colours), STATE_WIDTH, control_state_name(s->state),
                                  colours ? "\033[0m" : "", s->how);
        }
        return r;
}

static int write_text(struct buffer *out, const struct diagnosis *d, bool colours)
{
        int r = 0;

        for (size_t i = 0; i < d->report.n && r == 0; i++)
                r = write_row(out, &d->report.findings[i], colours);
        if (r == 0)
                r = write_controls(out, d, colours);
        if (r < 0)
                return r;
        if (d->refusal.code == GB_E_NONE)
                return buffer_printf(out, "\nThis policy can be enforced for this user.\n");
        if (d->refusal.code != GB_E_UNENFORCEABLE)
                return buffer_printf(out, "\nNo run is possible for this user: %s\n", d->refusal.message);
        return buffer_printf(out, "\nThis policy CANNOT be enforced for this user: %s\n", d->refusal.message);
}

static int diagnose(const struct option_set *set, const struct arguments *a, gb_error *err)
{
        _cleanup_(diagnosis_done) struct diagnosis d = {.policy = NULL};
        _cleanup_buffer_ struct buffer text;
        const char *no = getenv("NO_COLOR");
        int status;

        buffer_init(&text, TEXT_BYTES_MAX);
        int r = settings_policy(set, a, &d.policy, err);
        if (r < 0)
                return r;
        host_examine(&d.report);
        admit(&d);
        if (arguments_has(a, OPT_JSON)) {
                _cleanup_json_ json_t *json = diagnosis_to_json(&d);
                status = output_json(json);
        } else {
                if (write_text(&text, &d, isatty(STDOUT_FILENO) && !(no && *no)) < 0)
                        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
                status = output_text(&text);
        }
        return status != 0 ? status : error_exit_status(d.refusal.code);
}

int command_doctor(const struct command *command, const struct arguments *arguments)
{
        gb_error err = {.code = GB_E_INTERNAL, .message = "unknown failure"};

        int r = diagnose(&command->options, arguments, &err);
        return r < 0 ? command_fail(arguments, &err) : r;
}
