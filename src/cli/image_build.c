/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox image build: by an engine (image_engine.c), or as a root file system for native runs.
 *
 * The latter is mmdebstrap's work. It writes a tar to a pipe, whose other end is read as any archive of a stranger (image/import.h): so ids, set-user-id bits and devices
 * are treated alike, and as an ordinary user nothing comes to be that he could not remove. As root it has a mount namespace of its own: what it mounts goes with it,
 * whatever happens. It cannot go on where it was interrupted, but what it had fetched is put aside and is there the next time. */
#include "cli/image.h"

#include "base/fd.h"
#include "base/json.h"
#include "base/path.h"
#include "base/quote.h"
#include "cli/output.h"
#include "cli/settings.h"
#include "cli/signals.h"
#include "image/import.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "mmdebstrap"
#define RECIPE_BYTES_MAX (256 * KIB)
#define LOG_BYTES_MAX (1 * MIB)  /* of what it says when there is no terminal */
#define ARGV_MAX 40
#define STOP_MSEC 15000 /* for it to take its own things away */
#define END_MSEC 600000 /* the same, when its archive is whole and only its status is waited for */
#define LAST_WORDS_USEC 1000000ULL /* when its archive is no good: perhaps it is failing itself, and says why */
#define TEMPORARY "tmp" /* in the draft: it works there */

struct build {
        const struct arguments *arguments;
        const struct policy *policy;
        char *recipe;   /* the directory */
        char *packages; /* with commas */
        char *check;    /* a program, or NULL */
        char *sources, *suite;
        char *cache;    /* packages that were fetched */
        char *work;     /* the draft's directory */
        int cancel_fd, log;
        pid_t pid; /* 0: none */
        struct image_draft draft;
        struct progress progress;
};

static void stop(struct build *b, bool at_once)
{
        if (b->pid <= 0)
                return;
        if (!at_once)
                kill(-b->pid, SIGTERM);
        for (int waited = 0; !at_once && waited < STOP_MSEC; waited += 50) {
                if (waitpid(b->pid, NULL, WNOHANG) == b->pid) {
                        b->pid = 0;
                        break;
                }
                usleep(50000);
        }
        if (b->pid > 0) {
                kill(-b->pid, SIGKILL);
                while (waitpid(b->pid, NULL, 0) < 0 && errno == EINTR)
                        ;
        }
        b->pid = 0;
}

static void build_done(struct build *b)
{
        stop(b, false);
        b->log = safe_close(b->log);
        image_draft_done(&b->draft);
        free(b->recipe);
        free(b->packages);
        free(b->check);
        free(b->sources);
        free(b->suite);
        free(b->cache);
        free(b->work);
}

/* ---- what it is built from ---- */

static int read_file(const char *dir, const char *name, char **ret)
{
        _cleanup_free_ char *path = NULL;
        size_t size;

        if (asprintf(&path, "%s/%s", dir, name) < 0)
                return -ENOMEM;
        _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        return fd < 0 ? -errno : fd_read_all(fd, RECIPE_BYTES_MAX, ret, &size);
}

/* One name a line, # begins a comment. */
static int read_packages(struct build *b, gb_error *err)
{
        _cleanup_free_ char *text = NULL;
        char *state = NULL;
        size_t used = 0;

        int r = read_file(b->recipe, "packages", &text);
        if (r < 0)
                return error_set(err, GB_E_NOT_FOUND, -r, "there is no file \"packages\" in %s, which names the packages of the image: %s", quote(b->recipe).text, strerror(-r));
        b->packages = calloc(1, strlen(text) + 2);
        for (char *line = strtok_r(text, "\n", &state); line && b->packages; line = strtok_r(NULL, "\n", &state)) {
                line[strcspn(line, "#")] = '\0';
                line += strspn(line, " \t\r");
                line[strcspn(line, " \t\r")] = '\0';
                if (!*line)
                        continue;
                if (strspn(line, "abcdefghijklmnopqrstuvwxyz0123456789.+-") != strlen(line) || line[0] == '-')
                        return error_set(err, GB_E_USAGE, EINVAL, "%s/packages: %s is no name of a package", quote_path(b->recipe).text, quote(line).text);
                used += (size_t)sprintf(b->packages + used, "%s%s", used > 0 ? "," : "", line);
        }
        return b->packages ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

static int find_recipe(struct build *b, const char *name, gb_error *err)
{
        const char *directory = arguments_get(b->arguments, OPT_DIRECTORY);
        char own[IMAGE_STORE_NAME_MAX];
        struct stat st;

        int r = image_check_name(name, own, err);
        if (r < 0)
                return r;
        own[strcspn(own, ":")] = '\0';
        r = directory ? (b->recipe = strdup(directory)) ? 0 : -ENOMEM : path_recipe(own, &b->recipe);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "out of memory");
        if (stat(b->recipe, &st) < 0 || !S_ISDIR(st.st_mode))
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is nothing to build %s from: %s is no directory; glovebox-python and glovebox-python-data are there, "
                                 "--directory names others", own, quote(b->recipe).text);
        return 0;
}

