/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox session files: files of a session's workspace, one at a time. Whole directories are in session_tree.c. */
#include "cli/session_files.h"

#include "base/fd.h"
#include "base/quote.h"
#include "cli/human.h"
#include "cli/output.h"
#include "cli/table.h"
#include "engine/files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- addresses ---- */

int files_target(struct files_call *f, const char *what, const char *path, struct buffer *ret, gb_error *err)
{
        ret->size = 0;
        int r = buffer_printf(ret, "/v1/sessions/%s/%s", f->session, what);
        if (r == 0 && path) {
                /* As code in the box names it. */
                const char *rest = files_skip_workspace(path);
                if (*rest == '/')
                        path = rest;
                while (*path == '/')
                        path++;
                r = buffer_add_string(ret, "/");
                if (r == 0)
                        r = client_add_encoded(ret, path, true);
        }
        return r < 0 ? error_set(err, GB_E_USAGE, ENAMETOOLONG, "a path is too long") : 0;
}

int files_add_query(struct buffer *target, const char *name, const char *value)
{
        int r = buffer_printf(target, "%c%s=", strchr(target->data, '?') ? '&' : '?', name);

        return r < 0 ? r : client_add_encoded(target, value, false);
}

/* ---- ls ---- */

static const struct table_column columns[] = {
        {.title = "MODE"},
        {.title = "SIZE", .right = true},
        {.title = "AGE", .right = true},
        {.title = "NAME", .min = 12},
};

static void add_entry(struct table *t, const json_t *entry)
{
        char size[HUMAN_TEXT_MAX], age[HUMAN_TEXT_MAX], mode[16], name[HOST_PATH_MAX];
        const char *type = json_member(entry, "type", "other");
        const json_t *bits = json_object_get(entry, "mode");

        /* The mode is text ("0644") or a number. */
        if (json_is_integer(bits))
                snprintf(mode, sizeof(mode), "%04o", (unsigned)json_integer_value(bits) & 07777);
        else
                snprintf(mode, sizeof(mode), "%.15s", json_member(entry, "mode", "-"));
        snprintf(name, sizeof(name), "%s%s", json_member(entry, "name", ""),
                 strcmp(type, "directory") == 0 ? "/" : strcmp(type, "link") == 0 ? "@" : strcmp(type, "file") == 0 ? "" : "?");
        human_json_size(strcmp(type, "file") == 0 ? json_object_get(entry, "size") : NULL, size);
        table_add(t, (const char *const[]){mode, size, human_json_ago(json_object_get(entry, "modified_at"), age), name});
}

static int session_files_ls(struct files_call *f, gb_error *err)
{
        _cleanup_buffer_ struct buffer target;
        _cleanup_json_ json_t *entries = NULL;
        _cleanup_table_ struct table table;
        const char *path = f->n_words > 0 ? f->words[0] : ".";
        const json_t *entry;
        size_t i;

        table_init(&table, columns, ARRAY_SIZE(columns));
        buffer_init(&target, CLIENT_HEAD_BYTES_MAX);
        int r = files_target(f, "files", NULL, &target, err);
        if (r == 0 && files_add_query(&target, "path", path) < 0)
                r = service_out_of_memory(err);
        if (r == 0)
                r = service_list(&f->service, target.data, "entries", &entries, err);
        if (r < 0)
                return r;
        if (arguments_has(f->arguments, OPT_JSON)) {
                _cleanup_json_ json_t *whole = json_pack("{s:s, s:O}", "path", path, "entries", entries);
                return output_json(whole);
        }
        json_array_foreach(entries, i, entry) {
                add_entry(&table, entry);
        }
        return table_print(&table);
}

/* ---- get ---- */

/* Only now, when the file is known to be there, is something made of it here. */
static int open_output(const char *file, gb_error *err)
{
        int fd = open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY, 0666);

        return fd < 0 ? error_set(err, GB_E_USAGE, errno, "cannot write %s: %s", quote(file).text, strerror(errno)) : fd;
}

