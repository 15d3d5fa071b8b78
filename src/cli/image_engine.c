/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of an engine: built from a directory with a Dockerfile, listed, removed. */
#include "cli/image.h"

#include "backend/docker/container.h"
#include "backend/docker/engine.h"
#include "base/fd.h"
#include "base/json.h"
#include "base/quote.h"
#include "client/client.h"
#include "cli/output.h"
#include "image/export.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SILENCE_USEC 600000000ULL /* of a step that says nothing, such as a large download */
#define IMAGES_ANSWER_USEC 30000000ULL
#define LABEL_IMAGE "org.glovebox.image"

/* ---- build ---- */

struct build {
        struct sink out;
        bool quiet;
        char error[256]; /* what the engine says in the midst of its success */
        char id[IMAGE_ID_MAX];
};

static int take_line(void *data, const json_t *value)
{
        struct build *b = data;
        const char *text = json_string_value(json_object_get(value, "stream")), *status = json_string_value(json_object_get(value, "status"));
        const char *error = json_string_value(json_object_get(value, "error")), *id = json_string_value(json_object_get(json_object_get(value, "aux"), "ID"));

        if (error && !b->error[0])
                snprintf(b->error, sizeof(b->error), "%s", *error ? error : "it does not say why");
        if (id)
                snprintf(b->id, sizeof(b->id), "%s", id);
        if (b->quiet)
                return 0;
        if (text)
                (void)sink_write(&b->out, text, strlen(text));
        else if (status && !json_object_get(value, "progressDetail")) {
                (void)sink_write(&b->out, status, strlen(status));
                (void)sink_write(&b->out, "\n", 1);
        }
        return 0;
}

static int add_parameter(struct buffer *out, const char *name, const char *value)
{
        int r = buffer_printf(out, "&%s=", name);

        return r < 0 ? r : client_add_encoded(out, value, false);
}

static int add_object(struct buffer *out, const char *name, json_t *object)
{
        char *text = object ? json_dumps(object, JSON_COMPACT) : NULL;
        int r = text ? add_parameter(out, name, text) : -ENOMEM;

        free(text);
        json_decref(object);
        return r;
}

static int build_target(const struct arguments *a, const char *name, struct buffer *out, gb_error *err)
{
        const char *base = arguments_get(a, OPT_BASE), *network = arguments_get(a, OPT_NETWORK);

        if (network && strcmp(network, "none") != 0 && strcmp(network, "host") != 0)
                return error_set(err, GB_E_USAGE, EINVAL, "--network takes none or host, not %s", quote(network).text);
        int r = buffer_add_string(out, "/build?rm=1&forcerm=1");
        if (r == 0)
                r = add_parameter(out, "t", name);
        if (r == 0 && base)
                r = add_object(out, "buildargs", json_pack("{s:s}", "BASE", base));
        if (r == 0 && network)
                r = add_parameter(out, "networkmode", network);
        if (r == 0)
                r = add_object(out, "labels", json_pack("{s:s}", LABEL_IMAGE, name));
        return r < 0 ? error_set(err, GB_E_USAGE, -r, "the name of the base %s cannot be sent", quote(base ? base : "").text) : 0;
}

