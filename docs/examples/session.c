/* SPDX-License-Identifier: Apache-2.0
 *
 * A session: one sealed box, and in it a Python that keeps its variables from step to step.
 *
 *     cc session.c -o session $(pkg-config --cflags --libs glovebox)
 *     ./session
 *
 * It runs two steps, shows a value and the size of a picture, puts a file into the workspace and takes one out, and
 * interrupts a step that would not end by itself. */
#include <glovebox/glovebox.h>

#include <stdio.h>
#include <string.h>

static int fail(const gb_error *err)
{
        fprintf(stderr, "session: %s (%s)\n", err->message, gb_error_name(err->code));
        return 2;
}

static const gb_part *find(const gb_part *parts, size_t n_parts, const char *mime)
{
        for (size_t i = 0; i < n_parts; i++)
                if (strcmp(parts[i].mime, mime) == 0)
                        return &parts[i];
        return NULL;
}

/* Values come while the code runs. Each has one or more forms, by type. */
static void show_value(void *data, int is_main, const gb_part *parts, size_t n_parts, uint64_t t_usec)
{
        const gb_part *png = find(parts, n_parts, "image/png"), *text = find(parts, n_parts, "text/plain");

        (void)data;
        (void)is_main; /* or something that was displayed */
        (void)t_usec;
        if (png)
                printf("picture: %zu bytes\n", png->size);
        else if (text)
                printf("value: %s\n", (const char *)text->bytes);
}

static void show_error(void *data, const char *name, const char *value, const char *traceback, uint64_t t_usec)
{
        (void)data;
        (void)traceback;
        (void)t_usec;
        printf("error: %s: %s\n", name, value);
}

/* Another thread could do this as well. */
static void interrupt_it(void *data, gb_stream stream, const void *bytes, size_t size, uint64_t t_usec)
{
        (void)stream;
        (void)bytes;
        (void)size;
        (void)t_usec;
        gb_context_interrupt(data, NULL);
}

static int step(gb_context *context, const char *code, int interrupt, gb_error *err)
{
        gb_context_run_options options = GB_CONTEXT_RUN_OPTIONS_INIT;
        gb_result *result = NULL;

        options.code = code;
        options.result = show_value;
        options.error = show_error;
        if (interrupt) {
                options.output = interrupt_it;
                options.data = context;
        }
        int r = gb_context_run(context, &options, &result, err);
        if (r < 0)
                return r;
        printf("%s, variables %s\n", gb_result_verdict(result), gb_result_state_kept(result) ? "kept" : "lost");
        gb_result_free(result);
        return 0;
}

/* A class whose objects can show themselves as a picture; any library that does so works the same way. */
static const char picture[] =
        "import struct, zlib\n"
        "def chunk(kind, data):\n"
        "    return struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))\n"
        "class Dot:\n"
        "    def _repr_png_(self):\n"
        "        header = chunk(b'IHDR', struct.pack('>IIBBBBB', 1, 1, 8, 0, 0, 0, 0))\n"
        "        return b'\\x89PNG\\r\\n\\x1a\\n' + header + chunk(b'IDAT', zlib.compress(b'\\0\\0')) + chunk(b'IEND', b'')\n"
        "Dot()\n";

static int work(gb_session *session, gb_context *context, gb_error *err)
{
        void *bytes = NULL;
        size_t size = 0;

        /* A file in, two steps that share variables, a file out. */
        int r = gb_file_write(session, "numbers.txt", "1 2 3\n", 6, 0, err);
        if (r == 0)
                r = step(context, "numbers = [int(n) for n in open('numbers.txt').read().split()]", 0, err);
        if (r == 0)
                r = step(context, "open('sum.txt', 'w').write(str(sum(numbers)))\nsum(numbers)", 0, err);
        if (r == 0)
                r = gb_file_read(session, "sum.txt", &bytes, &size, err);
        if (r == 0)
                printf("sum.txt: %s\n", (const char *)bytes);
        gb_free(bytes);

        if (r == 0)
                r = step(context, picture, 0, err);
        /* It says that it has begun, which is when we interrupt it. Its variables are kept. */
        if (r == 0)
                r = step(context, "print('begun', flush=True)\nwhile True: pass", 1, err);
        if (r == 0)
                r = step(context, "len(numbers)", 0, err);
        return r;
}

int main(void)
{
        gb_policy *policy = NULL;
        gb_session *session = NULL;
        gb_context *context = NULL;
        gb_error err;

        gb_session_options options = GB_SESSION_OPTIONS_INIT;
        options.template_name = "python";

        int r = gb_policy_load(NULL, NULL, &policy, &err);
        if (r == 0)
                r = gb_session_open(policy, &options, &session, &err);
        if (r == 0)
                r = gb_context_open(session, "python", &context, &err);
        if (r == 0)
                r = work(session, context, &err);
        gb_session_close(session); /* and its contexts */
        gb_policy_free(policy);
        return r < 0 ? fail(&err) : 0;
}
