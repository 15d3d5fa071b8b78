/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion scripts for shells, from the rows of the verbs and their options. What is known only
 * on the machine (the languages) the script asks the command for. */
#include "base/quote.h"
#include "cli/command.h"
#include "cli/output.h"
#include "policy/control.h"

#include <stdio.h>
#include <string.h>

#define ASK_LANGUAGES "glovebox languages --names 2>/dev/null"
#define ASK_TEMPLATES "glovebox templates --names 2>/dev/null"
#define ASK_SESSIONS "glovebox session ls --quiet 2>/dev/null"

/* What may be weaker, separated by spaces. */
static const char control_words[] =
#define WORD_true(name) name " "
#define WORD_false(name)
#define CONTROL_WORD(id, name, weaker, help) WORD_##weaker(name)
        CONTROLS(CONTROL_WORD)
#undef CONTROL_WORD
        "cgroup"; /* all that only a cgroup gives in full */

static const char *words_of(enum option_completion completion, const char *words)
{
        return completion == COMPLETE_CONTROL ? control_words : completion == COMPLETE_WORDS ? words : "";
}

/* Text inside '...' of a shell; brackets and colons mean something to zsh. */
static int add_single_quoted(struct buffer *out, const char *text, const char *specials)
{
        int r = 0;

        for (; *text && r == 0; text++)
                if (*text == '\'')
                        r = buffer_add_string(out, "'\\''");
                else if (strchr(specials, *text))
                        r = buffer_printf(out, "\\%c", *text);
                else
                        r = buffer_add(out, text, 1);
        return r;
}

/* The body of `case`: how to complete a value in bash. */
static int add_bash_value(struct buffer *out, enum option_completion completion, const char *words)
{
        switch (completion) {
        case COMPLETE_NOTHING:
                return buffer_add_string(out, "COMPREPLY=()");
        case COMPLETE_FILE:
                return buffer_add_string(out, "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")");
        case COMPLETE_DIRECTORY:
                return buffer_add_string(out, "compopt -o filenames; mapfile -t COMPREPLY < <(compgen -d -- \"$cur\")");
        case COMPLETE_LANGUAGE:
                return buffer_add_string(out, "mapfile -t COMPREPLY < <(compgen -W \"$(" ASK_LANGUAGES ")\" -- \"$cur\")");
        case COMPLETE_TEMPLATE:
                return buffer_add_string(out, "mapfile -t COMPREPLY < <(compgen -W \"$(" ASK_TEMPLATES ")\" -- \"$cur\")");
        case COMPLETE_SESSION:
                return buffer_add_string(out, "mapfile -t COMPREPLY < <(compgen -W \"$(" ASK_SESSIONS ")\" -- \"$cur\")");
        case COMPLETE_CONTROL:
        case COMPLETE_WORDS:
                return buffer_printf(out, "mapfile -t COMPREPLY < <(compgen -W '%s' -- \"$cur\")",
                                     words_of(completion, words));
        }
        return 0;
}

static int add_bash_command(struct buffer *out, const struct command *c)
{
        char name[COMMAND_NAME_MAX];
        struct option o;
        int r = buffer_printf(out, "        '%s')\n                case \"$prev\" in\n", command_full_name(c, name));

        for (size_t i = 0; r == 0 && options_next(&c->options, &i, &o);) {
                if (o.hidden || o.value != VALUE_REQUIRED)
                        continue;
                char letter[8] = "";
                if (o.letter)
                        snprintf(letter, sizeof(letter), "-%c%s", o.letter, o.name ? "|" : "");
                r = buffer_printf(out, "                %s%s%s) ", letter, o.name ? "--" : "", o.name ? o.name : "");
                if (r == 0)
                        r = add_bash_value(out, o.completion, o.words);
                if (r == 0)
                        r = buffer_add_string(out, "; return ;;\n");
        }
        if (r == 0)
                r = buffer_add_string(out, "                esac\n                flags='");
        for (size_t i = 0; r == 0 && options_next(&c->options, &i, &o);)
                if (!o.hidden && o.name)
                        r = buffer_printf(out, "--%s ", o.name);
        if (r == 0)
                r = buffer_add_string(out, "'\n                if [[ $cur != -* ]]; then ");
        if (r == 0)
                r = add_bash_value(out, c->completion, c->words);
        return r < 0 ? r : buffer_add_string(out, "; return; fi\n                ;;\n");
}

