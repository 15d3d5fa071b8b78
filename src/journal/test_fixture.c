/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/test_fixture.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

char top[64];

int make_top(void **state)
{
        (void)state;
        strcpy(top, "/tmp/glovebox-test-XXXXXX");
        return mkdtemp(top) ? 0 : -1;
}

int remove_top(void **state)
{
        char command[128];

        (void)state;
        snprintf(command, sizeof(command), "rm -rf %s", top);
        return system(command) == 0 ? 0 : -1;
}

struct journal *open_journal(const struct journal_limits *limits, uint64_t *ret_lost)
{
        static const struct journal_limits none;
        struct journal *j = NULL;
        gb_error err = {0};

        assert_ok(journal_open(top, limits ? limits : &none, &j, ret_lost, &err), &err);
        return j;
}

struct journal_run run_of(const char *tenant, unsigned number)
{
        struct journal_run run = {.language = "python", .trust = "standard", .code_hash = {0xab, 1}};

        snprintf(run.id, sizeof(run.id), "%08x%024x", number * 2654435761u, number);
        snprintf(run.tenant, sizeof(run.tenant), "%s", tenant);
        return run;
}

void begin(struct journal *j, const char *tenant, unsigned number)
{
        struct journal_run run = run_of(tenant, number);
        char id[JOURNAL_ID_MAX];
        gb_error err = {0};

        assert_ok(journal_run_begin(j, &run, NULL, id, &err), &err);
        assert_string_equal(id, run.id);
}

void output(struct journal *j, unsigned number, enum journal_kind kind, const char *text)
{
        struct journal_run run = run_of("", number);
        gb_error err = {0};

        assert_ok(journal_event(j, run.id, kind, 5, text, text ? strlen(text) : 0, &err), &err);
}

void end(struct journal *j, unsigned number, const char *verdict)
{
        struct journal_run run = run_of("", number);
        struct journal_end e = {
                .verdict = verdict, .event = "{\"verdict\":{\"kind\":\"ok\"}}", .result = "{\"verdict\":{\"kind\":\"ok\"}}", .peaks = "{\"pids\":1}",
                .controls = "[{\"name\":\"seccomp\"}]", .t_usec = 9,
        };
        gb_error err = {0};

        assert_ok(journal_run_end(j, run.id, &e, &err), &err);
}

void whole(struct journal *j, const char *tenant, unsigned number)
{
        begin(j, tenant, number);
        output(j, number, JOURNAL_STARTED, NULL);
        output(j, number, JOURNAL_STDOUT, "hello");
        end(j, number, "ok");
}

struct journal_run get(struct journal *j, unsigned number)
{
        struct journal_run run = {0}, key = run_of("", number);
        gb_error err = {0};

        assert_ok(journal_run_get(j, NULL, key.id, &run, &err), &err);
        return run;
}

bool is_there(struct journal *j, unsigned number)
{
        _cleanup_journal_run_ struct journal_run run = {0};
        struct journal_run key = run_of("", number);
        gb_error err = {0};

        int r = journal_run_get(j, NULL, key.id, &run, &err);
        assert_true(r == 0 || err.code == GB_E_NOT_FOUND);
        return r == 0;
}
