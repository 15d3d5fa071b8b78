/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox mcp install: what a client of MCP has to be told, shown or put into its file. The snippet goes to standard output, alone; where it belongs is said on
 * standard error, so that it can be sent to a file as it is. */
#include "base/limits.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/mcp_merge.h"
#include "cli/output.h"
#include "cli/table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_NAME_MAX 64 /* letters of --name */
#define LETTERS "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define DIGITS "0123456789"
#define MODE_OWN 0600     /* of a new file of the user: a token may come into it */
#define MODE_PROJECT 0666 /* of a project: others have it, too, as the umask lets them */

struct install {
        const struct arguments *arguments;
        const struct install_client *client;
        struct install_order order;
        char program[HOST_PATH_MAX];
        char url[HTTP_TARGET_MAX];
        char file[HOST_PATH_MAX]; /* empty: there is none */
};

static int out_of_memory(gb_error *err)
{
        return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

/* ---- the list ---- */

static int list_table(void)
{
        static const struct table_column columns[] = {
                {.title = "CLIENT"}, {.title = "NAME"}, {.title = "WRITES"}, {.title = "FILE", .min = 16}, {.title = "PROJECT", .min = 10}};
        _cleanup_table_ struct table t;
        char file[HOST_PATH_MAX];

        table_init(&t, columns, ARRAY_SIZE(columns));
        for (size_t i = 0; i < n_install_clients; i++) {
                const struct install_client *c = &install_clients[i];
                snprintf(file, sizeof(file), "~/%s", c->file ? c->file : "");
                table_add(&t, (const char *const[]){c->name, c->title, install_client_writes(c) ? "yes" : "no", c->file ? file : NULL, c->project});
        }
        return table_print(&t);
}

static int set_text(json_t *o, const char *key, const char *text)
{
        return json_object_set_new(o, key, text ? json_string(text) : json_null());
}

static int list_json(const struct arguments *arguments)
{
        _cleanup_json_ json_t *all = json_object(), *list = json_array();
        gb_error err = {0};
        int r = 0;

        for (size_t i = 0; i < n_install_clients; i++) {
                const struct install_client *c = &install_clients[i];
                json_t *row = json_object();
                r |= set_text(row, "name", c->name) | set_text(row, "title", c->title) | set_text(row, "format", install_format_name(c->format)) |
                     set_text(row, "file", c->file) | set_text(row, "project_file", c->project) | set_text(row, "key", c->key) |
                     json_object_set_new(row, "writes", json_boolean(install_client_writes(c))) | json_object_set_new(row, "http", json_boolean(c->url != NULL));
                r |= json_array_append_new(list, row);
        }
        r |= json_object_set(all, "clients", list);
        if (r == 0)
                return output_json(all);
        out_of_memory(&err);
        return command_fail(arguments, &err);
}

/* ---- what is asked for ---- */

static bool is_word(const char *text, const char *first, const char *rest, size_t max)
{
        return text[0] && strchr(first, text[0]) && text[strspn(text, rest)] == '\0' && strlen(text) <= max;
}

static int read_program(struct install *i, gb_error *err)
{
        ssize_t n = readlink("/proc/self/exe", i->program, sizeof(i->program) - 1);

        if (n > 0)
                i->program[n] = '\0';
        if (n <= 0 || i->program[0] != '/' || access(i->program, X_OK) < 0)
                return error_set(err, GB_E_INTERNAL, n <= 0 ? errno : ENOENT, "cannot tell where this program is: it must be known to be started by its path");
        i->order.program = i->program;
        return 0;
}

/* http://host:port is http://host:port/mcp. */
static int read_url(struct install *i, const char *text, gb_error *err)
{
        static const char taken[] = LETTERS DIGITS "-._~:/?[]@!$&'()*+,;=%";
        size_t scheme = strncmp(text, "http://", 7) == 0 ? 7 : strncmp(text, "https://", 8) == 0 ? 8 : 0;
        size_t host = scheme + strcspn(text + scheme, "/?");

        if (strncmp(text, "unix:", 5) == 0)
                return error_set(err, GB_E_USAGE, 0, "clients reach no socket by a URL; instead of --http: glovebox mcp install %s -- --server=%s", i->client->name,
                                 quote_path(text).text);
        if (scheme == 0 || host == scheme || memchr(text + scheme, '@', host - scheme) || text[strspn(text, taken)])
                return error_set(err, GB_E_USAGE, 0, "%s is no URL as --http wants it: http://host:port or https://host:port, perhaps with a path and a query",
                                 quote(text).text);
        const char *rest = text + host + (text[host] == '/' && (text[host + 1] == '\0' || text[host + 1] == '?'));
        int n = snprintf(i->url, sizeof(i->url), "%.*s%s%s", (int)host, text, *rest == '/' ? "" : "/mcp", rest);
        if (n < 0 || (size_t)n >= sizeof(i->url))
                return error_set(err, GB_E_USAGE, ENAMETOOLONG, "the URL is too long");
        i->order.url = i->url;
        return 0;
}

static int read_token(struct install *i, gb_error *err)
{
        const struct arguments *a = i->arguments;
        struct install_order *o = &i->order;

        o->token = arguments_get(a, OPT_TOKEN);
        o->token_env = arguments_get(a, OPT_TOKEN_ENV);
        bool none = arguments_has(a, OPT_NO_TOKENS);
        if (!o->url)
                return o->token || o->token_env || none ? error_set(err, GB_E_USAGE, 0, "a token is for --http URL") : 0;
        if ((o->token != NULL) + (o->token_env != NULL) + none > 1)
                return error_set(err, GB_E_USAGE, 0, "one of --token, --token-env and --no-token");
        if (!o->token && !o->token_env && !none)
                o->token_env = "GLOVEBOX_TOKEN";
        if (o->token_env && !is_word(o->token_env, LETTERS "_", LETTERS DIGITS "_", ENTRY_NAME_MAX))
                return error_set(err, GB_E_USAGE, 0, "%s is no name of a variable", quote(o->token_env).text);
        if (o->token && !is_word(o->token, LETTERS DIGITS, LETTERS DIGITS "-._~+/=", HTTP_TARGET_MAX))
                return error_set(err, GB_E_USAGE, 0, "the token of --token has letters that no token has");
        return 0;
}

static int read_file(struct install *i, gb_error *err)
{
        const char *file = arguments_get(i->arguments, OPT_FILE), *home = getenv("HOME");
        const struct install_client *c = i->client;
        int n = 0;

        if (file && i->order.project)
                return error_set(err, GB_E_USAGE, 0, "one of --file and --project");
        if (i->order.project && !c->project)
                return error_set(err, GB_E_USAGE, 0, "%s has no file of a project", c->title);
        if (file)
                n = snprintf(i->file, sizeof(i->file), "%s", file);
        else if (i->order.project)
                n = snprintf(i->file, sizeof(i->file), "%s", c->project);
        else if (c->file && home && home[0] == '/')
                n = snprintf(i->file, sizeof(i->file), "%s/%s", home, c->file);
        return n < 0 || (size_t)n >= sizeof(i->file) ? error_set(err, GB_E_USAGE, ENAMETOOLONG, "the path of the file is too long") : 0;
}

/* What cannot stand in a file of texts. */
static int check_texts(const struct install *i, gb_error *err)
{
        const struct install_order *o = &i->order;

        for (size_t k = 0; k == 0 || o->args[k - 1]; k++) {
                const char *text = k == 0 ? o->program : o->args[k - 1];
                _cleanup_json_ json_t *string = json_string(text);
                if (!string)
                        return error_set(err, GB_E_USAGE, EILSEQ, "%s is not UTF-8, and cannot stand in a file of settings", quote(text).text);
        }
        return 0;
}

static int read_order(struct install *i, gb_error *err)
{
        static const char *const none[] = {NULL};
        const struct arguments *a = i->arguments;
        const char *name = arguments_get(a, OPT_NAME), *url = arguments_get(a, OPT_HTTP);

        i->client = install_client_find(a->words[0], err);
        if (!i->client)
                return -EINVAL;
        i->order = (struct install_order){
                .name = name ? name : "glovebox", .args = a->rest ? (const char *const *)a->rest : none, .project = arguments_has(a, OPT_PROJECT)};
        if (!is_word(i->order.name, LETTERS DIGITS, LETTERS DIGITS "_-", ENTRY_NAME_MAX))
                return error_set(err, GB_E_USAGE, 0, "the name %s: letters, digits, - and _, at most %d, the first a letter or a digit", quote(i->order.name).text,
                                 ENTRY_NAME_MAX);
        if (url && i->order.args[0])
                return error_set(err, GB_E_USAGE, 0, "with --http nothing is started: %s has no meaning", quote(i->order.args[0]).text);
        int r = read_program(i, err);
        if (r == 0 && url)
                r = read_url(i, url, err);
        if (r == 0)
                r = read_token(i, err);
        if (r == 0)
                r = read_file(i, err);
        if (r == 0)
                r = check_texts(i, err);
        return r < 0 ? r : install_check(i->client, &i->order, err);
}

static bool is_local(const char *url)
{
        const char *host = strstr(url, "://") + 3;

        return strncmp(host, "localhost", 9) == 0 || strncmp(host, "127.", 4) == 0 || strncmp(host, "[::1]", 5) == 0;
}

static void warn(const struct install *i)
{
        const struct install_order *o = &i->order;

        if (o->url && o->token)
                message_print(MESSAGE_WARNING, "the token stands there in clear, for all who can read the file; and it was on a command line, "
                                               "which others of this host can see");
        if (o->url && (o->token || o->token_env) && strncmp(o->url, "http://", 7) == 0 && !is_local(o->url))
                message_print(MESSAGE_WARNING, "over http:// the token can be read on its way; use https://");
}

/* ---- shown ---- */

static void say_where(const struct install *i, const struct buffer *command)
{
        const struct install_client *c = i->client;
        const char *file = arguments_get(i->arguments, OPT_FILE);

        if (!file)
                file = i->order.project ? c->project : c->file;
        const char *home = arguments_has(i->arguments, OPT_FILE) || i->order.project ? "" : "~/";
        if (c->format == INSTALL_PYTHON)
                message_print(MESSAGE_PLAIN, "a program in Python; %s", c->note);
        else if (file)
                message_print(MESSAGE_PLAIN, "for %s, in %s%s%s%s", c->title, home, file, c->key ? ", beside what is there" : "",
                              install_client_writes(c) ? "; --write puts it there" : "");
        else
                message_print(MESSAGE_PLAIN, "for the file of the client; --file FILE --write puts it there");
        if (command->size > 0)
                message_print(MESSAGE_PLAIN, "or: %.*s", (int)command->size - 1, command->data);
        if (c->note && c->format != INSTALL_PYTHON)
                message_print(MESSAGE_PLAIN, "%s", c->note);
}

static json_t *shown_json(const struct install *i, const struct buffer *snippet, const struct buffer *command)
{
        const struct install_client *c = i->client;
        _cleanup_json_ json_t *o = json_object();

        int r = set_text(o, "client", c->name) | set_text(o, "format", install_format_name(c->format)) | set_text(o, "file", i->file[0] ? i->file : NULL) |
                set_text(o, "name", i->order.name) | set_text(o, "snippet", snippet->data) | set_text(o, "note", c->note);
        r |= json_object_set_new(o, "command", command->size > 0 ? json_stringn(command->data, command->size - 1) : json_null());
        if (c->format == INSTALL_JSON)
                r |= json_object_set_new(o, "entry", install_entry(c, &i->order));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static int show(const struct install *i, gb_error *err)
{
        _cleanup_buffer_ struct buffer snippet, command;

        buffer_init(&snippet, TEXT_BYTES_MAX);
        buffer_init(&command, TEXT_BYTES_MAX);
        int r = install_snippet(&snippet, i->client, &i->order);
        if (r == 0 && i->client->command)
                r = i->client->command(&command, i->client, &i->order);
        if (r < 0) {
                out_of_memory(err);
                return command_fail(i->arguments, err);
        }
        warn(i);
        if (arguments_has(i->arguments, OPT_JSON)) {
                _cleanup_json_ json_t *json = shown_json(i, &snippet, &command);
                if (json)
                        return output_json(json);
                error_set(err, GB_E_USAGE, EILSEQ, "the path of the file is not UTF-8");
                return command_fail(i->arguments, err);
        }
        int status = output_text(&snippet);
        if (status == 0)
                say_where(i, &command);
        return status;
}

/* ---- written ---- */

static int tell_json(const struct install *i, const struct merge *m, const char *backup, bool dry)
{
        _cleanup_json_ json_t *o = json_object();

        int r = set_text(o, "client", i->client->name) | set_text(o, "name", i->order.name) | set_text(o, "file", m->file.path) |
                set_text(o, "outcome", merge_outcome_name(m->outcome)) | set_text(o, "backup", backup) |
                json_object_set_new(o, "written", json_boolean(!dry && m->outcome != MERGE_NOTHING));
        if (r == 0)
                return output_json(o);
        message_print(MESSAGE_WARNING, "the outcome could not be told as JSON");
        return 0;
}

static int tell(const struct install *i, const struct merge *m, const char *backup)
{
        _cleanup_buffer_ struct buffer text;
        static const char *const between[] = {[MERGE_ADDED] = "to", [MERGE_REPLACED] = "in", [MERGE_REMOVED] = "from"};
        int r;

        buffer_init(&text, TEXT_BYTES_MAX);
        if (m->outcome == MERGE_NOTHING)
                r = buffer_printf(&text, "%s: %s %s\n", m->file.path, i->order.name, m->entry ? "is already there" : "is not there");
        else
                r = buffer_printf(&text, "%s %s %s %s\n", merge_outcome_name(m->outcome), i->order.name, between[m->outcome], m->file.path);
        if (r == 0 && m->file.is_link)
                r = buffer_printf(&text, "(%s is a link to it)\n", m->file.given);
        if (r == 0 && backup)
                r = buffer_printf(&text, "as it was: %s\n", backup);
        if (r == 0 && m->outcome != MERGE_NOTHING && m->entry && i->client->note)
                r = buffer_printf(&text, "%s\n", i->client->note);
        return r < 0 ? error_exit_status(GB_E_INTERNAL) : output_text(&text);
}

static int show_difference(const struct install *i, const struct merge *m, gb_error *err)
{
        _cleanup_buffer_ struct buffer text;

        buffer_init(&text, 2 * SETTINGS_BYTES_MAX);
        if (m->outcome == MERGE_NOTHING)
                return tell(i, m, NULL);
        if (merge_add_difference(m, &text) == 0)
                return output_text(&text);
        out_of_memory(err);
        return command_fail(i->arguments, err);
}

/* The file was left alone; what is to be in it is there to be pasted. */
static int refuse(const struct install *i, const struct merge *m, const gb_error *err)
{
        _cleanup_buffer_ struct buffer snippet;

        buffer_init(&snippet, TEXT_BYTES_MAX);
        if (m->unreadable && m->entry && !arguments_has(i->arguments, OPT_JSON) && install_snippet(&snippet, i->client, &i->order) == 0)
                (void)output_text(&snippet);
        return command_fail(i->arguments, err);
}

static int change(struct install *i, gb_error *err)
{
        const struct arguments *a = i->arguments;
        _cleanup_merge_ struct merge m = {.client = i->client, .name = i->order.name, .force = arguments_has(a, OPT_FORCE)};
        _cleanup_json_ json_t *entry = install_entry(i->client, &i->order);
        _cleanup_free_ char *backup = NULL;
        bool dry = arguments_has(a, OPT_DRY_RUN), remove = arguments_has(a, OPT_REMOVE);

        if (!install_client_writes(i->client)) {
                error_set(err, GB_E_USAGE, 0, "the file of %s is not JSON: paste what 'glovebox mcp install %s' prints", i->client->title, i->client->name);
                return command_fail(a, err);
        }
        if (!i->file[0]) {
                error_set(err, GB_E_USAGE, 0, i->client->file ? "HOME is not set, or is no path from / on; --file FILE says which file it is"
                                                              : "say which file it is: --file FILE");
                return command_fail(a, err);
        }
        if (!entry) {
                out_of_memory(err);
                return command_fail(a, err);
        }
        m.entry = remove ? NULL : entry;
        int r = merge_prepare(&m, i->file, err);
        if (r == 0 && !dry && m.outcome != MERGE_NOTHING)
                r = settings_file_replace(&m.file, m.text.data, m.text.size, i->order.project ? MODE_PROJECT : MODE_OWN, !arguments_has(a, OPT_FILE), &backup, err);
        if (r < 0)
                return refuse(i, &m, err);
        if (!remove && m.outcome != MERGE_NOTHING)
                warn(i);
        if (arguments_has(a, OPT_JSON))
                return tell_json(i, &m, backup, dry);
        return dry ? show_difference(i, &m, err) : tell(i, &m, backup);
}

int command_mcp_install(const struct command *command _unused_, const struct arguments *arguments)
{
        struct install i = {.arguments = arguments};
        gb_error err = {0};
        bool json = arguments_has(arguments, OPT_JSON);

        if (arguments->n_words == 0 && (arguments->n_uses > (json ? arguments_count(arguments, OPT_JSON) : 0) || arguments->rest)) {
                error_set(&err, GB_E_USAGE, 0, "say for which client; 'glovebox mcp install' lists them");
                return command_fail(arguments, &err);
        }
        if (arguments->n_words == 0)
                return json ? list_json(arguments) : list_table();
        json_guard_memory(); /* a file that was not read whole must not be taken for a broken one */
        if (read_order(&i, &err) < 0)
                return command_fail(arguments, &err);
        if (arguments_has(arguments, OPT_WRITE) || arguments_has(arguments, OPT_REMOVE) || arguments_has(arguments, OPT_DRY_RUN))
                return change(&i, &err);
        return show(&i, &err);
}
