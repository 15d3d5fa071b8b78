/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one piece of code sealed off and says what happened.
 *
 *     cc run.c -o run $(pkg-config --cflags --libs glovebox)
 *     ./run python 'print(6 * 7)'
 *     ./run --json sh 'echo hello; exit 3'
 *
 * What the program prints is shown while it runs; the verdict comes at the end, on standard
 * error. With --json the whole result is printed instead. */
#include <glovebox/glovebox.h>

#include <stdio.h>
#include <string.h>

static void show(void *data, gb_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        (void)data;
        (void)t_usec;
        fwrite(bytes, 1, size, stream == GB_STDOUT ? stdout : stderr);
}

static int fail(const gb_error *err)
{
        fprintf(stderr, "run: %s (%s)\n", err->message, gb_error_name(err->code));
        return 2;
}

int main(int argc, char **argv)
{
        int json = argc > 1 && strcmp(argv[1], "--json") == 0;
        if (argc != 3 + json) {
                fprintf(stderr, "usage: run [--json] LANGUAGE CODE\n");
                return 2;
        }

        /* The installed policy, at its default level of trust, with less memory and time. */
        gb_policy *policy = NULL;
        gb_error err;
        if (gb_policy_load(NULL, NULL, &policy, &err) < 0)
                return fail(&err);
        if (gb_policy_set(policy, "mem_limit", "256MB", &err) < 0 || gb_policy_set(policy, "timeout", "10s", &err) < 0) {
                gb_policy_free(policy);
                return fail(&err);
        }

        gb_run_options options = GB_RUN_OPTIONS_INIT;
        options.language = argv[1 + json];
        options.code = argv[2 + json];
        if (!json)
                options.output = show;

        /* 0 says that there is a result, not that the program did well: the verdict tells that. */
        gb_result *result = NULL;
        int r = gb_run(policy, &options, &result, &err);
        gb_policy_free(policy);
        if (r < 0)
                return fail(&err);

        if (json) {
                char *text = gb_result_json(result);
                puts(text ? text : "out of memory");
                gb_free(text);
        } else {
                fflush(stdout);
                fprintf(stderr, "%s: %s\n", gb_result_verdict(result), gb_result_message(result));
        }
        int ok = strcmp(gb_result_verdict(result), "ok") == 0;
        gb_result_free(result);
        return ok ? 0 : 1;
}
