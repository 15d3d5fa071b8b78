/* SPDX-License-Identifier: Apache-2.0
 *
 * Standard error is shared with whoever started us, so it cannot be made non-blocking. A pipe or a terminal is opened a second time
 * for that, a socket (the journal of systemd is one) has a flag for each message, and a regular file never blocks for long.
 * A line is shorter than PIPE_BUF: it goes out whole or not at all. */
#include "server/log.h"

#include "base/fd.h"
#include "base/utf8.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* Of a message before it is cut: half a secret is not known for one. */
#define LOG_TEXT_MAX (4 * LOG_LINE_MAX)

static struct {
        int fd;
        bool json, socket, blocks;
        _Atomic uint64_t dropped, told; /* told: of those, what a line has said already */
        log_scrubber *scrubber;
        void *scrubber_data;
} sink = {.fd = STDERR_FILENO, .blocks = true};

static const char *const level_names[] = {[LOG_LEVEL_ERROR] = "error", [LOG_LEVEL_WARNING] = "warning", [LOG_LEVEL_INFO] = "info"};

void log_open(bool json)
{
        struct stat st;

        sink.json = json;
        if (fstat(STDERR_FILENO, &st) < 0)
                return;
        sink.socket = S_ISSOCK(st.st_mode);
        sink.blocks = !S_ISREG(st.st_mode) && !sink.socket;
        if (!sink.blocks)
                return;
        int fd = open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
        if (fd < 0)
                return;
        sink.fd = fd;
        sink.blocks = false;
}

void log_scrub_by(log_scrubber *scrubber, void *data)
{
        sink.scrubber = scrubber;
        sink.scrubber_data = data;
}

uint64_t log_dropped(void)
{
        return atomic_load(&sink.dropped);
}

static bool put(const char *line, size_t size)
{
        struct pollfd p = {.fd = sink.fd, .events = POLLOUT};
        ssize_t n;

        if (sink.socket)
                n = send(sink.fd, line, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        else if (sink.blocks && (poll(&p, 1, 0) != 1 || !(p.revents & POLLOUT)))
                n = -1;
        else
                n = write(sink.fd, line, size);
        return n == (ssize_t)size;
}

/* As a JSON string; what is not printable ASCII or whole UTF-8 is written out. */
static size_t add_json(char *to, size_t room, const char *text)
{
        size_t n = 0, size = strlen(text);
        uint32_t character;

        for (size_t i = 0; i < size && n + 7 < room;) {
                unsigned char c = (unsigned char)text[i];
                size_t length = utf8_decode(text + i, size - i, &character);

                if (c == '"' || c == '\\')
                        to[n++] = '\\', to[n++] = (char)c, i++;
                else if (c < ' ' || c == 0x7f || length == 0)
                        n += (size_t)snprintf(to + n, room - n, "\\u%04x", c), i++;
                else if (length > 0) {
                        memcpy(to + n, text + i, length);
                        n += length;
                        i += length;
                }
        }
        to[n] = '\0';
        return n;
}

/* What a terminal or a reader of lines could take for something else becomes \xNN. */
static size_t add_text(char *to, size_t room, const char *text)
{
        size_t n = 0;

        for (; *text && n + 5 < room; text++) {
                unsigned char c = (unsigned char)*text;
                if (c < ' ' || c == 0x7f)
                        n += (size_t)snprintf(to + n, room - n, "\\x%02x", c);
                else
                        to[n++] = (char)c;
        }
        to[n] = '\0';
        return n;
}

static void write_line(enum log_level level, const char *event, const char *message)
{
        char line[LOG_LINE_MAX * 3 + 256], when[40];
        struct timespec now;
        struct tm tm;
        size_t n;

        _Static_assert(sizeof(line) <= PIPE_BUF, "a line goes out whole or not at all");
        clock_gettime(CLOCK_REALTIME, &now);
        gmtime_r(&now.tv_sec, &tm);
        n = strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%S", &tm);
        snprintf(when + n, sizeof(when) - n, ".%06ldZ", now.tv_nsec / 1000);
        if (sink.json) {
                n = (size_t)snprintf(line, sizeof(line), "{\"time\":\"%s\",\"level\":\"%s\",\"event\":\"%s\",\"message\":\"", when, level_names[level], event);
                n += add_json(line + n, sizeof(line) - n - 4, message);
                n += (size_t)snprintf(line + n, sizeof(line) - n, "\"}\n");
        } else {
                n = (size_t)snprintf(line, sizeof(line), "%s %s %s: ", when, level_names[level], event);
                n += add_text(line + n, sizeof(line) - n - 2, message);
                n += (size_t)snprintf(line + n, sizeof(line) - n, "\n");
        }
        if (!put(line, n))
                atomic_fetch_add(&sink.dropped, 1);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
        char message[LOG_TEXT_MAX];
        int saved = errno;

        va_list ap;
        va_start(ap, format);
        vsnprintf(message, sizeof(message), format, ap);
        va_end(ap);
        if (sink.scrubber)
                sink.scrubber(sink.scrubber_data, message, sizeof(message));
        message[LOG_LINE_MAX - 1] = '\0';
        uint64_t dropped = atomic_load(&sink.dropped), told = atomic_load(&sink.told);
        if (dropped > told && atomic_compare_exchange_strong(&sink.told, &told, dropped)) {
                char lost[64];
                snprintf(lost, sizeof(lost), "%" PRIu64 " lines before this one were lost", dropped - told);
                write_line(LOG_LEVEL_WARNING, "log", lost);
        }
        write_line(level, event, message);
        errno = saved;
}
