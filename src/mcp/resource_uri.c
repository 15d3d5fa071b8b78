/* SPDX-License-Identifier: Apache-2.0 */
#include "mcp/resource_uri.h"

#include "base/buffer.h"
#include "base/macro.h"
#include "http/uri.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define SESSIONS RESOURCE_SCHEME "sessions/"
#define RUNS RESOURCE_SCHEME "runs/"
#define FILES "/files/"
#define ID_DIGITS (RESOURCE_ID_MAX - 1)

/* ---- making ---- */

static bool is_unreserved(char c)
{
        return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
}

/* Segments are encoded, the slashes between them are not. */
static int add_path(struct buffer *out, const char *path)
{
        int r = 0;

        for (const char *p = path; *p && r == 0; p++) {
                if (is_unreserved(*p) || *p == '/')
                        r = buffer_add(out, p, 1);
                else
                        r = buffer_printf(out, "%%%02X", (unsigned char)*p);
        }
        return r;
}

char *resource_uri_file(const char *session, const char *path)
{
        _cleanup_buffer_ struct buffer out = {0};

        buffer_init(&out, SIZE_MAX);
        if (buffer_printf(&out, SESSIONS "%s" FILES, session) < 0 || add_path(&out, path) < 0)
                return NULL;
        return TAKE_PTR(out.data);
}

static const char *output_name(enum resource_kind kind)
{
        return kind == RESOURCE_STDERR ? "stderr" : "stdout";
}

char *resource_uri_output(const char *run, enum resource_kind kind)
{
        _cleanup_buffer_ struct buffer out = {0};

        buffer_init(&out, SIZE_MAX);
        if (buffer_printf(&out, RUNS "%s/%s", run, output_name(kind)) < 0)
                return NULL;
        return TAKE_PTR(out.data);
}

/* ---- reading ---- */

/* What stands behind the prefix; NULL: it is another. */
static const char *behind(const char *text, const char *prefix)
{
        size_t n = strlen(prefix);

        return strncmp(text, prefix, n) == 0 ? text + n : NULL;
}

/* What stands behind the id; NULL: there is none. */
static const char *read_id(const char *text, char ret[static RESOURCE_ID_MAX])
{
        if (strspn(text, "0123456789abcdef") != ID_DIGITS)
                return NULL;
        memcpy(ret, text, ID_DIGITS);
        ret[ID_DIGITS] = '\0';
        return text + ID_DIGITS;
}

/* Whole segments that name something: nothing that leads back, stays, or is empty. */
static bool is_plain_path(const char *path)
{
        if (strlen(path) >= HOST_PATH_MAX)
                return false;
        for (const char *p = path;; p++) {
                size_t n = strcspn(p, "/");
                if (n == 0 || (n == 1 && p[0] == '.') || (n == 2 && p[0] == '.' && p[1] == '.'))
                        return false;
                p += n;
                if (!*p)
                        return true;
        }
}

static int read_file_path(const char *text, const char *encoded, struct resource_uri *u)
{
        _cleanup_free_ char *path = NULL, *again = NULL;
        size_t size = strnlen(encoded, 3 * HOST_PATH_MAX);

        if (size == 3 * HOST_PATH_MAX)
                return -EINVAL;
        int r = uri_decode(encoded, size, false, &path);
        if (r < 0)
                return r;
        if (!is_plain_path(path))
                return -EINVAL;
        /* One name for each: otherwise a client would hear of changes by a name that it does not know. */
        again = resource_uri_file(u->id, path);
        if (!again)
                return -ENOMEM;
        if (strcmp(again, text) != 0)
                return -EINVAL;
        memcpy(u->path, path, strlen(path) + 1);
        return 0;
}

int resource_uri_parse(const char *text, struct resource_uri *ret)
{
        struct resource_uri u = {0};
        const char *rest;

        if ((rest = behind(text, SESSIONS))) {
                rest = read_id(rest, u.id);
                rest = rest ? behind(rest, FILES) : NULL;
                u.kind = RESOURCE_FILE;
                int r = rest ? read_file_path(text, rest, &u) : -EINVAL;
                if (r < 0)
                        return r;
        } else if ((rest = behind(text, RUNS))) {
                rest = read_id(rest, u.id);
                if (!rest || *rest != '/')
                        return -EINVAL;
                u.kind = strcmp(rest + 1, output_name(RESOURCE_STDERR)) == 0 ? RESOURCE_STDERR : RESOURCE_STDOUT;
                if (strcmp(rest + 1, output_name(u.kind)) != 0)
                        return -EINVAL;
        } else {
                return -EINVAL;
        }
        *ret = u;
        return 0;
}