static int make_context(const char *recipe, int *ret, uint64_t *ret_size, gb_error *err)
{
        _cleanup_close_ int fd = memfd_create("context", MFD_CLOEXEC);
        struct stat st;

        if (fd < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot make a file in memory: %s", strerror(errno));
        int r = image_tar_directory(recipe, fd, IMAGE_CONTEXT_BYTES_MAX, err);
        if (r < 0)
                return r;
        if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot read the files of the build: %s", strerror(errno));
        *ret = TAKE_FD(fd);
        *ret_size = (uint64_t)st.st_size;
        return 0;
}

/* Asks about, or for the end of, one image. */
static int ask_image(const struct engine *e, const char *method, const char *name, const char *rest, int *ret_status, json_t **ret, gb_error *err)
{
        _cleanup_buffer_ struct buffer target;

        buffer_init(&target, CLIENT_HEAD_BYTES_MAX);
        int r = buffer_add_string(&target, "/images/");
        if (r == 0)
                r = client_add_encoded(&target, name, false);
        if (r == 0)
                r = buffer_add_string(&target, rest);
        if (r < 0)
                return error_set(err, GB_E_INTERNAL, -r, "out of memory");
        return engine_call(e, method, target.data, NULL, IMAGES_ANSWER_USEC, ret_status, ret, err);
}

/* Of an image, as its engine tells it; null when it does not. */
static json_t *size_of(const json_t *image)
{
        const json_t *size = json_object_get(image, "Size");

        return json_is_integer(size) ? json_integer(json_integer_value(size)) : json_null();
}

static int describe(const struct engine *e, const char *name, const char *id, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        int status;

        int r = ask_image(e, "GET", name, "/json", &status, &answer, err);
        if (r < 0)
                return r;
        if (status != 200)
                return engine_refusal(e, status, answer, "the image was built, but is not there", err);
        *ret = json_pack("{s:s, s:s, s:s, s:s*, s:o, s:b}", "name", name, "backend", "docker", "source", "build", "id",
                         *id ? id : NULL, "bytes", size_of(answer), "verified", 0);
        return *ret ? 0 : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
}

int image_engine_build(const struct arguments *a, const char *recipe, const char *name, int cancel_fd, json_t **ret, gb_error *err)
{
        struct build b = {.quiet = arguments_has(a, OPT_QUIET)};
        _cleanup_buffer_ struct buffer target;
        _cleanup_close_ int context = -1;
        struct engine e;
        uint64_t size = 0;
        int status = 0;

        buffer_init(&target, CLIENT_HEAD_BYTES_MAX);
        int r = build_target(a, name, &target, err);
        if (r == 0)
                r = make_context(recipe, &context, &size, err);
        if (r == 0)
                r = engine_open(&e, err);
        if (r < 0)
                return r;
        sink_init(&b.out, STDERR_FILENO, false);
        r = engine_stream(&e, "POST", target.data, "application/x-tar", context, size, SILENCE_USEC, cancel_fd, take_line, &b, &status, err);
        (void)sink_finish(&b.out);
        sink_done(&b.out);
        if (r == -ECANCELED) /* the engine ends the step when we are gone */
                return error_set(err, GB_E_CONFLICT, ECANCELED, "interrupted");
        if (r < 0)
                return r;
        if (b.error[0])
                return error_set(err, GB_E_NOT_FOUND, ENOEXEC, "the engine could not build %s: %s", name, quote(b.error).text);
        if (status != 200)
                return engine_refusal(&e, status, NULL, "the engine did not build it", err);
        return describe(&e, name, b.id, ret, err);
}

/* ---- list ---- */

/* As people write it: without what an engine puts before and after it. */
static const char *short_name(const char *tag, char buf[static 256])
{
        static const char *const before[] = {"docker.io/library/", "localhost/"};

        for (size_t i = 0; i < ARRAY_SIZE(before); i++)
                if (strncmp(tag, before[i], strlen(before[i])) == 0)
                        tag += strlen(before[i]);
        snprintf(buf, 256, "%s", tag);
        size_t n = strlen(buf);
        if (n > 7 && strcmp(buf + n - 7, ":latest") == 0)
                buf[n - 7] = '\0';
        return buf;
}

static void add_images(json_t *list, const json_t *image)
{
        const json_t *tags = json_object_get(image, "RepoTags"), *tag, *labels = json_object_get(image, "Labels");
        const json_t *told = json_object_get(image, "Created");
        time_t created = (time_t)json_integer_value(told);
        char name[256], when[32] = "";
        struct tm tm;
        size_t i;

        if (json_object_get(labels, LABEL_RUNNER)) /* made by ourselves from one of the others, for its containers */
                return;
        if (json_is_integer(told) && gmtime_r(&created, &tm))
                (void)strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
        json_array_foreach(tags, i, tag) {
                const char *text = json_string_value(tag);
                if (text && strncmp(text, "<none>", 6) != 0)
                        json_array_append_new(list, json_pack("{s:s, s:s, s:s?, s:o, s:s}", "name",
                                                              short_name(text, name), "backend", "docker", "created",
                                                              when[0] ? when : NULL, "bytes", size_of(image), "source",
                                                              json_object_get(labels, LABEL_IMAGE) ? "build" : "engine"));
        }
}

static int ask_all(const struct engine *e, json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        int status;

        int r = engine_call(e, "GET", "/images/json", NULL, IMAGES_ANSWER_USEC, &status, &answer, err);
        if (r < 0)
                return r;
        if (status != 200 || !json_is_array(answer))
                return engine_refusal(e, status, answer, "the engine does not list its images", err);
        *ret = TAKE_PTR(answer);
        return 0;
}

int image_engine_list(json_t **ret, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        struct engine e;
        const json_t *image;
        size_t i;

        int r = engine_open(&e, err);
        if (r == 0)
                r = ask_all(&e, &answer, err);
        if (r < 0)
                return r;
        *ret = json_array();
        json_array_foreach(answer, i, image) {
                add_images(*ret, image);
        }
        return 0;
}

/* ---- rm ---- */

static int remove_one(const struct engine *e, const char *name, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        int status;

        int r = ask_image(e, "DELETE", name, "", &status, &answer, err);
        if (r < 0)
                return r;
        return status == 200 ? 0 : engine_refusal(e, status, answer, "the engine does not remove the image", err);
}

/* What was made of an image for its containers. */
static int remove_derived(const struct engine *e, const char *base, gb_error *err)
{
        _cleanup_json_ json_t *all = NULL;
        const json_t *image;
        size_t i;

        int r = ask_all(e, &all, err);
        json_array_foreach(all, i, image) {
                const json_t *labels = json_object_get(image, "Labels");
                const char *of = json_string_value(json_object_get(labels, LABEL_BASE)), *id = json_string_value(json_object_get(image, "Id"));
                if (r == 0 && of && id && json_object_get(labels, LABEL_RUNNER) && strcmp(of, base) == 0)
                        r = remove_one(e, id, err);
        }
        return r;
}

int image_engine_remove(const char *name, gb_error *err)
{
        _cleanup_json_ json_t *answer = NULL;
        struct engine e;
        int status = 0;

        if (!image_name_is_valid(name))
                return error_set(err, GB_E_USAGE, EINVAL, "%s is not the name of an image", quote(name).text);
        int r = engine_open(&e, err);
        if (r == 0)
                r = ask_image(&e, "GET", name, "/json", &status, &answer, err);
        if (r < 0)
                return r;
        if (status == 404)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no image %s at %s; 'glovebox image list --backend docker' shows them", quote(name).text, e.name);
        const char *id = json_string_value(json_object_get(answer, "Id"));
        if (status != 200 || !id)
                return engine_refusal(&e, status, answer, "the engine does not tell of the image", err);
        r = remove_derived(&e, id, err);
        return r < 0 ? r : remove_one(&e, name, err);
}
