/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox guard scrub: a filter. What comes in goes out at once, but for what may become a secret; when nothing comes for a while, of that too what may be shown. */
#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "cli/command.h"
#include "cli/findings.h"
#include "cli/settings.h"
#include "guard/scrub.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PIECE_BYTES (64 << 10)
#define PAUSE_MSEC 50 /* without input: somebody waits for an answer */
#define STATUS_BROKEN_PIPE (128 + 13)

/* What is written in one piece. */
struct output {
        char bytes[PIECE_BYTES];
        size_t size;
};

struct filter {
        struct scrub *scrub;
        struct scrub_stream *stream;
        struct scrub_tally tally;
        struct output out;
        char in[PIECE_BYTES];
};

static void filter_free(struct filter *f)
{
        if (!f)
                return;
        scrub_stream_free(f->stream);
        scrub_tally_done(&f->tally);
        scrub_free(f->scrub);
        explicit_bzero(f, sizeof(*f));
        free(f);
}
DEFINE_CLEANUP(struct filter, filter_free)

static int flush(struct output *o)
{
        int r = fd_write_all(STDOUT_FILENO, o->bytes, o->size);

        o->size = 0;
        return r;
}

static int on_text(void *data, const void *bytes, size_t size)
{
        struct output *o = data;
        const char *from = bytes;

        while (size > 0) {
                size_t n = MIN(size, sizeof(o->bytes) - o->size);
                memcpy(o->bytes + o->size, from, n);
                o->size += n;
                from += n;
                size -= n;
                int r = o->size == sizeof(o->bytes) ? flush(o) : 0;
                if (r < 0)
                        return r;
        }
        return 0;
}

/* 1: something can be read, or it has ended; 0: not for a while. A file can always be read. */
static int wait_for_input(const struct filter *f, int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int n = poll(&p, 1, scrub_stream_holds(f->stream) ? PAUSE_MSEC : -1);

        return n < 0 ? (errno == EINTR ? 1 : -errno) : n > 0;
}

/* Until the end. *ret_reading: it was the input that failed. */
static int copy(struct filter *f, int fd, bool *ret_reading)
{
        for (;;) {
                *ret_reading = true;
                int r = wait_for_input(f, fd);
                ssize_t n = r > 0 ? read(fd, f->in, sizeof(f->in)) : 0;
                if (r < 0 || (n < 0 && errno != EINTR && errno != EAGAIN))
                        return r < 0 ? r : -errno;
                if (n < 0)
                        continue;
                *ret_reading = false;
                bool ended = r > 0 && n == 0;
                r = ended ? scrub_stream_end(f->stream) : r == 0 ? scrub_stream_pause(f->stream) : scrub_stream_write(f->stream, f->in, (size_t)n);
                if (r == 0)
                        r = flush(&f->out);
                if (r < 0 || ended)
                        return r;
        }
}

static int make_filter(const struct policy *p, struct filter *f, gb_error *err)
{
        struct scrub_secret secrets[SECRETS_MAX];
        const struct rules *rules;

        for (size_t i = 0; i < p->n_secrets; i++)
                secrets[i] = (struct scrub_secret){p->secrets[i].name, p->secrets[i].value, p->secrets[i].size};
        int r = rules_get(&rules, err);
        if (r == 0)
                r = scrub_new(rules, p->scrub == WATCH_STRICT ? SCRUB_STRICT : SCRUB_ON, secrets, p->n_secrets, &f->scrub, err);
        if (r == 0 && scrub_stream_new(f->scrub, on_text, &f->out, &f->tally, &f->stream) < 0)
                r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return r;
}

/* {"total": n, "names": {...}}, as in a result. */
static json_t *count(const struct filter *f)
{
        json_t *names = json_object();

        for (size_t i = 0; i < f->tally.n; i++)
                if (f->tally.counts[i] > 0)
                        json_object_set_new(names, scrub_name(f->scrub, i), json_integer((json_int_t)f->tally.counts[i]));
        return json_pack("{s:I, s:o}", "total", (json_int_t)f->tally.total, "names", names);
}

static void tell(const struct filter *f, const struct arguments *a)
{
        _cleanup_json_ json_t *counts = count(f);

        if (arguments_has(a, OPT_JSON)) {
                _cleanup_json_ json_t *whole = json_pack("{s:O}", "scrubbed", counts);
                _cleanup_sink_ struct sink s;
                sink_init(&s, STDERR_FILENO, false);
                sink_write_json(&s, whole, JSON_COMPACT);
                sink_finish(&s);
        } else if (!arguments_has(a, OPT_QUIET)) {
                findings_tell_scrubbed(counts, &(struct findings_view){0});
        }
}

static int read_policy(const struct option_set *set, const struct arguments *a, struct policy **ret, gb_error *err)
{
        int r = settings_policy(set, a, ret, err);

        for (size_t i = 0; r == 0 && i < a->n_uses; i++)
                if (a->uses[i].option.key && strcmp(a->uses[i].value, watch_mode_name(WATCH_OFF)) == 0)
                        r = error_set(err, GB_E_USAGE, EINVAL, "--scrub off: then nothing would be scrubbed; on or strict is wanted");
        return r;
}

static int open_input(const struct arguments *a, gb_error *err)
{
        const char *path = a->n_words > 0 ? a->words[0] : "-";
        int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3) : open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);

        return fd < 0 ? error_set(err, GB_E_NOT_FOUND, errno, "cannot read %s: %s", strcmp(path, "-") == 0 ? "standard input" : quote(path).text, strerror(errno)) : fd;
}

int command_guard_scrub(const struct command *command, const struct arguments *arguments)
{
        _cleanup_(filter_free_ptr) struct filter *f = calloc(1, sizeof(*f));
        _cleanup_policy_ struct policy *p = NULL;
        _cleanup_close_ int fd = -1;
        gb_error err = {.code = GB_E_INTERNAL, .message = "out of memory"};
        bool reading = false;

        if (!f || read_policy(&command->options, arguments, &p, &err) < 0 || (fd = open_input(arguments, &err)) < 0 || make_filter(p, f, &err) < 0)
                return command_fail(arguments, &err);
        signal(SIGPIPE, SIG_IGN);
        int r = copy(f, fd, &reading);
        if (r == -EPIPE && !reading)
                return STATUS_BROKEN_PIPE;
        if (r < 0) {
                error_set(&err, reading ? GB_E_USAGE : GB_E_INTERNAL, -r, "cannot %s: %s", reading ? "read the input" : "write to standard output", strerror(-r));
                return command_fail(arguments, &err);
        }
        tell(f, arguments);
        return 0;
}
