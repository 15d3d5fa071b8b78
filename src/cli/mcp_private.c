/* SPDX-License-Identifier: Apache-2.0
 *
 * Theory of operation. Three processes:
 *
 *   we ---- hold: a pipe whose write end only we have ----> the server (--parent-fd)
 *      <--- life: a pipe whose write end only the keeper has
 *      <--- log: the server's standard error
 *   keeper: our child, the server's parent; a session of its own, as Ctrl-C at a terminal is for us. It waits for the server and removes the directory.
 *
 * However we end, the pipe `hold` closes, so the server ends with all its boxes, and the keeper leaves nothing of it. When the keeper is killed the server
 * goes on until we end it, and we remove the directory ourselves. */
#include "cli/mcp_private.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/quote.h"
#include "cli/output.h"
#include "cli/secrets.h"
#include "client/client.h"
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROGRAM "glovebox-server"
#define NAME "glovebox-mcp-XXXXXX"
#define SOCKET_NAME "api.sock"
#define START_USEC 60000000ULL
#define ANSWER_USEC 1000000ULL
#define LOOK_MSEC 4         /* between two looks whether it is ready */
#define LOG_LINE_BYTES 8192 /* longer ones are cut */
#define WORDS_MAX (32 + 2 * TEMPLATES_MAX)

/* The descriptors of the keeper; the server has the first four. */
enum { FD_PARENT = 3, FD_LIFE = 4, FD_FIRST_FREE = 5, FD_APART = 16 };

void private_init(struct private_server *p, bool verbose)
{
        *p = (struct private_server){.hold = -1, .life = -1, .log = -1, .verbose = verbose};
        buffer_init(&p->line, LOG_LINE_BYTES);
}

/* ---- its directory ---- */

static int make_directory(struct private_server *p, gb_error *err)
{
        const char *const places[] = {getenv("TMPDIR"), "/tmp"};

        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                char path[PRIVATE_PATH_MAX];
                if (!places[i] || places[i][0] != '/' || snprintf(path, sizeof(path), "%s/" NAME "/" SOCKET_NAME, places[i]) >= (int)sizeof(path))
                        continue;
                snprintf(p->directory, sizeof(p->directory), "%.*s", (int)(strlen(path) - strlen("/" SOCKET_NAME)), path);
                if (mkdtemp(p->directory)) {
                        snprintf(p->socket, sizeof(p->socket), "%.*s/" SOCKET_NAME, (int)(sizeof(p->socket) - sizeof("/" SOCKET_NAME)), p->directory);
                        return 0;
                }
                p->directory[0] = '\0';
        }
        return error_set(err, GB_E_INTERNAL, errno, "cannot make a directory for the private server in $TMPDIR or /tmp: %s", strerror(errno));
}

static void remove_directory(const char *directory)
{
        char above[PRIVATE_PATH_MAX];
        const char *slash = strrchr(directory, '/');

        if (!slash)
                return;
        snprintf(above, sizeof(above), "%.*s", slash == directory ? 1 : (int)(slash - directory), directory);
        _cleanup_close_ int fd = open(above, O_PATH | O_DIRECTORY | O_CLOEXEC);
        if (fd >= 0)
                (void)tree_remove(fd, slash + 1);
}

/* ---- its command line ---- */

struct words {
        char *rows[WORDS_MAX]; /* owned; NULL-terminated */
        size_t n;
        bool failed;
};

static void words_done(struct words *w)
{
        for (size_t i = 0; i < w->n; i++)
                free(w->rows[i]);
}

static void add(struct words *w, const char *before, const char *value)
{
        char *word = NULL;

        if (w->n + 1 >= ARRAY_SIZE(w->rows) || asprintf(&word, "%s%s", before, value) < 0) {
                w->failed = true;
                return;
        }
        w->rows[w->n++] = word;
}

