/* SPDX-License-Identifier: Apache-2.0
 *
 * Lines that begin with %: about the session, not for its interpreter. */
#include "cli/repl.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/parse.h"
#include "base/quote.h"
#include "base/suggest.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define TIME_TEXT_MAX 32

typedef int command_row(struct repl *r, char *const *words, gb_error *err);

static command_row do_files, do_get, do_help, do_info, do_put, do_restart;

static const struct {
        const char *name, *usage, *help;
        size_t words_min, words_max;
        command_row *function;
} rows[] = {
        {"help", "", "this list", 0, 0, do_help},
        {"files", "[DIR]", "what is in the workspace", 0, 1, do_files},
        {"get", "FILE [NAME]", "copy a file of the workspace to the current directory", 1, 2, do_get},
        {"put", "FILE [NAME]", "copy a file of the host into the workspace", 1, 2, do_put},
        {"restart", "", "a new interpreter; variables are gone, files stay", 0, 0, do_restart},
        {"info", "", "the session: limits and controls", 0, 0, do_info},
};

static const char *name_of(const char *path)
{
        const char *slash = strrchr(path, '/');

        return slash ? slash + 1 : path;
}

static int do_help(struct repl *r, char *const *words, gb_error *err)
{
        (void)words;
        (void)err;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                repl_print(r, "%%%-8s %-12s %s\n", rows[i].name, rows[i].usage, rows[i].help);
        repl_print(r, "Everything else goes to %s. Ctrl-C interrupts what runs, a second one kills it.\n"
                      "Ctrl-D, exit or quit leaves.\n", r->language->name);
        return 0;
}

static int do_restart(struct repl *r, char *const *words, gb_error *err)
{
        (void)words;
        int e = context_restart(r->context, err);

        r->told_lost = e == 0;
        if (e == 0 && r->asks)
                repl_print(r, "restarted: variables are gone, files are still there\n");
        return e;
}

/* A name is any bytes. Shown so that it stays on its line, whoever reads it. */
static void add_name(struct buffer *out, const char *name)
{
        struct terminal t = {.one_line = true};

        if (terminal_add(&t, out, name, strlen(name)) == 0)
                (void)terminal_flush(&t, out);
}

static const char *type_mark(mode_t mode)
{
        return S_ISDIR(mode) ? "/" : S_ISLNK(mode) ? "@" : S_ISREG(mode) ? "" : "?";
}

static int files_as_json(struct repl *r, const struct file_list *files)
{
        _cleanup_json_ json_t *list = json_array(), *o = json_object();

        for (size_t i = 0; i < files->n; i++) {
                const struct file_entry *f = &files->entries[i];
                json_t *entry = json_pack("{s:o, s:b, s:I}", "name", json_readable(f->name, strlen(f->name)), "directory", S_ISDIR(f->mode),
                                          "size", (json_int_t)f->size);
                if (json_array_append_new(list, entry) < 0)
                        return -ENOMEM;
        }
        if (json_object_set_new(o, "files", TAKE_PTR(list)) < 0 || json_object_set_new(o, "truncated", json_boolean(files->truncated)) < 0)
                return -ENOMEM;
        return sink_write_json(&r->sinks[RUN_STDOUT], o, JSON_COMPACT);
}

static int do_files(struct repl *r, char *const *words, gb_error *err)
{
        _cleanup_file_list_ struct file_list *files = NULL;

        int e = session_file_list(r->session, words[0] ? words[0] : ".", &files, err);
        if (e < 0 || r->json)
                return e < 0 ? e : files_as_json(r, files);
        for (size_t i = 0; i < files->n; i++) {
                const struct file_entry *f = &files->entries[i];
                time_t when = (time_t)(f->modified_usec / 1000000);
                char day[TIME_TEXT_MAX] = "";
                struct tm tm;
                _cleanup_buffer_ struct buffer name;
                buffer_init(&name, strlen(f->name) * TERMINAL_GROWTH_MAX + TERMINAL_SLACK_BYTES);
                add_name(&name, f->name);
                if (localtime_r(&when, &tm))
                        strftime(day, sizeof(day), "%Y-%m-%d %H:%M", &tm);
                repl_print(r, "%12llu  %s  %s%s\n", (unsigned long long)f->size, day, name.data ? name.data : "", type_mark(f->mode));
        }
        if (files->n == 0 && r->asks)
                repl_print(r, "(nothing)\n");
        if (files->truncated)
                repl_print(r, "(and more: only %d are listed)\n", FILE_LIST_MAX);
        return 0;
}

