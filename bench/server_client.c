/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients of `glovebox serve`, timed, for server.py: one thread, many connections, each with one request after the
 * other. It takes orders as lines on standard input and answers each with one line of JSON.
 *
 *   server_client unix:PATH | HOST:PORT [TOKEN]
 *
 *   load CLIENTS MSEC EXPECTED METHOD PATH [BODY]
 *                       every client sends that for so long, and each answer must be 2xx and contain EXPECTED
 *   idle COUNT          opens connections more and keeps them, silent
 *   drop                closes those
 *
 * In PATH a "@" stands for the client's own id, of those given by
 *
 *   ids ID ID ...       which go round
 *
 * Times are in nanoseconds, from the first byte that is sent to the last that is received. */
#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define CLIENTS_MAX 1024
#define IDLE_MAX 20000
#define IDS_MAX 4096
#define SAMPLES_MAX 4000000
#define REQUEST_MAX 65536
#define ANSWER_MAX (1 << 20)

struct client {
        int fd;
        char *request;
        size_t request_size, sent;
        char *answer;
        size_t received, wanted; /* wanted: of the whole answer; 0: not known yet */
        uint64_t began;
        bool busy;
};

static const char *address, *token;
static char ids[IDS_MAX][40];
static unsigned n_ids;
static int idle[IDLE_MAX];
static unsigned n_idle;
static struct client clients[CLIENTS_MAX];
static uint64_t *samples;
static size_t n_samples;
static uint64_t n_errors;
static char first_error[512];

static __attribute__((format(printf, 1, 2), noreturn)) void die(const char *format, ...)
{
        va_list args;

        va_start(args, format);
        fputs("server_client: ", stderr);
        vfprintf(stderr, format, args);
        fputc('\n', stderr);
        va_end(args);
        exit(1);
}

static uint64_t now_nsec(void)
{
        struct timespec t;

        clock_gettime(CLOCK_MONOTONIC, &t);
        return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int dial_unix(const char *path)
{
        struct sockaddr_un a = {.sun_family = AF_UNIX};
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

        snprintf(a.sun_path, sizeof(a.sun_path), "%s", path);
        if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
                die("cannot connect to %s: %s", path, strerror(errno));
        return fd;
}

static int dial_tcp(const char *text)
{
        char host[64];
        const char *colon = strrchr(text, ':');
        struct sockaddr_in a = {.sin_family = AF_INET};
        int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        if (!colon || (size_t)(colon - text) >= sizeof(host))
                die("not HOST:PORT: %s", text);
        snprintf(host, sizeof(host), "%.*s", (int)(colon - text), text);
        a.sin_port = htons((uint16_t)atoi(colon + 1));
        if (inet_pton(AF_INET, host, &a.sin_addr) != 1)
                die("not an address: %s", host);
        if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0)
                die("cannot connect to %s: %s", text, strerror(errno));
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        return fd;
}

static int dial(void)
{
        return strncmp(address, "unix:", 5) == 0 ? dial_unix(address + 5) : dial_tcp(address);
}

