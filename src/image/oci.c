/* SPDX-License-Identifier: Apache-2.0 */
#include "image/oci.h"

#include "base/json.h"
#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEX_DIGITS 64

static int wrong(gb_error *err, const char *what, const char *why)
{
        return error_set(err, GB_E_USAGE, EBADMSG, "the image is refused: %s %s", what, why);
}

const char *oci_architecture(void)
{
#if defined(__x86_64__)
        return "amd64";
#else
        return "arm64";
#endif
}

/* ---- parts ---- */

static bool is_hex(const char *text, size_t size)
{
        return strspn(text, "0123456789abcdef") >= size;
}

bool oci_knows_path(const char *path)
{
        static const char *const names[] = {"manifest.json", "repositories", "oci-layout", "index.json", "blobs"};
        static const char *const endings[] = {"", ".json", ".tar", ".tar.gz"};
        size_t n = strcspn(path, "/");

        for (size_t i = 0; i < ARRAY_SIZE(names); i++)
                if (strlen(names[i]) == n && strncmp(path, names[i], n) == 0)
                        return true;
        const char *hex = strncmp(path, "sha256:", 7) == 0 ? path + 7 : path;
        n -= (size_t)(hex - path);
        if (n < HEX_DIGITS || !is_hex(hex, HEX_DIGITS))
                return false;
        for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
                if (strlen(endings[i]) == n - HEX_DIGITS && strncmp(hex + HEX_DIGITS, endings[i], n - HEX_DIGITS) == 0)
                        return true;
        return false;
}

static json_t *parse(const char *text, size_t size, const char *what, gb_error *err)
{
        json_error_t why;
        json_t *value = size <= IMAGE_JSON_BYTES_MAX ? json_parse(text, size, JSON_REJECT_DUPLICATES, &why) : NULL;

        if (!value)
                wrong(err, what, size > IMAGE_JSON_BYTES_MAX ? "is too large" : "is no JSON");
        return value;
}

static const char *text_of(const json_t *object, const char *key)
{
        const char *text = json_string_value(json_object_get(object, key));

        return text ? text : "";
}

/* "sha256:" and 64 digits; others are not used by anybody. */
static int take_digest(const char *text, char ret[static SHA256_TEXT_MAX], const char *what, gb_error *err)
{
        if (strncmp(text, "sha256:", 7) != 0 || strlen(text) != 7 + HEX_DIGITS || !is_hex(text + 7, HEX_DIGITS))
                return wrong(err, what, "has no digest of the form sha256:... ");
        snprintf(ret, SHA256_TEXT_MAX, "%s", text + 7);
        return 0;
}

struct descriptor {
        char path[OCI_PATH_MAX], digest[SHA256_TEXT_MAX];
        int64_t size;
        const char *type;
};

static int take_descriptor(const json_t *object, const char *what, struct descriptor *ret, gb_error *err)
{
        const json_t *size = json_object_get(object, "size");

        int r = json_is_object(object) ? take_digest(text_of(object, "digest"), ret->digest, what, err) : wrong(err, what, "is not described");
        if (r < 0)
                return r;
        if (!json_is_integer(size) || json_integer_value(size) < 0)
                return wrong(err, what, "has no size");
        ret->size = json_integer_value(size);
        ret->type = text_of(object, "mediaType");
        snprintf(ret->path, sizeof(ret->path), "blobs/sha256/%s", ret->digest);
        return 0;
}

/* ---- index ---- */

static bool is_index_type(const char *type)
{
        return strcmp(type, "application/vnd.oci.image.index.v1+json") == 0 ||
               strcmp(type, "application/vnd.docker.distribution.manifest.list.v2+json") == 0;
}

/* Signatures and the like stand beside images, for a platform "unknown". One without a platform fits. */
static bool fits(const json_t *object, const char *architecture)
{
        const json_t *platform = json_object_get(object, "platform");
        const char *os = text_of(platform, "os"), *arch = text_of(platform, "architecture");

        return !json_is_object(platform) || ((!*os || strcmp(os, "linux") == 0) && (!*arch || strcmp(arch, architecture) == 0));
}