/* The verbs, each once; or the second words of a group. */
static int add_names(struct buffer *out, const char *group)
{
        const char *last = "";
        int r = 0;

        for (size_t i = 0; i < n_commands && r == 0; i++) {
                const struct command *c = &commands[i];
                if (group ? !c->sub || strcmp(c->name, group) != 0 : strcmp(c->name, last) == 0)
                        continue;
                r = buffer_printf(out, "%s ", group ? c->sub : c->name);
                last = c->name;
        }
        return r;
}

/* For each group: text, its name, text, its second words, text. */
static int add_groups(struct buffer *out, const char *before, const char *middle, const char *behind)
{
        const char *last = "";
        int r = 0;

        for (size_t i = 0; i < n_commands && r == 0; i++) {
                const char *name = commands[i].name;
                if (!commands[i].sub || strcmp(name, last) == 0)
                        continue;
                last = name;
                r = buffer_printf(out, "%s%s%s", before, name, middle);
                if (r == 0)
                        r = add_names(out, name);
                if (r == 0)
                        r = buffer_add_string(out, behind);
        }
        return r;
}

static int write_bash(struct buffer *out)
{
        int r = buffer_add_string(out, "# bash completion for glovebox; made by 'glovebox completion bash'\n"
                                       "_glovebox()\n{\n"
                                       "        local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]}\n"
                                       "        local verb=${COMP_WORDS[1]} flags='' subs='' word\n"
                                       "        COMPREPLY=()\n"
                                       "        if ((COMP_CWORD == 1)); then\n"
                                       "                mapfile -t COMPREPLY < <(compgen -W '");
        if (r == 0)
                r = add_names(out, NULL);
        if (r == 0)
                r = buffer_add_string(out, "--help --version' -- \"$cur\")\n                return\n        fi\n"
                                           "        case \"$verb\" in\n");
        if (r == 0)
                r = add_groups(out, "        ", ") subs='", "' ;;\n");
        if (r == 0)
                r = buffer_add_string(out, "        esac\n        if [[ $subs ]]; then\n"
                                           "                if ((COMP_CWORD == 2)) && [[ $cur != -* ]]; then\n"
                                           "                        mapfile -t COMPREPLY < <(compgen -W \"$subs\" -- \"$cur\")\n"
                                           "                        return\n                fi\n"
                                           "                [[ \" $subs\" == *\" ${COMP_WORDS[2]} \"* ]] && verb=\"$verb ${COMP_WORDS[2]}\"\n        fi\n"
                                           "        # What follows -- is for the program: files are the best guess.\n"
                                           "        for word in \"${COMP_WORDS[@]:2:COMP_CWORD-2}\"; do\n"
                                           "                if [[ $word == -- ]]; then\n"
                                           "                        compopt -o filenames\n"
                                           "                        mapfile -t COMPREPLY < <(compgen -f -- \"$cur\")\n"
                                           "                        return\n                fi\n        done\n"
                                           "        case \"$verb\" in\n");
        for (size_t i = 0; i < n_commands && r == 0; i++)
                r = add_bash_command(out, &commands[i]);
        return r < 0 ? r : buffer_add_string(out, "        esac\n"
                                                  "        mapfile -t COMPREPLY < <(compgen -W \"$flags\" -- \"$cur\")\n"
                                                  "}\ncomplete -F _glovebox glovebox\n");
}

static int add_zsh_value(struct buffer *out, enum option_completion completion, const char *words)
{
        switch (completion) {
        case COMPLETE_NOTHING:
                return buffer_add_string(out, " ");
        case COMPLETE_FILE:
                return buffer_add_string(out, "_files");
        case COMPLETE_DIRECTORY:
                return buffer_add_string(out, "_files -/");
        case COMPLETE_LANGUAGE:
                return buffer_add_string(out, "($(" ASK_LANGUAGES "))");
        case COMPLETE_TEMPLATE:
                return buffer_add_string(out, "($(" ASK_TEMPLATES "))");
        case COMPLETE_SESSION:
                return buffer_add_string(out, "($(" ASK_SESSIONS "))");
        case COMPLETE_CONTROL:
        case COMPLETE_WORDS:
                return buffer_printf(out, "(%s)", words_of(completion, words));
        }
        return 0;
}