/* Never over a file that is there: what comes out of a box is not to replace anything by a slip. */
static int write_new_file(const char *path, const void *bytes, size_t size, gb_error *err)
{
        _cleanup_close_ int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);

        if (fd < 0 && errno == EEXIST)
                return error_set(err, GB_E_USAGE, EEXIST, "%s is there already: give another name after it, or remove it", quote(path).text);
        if (fd < 0)
                return error_set(err, GB_E_USAGE, errno, "cannot make %s: %s", quote(path).text, strerror(errno));
        int e = fd_write_all(fd, bytes, size);
        if (e == 0)
                return 0;
        unlink(path);
        return error_set(err, GB_E_INTERNAL, -e, "cannot write %s: %s", quote(path).text, strerror(-e));
}

static int do_get(struct repl *r, char *const *words, gb_error *err)
{
        const char *to = words[1] ? words[1] : name_of(words[0]);
        _cleanup_free_ char *bytes = NULL;
        size_t size = 0;

        int e = session_file_read(r->session, words[0], &bytes, &size, err);
        if (e == 0)
                e = write_new_file(to, bytes, size, err);
        if (e == 0 && !r->json)
                repl_print(r, "%s: %zu bytes\n", to, size);
        return e;
}

static int read_host_file(const char *path, char **ret, size_t *ret_size, mode_t *ret_mode, gb_error *err)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        struct stat st;

        if (fd < 0 || fstat(fd, &st) < 0)
                return error_set(err, GB_E_NOT_FOUND, errno, "cannot read %s: %s", quote(path).text, strerror(errno));
        if (!S_ISREG(st.st_mode))
                return error_set(err, GB_E_USAGE, EINVAL, "%s is no regular file", quote(path).text);
        int e = fd_read_all(fd, FILE_BYTES_MAX, ret, ret_size);
        if (e == -EFBIG)
                return error_set(err, GB_E_LIMIT, EFBIG, "%s is bigger than %llu MB, the most that can be put into a workspace", quote(path).text,
                                 FILE_BYTES_MAX / MIB);
        if (e < 0)
                return error_set(err, GB_E_NOT_FOUND, -e, "cannot read %s: %s", quote(path).text, strerror(-e));
        *ret_mode = st.st_mode & 0777;
        return 0;
}

static int do_put(struct repl *r, char *const *words, gb_error *err)
{
        const char *to = words[1] ? words[1] : name_of(words[0]);
        _cleanup_free_ char *bytes = NULL;
        size_t size = 0;
        mode_t mode = 0;

        int e = read_host_file(words[0], &bytes, &size, &mode, err);
        if (e == 0)
                e = session_file_write(r->session, to, bytes, size, mode, err);
        if (e == 0 && !r->json)
                repl_print(r, "%s: %zu bytes\n", to, size);
        return e;
}

static int info_as_json(struct repl *r)
{
        _cleanup_json_ json_t *o = json_object(), *limits = json_object();
        char value[POLICY_VALUE_MAX];
        int e = 0;

        for (size_t i = 0; i < n_policy_options; i++)
                e |= json_object_set_new(limits, policy_options[i].key, json_string(policy_option_value(&policy_options[i], r->policy, value)));
        e |= json_object_set_new(o, "session", json_string(session_id(r->session)));
        e |= json_object_set_new(o, "language", json_string(r->language->name));
        e |= json_object_set_new(o, "template", r->options.template ? json_string(r->options.template->name) : json_null());
        e |= json_object_set_new(o, "policy", TAKE_PTR(limits));
        e |= json_object_set_new(o, "controls", controls_to_json(session_controls(r->session)));
        return e < 0 ? -ENOMEM : sink_write_json(&r->sinks[RUN_STDOUT], o, JSON_COMPACT);
}