/* ---- mmdebstrap ---- */

static bool is_in_path(const char *name)
{
        const char *path = getenv("PATH");
        char file[HOST_PATH_MAX];

        for (path = path ? path : "/usr/sbin:/usr/bin:/sbin:/bin"; *path; path += *path == ':') {
                size_t n = strcspn(path, ":");
                if (n > 0 && snprintf(file, sizeof(file), "%.*s/%s", (int)n, path, name) < (int)sizeof(file) && access(file, X_OK) == 0)
                        return true;
                path += n;
        }
        return false;
}

/* Whether a file of lines "name:..." has one for this user. *name: his, from /etc/passwd; getpwuid() is nothing for a static program. */
static bool has_line(const char *file, const char *name, bool by_id, char *ret_name, size_t size)
{
        FILE *f = fopen(file, "re");
        char line[512], number[16];
        bool found = false;

        snprintf(number, sizeof(number), "%u", (unsigned)geteuid());
        while (f && !found && fgets(line, sizeof(line), f)) {
                char *rest = line, *first = strsep(&rest, ":\n"), *second = strsep(&rest, ":\n"), *third = strsep(&rest, ":\n");
                found = by_id ? second && third && strcmp(third, number) == 0 : strcmp(first, number) == 0 || (*name && strcmp(first, name) == 0);
                if (found && ret_name)
                        snprintf(ret_name, size, "%s", first);
        }
        if (f)
                fclose(f);
        return found;
}

/* It needs a range of ids for the files that are not root's. */
static bool has_subordinate_ids(void)
{
        char name[64] = "";

        (void)has_line("/etc/passwd", "", true, name, sizeof(name));
        return has_line("/etc/subuid", name, false, NULL, 0) && has_line("/etc/subgid", name, false, NULL, 0);
}

static int check_tools(gb_error *err)
{
        if (!is_in_path(PROGRAM))
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "an image for native runs is built by " PROGRAM ", which is not there: apt install " PROGRAM
                                 "; or import one: glovebox image import FILE NAME");
        if (geteuid() != 0 && (!is_in_path("newuidmap") || !has_subordinate_ids()))
                return error_set(err, GB_E_UNAVAILABLE, EPERM, "an ordinary user needs newuidmap (apt install uidmap) and a range of ids in /etc/subuid and /etc/subgid "
                                 "to build an image (usermod --add-subuids 100000-165535 --add-subgids 100000-165535 USER); or import one");
        return 0;
}

struct argv {
        char *words[ARGV_MAX]; /* owned */
        size_t n;
        bool failed;
};

static void argv_done(struct argv *v)
{
        for (size_t i = 0; i < v->n; i++)
                free(v->words[i]);
}

static void _printf_(2, 3) add(struct argv *v, const char *format, ...)
{
        va_list list;

        va_start(list, format);
        if (v->n + 1 >= ARGV_MAX || vasprintf(&v->words[v->n], format, list) < 0)
                v->failed = true;
        else
                v->n++;
        va_end(list);
}

/* The user that code runs as, and the places it knows. */
static const char prepare[] = "grep -q ^sandbox: \"$1\"/etc/passwd || { echo 'sandbox:x:1000:1000::/sandbox:/bin/sh' >>\"$1\"/etc/passwd; "
                              "echo 'sandbox:x:1000:' >>\"$1\"/etc/group; }; "
                              "install -d -m 755 -o 1000 -g 1000 \"$1\"/sandbox \"$1\"/workspace; install -d -m 1777 \"$1\"/tmp/sandbox; "
                              "rm -rf \"$1\"/var/lib/apt/lists/* \"$1\"/var/log/*.log \"$1\"/var/log/apt";