int oci_parse_index(const char *text, size_t size, const char *architecture, struct oci_reference *ret, gb_error *err)
{
        _cleanup_json_ json_t *index = parse(text, size, "its index", err);
        const json_t *list = json_object_get(index, "manifests"), *item, *found = NULL;
        struct descriptor d;
        size_t i, n = 0;

        if (!index)
                return -EBADMSG;
        if (!json_is_array(list) || json_array_size(list) == 0)
                return wrong(err, "its index", "names no image");
        json_array_foreach(list, i, item) {
                if (!fits(item, architecture))
                        continue;
                found = item;
                n++;
        }
        if (n == 0)
                return error_set(err, GB_E_USAGE, ENOENT, "the image is refused: it has nothing for linux/%s", architecture);
        if (n > 1)
                return error_set(err, GB_E_USAGE, EINVAL, "the archive holds %zu images for linux/%s; save the one that is wanted alone", n, architecture);
        int r = take_descriptor(found, "its manifest", &d, err);
        if (r < 0)
                return r;
        *ret = (struct oci_reference){.size = d.size, .is_index = is_index_type(d.type)};
        memcpy(ret->path, d.path, sizeof(ret->path));
        memcpy(ret->digest, d.digest, sizeof(ret->digest));
        return 0;
}

/* ---- manifests ---- */

void oci_plan_done(struct oci_plan *p)
{
        free(p->layers);
        *p = (struct oci_plan){0};
}

static int make_layers(struct oci_plan *p, const json_t *list, gb_error *err)
{
        size_t n = json_array_size(list);

        if (!json_is_array(list) || n == 0)
                return wrong(err, "its manifest", "names no layer");
        if (n > IMAGE_LAYERS_MAX)
                return error_set(err, GB_E_LIMIT, EFBIG, "the image is refused: it has %zu layers, the most is %d", n, IMAGE_LAYERS_MAX);
        p->layers = calloc(n, sizeof(*p->layers));
        if (!p->layers)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        p->n_layers = n;
        return 0;
}

static int check_layer_type(const char *type, bool *ret_compressed, gb_error *err)
{
        static const struct {
                const char *type;
                bool compressed;
        } rows[] = {
                {"application/vnd.oci.image.layer.v1.tar", false},
                {"application/vnd.oci.image.layer.v1.tar+gzip", true},
                {"application/vnd.oci.image.layer.v1.tar+zstd", true},
                {"application/vnd.docker.image.rootfs.diff.tar", false},
                {"application/vnd.docker.image.rootfs.diff.tar.gzip", true},
                {"application/vnd.docker.image.rootfs.diff.tar.zstd", true},
        };

        for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
                if (strcmp(type, rows[i].type) == 0) {
                        *ret_compressed = rows[i].compressed;
                        return 0;
                }
        return error_set(err, GB_E_USAGE, EINVAL, "the image is refused: a layer is %s, which cannot be read", quote(type).text);
}

/* The same files twice is no use to anybody but who wants much from little. */
static int check_again(const struct oci_plan *p, size_t at, gb_error *err)
{
        for (size_t i = 0; i < at; i++)
                if (strcmp(p->layers[i].path, p->layers[at].path) == 0 && p->layers[at].size > OCI_LAYER_AGAIN_BYTES_MAX)
                        return error_set(err, GB_E_USAGE, EINVAL, "the image is refused: it names the layer %s twice", quote(p->layers[at].path).text);
        return 0;
}

int oci_parse_manifest(const char *text, size_t size, struct oci_plan *ret, gb_error *err)
{
        _cleanup_json_ json_t *manifest = parse(text, size, "its manifest", err);
        _cleanup_oci_plan_ struct oci_plan p = {0};
        const json_t *list = json_object_get(manifest, "layers");
        struct descriptor d;

        if (!manifest)
                return -EBADMSG;
        if (!json_is_integer(json_object_get(manifest, "schemaVersion")) || json_integer_value(json_object_get(manifest, "schemaVersion")) != 2)
                return wrong(err, "its manifest", "is not of version 2");
        int r = take_descriptor(json_object_get(manifest, "config"), "its configuration", &d, err);
        if (r == 0)
                r = make_layers(&p, list, err);
        if (r < 0)
                return r;
        memcpy(p.config, d.path, sizeof(p.config));
        memcpy(p.config_digest, d.digest, sizeof(p.config_digest));
        p.config_size = d.size;
        for (size_t i = 0; i < p.n_layers; i++) {
                struct oci_layer *layer = &p.layers[i];
                r = take_descriptor(json_array_get(list, i), "a layer", &d, err);
                if (r == 0)
                        r = check_layer_type(d.type, &layer->compressed, err);
                if (r < 0)
                        return r;
                memcpy(layer->path, d.path, sizeof(layer->path));
                memcpy(layer->digest, d.digest, sizeof(layer->digest));
                layer->size = d.size;
                r = check_again(&p, i, err);
                if (r < 0)
                        return r;
        }
        *ret = p;
        p = (struct oci_plan){0};
        return 0;
}

