/* SPDX-License-Identifier: Apache-2.0 */
#include "server/command_state.h"

#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "server/config.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define USEC_PER_DAY 86400000000ULL

int command_directory(const char *flag, const char *file, char **ret, gb_error *err)
{
        struct server_config config;
        char *copy;

        if (flag) {
                copy = strdup(flag);
        } else {
                int e = server_config_load(file, &config, err);
                if (e < 0)
                        return e;
                copy = config.directory ? strdup(config.directory) : NULL;
                bool known = config.directory;
                server_config_done(&config);
                if (!known)
                        return error_set(err, GB_E_USAGE, EINVAL, STATE_UNKNOWN);
        }
        if (!copy)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        *ret = copy;
        return 0;
}

int command_failed(const gb_error *err, bool json)
{
        fprintf(stderr, "glovebox: %s\n", err->message);
        if (json) {
                _cleanup_json_ json_t *o = json_pack("{s:{s:s, s:s}}", "error", "code", error_code_name(err->code), "message", err->message);
                if (o && json_dumpf(o, stdout, JSON_COMPACT) == 0)
                        putchar('\n');
        }
        return command_end(error_exit_status(err->code));
}

int command_wrong_option(int argc, char **argv, const char *verb, gb_error *err)
{
        const char *word = optind > 0 && optind <= argc ? argv[optind - 1] : "";

        return error_set(err, GB_E_USAGE, EINVAL, "%s: %s is no option of it, or lacks its value", verb, quote(word).text);
}

int command_span(const char *text, uint64_t *ret_usec)
{
        char number[24];
        size_t size = strlen(text);
        uint64_t days;

        if (size < 2 || size > sizeof(number) || (text[size - 1] != 'd' && text[size - 1] != 'w'))
                return parse_duration(text, ret_usec);
        memcpy(number, text, size - 1);
        number[size - 1] = '\0';
        int r = parse_count(number, &days);
        if (r < 0)
                return r;
        return __builtin_mul_overflow(days, text[size - 1] == 'w' ? 7 * USEC_PER_DAY : USEC_PER_DAY, ret_usec) ? -ERANGE : 0;
}

int command_end(int status)
{
        if (fflush(stdout) == 0 && !ferror(stdout))
                return status;
        fprintf(stderr, "glovebox: cannot write to standard output: %s\n", strerror(errno));
        return status != 0 ? status : error_exit_status(GB_E_INTERNAL);
}