/* ---- types ---- */

struct media_row {
        const char *extension, *type;
};

/* By extension, for bsearch(). */
static const struct media_row rows[] = {
        {"7z", "application/x-7z-compressed"},
        {"bmp", "image/bmp"},
        {"bz2", "application/x-bzip2"},
        {"c", "text/x-c"},
        {"cc", "text/x-c++"},
        {"cfg", "text/plain"},
        {"conf", "text/plain"},
        {"cpp", "text/x-c++"},
        {"css", "text/css"},
        {"csv", "text/csv"},
        {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
        {"gif", "image/gif"},
        {"go", "text/x-go"},
        {"gz", "application/gzip"},
        {"h", "text/x-c"},
        {"htm", "text/html"},
        {"html", "text/html"},
        {"ini", "text/plain"},
        {"ipynb", "application/x-ipynb+json"},
        {"java", "text/x-java"},
        {"jpeg", "image/jpeg"},
        {"jpg", "image/jpeg"},
        {"js", "text/javascript"},
        {"json", "application/json"},
        {"jsonl", "application/x-ndjson"},
        {"log", "text/plain"},
        {"md", "text/markdown"},
        {"mjs", "text/javascript"},
        {"mp3", "audio/mpeg"},
        {"mp4", "video/mp4"},
        {"ndjson", "application/x-ndjson"},
        {"ogg", "audio/ogg"},
        {"parquet", "application/vnd.apache.parquet"},
        {"pdf", "application/pdf"},
        {"png", "image/png"},
        {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
        {"py", "text/x-python"},
        {"r", "text/x-r"},
        {"rb", "text/x-ruby"},
        {"rs", "text/x-rust"},
        {"rst", "text/x-rst"},
        {"sh", "application/x-sh"},
        {"sql", "application/sql"},
        {"sqlite", "application/vnd.sqlite3"},
        {"svg", "image/svg+xml"},
        {"tar", "application/x-tar"},
        {"tex", "text/x-tex"},
        {"tgz", "application/gzip"},
        {"tif", "image/tiff"},
        {"tiff", "image/tiff"},
        {"toml", "application/toml"},
        {"ts", "text/x-typescript"},
        {"tsv", "text/tab-separated-values"},
        {"txt", "text/plain"},
        {"wasm", "application/wasm"},
        {"wav", "audio/wav"},
        {"webp", "image/webp"},
        {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
        {"xml", "application/xml"},
        {"xz", "application/x-xz"},
        {"yaml", "application/yaml"},
        {"yml", "application/yaml"},
        {"zip", "application/zip"},
        {"zst", "application/zstd"},
};

static int compare_extension(const void *key, const void *row)
{
        return strcasecmp(key, ((const struct media_row *)row)->extension);
}

const char *media_type_of(const char *name)
{
        const char *slash = strrchr(name, '/');
        const char *base = slash ? slash + 1 : name;
        const char *dot = strrchr(base, '.');
        const struct media_row *row = NULL;

        if (dot && dot > base) /* ".py" is a hidden file without an extension */
                row = bsearch(dot + 1, rows, ARRAY_SIZE(rows), sizeof(rows[0]), compare_extension);
        return row ? row->type : "application/octet-stream";
}

bool media_is_picture(const char *type)
{
        static const char *const types[] = {"image/png", "image/jpeg", "image/gif", "image/webp"};

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (strcmp(type, types[i]) == 0)
                        return true;
        return false;
}

const char *media_picture_of(const void *bytes, size_t size)
{
        static const struct {
                const char *type, *head;
                size_t size;
        } heads[] = {
                {"image/png", "\x89PNG\r\n\x1a\n", 8},
                {"image/jpeg", "\xff\xd8\xff", 3},
                {"image/gif", "GIF87a", 6},
                {"image/gif", "GIF89a", 6},
        };

        for (size_t i = 0; i < ARRAY_SIZE(heads); i++)
                if (size > heads[i].size && memcmp(bytes, heads[i].head, heads[i].size) == 0)
                        return heads[i].type;
        return size > 12 && memcmp(bytes, "RIFF", 4) == 0 && memcmp((const char *)bytes + 8, "WEBP", 4) == 0 ? "image/webp" : NULL;
}
