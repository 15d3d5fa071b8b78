/* SPDX-License-Identifier: Apache-2.0
 *
 * The command: finds the verb, parses its options, calls its function. Nothing is read or
 * allocated before the verb asks for it, because a short run is measured in milliseconds. */
#include "base/suggest.h"
#include "base/json.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/events.h"
#include "cli/output.h"
#include "cli/secrets.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

int command_fail(const struct arguments *arguments, const gb_error *err)
{
        bool events = arguments && arguments_has(arguments, OPT_EVENTS);

        message_print(MESSAGE_ERROR, "%s", err->message);
        if (events || (arguments && arguments_has(arguments, OPT_JSON))) {
                _cleanup_json_ json_t *json = error_to_json(err, events);
                _cleanup_sink_ struct sink s;
                sink_init(&s, STDOUT_FILENO, false);
                sink_write_json(&s, json, JSON_COMPACT);
                sink_finish(&s);
        }
        return error_exit_status(err->code);
}

/* With one of 0, 1, 2 closed, the next file opened would take its place and get our output. */
static int open_standard_fds(void)
{
        for (int fd = 0; fd <= 2; fd++)
                if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 0 ? O_RDONLY : O_WRONLY) != fd)
                        return -errno;
        return 0;
}

/* A flag was wrong, so the uses may not hold --json although it is there. */
static int fail_parsing(struct arguments *a, char **argv, const gb_error *err)
{
        static const struct {
                const char *word;
                enum option_id id;
        } rows[] = {{"--json", OPT_JSON}, {"--events", OPT_EVENTS}};
        struct option_use use = {0};

        for (; *argv && strcmp(*argv, "--") != 0 && !use.option.name; argv++)
                for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                        if (strcmp(*argv, rows[i].word) == 0)
                                use.option = (struct option){.id = rows[i].id, .name = rows[i].word};
        if (!use.option.name)
                return command_fail(a, err);
        return command_fail(&(struct arguments){.uses = &use, .n_uses = 1}, err);
}

static int check_words(const struct command *c, const struct arguments *a, gb_error *err)
{
        size_t n = a->n_words;

        /* "--server http://..." is "--server" alone, and a word. */
        if (n > c->words_max && arguments_has(a, OPT_SERVER) && !arguments_get(a, OPT_SERVER))
                return error_set(err, GB_E_USAGE, 0, "unexpected argument %s; an address is given as --server=ADDRESS", quote(a->words[c->words_max]).text);
        if (n > c->words_max)
                return error_set(err, GB_E_USAGE, 0, "unexpected argument %s%s", quote(a->words[c->words_max]).text,
                                 c->takes_rest ? "; arguments for the program go after --" : "");
        if (!c->takes_rest && a->rest && a->rest[0])
                return error_set(err, GB_E_USAGE, 0, "unexpected argument %s", quote(a->rest[0]).text);
        return 0;
}

static int show_help(const struct command *c)
{
        _cleanup_buffer_ struct buffer text;

        buffer_init(&text, TEXT_BYTES_MAX);
        if (help_write_command(&text, c) < 0)
                return error_exit_status(GB_E_INTERNAL);
        return output_text(&text);
}

static int run_command(const struct command *c, char **argv)
{
        _cleanup_arguments_ struct arguments a;
        gb_error err = {0};

        int r = options_parse(&c->options, argv, &a, &err);
        if (r == 0 && arguments_has(&a, OPT_HELP))
                return show_help(c);
        if (r == 0)
                r = check_words(c, &a, &err);
        if (r < 0)
                return fail_parsing(&a, argv, &err);
        secrets_take(&a);
        int status = c->function(c, &a);
        secrets_forget();
        return status;
}

static int unknown_verb(char **argv)
{
        const char *names[64];
        size_t n = 0;
        gb_error err = {0};

        for (size_t i = 0; i < n_commands && n < ARRAY_SIZE(names); i++)
                names[n++] = commands[i].name;
        const char *near = suggest_nearest(argv[0], names, n);
        error_set(&err, GB_E_USAGE, 0, "unknown %s %s; %s%s%s", argv[0][0] == '-' ? "flag" : "verb",
                  quote(argv[0]).text, near ? "did you mean '" : "'glovebox help' lists the verbs", near ? near : "",
                  near ? "'?" : "");
        struct arguments none = {0};
        return fail_parsing(&none, argv + 1, &err);
}

/* "policy" without what to do with it, or with something it does not know. */
static int group_help(char **argv)
{
        _cleanup_buffer_ struct buffer text;
        bool asked = argv[1] && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);

        buffer_init(&text, TEXT_BYTES_MAX);
        if (argv[1] && !asked) {
                gb_error err = {0};
                struct arguments none = {0};
                error_set(&err, GB_E_USAGE, 0, "unknown verb %s of %s; 'glovebox help %s' lists what there is",
                          quote(argv[1]).text, argv[0], argv[0]);
                return fail_parsing(&none, argv + 1, &err);
        }
        if (help_write_group(&text, argv[0]) < 0)
                return error_exit_status(GB_E_INTERNAL);
        int status = output_text(&text);
        return status == 0 && !asked ? error_exit_status(GB_E_USAGE) : status;
}

/* Flags of the command itself, and no verb at all. */
static int without_verb(char **argv)
{
        _cleanup_buffer_ struct buffer text;
        bool version = argv[0] && (strcmp(argv[0], "--version") == 0 || strcmp(argv[0], "-V") == 0);
        bool json = argv[0] && argv[1] && strcmp(argv[1], "--json") == 0;

        buffer_init(&text, TEXT_BYTES_MAX);
        int r = !version ? help_write_short(&text)
                : json   ? buffer_add_string(&text, "{\"version\":\"" GLOVEBOX_VERSION "\"}\n")
                         : buffer_add_string(&text, "glovebox " GLOVEBOX_VERSION "\n");
        if (r < 0)
                return error_exit_status(GB_E_INTERNAL);
        int status = output_text(&text);
        return status == 0 && !argv[0] ? error_exit_status(GB_E_USAGE) : status;
}

static bool is_group(const char *name)
{
        for (size_t i = 0; i < n_commands; i++)
                if (commands[i].sub && strcmp(commands[i].name, name) == 0)
                        return true;
        return false;
}

/* jansson would open /dev/urandom for the seed of its hash tables. */
static void seed_json(void)
{
        size_t seed = 0;

        if (getrandom(&seed, sizeof(seed), 0) == sizeof(seed) && seed != 0)
                json_object_seed(seed);
}

int main(int argc, char **argv)
{
        static const char *const own_flags[] = {"--version", "-V", "--help", "-h"};

        if (argc < 1 || open_standard_fds() < 0)
                return error_exit_status(GB_E_INTERNAL);
        seed_json();
        argv++;
        if (!argv[0])
                return without_verb(argv);
        for (size_t i = 0; i < ARRAY_SIZE(own_flags); i++)
                if (strcmp(argv[0], own_flags[i]) == 0)
                        return without_verb(argv);

        const struct command *c = command_find(argv[0], argv[1]);
        if (c)
                return run_command(c, argv + (c->sub ? 2 : 1));
        return is_group(argv[0]) ? group_help(argv) : unknown_verb(argv);
}