static int do_info(struct repl *r, char *const *words, gb_error *err)
{
        const struct controls *controls = session_controls(r->session);
        char value[POLICY_VALUE_MAX];

        (void)words;
        (void)err;
        if (r->json)
                return info_as_json(r);
        repl_print(r, "session      %s\nlanguage     %s\ntemplate     %s\nworkspace    %s\ntrust        %s (%s)\n\n", session_id(r->session),
                   r->language->name, r->options.template ? r->options.template->name : "none",
                   r->workspace ? r->workspace : "private, gone with the session", r->policy->trust, r->policy->origin);
        for (size_t i = 0; i < n_policy_options; i++)
                repl_print(r, "%-19s %s\n", policy_options[i].key, policy_option_value(&policy_options[i], r->policy, value));
        for (size_t i = 0; r->policy->network_mode == NETWORK_ALLOWLIST && i < r->policy->n_network_allow; i++)
                repl_print(r, "%-19s %s\n", i == 0 ? "network_allow" : "", r->policy->network_allow[i]->text);
        repl_print(r, "\n");
        for (int i = 0; i < CONTROL_COUNT; i++)
                repl_print(r, "%-12s %s%s%s\n", control_name((enum control_id)i), control_state_name(controls->status[i].state),
                           controls->status[i].how[0] ? ": " : "", controls->status[i].how);
        return 0;
}

/* Words between blanks; a blank within '...' or "...", or behind a backslash, is part of one. Changes the text. The
 * number of words, or -EINVAL. */
static int split(char *text, char *words[static REPL_WORDS_MAX + 1])
{
        size_t n = 0;
        char quoting = 0, *to = text;

        for (bool inside = false;; text++) {
                char c = *text;
                if (c == '\0' || (!quoting && (c == ' ' || c == '\t'))) {
                        if (inside)
                                *to++ = '\0';
                        inside = false;
                        if (c == '\0')
                                break;
                        continue;
                }
                if (!inside && n == REPL_WORDS_MAX)
                        return -EINVAL;
                if (!inside)
                        words[n++] = to;
                inside = true;
                if (quoting ? c == quoting : c == '\'' || c == '"')
                        quoting = quoting ? 0 : c;
                else if (c == '\\' && text[1] && quoting != '\'')
                        *to++ = *++text;
                else
                        *to++ = c;
        }
        words[n] = NULL;
        return quoting ? -EINVAL : (int)n;
}

static int call(struct repl *r, char *const *words, size_t n, gb_error *err)
{
        const char *names[ARRAY_SIZE(rows)];

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                names[i] = rows[i].name;
                if (strcmp(rows[i].name, words[0]) != 0)
                        continue;
                if (n - 1 < rows[i].words_min || n - 1 > rows[i].words_max)
                        return error_set(err, GB_E_USAGE, 0, "usage: %%%s%s%s", rows[i].name, rows[i].usage[0] ? " " : "", rows[i].usage);
                int e = repl_need_session(r, err);
                return e < 0 ? e : rows[i].function(r, words + 1, err);
        }
        const char *near = suggest_nearest(words[0], names, ARRAY_SIZE(names));
        return error_set(err, GB_E_USAGE, 0, "there is no %%%s; %s%s%s", quote_path(words[0]).text, near ? "did you mean %" : "%help lists what there is",
                         near ? near : "", near ? "?" : "");
}

int repl_command(struct repl *r, const char *line, gb_error *err)
{
        _cleanup_free_ char *text = strdup(line + 1);
        char *words[REPL_WORDS_MAX + 1];

        if (!text)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int n = split(text, words);
        if (n < 0)
                return error_set(err, GB_E_USAGE, 0, "a quote is open, or there are more than %d words", REPL_WORDS_MAX);
        if (n == 0)
                return error_set(err, GB_E_USAGE, 0, "nothing follows the %%; %%help lists what there is");
        return call(r, words, (size_t)n, err);
}