static void make_argv(const struct build *b, struct argv *v)
{
        static const char *const left_out[] = {"/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*", "/usr/share/lintian/*"};
        bool root = geteuid() == 0;

        if (root)
                for (size_t i = 0; i < 4; i++)
                        add(v, "%s", (const char *const[]){"unshare", "--mount", "--propagation", "private"}[i]);
        add(v, PROGRAM);
        add(v, "--mode=%s", root ? "root" : "unshare");
        add(v, "--variant=essential");
        add(v, "--format=tar");
        add(v, "--skip=essential/unlink");
        if (b->packages[0])
                add(v, "--include=%s", b->packages);
        add(v, "--dpkgopt=force-unsafe-io"); /* it is all synced at the end */
        add(v, "--aptopt=APT::Install-Recommends \"false\"");
        for (size_t i = 0; i < ARRAY_SIZE(left_out); i++)
                add(v, "--dpkgopt=path-exclude=%s", left_out[i]);
        add(v, "--setup-hook=mkdir -p \"$1\"/var/cache/apt/archives/");
        add(v, "--setup-hook=sync-in '%s' /var/cache/apt/archives/", b->cache);
        add(v, "--essential-hook=sync-out /var/cache/apt/archives '%s'", b->cache);
        add(v, "--customize-hook=sync-out /var/cache/apt/archives '%s'", b->cache);
        add(v, "--customize-hook=%s", prepare);
        if (arguments_has(b->arguments, OPT_QUIET))
                add(v, "--quiet");
        add(v, "%s", b->suite);
        add(v, "-");
        if (b->sources[0])
                add(v, "%s", b->sources);
}

/* After fork() in a process with one thread. */
static _noreturn_ void become(const struct build *b, char *const argv[], int out)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC);
        sigset_t none;

        setpgid(0, 0);
        sigemptyset(&none);
        sigprocmask(SIG_SETMASK, &none, NULL);
        signal(SIGPIPE, SIG_DFL);
        /* Whoever kills us is to have it killed as well. */
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        if (geteuid() == 0 && setenv("TMPDIR", b->work, 1) < 0)
                _exit(126);
        if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0 || (b->log >= 0 && dup2(b->log, STDERR_FILENO) < 0))
                _exit(126);
        execvp(argv[0], argv);
        _exit(127);
}

/* Its standard output is *ret. */
static int start(struct build *b, int *ret, gb_error *err)
{
        _cleanup_(argv_done) struct argv v = {0};
        int pair[2];

        make_argv(b, &v);
        if (v.failed)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (pipe2(pair, O_CLOEXEC) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a pipe: %s", strerror(errno));
        b->pid = fork();
        if (b->pid == 0)
                become(b, v.words, pair[1]);
        safe_close(pair[1]);
        *ret = pair[0];
        if (b->pid > 0)
                return 0;
        b->pid = 0;
        return error_set(err, GB_E_INTERNAL, errno, "cannot start " PROGRAM ": %s", strerror(errno));
}

/* What it said last that sounds like a reason. */
static int explain(const struct build *b, int status, gb_error *err)
{
        _cleanup_free_ char *text = NULL;
        const char *last = NULL;
        char *state = NULL;
        size_t size;

        if (b->log >= 0 && lseek(b->log, 0, SEEK_SET) == 0 && fd_read_all(b->log, LOG_BYTES_MAX, &text, &size) == 0)
                for (char *line = strtok_r(text, "\n", &state); line; line = strtok_r(NULL, "\n", &state))
                        if (!last || strncmp(line, "E:", 2) == 0 || strncmp(last, "E:", 2) != 0)
                                last = strncmp(line, "I:", 2) == 0 ? last : line;
        return error_set(err, GB_E_UNAVAILABLE, EIO,
                         PROGRAM " failed (%s %d)%s%s; what was fetched is kept for the next try",
                         WIFEXITED(status) ? "status" : "signal",
                         WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status), last ? ": " : "",
                         last ? quote(last).text : "");
}

/* Whether it has closed its output by itself, which it may be about to do. */
static bool has_ended(int pipe)
{
        uint64_t end = monotonic_usec() + LAST_WORDS_USEC;
        char rest[4096];
        ssize_t n = 1;

        while (n > 0 && monotonic_usec() < end) {
                struct pollfd p = {pipe, POLLIN, 0};
                n = poll(&p, 1, (int)(LAST_WORDS_USEC / 1000)) > 0 ? read(pipe, rest, sizeof(rest)) : -1;
        }
        return n == 0;
}

/* Waits for its end: true with its status. It has closed its output, or we have; either ends it. -ECANCELED. */
static int wait_for(struct build *b, int msec, int *ret_status)
{
        struct pollfd p = {b->cancel_fd, POLLIN, 0};

        for (int waited = 0; waited < msec; waited += 20) {
                pid_t pid = waitpid(b->pid, ret_status, WNOHANG);
                if (pid == b->pid || (pid < 0 && errno != EINTR)) {
                        b->pid = 0; /* somebody else may have reaped it: then nobody knows how it ended */
                        return pid > 0;
                }
                if (poll(&p, 1, 20) > 0)
                        return -ECANCELED;
        }
        return false;
}

