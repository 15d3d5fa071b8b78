/* SPDX-License-Identifier: Apache-2.0
 *
 * Help, from the rows of the verbs and their options. */
#include "base/quote.h"
#include "cli/command.h"
#include "cli/output.h"
#include "engine/verdict.h"

#include <stdio.h>
#include <string.h>

#define WIDTH 80
#define OPTION_COLUMN 28 /* where the help of an option begins */
#define LIST_COLUMN 18   /* and of a verb */

/* Adds text as lines of at most WIDTH columns, beginning at column `indent`, where the cursor is
 * already. Text is ASCII. */
static int add_wrapped(struct buffer *out, const char *text, int indent)
{
        int column = indent, r = 0;

        while (*text && r == 0) {
                int length = (int)strcspn(text, " ");
                if (column > indent && column + 1 + length > WIDTH) {
                        r = buffer_printf(out, "\n%*s", indent, "");
                        column = indent;
                } else if (column > indent) {
                        r = buffer_add_string(out, " ");
                        column++;
                }
                if (r == 0)
                        r = buffer_add(out, text, (size_t)length);
                column += length;
                text += length + (text[length] == ' ');
        }
        return r < 0 ? r : buffer_add_string(out, "\n");
}

static int add_entry(struct buffer *out, const char *left, const char *text, int column)
{
        int r = buffer_printf(out, "  %-*s", column - 2, left);
        if (r == 0 && (int)strlen(left) + 2 >= column)
                r = buffer_printf(out, "\n%*s", column, "");
        return r < 0 ? r : add_wrapped(out, text, column);
}

static int add_option(struct buffer *out, const struct option *o)
{
        char left[96], right[512];
        int n = o->letter ? snprintf(left, sizeof(left), "-%c%s", o->letter, o->name ? ", " : "")
                          : snprintf(left, sizeof(left), "    ");

        if (o->name)
                n += snprintf(left + n, sizeof(left) - (size_t)n, "--%s", o->name);
        if (o->value == VALUE_REQUIRED)
                snprintf(left + n, sizeof(left) - (size_t)n, " %s", o->placeholder);
        else if (o->value == VALUE_OPTIONAL)
                snprintf(left + n, sizeof(left) - (size_t)n, "[=%s]", o->placeholder);
        snprintf(right, sizeof(right), "%s%s%s%s%s%s%s", o->help, o->fallback ? " (default: " : "",
                 o->fallback ? o->fallback : "", o->fallback ? ")" : "", o->env ? " [" : "", o->env ? o->env : "",
                 o->env ? "]" : "");
        return add_entry(out, left, right, OPTION_COLUMN);
}

static int add_options(struct buffer *out, const struct option_set *set)
{
        struct option o;
        bool in_policy = false;
        int r = buffer_add_string(out, "\nOptions:\n");

        for (size_t i = 0; r == 0 && options_next(set, &i, &o);) {
                if (o.hidden)
                        continue;
                if (!in_policy && i > set->n_rows) {
                        in_policy = true;
                        r = buffer_add_string(out, "\nLimits (each is a key of the policy file, too):\n");
                }
                if (r == 0)
                        r = add_option(out, &o);
        }
        return r;
}

int help_write_command(struct buffer *out, const struct command *c)
{
        char name[COMMAND_NAME_MAX];

        int r = buffer_printf(out, "Usage: glovebox %s [OPTIONS]%s%s\n\n", command_full_name(c, name),
                              c->usage[0] ? " " : "", c->usage);
        if (r == 0)
                r = add_wrapped(out, c->description, 0);
        if (r == 0)
                r = add_options(out, &c->options);
        if (r == 0)
                r = buffer_add_string(out, "\nExamples:\n");
        for (const struct command_example *e = c->examples; r == 0 && e->line; e++)
                r = buffer_printf(out, "  %s\n      %s\n", e->line, e->what);
        return r;
}

static int add_verbs(struct buffer *out, const char *group)
{
        char name[COMMAND_NAME_MAX];
        int r = 0;

        for (size_t i = 0; i < n_commands && r == 0; i++)
                if (!group || strcmp(commands[i].name, group) == 0)
                        r = add_entry(out, command_full_name(&commands[i], name), commands[i].summary, LIST_COLUMN);
        return r;
}

int help_write_group(struct buffer *out, const char *name)
{
        int r = buffer_printf(out, "Usage: glovebox %s VERB [OPTIONS]\n\nVerbs:\n", name);
        if (r == 0)
                r = add_verbs(out, name);
        return r < 0 ? r : buffer_printf(out, "\n'glovebox %s VERB --help' explains one.\n", name);
}

int help_write_short(struct buffer *out)
{
        int r = buffer_add_string(out, "glovebox runs code that nobody vouches for, sealed off from the host.\n\n"
                                       "Usage: glovebox VERB [OPTIONS] [ARGUMENTS]\n\nVerbs:\n");
        if (r == 0)
                r = add_verbs(out, NULL);
        if (r == 0)
                r = buffer_add_string(out, "\nOptions:\n");
        if (r == 0)
                r = add_entry(out, "-h, --help", "show this help", LIST_COLUMN);
        if (r == 0)
                r = add_entry(out, "-V, --version", "show the version", LIST_COLUMN);
        return r < 0 ? r : buffer_add_string(out, "\nTry: glovebox run -c 'print(6 * 7)'\n"
                                                  "'glovebox help VERB' explains one, 'glovebox help exit-codes' the "
                                                  "exit statuses.\n");
}