static int copy_body(struct files_call *f, const char *file, int fd, uint64_t *ret_bytes, gb_error *err)
{
        struct client *c = &f->service.client;
        _cleanup_sink_ struct sink out;
        uint64_t total = 0;

        sink_init(&out, fd, fd != STDOUT_FILENO);
        for (;;) {
                size_t size;
                const char *bytes = client_data(c, &size);
                if (size > 0) {
                        int r = sink_write(&out, bytes, size);
                        if (r < 0)
                                return error_set(err, GB_E_INTERNAL, -r, "cannot write %s: %s", quote(file).text, strerror(-r));
                        client_take(c, size);
                        total += size;
                        progress_show(&f->progress, total);
                } else if (client_is_done(c)) {
                        *ret_bytes = total;
                        return sink_finish(&out);
                } else {
                        int r = client_wait(c, CLIENT_MORE, monotonic_usec() + CLIENT_ANSWER_USEC, -1, err);
                        if (r < 0)
                                return r;
                }
        }
}

static int copy_to_file(struct files_call *f, const char *file, uint64_t *ret_bytes, gb_error *err)
{
        _cleanup_close_ int fd = open_output(file, err);
        struct stat ours, there;

        if (fd < 0)
                return fd;
        int r = copy_body(f, file, fd, ret_bytes, err);
        /* A part of it would look like the whole; but what somebody else has put there meanwhile is his. */
        if (r < 0 && fstat(fd, &ours) == 0 && S_ISREG(ours.st_mode) && lstat(file, &there) == 0 && ours.st_ino == there.st_ino && ours.st_dev == there.st_dev)
                (void)unlink(file);
        return r;
}

static int session_files_get(struct files_call *f, gb_error *err)
{
        _cleanup_buffer_ struct buffer target;
        const char *file = f->n_words > 1 ? f->words[1] : "-";
        uint64_t bytes = 0;

        buffer_init(&target, CLIENT_HEAD_BYTES_MAX);
        int r = files_target(f, "files", f->words[0], &target, err);
        if (r == 0)
                r = files_begin(f, "GET", target.data, "application/octet-stream", NULL, -1, 0, err);
        if (r == 0)
                r = strcmp(file, "-") == 0 ? copy_body(f, file, STDOUT_FILENO, &bytes, err) : copy_to_file(f, file, &bytes, err);
        progress_done(&f->progress);
        if (r < 0 || !arguments_has(f->arguments, OPT_JSON) || strcmp(file, "-") == 0)
                return r;
        _cleanup_json_ json_t *whole = json_pack("{s:s, s:s, s:I}", "path", f->words[0], "file", file, "size", (json_int_t)bytes);
        return output_json(whole);
}

/* ---- put ---- */

/* The bytes of standard input, in a file without a name: their number has to be known first. */
static int spool(int from, gb_error *err)
{
        _cleanup_close_ int fd = files_temporary(err);
        char buf[65536];

        if (fd < 0)
                return fd;
        for (;;) {
                ssize_t n = read(from, buf, sizeof(buf));
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return error_set(err, GB_E_INTERNAL, errno, "cannot read standard input: %s", strerror(errno));
                if (n == 0)
                        return TAKE_FD(fd);
                int r = fd_write_all(fd, buf, (size_t)n);
                if (r < 0)
                        return error_set(err, GB_E_DISK_FULL, -r, "cannot keep what is to be sent: %s", strerror(-r));
        }
}

static int open_input(const char *file, struct stat *st, gb_error *err)
{
        bool is_stdin = strcmp(file, "-") == 0;
        _cleanup_close_ int fd = is_stdin ? spool(STDIN_FILENO, err) : open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

        if (fd < 0)
                return is_stdin ? fd : error_set(err, GB_E_NOT_FOUND, errno, "cannot read %s: %s", quote(file).text, strerror(errno));
        if (fstat(fd, st) < 0 || !S_ISREG(st->st_mode))
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not a file; 'push' takes directories, and - is standard input", quote(file).text);
        return TAKE_FD(fd);
}

