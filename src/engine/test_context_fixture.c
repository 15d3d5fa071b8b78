/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/test_context_fixture.h"

#include "base/fd.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct language python = {.name = (char *)"python", .file = (char *)"main.py", .context = (char *)"python"};
struct language bash = {.name = (char *)"bash", .file = (char *)"main.sh", .context = (char *)"bash"};
struct language plain_c = {.name = (char *)"c", .file = (char *)"main.c"};

struct policy *policy;
struct session *session;
struct context *context;

int open_all(void **state)
{
        static const char text[] = "timeout: 10s\noutput_limit: 64k\nresult_limit: 1m\nresult_count: 4\n";
        gb_error err = {0};

        fake = (struct fake_settings){.workspace_fd = -1};
        if (policy_parse("test.yaml", text, strlen(text), NULL, &policy, &err) < 0)
                fail_msg("%s", err.message);
        struct session_options options = {.backend = &fake_backend, .policy = policy, .uid = 1000, .gid = 1000};
        if (session_open(&options, &session, &err) < 0)
                fail_msg("%s", err.message);
        context = NULL;
        return 0;
}

int close_all(void **state)
{
        session_close(session);
        policy_free(policy);
        return fake.starts == fake.frees ? 0 : -1;
}

void open_context(const struct language *language)
{
        gb_error err = {0};

        if (context_open(session, language, &context, &err) < 0)
                fail_msg("%s", err.message);
}

static void note(struct seen *s, uint64_t t_usec, const char *format, ...) _printf_(3, 4);
static void note(struct seen *s, uint64_t t_usec, const char *format, ...)
{
        va_list ap;

        assert_true(t_usec >= s->last_usec);
        s->last_usec = t_usec;
        va_start(ap, format);
        int n = vsnprintf(s->text + s->n, sizeof(s->text) - s->n, format, ap);
        va_end(ap);
        s->n = MIN(s->n + (size_t)n, sizeof(s->text) - 1);
}

static void on_started(void *data, uint64_t t_usec)
{
        note(data, t_usec, "started;");
}

static void on_output(void *data, enum run_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        note(data, t_usec, "%s=%.*s;", stream == RUN_STDOUT ? "out" : "err", (int)MIN(size, (size_t)100), (const char *)bytes);
}

static void on_result(void *data, const struct result_value *value, uint64_t t_usec)
{
        note(data, t_usec, "%s", value->main ? "main" : "shown");
        for (size_t i = 0; i < value->n_parts; i++)
                note(data, t_usec, ":%s=%.20s", value->parts[i].mime, value->parts[i].bytes);
        note(data, t_usec, ";");
}

static void on_error(void *data, const struct result_error *error, uint64_t t_usec)
{
        note(data, t_usec, "error:%s:%s:%s;", error->name.bytes, error->value.bytes, error->traceback.bytes);
}

const struct session_callbacks seen_callbacks = {on_started, on_output, on_result, on_error, NULL};

struct context_request request_of(const char *code, struct seen *seen)
{
        return (struct context_request){
                .code = code, .code_size = strlen(code), .stdin_fd = -1, .cancel_fd = -1, .keep_output = true,
                .callbacks = {on_started, on_output, on_result, on_error, seen},
        };
}

struct result *run_request(const struct context_request *request)
{
        struct result *result = NULL;
        gb_error err = {0};

        memset(request->callbacks.data, 0, sizeof(struct seen));
        if (context_run(context, request, &result, &err) < 0)
                fail_msg("%s", err.message);
        return result;
}

struct result *run(const char *code)
{
        struct seen seen = {0};
        struct context_request request = request_of(code, &seen);

        return run_request(&request);
}

void expect(const char *code, enum verdict_kind kind, bool kept)
{
        _cleanup_result_ struct result *r = run(code);

        if (r->verdict.kind != kind || r->state_kept != kept)
                fail_msg("\"%s\": %s, state %s: %s", code, verdict_name(r->verdict.kind), r->state_kept ? "kept" : "lost", r->verdict.message);
}

int file_with(const char *text, size_t size)
{
        char name[] = "/tmp/glovebox-test-XXXXXX";
        int fd = mkostemp(name, O_CLOEXEC);

        unlink(name);
        assert_int_equal(fd_write_all(fd, text, size), 0);
        lseek(fd, 0, SEEK_SET);
        return fd;
}