static void write_request(struct client *c, unsigned place, const char *method, const char *path, const char *body)
{
        char whole[1024];
        const char *at = strchr(path, '@');

        if (at && n_ids == 0)
                die("no ids");
        snprintf(whole, sizeof(whole), "%.*s%s%s", at ? (int)(at - path) : (int)strlen(path), path, at ? ids[place % n_ids] : "", at ? at + 1 : "");
        if (!c->request)
                c->request = malloc(REQUEST_MAX);
        if (!c->answer)
                c->answer = malloc(ANSWER_MAX + 1);
        if (!c->request || !c->answer)
                die("out of memory");
        int n = snprintf(c->request, REQUEST_MAX, "%s %s HTTP/1.1\r\nHost: localhost\r\n%s%s%sContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                         method, whole, token ? "Authorization: Bearer " : "", token ? token : "", token ? "\r\n" : "", strlen(body), body);
        if (n < 0 || n >= REQUEST_MAX)
                die("the request is too long");
        c->request_size = (size_t)n;
}

static void send_some(struct client *c)
{
        while (c->sent < c->request_size) {
                ssize_t n = send(c->fd, c->request + c->sent, c->request_size - c->sent, MSG_NOSIGNAL | MSG_DONTWAIT);
                if (n < 0 && errno == EAGAIN)
                        return; /* requests are small: the next event will do */
                if (n < 0)
                        die("cannot send: %s", strerror(errno));
                c->sent += (size_t)n;
        }
}

static void begin(struct client *c)
{
        c->sent = c->received = c->wanted = 0;
        c->busy = true;
        c->began = now_nsec();
        send_some(c);
}

/* Where the head ends and how long the body is: our server gives a Content-Length for everything that is no stream. */
static void measure(struct client *c)
{
        c->answer[c->received] = '\0';
        const char *end = strstr(c->answer, "\r\n\r\n"), *length = strcasestr(c->answer, "\r\ncontent-length:");

        if (!end)
                return;
        if (!length || length > end)
                die("an answer without Content-Length: %.200s", c->answer);
        c->wanted = (size_t)(end + 4 - c->answer) + strtoul(length + 17, NULL, 10);
        if (c->wanted > ANSWER_MAX)
                die("an answer of %zu bytes", c->wanted);
}

static void check(const struct client *c, const char *expected)
{
        bool good = strncmp(c->answer, "HTTP/1.1 2", 10) == 0 && strstr(c->answer, expected);

        if (good)
                return;
        if (n_errors++ == 0)
                snprintf(first_error, sizeof(first_error), "%.*s", 400, c->answer);
}

/* Whether the answer is complete. */
static bool take(struct client *c, const char *expected)
{
        ssize_t n = recv(c->fd, c->answer + c->received, ANSWER_MAX - c->received, MSG_DONTWAIT);

        if (n < 0 && errno == EAGAIN)
                return false;
        if (n <= 0)
                die("the server has closed the connection");
        c->received += (size_t)n;
        if (c->wanted == 0)
                measure(c);
        if (c->wanted == 0 || c->received < c->wanted)
                return false;
        if (n_samples < SAMPLES_MAX)
                samples[n_samples++] = now_nsec() - c->began;
        c->answer[c->received] = '\0';
        check(c, expected);
        c->busy = false;
        return true;
}

static int compare(const void *a, const void *b)
{
        uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

        return x < y ? -1 : x > y;
}

static uint64_t quantile(double q)
{
        return n_samples == 0 ? 0 : samples[(size_t)((double)(n_samples - 1) * q)];
}

static void print_text(const char *text)
{
        putchar('"');
        for (; *text; text++)
                if (*text == '"' || *text == '\\')
                        printf("\\%c", *text);
                else
                        putchar((unsigned char)*text < ' ' ? ' ' : *text);
        putchar('"');
}

static void report(uint64_t nsec)
{
        qsort(samples, n_samples, sizeof(samples[0]), compare);
        printf("{\"requests\": %zu, \"errors\": %" PRIu64 ", \"nsec\": %" PRIu64 ", \"min\": %" PRIu64 ", \"p50\": %" PRIu64 ", \"p90\": %" PRIu64
               ", \"p99\": %" PRIu64 ", \"max\": %" PRIu64 ", \"error\": ",
               n_samples, n_errors, nsec, quantile(0), quantile(0.5), quantile(0.9), quantile(0.99), quantile(1));
        print_text(first_error);
        puts("}");
}

static void load(unsigned n, uint64_t msec, const char *expected, const char *method, const char *path, const char *body)
{
        struct epoll_event events[CLIENTS_MAX];
        int epoll = epoll_create1(EPOLL_CLOEXEC);
        unsigned busy = n;

        n_samples = n_errors = 0;
        first_error[0] = '\0';
        for (unsigned i = 0; i < n; i++) {
                clients[i].fd = dial();
                write_request(&clients[i], i, method, path, body);
                struct epoll_event e = {.events = EPOLLIN, .data.u32 = i};
                if (epoll_ctl(epoll, EPOLL_CTL_ADD, clients[i].fd, &e) < 0)
                        die("epoll_ctl: %s", strerror(errno));
        }
        uint64_t start = now_nsec(), end = start + msec * 1000000;
        for (unsigned i = 0; i < n; i++)
                begin(&clients[i]);
        while (busy > 0) {
                int ready = epoll_wait(epoll, events, CLIENTS_MAX, 60000);
                if (ready <= 0)
                        die("no answer within a minute");
                for (int i = 0; i < ready; i++) {
                        struct client *c = &clients[events[i].data.u32];
                        send_some(c);
                        if (!c->busy || !take(c, expected))
                                continue;
                        if (now_nsec() < end)
                                begin(c);
                        else
                                busy--;
                }
        }
        uint64_t took = now_nsec() - start;
        for (unsigned i = 0; i < n; i++)
                close(clients[i].fd);
        close(epoll);
        report(took);
}

static void take_ids(char *rest)
{
        n_ids = 0;
        for (char *id = strtok(rest, " "); id && n_ids < IDS_MAX; id = strtok(NULL, " "))
                snprintf(ids[n_ids++], sizeof(ids[0]), "%s", id);
        puts("{}");
}

static void hold_idle(unsigned n)
{
        uint64_t start = now_nsec();

        while (n-- > 0 && n_idle < IDLE_MAX)
                idle[n_idle++] = dial();
        printf("{\"idle\": %u, \"nsec\": %" PRIu64 "}\n", n_idle, now_nsec() - start);
}

static void drop_idle(void)
{
        while (n_idle > 0)
                close(idle[--n_idle]);
        puts("{}");
}

static void obey(char *line)
{
        char *order = strtok(line, " "), *rest = strtok(NULL, "");

        if (order && rest && strcmp(order, "load") == 0) {
                char *n = strtok(rest, " "), *msec = strtok(NULL, " "), *expected = strtok(NULL, " "), *method = strtok(NULL, " "), *path = strtok(NULL, " "),
                     *body = strtok(NULL, "");
                if (!path || atoi(n) < 1 || atoi(n) > CLIENTS_MAX)
                        die("load CLIENTS MSEC EXPECTED METHOD PATH [BODY]");
                load((unsigned)atoi(n), strtoul(msec, NULL, 10), expected, method, path, body ? body : "");
        } else if (order && rest && strcmp(order, "ids") == 0) {
                take_ids(rest);
        } else if (order && rest && strcmp(order, "idle") == 0) {
                hold_idle((unsigned)atoi(rest));
        } else if (order && strcmp(order, "drop") == 0) {
                drop_idle();
        } else {
                die("no such order: %s", order ? order : "");
        }
        fflush(stdout);
}

int main(int argc, char **argv)
{
        struct rlimit files;
        char *line = NULL;
        size_t size = 0;

        if (argc < 2)
                die("server_client unix:PATH | HOST:PORT [TOKEN]");
        address = argv[1];
        token = argc > 2 ? argv[2] : NULL;
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                setrlimit(RLIMIT_NOFILE, &files);
        }
        samples = calloc(SAMPLES_MAX, sizeof(samples[0]));
        if (!samples)
                die("out of memory");
        while (getline(&line, &size, stdin) > 0) {
                line[strcspn(line, "\n")] = '\0';
                obey(line);
        }
        free(line);
        free(samples);
        return 0;
}
