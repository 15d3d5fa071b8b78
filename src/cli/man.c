/* SPDX-License-Identifier: Apache-2.0
 *
 * The manual page glovebox(1) in mdoc, from the same rows as the help. */
#include "cli/command.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#define MAN_DATE "November 15, 2026"
#define LINE_MAX_WANTED 66 /* escapes make lines longer */

/* Text that means nothing to roff: no escapes, "-" as it is typed. */
static int add_roff(struct buffer *out, const char *text, size_t length)
{
        int r = 0;

        for (size_t i = 0; i < length && r == 0; i++)
                r = text[i] == '\\'  ? buffer_add_string(out, "\\e")
                    : text[i] == '-' ? buffer_add_string(out, "\\-")
                                     : buffer_add(out, text + i, 1);
        return r;
}

/* Running text in short lines, each sentence on a line of its own as mdoc wants it. */
static int add_text(struct buffer *out, const char *text)
{
        size_t column = 0;
        int r = 0;

        while (*text && r == 0) {
                size_t length = strcspn(text, " ");
                bool ends = length > 0 && text[length - 1] == '.';
                if (column > 0)
                        r = buffer_add_string(out, column + length > LINE_MAX_WANTED ? "\n" : " ");
                if (column + length > LINE_MAX_WANTED)
                        column = 0;
                if (r == 0 && column == 0 && (*text == '.' || *text == '\''))
                        r = buffer_add_string(out, "\\&"); /* or it were a macro */
                if (r == 0)
                        r = add_roff(out, text, length);
                column += length + 1;
                text += length + (text[length] == ' ');
                if (r == 0 && ends && *text) {
                        r = buffer_add_string(out, "\n");
                        column = 0;
                }
        }
        return r < 0 ? r : buffer_add_string(out, "\n");
}

/* The argument of a macro, in quotes. */
static int add_quoted(struct buffer *out, const char *text)
{
        int r = buffer_add_string(out, "\"");

        for (; *text && r == 0; text++)
                r = *text == '"'    ? buffer_add_string(out, "\\(dq")
                    : *text == '\\' ? buffer_add_string(out, "\\e")
                                    : buffer_add(out, text, 1);
        return r < 0 ? r : buffer_add_string(out, "\"");
}

static int add_option(struct buffer *out, const struct option *o)
{
        char letter[2] = {o->letter, '\0'};
        int r = buffer_add_string(out, ".It");

        if (o->letter)
                r = buffer_printf(out, " Fl %s%s", letter, o->name ? " ," : "");
        if (r == 0 && o->name)
                r = buffer_printf(out, " Fl \\-%s", o->name);
        if (r == 0 && o->value != VALUE_NONE) {
                r = buffer_add_string(out, o->value == VALUE_OPTIONAL ? " Ns Op = Ns Ar " : " Ar ");
                if (r == 0)
                        r = add_quoted(out, o->placeholder);
        }
        if (r == 0)
                r = buffer_add_string(out, "\n");
        char text[512];
        snprintf(text, sizeof(text), "%s%s%s%s", o->help, o->fallback ? " (default: " : "",
                 o->fallback ? o->fallback : "", o->fallback ? ")" : "");
        if (r == 0)
                r = add_text(out, text);
        return r;
}

static int add_usage(struct buffer *out, const struct command *c)
{
        int r = buffer_add_string(out, ".Li ");
        if (r == 0)
                r = add_quoted(out, c->usage);
        return r < 0 ? r : buffer_add_string(out, "\n");
}

static int add_command(struct buffer *out, const struct command *c)
{
        char name[COMMAND_NAME_MAX];
        struct option o;

        int r = buffer_printf(out, ".Ss %s\n.Nm glovebox\n.Cm %s\n", command_full_name(c, name), name);
        if (r == 0 && c->usage[0])
                r = add_usage(out, c);
        if (r == 0)
                r = buffer_add_string(out, ".Pp\n");
        if (r == 0)
                r = add_text(out, c->description);
        if (r == 0)
                r = buffer_add_string(out, ".Bl -tag -width Ds\n");
        for (size_t i = 0; r == 0 && options_next(&c->options, &i, &o);)
                if (!o.hidden)
                        r = add_option(out, &o);
        return r < 0 ? r : buffer_add_string(out, ".El\n");
}

static int add_exit_status(struct buffer *out)
{
        struct exit_row rows[EXIT_ROWS_MAX];
        size_t n = exit_rows(rows, ARRAY_SIZE(rows));

        int r = buffer_add_string(out, ".Sh EXIT STATUS\n"
                                       ".Nm glovebox\n.Cm run\n"
                                       "exits with the status of the program: its exit code,\n"
                                       "or 128 and the number of the signal that ended it.\n"
                                       "These statuses are of glovebox itself:\n"
                                       ".Bl -tag -width \"117  unenforceable\"\n");
        for (size_t i = 0; i < n && r == 0; i++) {
                r = buffer_printf(out, ".It %d %s\n", rows[i].status, rows[i].name);
                if (r == 0)
                        r = add_text(out, rows[i].help);
        }
        return r < 0 ? r : buffer_add_string(out, ".It 141\nnobody reads our output any more\n.El\n");
}

