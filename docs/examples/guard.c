/* SPDX-License-Identifier: Apache-2.0
 *
 * What the guard says about code, and a run with secrets that do not come out.
 *
 *     cc guard.c -o guard $(pkg-config --cflags --libs glovebox)
 *     ./guard secrets.env python 'import os; print(os.environ["API_KEY"])'
 *
 * secrets.env has lines NAME=VALUE. The code gets them as variables; where they would come back in what it prints there is [scrubbed:NAME].
 * Only the name of the file stands among the arguments, which everybody on the host can read. */
#include <glovebox/glovebox.h>

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

static int fail(const gb_error *err)
{
        fprintf(stderr, "guard: %s (%s)\n", err->message, gb_error_name(err->code));
        return 2;
}

static void show_findings(const gb_findings *findings)
{
        gb_finding f;

        for (size_t i = 0; gb_findings_get(findings, i, &f) == 0; i++)
                printf("%s, line %u, column %u: %s: %s %s\n", f.action, f.line, f.column, f.rule, f.message, f.remedy);
}

static void show_result(const gb_result *result)
{
        gb_scrubbed s;

        printf("%s", gb_result_stdout(result, NULL));
        for (size_t i = 0; gb_result_scrubbed(result, i, &s) == 0; i++)
                printf("scrubbed: %s, %llu times\n", s.name, (unsigned long long)s.count);
        printf("%s\n", gb_result_verdict(result));
}

static int read_secrets(gb_policy *policy, const char *file, gb_error *err)
{
        int fd = open(file, O_RDONLY | O_CLOEXEC);
        int r = gb_policy_read_secrets(policy, fd, err); /* says so when it could not be opened */

        if (fd >= 0)
                close(fd);
        return r;
}

int main(int argc, char **argv)
{
        gb_policy *policy = NULL;
        gb_findings *findings = NULL;
        gb_result *result = NULL;
        gb_error err;

        if (argc != 4) {
                fprintf(stderr, "usage: guard SECRETS-FILE LANGUAGE CODE\n");
                return 2;
        }
        gb_run_options options = GB_RUN_OPTIONS_INIT;
        options.language = argv[2];
        options.code = argv[3];

        int r = gb_policy_load(NULL, NULL, &policy, &err);
        if (r == 0)
                r = read_secrets(policy, argv[1], &err);
        /* A look, without a run. gb_run() looks by itself, so this is for who wants to know before. */
        if (r == 0)
                r = gb_guard_check(policy, options.language, options.code, GB_CODE_IS_TEXT, &findings, &err);
        if (r == 0) {
                show_findings(findings);
                r = gb_run(policy, &options, &result, &err);
        }
        if (r == 0)
                show_result(result);
        gb_result_free(result);
        gb_findings_free(findings);
        gb_policy_free(policy);
        return r < 0 ? fail(&err) : 0;
}
