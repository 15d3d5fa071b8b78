/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/test_context_backend.h"

#include "base/fd.h"
#include "engine/frame.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define CONTROL_FD 20

struct fake_settings fake = {.workspace_fd = -1};

/* ---- in the child ---- */

static volatile sig_atomic_t interrupted;
static int stdin_fd = -1;
static char input[4096];
static size_t n_input;

static void on_interrupt(int sig)
{
        interrupted = 1;
}

static void put(const void *bytes, size_t size)
{
        if (fd_write_all(CONTROL_FD, bytes, size) < 0)
                _exit(0);
}

static void send_frame(char kind, unsigned long long seq, const char *payload, size_t size)
{
        char header[FRAME_HEADER_MAX + 1];

        put(header, frame_write_header(header, kind, seq, size));
        put(payload, size);
}

static void send_done(unsigned long long seq, const char *status)
{
        char payload[64];

        send_frame('D', seq, payload, (size_t)snprintf(payload, sizeof(payload), "status %zu\n%s", strlen(status), status));
}

static void get(char *bytes, size_t size)
{
        while (size > 0) {
                char space[CMSG_SPACE(sizeof(int))];
                struct iovec iov = {bytes, size};
                struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1, .msg_control = space, .msg_controllen = sizeof(space)};
                ssize_t n = recvmsg(CONTROL_FD, &message, 0);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n <= 0)
                        _exit(0);
                struct cmsghdr *c = CMSG_FIRSTHDR(&message);
                if (c && c->cmsg_type == SCM_RIGHTS)
                        memcpy(&stdin_fd, CMSG_DATA(c), sizeof(int));
                bytes += n;
                size -= (size_t)n;
        }
}

static char read_frame(unsigned long long *seq, char **payload, size_t *size)
{
        char line[FRAME_HEADER_MAX + 1] = "", kind;
        size_t n = 0;

        do
                get(&line[n++], 1);
        while (line[n - 1] != '\n');
        sscanf(line, "%c %llu %zu", &kind, seq, size);
        *payload = calloc(1, *size + 1);
        get(*payload, *size);
        return kind;
}

/* "\n", "\0" and "%S" in text. All of it at once: what comes in the same breath is read in the same. */
static void put_raw(const char *text, unsigned long long seq)
{
        char bytes[4096];
        size_t n = 0;

        for (; *text && n + 24 < sizeof(bytes); text++) {
                if (text[0] == '\\' && (text[1] == 'n' || text[1] == '0'))
                        bytes[n++] = *++text == 'n' ? '\n' : '\0';
                else if (text[0] == '%' && text[1] == 'S')
                        text++, n += (size_t)snprintf(bytes + n, 24, "%llu", seq);
                else
                        bytes[n++] = *text;
        }
        put(bytes, n);
}

static void flood(const char *what, unsigned long long seq)
{
        static char block[65536];

        memset(block, 'x', sizeof(block));
        for (;;) {
                if (interrupted)
                        return;
                if (strcmp(what, "out") == 0 && write(1, block, sizeof(block)) < 0 && errno != EINTR)
                        _exit(9);
                if (strcmp(what, "garbage") == 0)
                        put(block, sizeof(block));
                if (strcmp(what, "stale") == 0)
                        send_frame('P', seq - 1, block, 0);
                if (strcmp(what, "frames") == 0)
                        send_frame('P', seq, block, 0);
                if (strcmp(what, "results") == 0) {
                        memcpy(block, "text/plain 65519\n", 17);
                        send_frame('P', seq, block, 17 + 65519);
                }
        }
}

static void send_big(size_t size, unsigned long long seq)
{
        char *payload = malloc(size + 64);
        int n = snprintf(payload, 64, "text/plain %zu\n", size);

        memset(payload + n, 'b', size);
        send_frame('P', seq, payload, (size_t)n + size);
        free(payload);
}

static void show_stdin(void)
{
        char text[4096];
        ssize_t n;

        if (n_input > 0)
                (void)!write(1, input, n_input);
        while (stdin_fd >= 0 && (n = read(stdin_fd, text, sizeof(text))) > 0)
                (void)!write(1, text, (size_t)n);
        if (stdin_fd < 0 && n_input == 0)
                (void)!write(1, "empty", 5);
}

/* Two megabytes, which the host can see. */
static void fill_file(const char *path)
{
        static char block[2 * MIB];
        int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);

        if (fd < 0 || fd_write_all(fd, block, sizeof(block)) < 0)
                _exit(8);
        close(fd);
}

static void leave_child(unsigned long long seq)
{
        if (fork() > 0)
                return;
        usleep(50000);
        send_done(seq + 1, "ok");
        _exit(0);
}