/* One argument of _arguments: '*--flag=[help]:PLACEHOLDER:values'. */
static int add_zsh_option(struct buffer *out, const struct option *o, const char *form)
{
        int r = buffer_printf(out, " \\\n                '*%s%s[", form,
                              o->value == VALUE_NONE ? "" : o->value == VALUE_OPTIONAL ? "=-" : form[1] == '-' ? "=" : "+");
        if (r == 0)
                r = add_single_quoted(out, o->help, "[]:\\");
        if (r == 0)
                r = buffer_add_string(out, "]");
        if (r == 0 && o->value != VALUE_NONE) {
                r = buffer_add_string(out, o->value == VALUE_OPTIONAL ? "::" : ":");
                if (r == 0)
                        r = add_single_quoted(out, o->placeholder, "[]:\\");
                if (r == 0)
                        r = buffer_add_string(out, ":");
                if (r == 0)
                        r = add_zsh_value(out, o->completion, o->words);
        }
        return r < 0 ? r : buffer_add_string(out, "'");
}

static int add_zsh_command(struct buffer *out, const struct command *c)
{
        char name[COMMAND_NAME_MAX], form[COMMAND_NAME_MAX];
        struct option o;
        int r = buffer_printf(out, "        '%s')\n                _arguments -s", command_full_name(c, name));

        for (size_t i = 0; r == 0 && options_next(&c->options, &i, &o);) {
                if (o.hidden)
                        continue;
                if (o.letter) {
                        snprintf(form, sizeof(form), "-%c", o.letter);
                        r = add_zsh_option(out, &o, form);
                }
                if (r == 0 && o.name) {
                        snprintf(form, sizeof(form), "--%s", o.name);
                        r = add_zsh_option(out, &o, form);
                }
        }
        if (r == 0 && c->words_max > 0) {
                r = buffer_add_string(out, " \\\n                '*:argument:");
                if (r == 0)
                        r = add_zsh_value(out, c->completion, c->words);
                if (r == 0)
                        r = buffer_add_string(out, "'");
        }
        return r < 0 ? r : buffer_add_string(out, "\n                ;;\n");
}

static int write_zsh(struct buffer *out)
{
        int r = buffer_add_string(out, "#compdef glovebox\n# made by 'glovebox completion zsh'\n_glovebox()\n{\n"
                                       "        local verb=$words[2] subs=''\n"
                                       "        if ((CURRENT == 2)); then\n                compadd -- ");
        if (r == 0)
                r = add_names(out, NULL);
        if (r == 0)
                r = buffer_add_string(out, "--help --version\n                return\n        fi\n"
                                           "        case \"$verb\" in\n");
        if (r == 0)
                r = add_groups(out, "        ", ") subs='", "' ;;\n");
        if (r == 0)
                r = buffer_add_string(out, "        esac\n        if [[ -n $subs ]]; then\n"
                                           "                if ((CURRENT == 3)) && [[ $words[3] != -* ]]; then\n"
                                           "                        compadd -- ${=subs}\n"
                                           "                        return\n                fi\n"
                                           "                if [[ \" $subs\" == *\" $words[3] \"* ]]; then\n"
                                           "                        verb=\"$verb $words[3]\"\n"
                                           "                        shift words; ((CURRENT--))\n                fi\n        fi\n"
                                           "        shift words; ((CURRENT--))\n        case \"$verb\" in\n");
        for (size_t i = 0; i < n_commands && r == 0; i++)
                r = add_zsh_command(out, &commands[i]);
        return r < 0 ? r : buffer_add_string(out, "        esac\n}\n"
                                                  "if [[ $funcstack[1] == _glovebox ]]; then _glovebox \"$@\"; "
                                                  "else compdef _glovebox glovebox; fi\n");
}

static int add_fish_value(struct buffer *out, enum option_completion completion, const char *words)
{
        switch (completion) {
        case COMPLETE_NOTHING:
                return buffer_add_string(out, " -x");
        case COMPLETE_FILE:
                return buffer_add_string(out, " -r -F");
        case COMPLETE_DIRECTORY:
                return buffer_add_string(out, " -x -a '(__fish_complete_directories)'");
        case COMPLETE_LANGUAGE:
                return buffer_add_string(out, " -x -a '(" ASK_LANGUAGES ")'");
        case COMPLETE_TEMPLATE:
                return buffer_add_string(out, " -x -a '(" ASK_TEMPLATES ")'");
        case COMPLETE_SESSION:
                return buffer_add_string(out, " -x -a '(" ASK_SESSIONS ")'");
        case COMPLETE_CONTROL:
        case COMPLETE_WORDS:
                return buffer_printf(out, " -x -a '%s'", words_of(completion, words));
        }
        return 0;
}