static int session_files_put(struct files_call *f, gb_error *err)
{
        _cleanup_buffer_ struct buffer target;
        const char *file = f->words[0], *slash = strrchr(file, '/');
        const char *path = f->n_words > 1 ? f->words[1] : slash ? slash + 1 : file, *mode = arguments_get(f->arguments, OPT_MODE);
        struct stat st;

        buffer_init(&target, CLIENT_HEAD_BYTES_MAX);
        if (f->n_words < 2 && strcmp(file, "-") == 0)
                return error_set(err, GB_E_USAGE, 0, "say what it is to be called: put SESSION - PATH");
        _cleanup_close_ int fd = open_input(file, &st, err);
        if (fd < 0)
                return fd;
        char own[8];
        snprintf(own, sizeof(own), "%04o", (unsigned)(st.st_mode & 0777));
        if (!mode && strcmp(file, "-") != 0)
                mode = own;
        int r = files_target(f, "files", path, &target, err);
        if (r == 0 && mode)
                r = files_add_query(&target, "mode", mode);
        if (r == 0 && arguments_has(f->arguments, OPT_PARENTS))
                r = files_add_query(&target, "parents", "true");
        if (r == 0)
                r = files_begin(f, "PUT", target.data, NULL, "application/octet-stream", fd, (uint64_t)st.st_size, err);
        if (r == 0)
                r = files_finish(f, err);
        /* The session was found before: what is missing is a directory. */
        if (r < 0 && err->code == GB_E_NOT_FOUND && strchr(path, '/') && !arguments_has(f->arguments, OPT_PARENTS))
                error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no directory for %s in the workspace; --parents makes it", quote(path).text);
        return r;
}

/* ---- rm ---- */

static int session_files_rm(struct files_call *f, gb_error *err)
{
        _cleanup_buffer_ struct buffer target;

        buffer_init(&target, CLIENT_HEAD_BYTES_MAX);
        for (size_t i = 0; i < f->n_words; i++) {
                int r = files_target(f, "files", f->words[i], &target, err);
                if (r == 0 && arguments_has(f->arguments, OPT_RECURSIVE))
                        r = files_add_query(&target, "recursive", "true");
                if (r == 0)
                        r = service_call(&f->service, "DELETE", target.data, NULL, NULL, err);
                if (r < 0)
                        return r;
        }
        if (!arguments_has(f->arguments, OPT_JSON))
                return 0;
        _cleanup_json_ json_t *whole = json_pack("{s:i}", "removed", (int)f->n_words);
        return output_json(whole);
}

/* ---- the verb ---- */

static const struct {
        const char *name;
        size_t words_min, words_max; /* besides the session */
        int (*function)(struct files_call *f, gb_error *err);
        const char *usage;
} actions[] = {
        {"ls", 0, 1, session_files_ls, "ls SESSION [DIRECTORY]"},
        {"get", 1, 2, session_files_get, "get SESSION PATH [FILE]"},
        {"put", 1, 2, session_files_put, "put SESSION FILE [PATH]"},
        {"rm", 1, SIZE_MAX, session_files_rm, "rm SESSION PATH..."},
        {"pull", 1, 2, session_files_pull, "pull SESSION DIRECTORY [PATH]"},
        {"push", 1, 2, session_files_push, "push SESSION DIRECTORY [PATH]"},
};

static int call(const struct command *command, const struct arguments *a, struct files_call *f, gb_error *err)
{
        const char *name = a->n_words > 0 ? a->words[0] : "";
        size_t i = 0;

        while (i < ARRAY_SIZE(actions) && strcmp(actions[i].name, name) != 0)
                i++;
        if (i == ARRAY_SIZE(actions))
                return error_set(err, GB_E_USAGE, 0, "say what to do: ls, get, put, rm, pull or push%s%s", *name ? "; not " : "",
                                 *name ? quote(name).text : "");
        if (a->n_words < 2 + actions[i].words_min || a->n_words - 2 > actions[i].words_max)
                return error_set(err, GB_E_USAGE, 0, "it is 'glovebox session files %s'", actions[i].usage);
        f->words = a->words + 2;
        f->n_words = a->n_words - 2;
        int r = service_open(&command->options, a, &f->service, err);
        if (r == 0)
                r = ids_find_session(&f->service, a->words[1], f->session, err);
        return r < 0 ? r : actions[i].function(f, err);
}

int command_session_files(const struct command *command, const struct arguments *arguments)
{
        struct files_call f = {.service = {.client = {.fd = -1}}, .arguments = arguments};
        gb_error err = {0};

        progress_init(&f.progress, arguments);
        int r = call(command, arguments, &f, &err);
        progress_done(&f.progress);
        service_done(&f.service);
        return r < 0 ? command_fail(arguments, &err) : r;
}