static const char *const error_help[] = {
        [GB_E_USAGE] = "a flag or an argument is wrong",
        [GB_E_POLICY] = "the policy file, or a value of the policy, is wrong",
        [GB_E_UNENFORCEABLE] = "this host cannot enforce a control that the policy asks for",
        [GB_E_NOT_FOUND] = "a file, a language or its interpreter was not found",
        [GB_E_LIMIT] = "something is above a maximum, such as the size of the code",
        [GB_E_INTERNAL] = "glovebox itself failed",
        [GB_E_LOST] = "the run was lost; what it did is not known",
        [GB_E_UNAUTHORIZED] = "the server wants a token, or does not know this one",
        [GB_E_DENIED] = "permission denied by the server or by the file system",
        [GB_E_CONFLICT] = "something is busy, or in the way",
        [GB_E_TOO_LARGE] = "the request is larger than the server takes",
        [GB_E_QUOTA] = "the tenant has as much on the server as it may have: try later",
        [GB_E_UNAVAILABLE] = "no server is running, or it is full or ends: try later",
        [GB_E_DISK_FULL] = "the workspace or the host's disk is full",
        [GB_E_METHOD] = "the server does not do that at this address",
        [GB_E_MEDIA] = "the server does not read or write this kind of content",
        [GB_E_PROTOCOL] = "what was said is not as it should be",
};

static const char *const verdict_help[] = {
        [VERDICT_TIMEOUT] = "the program took longer than its timeout",
        [VERDICT_CPU] = "the program used up its cpu time",
        [VERDICT_MEMORY] = "the program needed more memory than its limit",
        [VERDICT_PIDS] = "the program started more processes and threads than its limit",
        [VERDICT_DISK] = "the program filled its disk",
        [VERDICT_OUTPUT] = "the program printed more than its limit",
        [VERDICT_SYSCALL] = "the program made a system call that kills",
        [VERDICT_BLOCKED] = "the code was refused before it ran",
        [VERDICT_CANCELLED] = "the run was cancelled, by Ctrl-C or another signal",
        [VERDICT_LOST] = "the run was lost; what it did is not known",
};

size_t exit_rows(struct exit_row *rows, size_t max)
{
        const struct exit_row all[] = {
#define ERROR_ROW(code, text, status, http) {status, text, (size_t)code < ARRAY_SIZE(error_help) ? error_help[code] : NULL, false},
#define VERDICT_ROW(kind, text, status) {status, text, (size_t)kind < ARRAY_SIZE(verdict_help) ? verdict_help[kind] : NULL, true},
                GB_ERROR_CODES(ERROR_ROW)
                VERDICTS(VERDICT_ROW)
#undef ERROR_ROW
#undef VERDICT_ROW
        };
        size_t n = 0;

        for (size_t i = 0; i < ARRAY_SIZE(all) && n < max; i++)
                if (all[i].status > 0) {
                        rows[n] = all[i];
                        if (!rows[n].help)
                                rows[n].help = "";
                        n++;
                }
        return n;
}

static int add_exit_rows(struct buffer *out, bool verdicts)
{
        struct exit_row rows[EXIT_ROWS_MAX];
        size_t n = exit_rows(rows, ARRAY_SIZE(rows));
        int r = 0;

        for (size_t i = 0; i < n && r == 0; i++)
                if (rows[i].is_verdict == verdicts) {
                        char left[64];
                        snprintf(left, sizeof(left), "%3d  %s", rows[i].status, rows[i].name);
                        r = add_entry(out, left, rows[i].help, OPTION_COLUMN);
                }
        return r;
}

int help_write_exit_codes(struct buffer *out)
{
        int r = add_wrapped(out, "'glovebox run' exits with the status of the program: its exit code, or 128 and the "
                                 "number of the signal that ended it. The statuses below are glovebox's own; since a "
                                 "program may use the same numbers, --json says for certain which it was.", 0);
        if (r == 0)
                r = buffer_add_string(out, "\nThe program was ended (\"verdict\" in JSON):\n");
        if (r == 0)
                r = add_exit_rows(out, true);
        if (r == 0)
                r = buffer_add_string(out, "\nNothing was run (\"error\" in JSON):\n");
        if (r == 0)
                r = add_exit_rows(out, false);
        if (r == 0)
                r = buffer_add_string(out, "\nOther:\n");
        return r < 0 ? r : add_entry(out, "141", "nobody reads our output any more", OPTION_COLUMN);
}

static int write_topic(struct buffer *out, const struct arguments *a, gb_error *err)
{
        const char *topic = a->n_words > 0 ? a->words[0] : NULL, *sub = a->n_words > 1 ? a->words[1] : NULL;

        if (arguments_has(a, OPT_MAN))
                return man_write(out);
        if (!topic)
                return help_write_short(out);
        if (strcmp(topic, "exit-codes") == 0 && !sub)
                return help_write_exit_codes(out);

        const struct command *c = command_find(topic, sub);
        if (c && (c->sub || !sub))
                return help_write_command(out, c);
        for (size_t i = 0; i < n_commands && !sub; i++)
                if (strcmp(commands[i].name, topic) == 0)
                        return help_write_group(out, topic);
        return error_set(err, GB_E_USAGE, 0, "no help for %s; 'glovebox help' lists the verbs", quote(sub ? sub : topic).text);
}

int command_help(const struct command *command, const struct arguments *arguments)
{
        _cleanup_buffer_ struct buffer text;
        gb_error err = {.code = GB_E_INTERNAL, .message = "out of memory"};

        buffer_init(&text, TEXT_BYTES_MAX);
        if (write_topic(&text, arguments, &err) < 0)
                return command_fail(arguments, &err);
        return output_text(&text);
}
