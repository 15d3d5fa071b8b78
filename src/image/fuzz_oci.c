/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as an index, a manifest and a configuration: a refusal says why, and what is taken can be used: paths stay in the layout, digests are digests. */
#include "image/oci.h"

#include "base/macro.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
        if (!condition)
                abort();
}

static void check_path(const char *path)
{
        require(oci_knows_path(path) && path[0] != '/' && !strstr(path, "..") && strlen(path) < OCI_PATH_MAX);
}

static void check_digest(const char *digest)
{
        require(digest[0] == '\0' || (strlen(digest) == 64 && strspn(digest, "0123456789abcdef") == 64));
}

static void check_plan(const struct oci_plan *p)
{
        check_path(p->config);
        check_digest(p->config_digest);
        require(p->n_layers > 0 && p->n_layers <= IMAGE_LAYERS_MAX);
        for (size_t i = 0; i < p->n_layers; i++) {
                check_path(p->layers[i].path);
                check_digest(p->layers[i].digest);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *)data;
        struct oci_reference ref = {0};

        for (int docker = 0; docker < 2; docker++) {
                _cleanup_oci_plan_ struct oci_plan plan = {0};
                gb_error err = {0};
                /* The configuration follows behind a NUL. */
                size_t first = strnlen(text, size);
                int r = docker ? oci_parse_docker(text, first, &plan, &err) : oci_parse_manifest(text, first, &plan, &err);
                require(r == 0 || (r < 0 && err.message[0]));
                if (r < 0)
                        continue;
                check_plan(&plan);
                if (first < size && oci_parse_config(text + first + 1, size - first - 1, &plan, &err) == 0)
                        check_plan(&plan);
        }
        gb_error err = {0};
        int r = oci_parse_index(text, size, "amd64", &ref, &err);
        require(r == 0 || (r < 0 && err.message[0]));
        if (r == 0) {
                check_path(ref.path);
                check_digest(ref.digest);
        }
        return 0;
}