/* One line; false when the script has to end without D. */
static bool do_line(char *line, unsigned long long seq)
{
        static char nothing[1];
        char *word = strsep(&line, " "), *rest = line ? line : nothing;

        if (strcmp(word, "raw") == 0)
                put_raw(rest, seq);
        else if (strcmp(word, "out") == 0 || strcmp(word, "err") == 0)
                (void)!write(word[0] == 'o' ? 1 : 2, rest, strlen(rest));
        else if (strcmp(word, "done") == 0)
                send_done(seq, rest);
        else if (strcmp(word, "sleep") == 0) {
                struct timespec t = {.tv_sec = atoi(rest) / 1000, .tv_nsec = atoi(rest) % 1000 * 1000000L};
                while (!interrupted && nanosleep(&t, &t) < 0)
                        ;
        } else if (strcmp(word, "deaf") == 0)
                signal(SIGINT, SIG_IGN);
        else if (strcmp(word, "close") == 0)
                close(CONTROL_FD);
        else if (strcmp(word, "flood") == 0)
                flood(rest, seq);
        else if (strcmp(word, "big") == 0)
                send_big(strtoul(rest, NULL, 10), seq);
        else if (strcmp(word, "stdin") == 0)
                show_stdin();
        else if (strcmp(word, "fill") == 0)
                fill_file(rest);
        else if (strcmp(word, "late") == 0)
                leave_child(seq);
        else if (strcmp(word, "exit") == 0)
                _exit(atoi(rest));
        else if (strcmp(word, "kill") == 0)
                kill(getpid(), atoi(rest));
        else if (strcmp(word, "spin") == 0)
                while (!interrupted)
                        ;
        else if (strcmp(word, "quiet") == 0)
                return false;
        return true;
}

static void run_script(char *code, unsigned long long seq)
{
        char *line;
        bool say_done = true;

        interrupted = 0;
        while (!interrupted && (line = strsep(&code, "\n")))
                if (*line && !do_line(line, seq))
                        say_done = false;
        if (say_done)
                send_done(seq, interrupted ? "interrupted" : "ok");
}

static void serve(void)
{
        unsigned long long seq;
        char *payload;
        size_t size;

        for (;;) {
                char kind = read_frame(&seq, &payload, &size);
                if (kind == 'I') {
                        n_input = MIN(size, sizeof(input));
                        memcpy(input, payload, n_input);
                } else if (kind == 'E') {
                        run_script(payload, seq);
                        n_input = 0;
                        stdin_fd = safe_close(stdin_fd);
                }
                free(payload);
        }
}

static void be_interpreter(void)
{
        struct sigaction action = {.sa_handler = on_interrupt};
        unsigned long long seq;
        char *payload;
        size_t size;

        sigaction(SIGINT, &action, NULL); /* no SA_RESTART: a sleep ends */
        signal(SIGPIPE, SIG_IGN);
        signal(SIGSEGV, SIG_DFL); /* the test's own */
        if (fake.greeting == GREET_PYTHON)
                execlp("python3", "python3", PYTHON_RUNNER, "20", (char *)NULL);
        if (read_frame(&seq, &payload, &size) != 'C' || !strstr(payload, "mode 7\ncontext"))
                _exit(77);
        if (fake.greeting == GREET_NEVER)
                pause();
        if (fake.greeting == GREET_AND_DIE)
                _exit(5);
        if (fake.greeting == GREET_WRONG)
                send_done(1, "ok");
        send_frame('Y', 0, "version 1\n1", strlen("version 1\n1"));
        if (fake.greeting == GREET_DEAF_READER)
                for (;;)
                        pause();
        serve();
}

static void be_program(const struct program_request *request)
{
        char text[4096];
        ssize_t n;

        if (strstr(request->code, "cat"))
                while ((n = read(0, text, sizeof(text))) > 0)
                        (void)!write(1, text, (size_t)n);
        else if (strstr(request->code, "say"))
                (void)!write(1, "said", 4);
        else if (strstr(request->code, "hang"))
                for (;;)
                        pause();
        else if (strstr(request->code, "flood"))
                for (;;)
                        if (write(1, text, sizeof(text)) < 0)
                                _exit(9);
        _exit(atoi(request->code));
}

/* ---- the backend ---- */

struct backend_session {
        int event_fd;
};

struct backend_program {
        pid_t pid;
        int pidfd, timer, epoll;
        bool ended, timed_out, asked;
};

static struct backend_session session = {-1};

static int fake_open(const struct session_request *request, struct controls *controls, struct backend_session **ret, gb_error *err)
{
        session.event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        for (int i = 0; i < CONTROL_COUNT; i++)
                controls->status[i].state = CONTROL_ENFORCED;
        *ret = &session;
        return 0;
}

void fake_end_session(void)
{
        uint64_t one = 1;

        (void)!write(session.event_fd, &one, sizeof(one));
}

static int fake_workspace(const struct backend_session *s)
{
        return fake.workspace_fd;
}

static int fake_files(struct backend_session *s, int *fd, uid_t *uid, gid_t *gid, gb_error *err)
{
        *fd = fake.workspace_fd;
        *uid = geteuid();
        *gid = getegid();
        return 0;
}