/* The end of it: 0 when all went well. r: what reading its archive came to; ended: before that was known. An archive is
 * good only when its maker is seen to have ended well. */
static int finish(struct build *b, int r, bool ended, gb_error *err)
{
        int status = 0;

        int seen = r == -ECANCELED ? r : wait_for(b, r == 0 ? END_MSEC : STOP_MSEC, &status);
        stop(b, false);
        if (seen == -ECANCELED)
                return r < 0 ? r : seen;
        if (seen && ended && status != 0)
                return explain(b, status, err);
        if (!seen && r == 0)
                return error_set(err, GB_E_LOST, ECHILD,
                                 "how " PROGRAM " ended was not seen, so the image may not be whole: build it again");
        return r;
}

/* ---- what was fetched ---- */

static void save_from(int archives, int cache)
{
        int copy = fcntl(archives, F_DUPFD_CLOEXEC, 3);
        DIR *dir = copy < 0 ? NULL : fdopendir(copy);
        struct stat st;

        if (!dir) {
                safe_close(copy);
                return;
        }
        for (struct dirent *e; (e = readdir(dir));) {
                size_t n = strlen(e->d_name);
                if (n > 4 && strcmp(e->d_name + n - 4, ".deb") == 0 && fstatat(archives, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
                        (void)renameat(archives, e->d_name, cache, e->d_name);
        }
        closedir(dir);
}

/* Whole packages that lie in the root it was working on. Those under way are in a directory of their own. */
static void save_fetched(const struct build *b)
{
        _cleanup_close_ int cache = open(b->cache, O_RDONLY | O_DIRECTORY | O_CLOEXEC), work = open(b->work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        int copy = work < 0 ? -1 : fcntl(work, F_DUPFD_CLOEXEC, 3);
        DIR *dir = copy < 0 || cache < 0 ? NULL : fdopendir(copy);
        char path[NAME_MAX + 64];

        if (!dir) {
                safe_close(copy);
                return;
        }
        for (struct dirent *e; (e = readdir(dir));) {
                if (e->d_name[0] == '.')
                        continue;
                snprintf(path, sizeof(path), "%s/var/cache/apt/archives", e->d_name);
                _cleanup_close_ int archives = openat(work, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
                if (archives >= 0)
                        save_from(archives, cache);
        }
        closedir(dir);
}

/* ---- all of it ---- */

static int prepare_build(struct build *b, const char *name, const char *tag, gb_error *err)
{
        _cleanup_free_ char *draft = NULL;

        int r = check_tools(err);
        if (r == 0)
                r = read_packages(b, err);
        int checked = r == 0 ? read_file(b->recipe, "check.py", &b->check) : 0;
        if (checked < 0 && checked != -ENOENT) /* without one the image is not tried */
                r = error_set(err, GB_E_NOT_FOUND, -checked, "cannot read check.py of %s: %s", quote(b->recipe).text,
                              strerror(-checked));
        if (r == 0)
                r = image_apt_sources(arguments_get(b->arguments, OPT_SUITE), &b->sources, &b->suite, err);
        if (r == 0 && !b->suite[0])
                r = error_set(err, GB_E_NOT_FOUND, ENOENT, "apt does not tell which release of Debian this host is: say it by --suite");
        if (r == 0)
                r = image_store_cache("apt", &b->cache, err);
        if (r == 0 && strchr(b->cache, '\''))
                r = error_set(err, GB_E_USAGE, EINVAL, "the path %s has an apostrophe in it: " PROGRAM " cannot be told of it", quote(b->cache).text);
        if (r == 0)
                r = image_draft_begin(tag ? tag : name, &b->draft, err);
        if (r == 0)
                r = image_draft_path(&b->draft, &draft, err);
        if (r < 0)
                return r;
        if (asprintf(&b->work, "%s/%s", draft, TEMPORARY) < 0 || mkdirat(b->draft.fd, TEMPORARY, 0755) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a directory: %s", strerror(errno));
        /* It draws its own progress where there is a terminal. */
        if (arguments_has(b->arguments, OPT_QUIET) || !isatty(STDERR_FILENO))
                b->log = openat(b->draft.fd, "log", O_RDWR | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0600);
        return 0;
}

static int try_image(struct build *b, json_t *about, gb_error *err)
{
        _cleanup_free_ char *draft = NULL, *root = NULL;

        if (!b->check)
                return 0;
        int r = image_draft_path(&b->draft, &draft, err);
        if (r < 0)
                return r;
        if (asprintf(&root, "%s/rootfs", draft) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        r = image_check(b->policy, root, b->check, b->cancel_fd, err);
        if (r < 0 && err->code == GB_E_UNENFORCEABLE) {
                message_print(MESSAGE_WARNING, "the image is not tried, since no box can be made here: %s", err->message);
                return 0;
        }
        if (r == 0)
                json_object_set_new(about, "verified", json_true());
        return r;
}

static int build_native(struct build *b, const char *name, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *about = NULL;
        _cleanup_close_ int pipe = -1;

        int r = prepare_build(b, name, arguments_get(b->arguments, OPT_TAG), err);
        if (r == 0)
                r = start(b, &pipe, err);
        if (r < 0)
                return r;
        r = image_import(&(struct image_import){.fd = pipe, .plain = true, .cancel_fd = b->cancel_fd, .progress = b->log < 0 ? NULL : image_progress, .data = &b->progress},
                         &b->draft, &about, err);
        progress_done(&b->progress);
        if (r < 0)
                save_fetched(b); /* before it takes them away itself */
        bool ended = r == 0 || (r != -ECANCELED && has_ended(pipe));
        pipe = safe_close(pipe);
        r = finish(b, r, ended, err);
        if (r < 0)
                return r;
        json_object_set_new(about, "kind", json_string("build"));
        json_object_set_new(about, "source", json_sprintf("build of %s, %s", arguments_has(b->arguments, OPT_DIRECTORY) ? quote_path(b->recipe).text : name, b->suite));
        r = try_image(b, about, err);
        if (r == 0)
                r = image_draft_clear(&b->draft, err);
        if (r == 0)
                r = image_draft_commit(&b->draft, about, err);
        if (r < 0)
                return r;
        json_object_set_new(about, "name", json_string(b->draft.name));
        *ret = TAKE_PTR(about);
        return 0;
}

/* The name by which an engine knows it: any, if it was asked for. */
static int build_by_engine(struct build *b, const char *name, json_t **ret, gb_error *err)
{
        const char *tag = arguments_get(b->arguments, OPT_TAG);

        return image_engine_build(b->arguments, b->recipe, tag ? tag : name, b->cancel_fd, ret, err);
}

/* What would have no effect is refused. */
static int check_flags(const struct arguments *a, enum backend_kind backend, gb_error *err)
{
        static const struct {
                enum option_id id;
                const char *flag;
                enum backend_kind backend;
        } rows[] = {{OPT_BASE, "--base", BACKEND_DOCKER}, {OPT_NETWORK, "--network", BACKEND_DOCKER}, {OPT_SUITE, "--suite", BACKEND_NATIVE}};

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (arguments_has(a, rows[i].id) && rows[i].backend != backend)
                        return error_set(err, GB_E_USAGE, EINVAL, "%s is for the backend %s, and this is a build for %s%s", rows[i].flag, backend_kind_name(rows[i].backend),
                                         backend_kind_name(backend), backend == BACKEND_NATIVE ? "; --backend docker builds by an engine" : "");
        return 0;
}

int command_image_build(const struct command *command, const struct arguments *arguments)
{
        _cleanup_(build_done) struct build b = {.arguments = arguments, .cancel_fd = -1, .log = -1, .draft = IMAGE_DRAFT_NONE};
        _cleanup_policy_ struct policy *policy = NULL;
        _cleanup_json_ json_t *about = NULL;
        gb_error err = {0};

        int r = arguments->n_words == 1 ? 0 : error_set(&err, GB_E_USAGE, 0, "give what is to be built: glovebox-python or glovebox-python-data");
        if (r == 0)
                r = settings_policy(&command->options, arguments, &policy, &err);
        if (r == 0)
                r = check_flags(arguments, policy->backend, &err);
        if (r == 0)
                r = find_recipe(&b, arguments->words[0], &err);
        if (r < 0)
                return command_fail(arguments, &err);
        _cleanup_close_ int cancel_fd = signals_start();
        umask(022); /* what is made is for programs in it, not for the caller alone; the store is closed to others */
        b.policy = policy;
        b.cancel_fd = cancel_fd;
        progress_init(&b.progress, arguments);
        r = policy->backend == BACKEND_DOCKER ? build_by_engine(&b, arguments->words[0], &about, &err) : build_native(&b, arguments->words[0], &about, &err);
        return r < 0 ? image_fail(arguments, &err) : image_report(arguments, about);
}