/* It is this user's alone, and can do no more than he can: he may choose whatever there is. We are its only client. */
static const char *const choice[] = {"backends=native", "backends=docker", "runtimes=*", "images=*", "connections=1024"};

static void fill(struct words *w, const struct private_server *p, const struct arguments *a)
{
        add(w, PROGRAM, "");
        add(w, "serve", "");
        add(w, "--listen=unix:", p->socket);
        add(w, "--directory=", p->directory);
        add(w, "--parent-fd=", (const char[]){'0' + FD_PARENT, '\0'});
        for (size_t i = 0; i < ARRAY_SIZE(choice); i++)
                add(w, "--set=", choice[i]);
        for (size_t i = 0; i < a->n_uses; i++) {
                const struct option_use *use = &a->uses[i];
                if (use->option.id == OPT_WARM)
                        add(w, "--warm=", use->value);
                if (use->option.id != OPT_POLICY)
                        continue;
                /* The server is elsewhere when it reads it. */
                _cleanup_free_ char *cwd = use->value[0] == '/' ? NULL : getcwd(NULL, 0), *path = NULL;
                if (use->value[0] == '/' || !cwd)
                        add(w, "--policy=", use->value);
                else if (asprintf(&path, "%s/%s", cwd, use->value) < 0)
                        w->failed = true;
                else
                        add(w, "--policy=", path);
        }
}

/* ---- the keeper ---- */

struct pipes {
        int hold[2], life[2], log[2]; /* read end, write end */
};

static void pipes_done(struct pipes *s)
{
        for (int i = 0; i < 2; i++) {
                s->hold[i] = safe_close(s->hold[i]);
                s->life[i] = safe_close(s->life[i]);
                s->log[i] = safe_close(s->log[i]);
        }
}