static int fake_usage(struct backend_session *s, struct box_usage *ret, gb_error *err)
{
        if (fake.usage_left > 0 && --fake.usage_left == 0) {
                fake.usage_left = 1;
                return error_set(err, GB_E_LOST, ENODEV, "the session is gone: its cgroups cannot be read");
        }
        if (fake.usage_grows)
                fake.usage.cpu_usec += 10000;
        *ret = fake.usage;
        return 0;
}

static int fake_session_event_fd(const struct backend_session *s)
{
        return s->event_fd;
}

static bool fake_session_free(struct backend_session *s)
{
        s->event_fd = safe_close(s->event_fd);
        return true;
}

static void become_child(const struct program_request *request, int control, const int out[2], const int err[2])
{
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setpgid(0, 0);
        if (request->stdin_fd >= 0)
                dup2(request->stdin_fd, 0);
        else
                dup2(open("/dev/null", O_RDONLY), 0);
        dup2(out[1], 1);
        dup2(err[1], 2);
        int high = fcntl(control, F_DUPFD, 100);
        dup2(high, CONTROL_FD);
        syscall(SYS_close_range, 3, CONTROL_FD - 1, 0);
        syscall(SYS_close_range, CONTROL_FD + 1, ~0U, 0);
        if (request->mode == PROGRAM_CONTEXT)
                be_interpreter();
        else
                be_program(request);
        _exit(127);
}

static int fake_start(struct backend_session *s, const struct program_request *request, struct backend_program **ret, struct program_io *io,
                      gb_error *err)
{
        struct backend_program *p = calloc(1, sizeof(*p));
        int control[2], out[2], error[2];

        socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, control);
        (void)!pipe2(out, O_CLOEXEC);
        (void)!pipe2(error, O_CLOEXEC);
        p->pid = fork();
        if (p->pid == 0)
                become_child(request, control[1], out, error);
        setpgid(p->pid, p->pid);
        safe_close(control[1]);
        safe_close(out[1]);
        safe_close(error[1]);
        *io = (struct program_io){control[0], out[0], error[0], timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)};
        if (request->mode == PROGRAM_ONCE)
                io->control = safe_close(io->control);
        else
                fd_set_nonblock(io->control);
        fd_set_nonblock(io->out);
        fd_set_nonblock(io->err);
        p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
        p->timer = fcntl(io->deadline, F_DUPFD_CLOEXEC, 3);
        p->epoll = epoll_create1(EPOLL_CLOEXEC);
        struct epoll_event event = {.events = EPOLLIN};
        epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->pidfd, &event);
        epoll_ctl(p->epoll, EPOLL_CTL_ADD, p->timer, &event);
        fake.starts++;
        fake.warm = request->warm;
        *ret = p;
        return 0;
}

static int fake_event_fd(const struct backend_program *p)
{
        return p->epoll;
}

static int fake_next_event(struct backend_program *p, struct box_event *ret, gb_error *err)
{
        siginfo_t info = {0};
        uint64_t count;

        *ret = (struct box_event){.kind = BOX_EVENT_NONE};
        if (fake.lose)
                return error_set(err, GB_E_LOST, EPIPE, "the warden is gone");
        if (read(p->timer, &count, sizeof(count)) == sizeof(count)) {
                p->timed_out = true;
                kill(-p->pid, SIGKILL);
        }
        if (p->ended || waitid(P_PID, (id_t)p->pid, &info, WEXITED | WNOHANG) < 0 || info.si_pid == 0)
                return 0;
        p->ended = true;
        if (fake.lose_after_exit)
                return error_set(err, GB_E_LOST, EPIPE, "the warden is gone");
        ret->kind = BOX_EVENT_ENDED;
        ret->end.ending = ending_from_wait(&info);
        ret->end.stop = p->timed_out ? BOX_STOP_TIMEOUT
                        : p->asked && ending_may_be_kill(&ret->end.ending) ? BOX_STOP_ASKED : fake.stop_on_exit;
        ret->end.wall_usec = 1000;
        return 0;
}

static void fake_signal(struct backend_program *p, int sig)
{
        if (!p->ended)
                kill(-p->pid, sig);
}

static void fake_stop(struct backend_program *p)
{
        p->asked = true;
        if (!p->ended)
                kill(-p->pid, SIGKILL);
}

static void fake_free(struct backend_program *p)
{
        kill(-p->pid, SIGKILL);
        if (!p->ended)
                waitpid(p->pid, NULL, 0);
        safe_close(p->pidfd);
        safe_close(p->timer);
        safe_close(p->epoll);
        free(p);
        fake.frees++;
}

const struct backend fake_backend = {
        .name = "fake",
        .session_open = fake_open,
        .session_workspace = fake_workspace,
        .session_files = fake_files,
        .session_usage = fake_usage,
        .session_event_fd = fake_session_event_fd,
        .session_free = fake_session_free,
        .program_start = fake_start,
        .program_event_fd = fake_event_fd,
        .program_next_event = fake_next_event,
        .program_signal = fake_signal,
        .program_stop = fake_stop,
        .program_free = fake_free,
};