static int add_environment(struct buffer *out)
{
        int r = buffer_add_string(out, ".Sh ENVIRONMENT\n"
                                       "A flag is stronger than its variable,\n"
                                       "and that is stronger than the policy file.\n"
                                       ".Bl -tag -width Ds\n");
        const struct command *run = command_find("run", NULL);
        struct option o;
        for (size_t i = 0; r == 0 && options_next(&run->options, &i, &o);)
                if (o.env)
                        r = buffer_printf(out, ".It Ev %s\nas\n.Fl \\-%s\n", o.env, o.name);
        return r < 0 ? r : buffer_add_string(out, ".It Ev GLOVEBOX_CONFIG_DIR\nthe directory of the files below\n"
                                                  ".It Ev GLOVEBOX_LIBEXEC_DIR\nthe directory of the helper programs\n"
                                                  ".It Ev GLOVEBOX_CGROUP\nthe control group below which those of boxes are made\n"
                                                  ".It Ev GLOVEBOX_TOKEN\nthe token for a server over TCP\n"
                                                  ".It Ev GLOVEBOX_RUNTIME_DIR\nthe directory of the sockets of\n.Cm serve\nand\n.Cm warm\n"
                                                  ".It Ev GLOVEBOX_STATE_DIR\nthe directory of the journal and tokens of\n.Cm serve\n"
                                                  ".It Ev NO_COLOR\nno colours in messages\n.El\n");
}

static int add_files(struct buffer *out)
{
        return buffer_add_string(out, ".Sh FILES\n"
                                      ".Bl -tag -width Ds\n"
                                      ".It Pa " GLOVEBOX_CONFDIR "/sandbox.yaml\nthe policy: limits, mounts and trust levels\n"
                                      ".It Pa " GLOVEBOX_CONFDIR "/languages.yaml\nthe languages and their commands\n"
                                      ".It Pa " GLOVEBOX_CONFDIR "/templates.yaml\nPython processes that are warmed ahead\n"
                                      ".It Pa " GLOVEBOX_CONFDIR "/server.yaml\nthe configuration of\n.Cm serve\n"
                                      ".It Pa ~/.local/state/glovebox/history\nwhat was typed at the prompt of\n.Cm repl\n"
                                      ".It Pa " GLOVEBOX_LIBEXECDIR "\nthe warden, which makes boxes, the server, and the probe of\n.Cm verify\n"
                                      ".El\n");
}

static int add_examples(struct buffer *out)
{
        int r = buffer_add_string(out, ".Sh EXAMPLES\n");

        for (size_t i = 0; i < n_commands; i++)
                for (const struct command_example *e = commands[i].examples; r == 0 && e->line; e++) {
                        if (i > 0 || e > commands[i].examples)
                                r = buffer_add_string(out, ".Pp\n");
                        if (r == 0)
                                r = add_text(out, e->what);
                        if (r == 0)
                                r = buffer_add_string(out, ".Bd -literal -offset indent\n");
                        if (r == 0)
                                r = add_roff(out, e->line, strlen(e->line));
                        if (r == 0)
                                r = buffer_add_string(out, "\n.Ed\n");
                }
        return r;
}

static int add_synopsis(struct buffer *out)
{
        char name[COMMAND_NAME_MAX];
        int r = buffer_add_string(out, ".Sh SYNOPSIS\n");

        for (size_t i = 0; i < n_commands && r == 0; i++) {
                r = buffer_printf(out, ".Nm glovebox\n.Cm %s\n.Op Ar options\n", command_full_name(&commands[i], name));
                if (r == 0 && commands[i].usage[0])
                        r = add_usage(out, &commands[i]);
        }
        return r;
}

int man_write(struct buffer *out)
{
        int r = buffer_add_string(out, ".\\\" SPDX-License-Identifier: Apache-2.0\n"
                                       ".\\\" Made by 'glovebox help --man' from the tables of the program.\n"
                                       ".Dd " MAN_DATE "\n.Dt GLOVEBOX 1\n.Os\n"
                                       ".Sh NAME\n.Nm glovebox\n.Nd run code that nobody vouches for, sealed off\n");
        if (r == 0)
                r = add_synopsis(out);
        if (r == 0)
                r = buffer_add_string(out, ".Sh DESCRIPTION\n");
        if (r == 0)
                r = add_text(out, "Runs programs in boxes of their own: without the host's files, without network unless "
                                  "the policy gives it, under limits, and with a typed reason for how each run ended.");
        for (size_t i = 0; i < n_commands && r == 0; i++)
                r = add_command(out, &commands[i]);
        if (r == 0)
                r = add_environment(out);
        if (r == 0)
                r = add_files(out);
        if (r == 0)
                r = add_exit_status(out);
        return r < 0 ? r : add_examples(out);
}