static int add_fish_command(struct buffer *out, const struct command *c)
{
        char seen[8 * COMMAND_NAME_MAX];
        struct option o;
        int n = snprintf(seen, sizeof(seen), "__fish_seen_subcommand_from %s%s%s", c->name,
                         c->sub ? "; and __fish_seen_subcommand_from " : "", c->sub ? c->sub : "");

        /* A verb that also stands alone. */
        for (size_t i = 0; i < n_commands && !c->sub && n < (int)sizeof(seen); i++)
                if (commands[i].sub && strcmp(commands[i].name, c->name) == 0)
                        n += snprintf(seen + n, sizeof(seen) - (size_t)n, "; and not __fish_seen_subcommand_from %s", commands[i].sub);
        int r = buffer_printf(out, "complete -c glovebox -n '%s' -f", seen);
        if (r == 0 && c->words_max > 0)
                r = c->completion == COMPLETE_FILE       ? buffer_add_string(out, " -F")
                    : c->completion == COMPLETE_TEMPLATE ? buffer_add_string(out, " -a '(" ASK_TEMPLATES ")'")
                    : c->completion == COMPLETE_SESSION  ? buffer_add_string(out, " -a '(" ASK_SESSIONS ")'")
                                                         : buffer_printf(out, " -a '%s'", words_of(c->completion, c->words));
        for (size_t i = 0; r == 0 && options_next(&c->options, &i, &o);) {
                if (o.hidden)
                        continue;
                r = buffer_printf(out, "\ncomplete -c glovebox -n '%s'", seen);
                if (r == 0 && o.letter)
                        r = buffer_printf(out, " -s %c", o.letter);
                if (r == 0 && o.name)
                        r = buffer_printf(out, " -l %s", o.name);
                if (r == 0 && o.value == VALUE_REQUIRED)
                        r = add_fish_value(out, o.completion, o.words);
                if (r == 0)
                        r = buffer_add_string(out, " -d '");
                if (r == 0)
                        r = add_single_quoted(out, o.help, "\\");
                if (r == 0)
                        r = buffer_add_string(out, "'");
        }
        return r < 0 ? r : buffer_add_string(out, "\n");
}

static int add_fish_groups(struct buffer *out)
{
        const char *last = "";
        int r = 0;

        for (size_t i = 0; i < n_commands && r == 0; i++) {
                const char *name = commands[i].name;
                if (!commands[i].sub || strcmp(name, last) == 0)
                        continue;
                last = name;
                r = buffer_printf(out, "complete -c glovebox -n '__fish_seen_subcommand_from %s; and not __fish_seen_subcommand_from ", name);
                if (r == 0)
                        r = add_names(out, name);
                if (r == 0)
                        r = buffer_add_string(out, "' -f -a '");
                if (r == 0)
                        r = add_names(out, name);
                if (r == 0)
                        r = buffer_add_string(out, "'\n");
        }
        return r;
}

static int write_fish(struct buffer *out)
{
        int r = buffer_add_string(out, "# fish completion for glovebox; made by 'glovebox completion fish'\n"
                                       "complete -c glovebox -n __fish_use_subcommand -f -a '");
        if (r == 0)
                r = add_names(out, NULL);
        if (r == 0)
                r = buffer_add_string(out, "'\n");
        if (r == 0)
                r = add_fish_groups(out);
        for (size_t i = 0; i < n_commands && r == 0; i++)
                r = add_fish_command(out, &commands[i]);
        return r;
}

int command_completion(const struct command *command, const struct arguments *arguments)
{
        static const struct {
                const char *shell;
                int (*write)(struct buffer *out);
        } rows[] = {{"bash", write_bash}, {"zsh", write_zsh}, {"fish", write_fish}};
        _cleanup_buffer_ struct buffer text;
        gb_error err = {.code = GB_E_INTERNAL, .message = "out of memory"};

        buffer_init(&text, TEXT_BYTES_MAX);
        for (size_t i = 0; arguments->n_words > 0 && i < ARRAY_SIZE(rows); i++)
                if (strcmp(arguments->words[0], rows[i].shell) == 0)
                        return rows[i].write(&text) < 0 ? command_fail(arguments, &err) : output_text(&text);
        if (arguments->n_words == 0)
                error_set(&err, GB_E_USAGE, 0, "which shell? glovebox completion bash, zsh or fish");
        else
                error_set(&err, GB_E_USAGE, 0, "no completion for the shell %s; there are bash, zsh and fish",
                          quote(arguments->words[0]).text);
        return command_fail(arguments, &err);
}