static int pipes_open(struct pipes *s, gb_error *err)
{
        if (pipe2(s->hold, O_CLOEXEC) < 0 || pipe2(s->life, O_CLOEXEC) < 0 || pipe2(s->log, O_CLOEXEC) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a pipe: %s", strerror(errno));
        return fd_set_nonblock(s->log[0]) < 0 ? error_set(err, GB_E_INTERNAL, errno, "cannot prepare a pipe: %s", strerror(errno)) : 0;
}

static _noreturn_ void become_server(const char *program, char **words)
{
        static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                signal(numbers[i], SIG_DFL);
        execv(program, words);
        dprintf(STDERR_FILENO, "cannot start %s: %s; it belongs to the installation (GLOVEBOX_LIBEXEC_DIR says where that is)\n", program, strerror(errno));
        _exit(error_exit_status(GB_E_INTERNAL));
}

/* The descriptors that were handed down go to their places; everything else closes, above all what our client reads from us. */
static bool arrange(const struct pipes *s)
{
        int null = open("/dev/null", O_RDWR | O_CLOEXEC), parent = fcntl(s->hold[0], F_DUPFD_CLOEXEC, FD_APART), life = fcntl(s->life[1], F_DUPFD_CLOEXEC, FD_APART);

        return null >= 0 && parent >= 0 && life >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(s->log[1], STDOUT_FILENO) >= 0 && dup2(s->log[1], STDERR_FILENO) >= 0 &&
               dup3(life, FD_LIFE, O_CLOEXEC) >= 0 && dup2(parent, FD_PARENT) >= 0 && close_range(FD_FIRST_FREE, ~0U, 0) == 0;
}

static _noreturn_ void keep(const struct private_server *p, const struct pipes *s, const char *program, char **words)
{
        static const int numbers[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
        int status = PRIVATE_END_UNKNOWN;

        for (size_t i = 0; i < ARRAY_SIZE(numbers); i++)
                signal(numbers[i], SIG_IGN);
        secrets_forget();
        (void)setsid();
        pid_t pid = arrange(s) && chdir("/") == 0 ? fork() : -1;
        if (pid == 0)
                become_server(program, words);
        (void)close(FD_PARENT);
        if (pid < 0)
                dprintf(STDERR_FILENO, "cannot start a process: %s\n", strerror(errno));
        (void)dup2(STDIN_FILENO, STDOUT_FILENO);
        (void)dup2(STDIN_FILENO, STDERR_FILENO);
        while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
                ;
        remove_directory(p->directory);
        if (write(FD_LIFE, &status, sizeof(status)) < 0) {
                /* Nobody is there to read it. */
        }
        _exit(0);
}

/* ---- the log ---- */

/* "TIME LEVEL EVENT: MESSAGE" is what the server writes. */
static const char *find_message(const char *line, enum message_kind *ret_kind, bool *ret_is_info)
{
        static const struct {
                const char *level;
                enum message_kind kind;
        } rows[] = {{" error ", MESSAGE_ERROR}, {" warning ", MESSAGE_WARNING}, {" info ", MESSAGE_PLAIN}};
        size_t time = strcspn(line, " ");

        *ret_kind = MESSAGE_PLAIN;
        *ret_is_info = false;
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (strncmp(line + time, rows[i].level, strlen(rows[i].level)) == 0) {
                        const char *message = strstr(line, ": ");
                        *ret_kind = rows[i].kind;
                        *ret_is_info = rows[i].kind == MESSAGE_PLAIN;
                        return message ? message + 2 : line;
                }
        return line;
}

static void take_line(struct private_server *p, const char *line)
{
        enum message_kind kind;
        bool is_info;
        const char *message = find_message(line, &kind, &is_info);

        if (p->verbose)
                message_print(MESSAGE_PLAIN, "server: %s", line);
        else if (p->starting && kind != MESSAGE_WARNING && !is_info)
                snprintf(p->said, sizeof(p->said), "%s", message); /* the reason why it does not start, perhaps */
        else if (!is_info)
                message_print(kind, "server: %s", message);
}

void private_read_log(struct private_server *p)
{
        char piece[4096];
        ssize_t n;

        while (p->log >= 0 && (n = read(p->log, piece, sizeof(piece))) != 0) {
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return;
                for (ssize_t i = 0; i < n; i++) {
                        if (piece[i] != '\n') {
                                (void)buffer_add(&p->line, piece + i, 1); /* a line that is too long is cut */
                                continue;
                        }
                        if (p->line.size > 0)
                                take_line(p, p->line.data);
                        p->line.size = 0;
                }
        }
        p->log = safe_close(p->log);
}

/* ---- start and end ---- */

const char *private_end_text(const struct private_server *p, char *buf, size_t size)
{
        if (p->status == PRIVATE_END_UNKNOWN)
                snprintf(buf, size, "has ended, and how is not known");
        else if (WIFSIGNALED(p->status))
                snprintf(buf, size, "was killed by signal %d", WTERMSIG(p->status));
        else
                snprintf(buf, size, "ended with status %d", WEXITSTATUS(p->status));
        return buf;
}

/* Its exit statuses are ours. */
static gb_error_code code_of(int status)
{
#define ROW(code, text, exit_status, http_status) \
        if (status != PRIVATE_END_UNKNOWN && WIFEXITED(status) && (exit_status) > 0 && \
            WEXITSTATUS(status) == (exit_status)) \
                return code;
        GB_ERROR_CODES(ROW)
#undef ROW
        return GB_E_UNAVAILABLE;
}

static void close_all(struct private_server *p)
{
        private_read_log(p);
        p->hold = safe_close(p->hold);
        p->life = safe_close(p->life);
        p->log = safe_close(p->log);
        buffer_done(&p->line);
        if (p->directory[0])
                remove_directory(p->directory); /* when the keeper had no chance to */
        p->directory[0] = '\0';
        p->keeper = 0;
}

bool private_has_ended(struct private_server *p)
{
        struct pollfd life = {.fd = p->life, .events = POLLIN};

        if (p->keeper == 0)
                return true;
        if (poll(&life, 1, 0) <= 0)
                return false;
        if (read(p->life, &p->status, sizeof(p->status)) != (ssize_t)sizeof(p->status))
                p->status = PRIVATE_END_UNKNOWN; /* the keeper itself has ended: nobody has seen the server's end */
        while (waitpid(p->keeper, NULL, 0) < 0 && errno == EINTR)
                ;
        close_all(p);
        return true;
}

static bool is_ready(const struct client_address *address, int cancel_fd)
{
        static const struct client_request request = {.method = "GET", .target = "/readyz", .body_fd = -1};
        _cleanup_client_ struct client c;

        client_init(&c, address, NULL);
        return client_start(&c, &request, NULL) == 0 && client_wait(&c, CLIENT_HEAD, monotonic_usec() + ANSWER_USEC, cancel_fd, NULL) == 0 && c.response.status == 200;
}

/* Until it says that it is ready. */
static int wait_ready(struct private_server *p, int cancel_fd, gb_error *err)
{
        uint64_t until = monotonic_usec() + START_USEC;
        struct client_address address;
        char how[64];

        int r = client_address_unix(p->socket, &address);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "the path of the private server's socket: %s", strerror(-r));
        while (!is_ready(&address, cancel_fd)) {
                struct pollfd fds[] = {{.fd = cancel_fd, .events = POLLIN}, {.fd = p->life, .events = POLLIN}};
                (void)poll(fds, ARRAY_SIZE(fds), LOOK_MSEC);
                private_read_log(p);
                if (fds[0].revents)
                        return error_set(err, GB_E_UNAVAILABLE, ECANCELED, "interrupted while the private server started");
                if (private_has_ended(p))
                        return error_set(err, code_of(p->status), 0, "the private server %s%s%s", private_end_text(p, how, sizeof(how)), p->said[0] ? ": " : "", p->said);
                if (monotonic_usec() > until)
                        return error_set(err, GB_E_UNAVAILABLE, ETIMEDOUT, "the private server does not start%s%s", p->said[0] ? ": " : "", p->said);
        }
        return 0;
}

static int start_keeper(struct private_server *p, const struct arguments *a, gb_error *err)
{
        _cleanup_(pipes_done) struct pipes s = {{-1, -1}, {-1, -1}, {-1, -1}};
        _cleanup_(words_done) struct words w = {0};
        _cleanup_free_ char *program = NULL;

        fill(&w, p, a);
        if (w.failed || path_libexec(PROGRAM, &program) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = pipes_open(&s, err);
        if (r < 0)
                return r;
        pid_t pid = fork();
        if (pid < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot start a process: %s", strerror(errno));
        if (pid == 0)
                keep(p, &s, program, w.rows);
        p->keeper = pid;
        p->hold = TAKE_FD(s.hold[1]);
        p->life = TAKE_FD(s.life[0]);
        p->log = TAKE_FD(s.log[0]);
        return 0;
}

int private_start(struct private_server *p, const struct arguments *a, int cancel_fd, gb_error *err)
{
        p->said[0] = '\0';
        p->status = 0;
        p->starting = true;
        int r = make_directory(p, err);
        if (r == 0)
                r = start_keeper(p, a, err);
        if (r == 0)
                r = wait_ready(p, cancel_fd, err);
        p->starting = false;
        if (r < 0)
                private_stop(p, 0);
        else if (p->said[0])
                message_print(MESSAGE_WARNING, "server: %s", p->said);
        return r;
}

void private_stop(struct private_server *p, uint64_t deadline_usec)
{
        p->hold = safe_close(p->hold);
        while (!private_has_ended(p)) {
                struct pollfd life = {.fd = p->life, .events = POLLIN};
                uint64_t now = monotonic_usec();
                if (now >= deadline_usec) {
                        p->directory[0] = '\0'; /* it is in use still; the keeper removes it */
                        break;
                }
                (void)poll(&life, 1, (int)((deadline_usec - now) / 1000 + 1));
        }
        close_all(p);
}