static int take_path(const json_t *value, const char *what, char ret[static OCI_PATH_MAX], gb_error *err)
{
        const char *text = json_string_value(value);

        if (!text || strlen(text) >= OCI_PATH_MAX || !oci_knows_path(text) || strstr(text, "..") || strstr(text, "//"))
                return wrong(err, what, "has a name that no such file has");
        snprintf(ret, OCI_PATH_MAX, "%s", text);
        return 0;
}

int oci_parse_docker(const char *text, size_t size, struct oci_plan *ret, gb_error *err)
{
        _cleanup_json_ json_t *list = parse(text, size, "manifest.json", err);
        _cleanup_oci_plan_ struct oci_plan p = {.config_size = -1};
        const json_t *image = json_array_get(list, 0), *layers = json_object_get(image, "Layers");

        if (!list)
                return -EBADMSG;
        if (json_array_size(list) > 1)
                return error_set(err, GB_E_USAGE, EINVAL, "the archive holds %zu images; save the one that is wanted alone", json_array_size(list));
        int r = take_path(json_object_get(image, "Config"), "its configuration", p.config, err);
        if (r == 0)
                r = make_layers(&p, layers, err);
        for (size_t i = 0; r == 0 && i < p.n_layers; i++) {
                p.layers[i].size = -1;
                r = take_path(json_array_get(layers, i), "a layer", p.layers[i].path, err);
        }
        if (r < 0)
                return r;
        /* "<digest>.json", "blobs/sha256/<digest>" and "sha256:<digest>": the name says what must be in it. */
        const char *hex = strrchr(p.config, '/') ? strrchr(p.config, '/') + 1 : p.config;
        hex += strncmp(hex, "sha256:", 7) == 0 ? 7 : 0;
        if (is_hex(hex, HEX_DIGITS) && (hex[HEX_DIGITS] == '\0' || strcmp(hex + HEX_DIGITS, ".json") == 0))
                snprintf(p.config_digest, sizeof(p.config_digest), "%.*s", HEX_DIGITS, hex);
        *ret = p;
        p = (struct oci_plan){0};
        return 0;
}

int oci_parse_config(const char *text, size_t size, struct oci_plan *plan, gb_error *err)
{
        _cleanup_json_ json_t *config = parse(text, size, "its configuration", err);
        const json_t *ids = json_object_get(json_object_get(config, "rootfs"), "diff_ids");
        const char *os = text_of(config, "os"), *arch = text_of(config, "architecture");
        int r = 0;

        if (!config)
                return -EBADMSG;
        if ((*os && strcmp(os, "linux") != 0) || (*arch && strcmp(arch, oci_architecture()) != 0))
                return error_set(err, GB_E_USAGE, EINVAL, "the image is refused: it is for %s on %s, and this host is linux on %s", quote(os).text, quote(arch).text,
                                 oci_architecture());
        if (!json_is_array(ids) || json_array_size(ids) != plan->n_layers)
                return wrong(err, "its configuration", "does not know as many layers as its manifest");
        snprintf(plan->architecture, sizeof(plan->architecture), "%s", arch);
        for (size_t i = 0; r == 0 && i < plan->n_layers; i++) {
                char digest[SHA256_TEXT_MAX];
                struct oci_layer *layer = &plan->layers[i];
                const char *id = json_string_value(json_array_get(ids, i));
                r = take_digest(id ? id : "", digest, "a layer in its configuration", err);
                if (r < 0 || layer->compressed)
                        continue;
                if (layer->digest[0] && strcmp(layer->digest, digest) != 0)
                        r = wrong(err, "its configuration", "has another digest for a layer than its manifest");
                memcpy(layer->digest, digest, sizeof(layer->digest));
        }
        return r;
}
