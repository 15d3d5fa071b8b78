/* SPDX-License-Identifier: Apache-2.0 */
#include "backend/native/command.h"

#include "backend/native/root.h"

#include <errno.h>

static int plan_add(struct box_plan *p, const struct policy *policy, const struct command *c, gb_error *err)
{
        int r = 0;

        p->cwd = policy_workspace(policy);
        if (c->compile.n > 0) {
                r = plan_words(p, c->compile.list, &p->commands[p->n_commands], err);
                p->n_commands += r == 0;
        }
        if (r == 0) {
                r = plan_words(p, c->run.list, &p->commands[p->n_commands], err);
                p->n_commands += r == 0;
        }
        return r < 0 ? r : plan_words(p, c->env.list, &p->env, err);
}

static struct command *new_command(gb_error *err)
{
        struct command *c = command_new();

        if (!c)
                error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return c;
}

static int plan_program(struct box_plan *p, const struct box_request *q, const struct code_place *place, gb_error *err)
{
        _cleanup_command_ struct command *c = new_command(err);
        int r = c ? command_set_program(c, q->language, q->policy, place, q->args, err) : -ENOMEM;

        return r < 0 ? r : plan_add(p, q->policy, c, err);
}

int command_plan(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        struct code_place place = {0};
        int r = command_place(&place, request->policy, request->code_name, -1, err);

        return r < 0 ? r : plan_program(p, request, &place, err);
}

int command_plan_once(struct box_plan *p, const struct box_request *request, int slot, gb_error *err)
{
        struct code_place place = {0};
        int r = command_place(&place, request->policy, request->code_name, slot, err);

        if (r == 0 && slot >= 0)
                r = plan_dir(p, place.dir, 0755, 0, err);
        if (r == 0)
                r = plan_file(p, place.file, request->code, request->code_size, 0444, err);
        return r < 0 ? r : plan_program(p, request, &place, err);
}

int command_plan_context(struct box_plan *p, const struct box_request *request, gb_error *err)
{
        _cleanup_command_ struct command *c = new_command(err);
        int r = c ? command_set_context(c, request->language, request->policy, BOX_RUNNER_DIR, err) : -ENOMEM;

        return r < 0 ? r : plan_add(p, request->policy, c, err);
}

int command_plan_template(struct box_plan *p, const struct box_request *request, const struct template *template, gb_error *err)
{
        char *words[] = {template->python, (char *)(uintptr_t)BOX_RUNNER_DIR "/glovebox_template.py", NULL};
        _cleanup_command_ struct command *c = new_command(err);
        int r = c ? command_set_words(c, request->language, request->policy, words, template->modules, err) : -ENOMEM;

        return r < 0 ? r : plan_add(p, request->policy, c, err);
}
