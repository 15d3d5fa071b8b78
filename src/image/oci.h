/* SPDX-License-Identifier: Apache-2.0
 *
 * What the JSON of an image says: which layers there are, in which order, with which digests. OCI layouts (image-spec 1.0 and 1.1), and what `docker save` writes.
 * Only texts are looked at here; files are for import.c. */
#ifndef IMAGE_OCI_H
#define IMAGE_OCI_H

#include "base/error.h"
#include "base/limits.h"
#include "base/sha256.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define OCI_PATH_MAX 160 /* of a file in a layout or archive */
#define OCI_INDEX_DEPTH_MAX 3 /* indexes that name an index */
#define OCI_LAYER_AGAIN_BYTES_MAX 10240 /* a layer that is there twice: only an empty one, a record of tar, can be meant */

struct oci_layer {
        char path[OCI_PATH_MAX];
        char digest[SHA256_TEXT_MAX]; /* of the file; empty: not known yet */
        int64_t size;                 /* of it; -1: not told */
        bool compressed;              /* as far as it says */
};

struct oci_plan {
        char config[OCI_PATH_MAX];
        char config_digest[SHA256_TEXT_MAX]; /* empty: not told */
        int64_t config_size;
        char architecture[32]; /* of oci_parse_config(); may be empty */
        struct oci_layer *layers;
        size_t n_layers;
};
void oci_plan_done(struct oci_plan *p);
#define _cleanup_oci_plan_ _cleanup_(oci_plan_done)

/* What an index names. */
struct oci_reference {
        char path[OCI_PATH_MAX];
        char digest[SHA256_TEXT_MAX];
        int64_t size;
        bool is_index; /* it is another index */
};

/* The one for this architecture ("amd64"); of several that fit none is chosen. */
int oci_parse_index(const char *text, size_t size, const char *architecture, struct oci_reference *ret, gb_error *err);
int oci_parse_manifest(const char *text, size_t size, struct oci_plan *ret, gb_error *err);
/* manifest.json of `docker save`. Digests of layers are only in the configuration. */
int oci_parse_docker(const char *text, size_t size, struct oci_plan *ret, gb_error *err);
/* The configuration that belongs to a plan: as many layers, and their digests where the plan has none. */
int oci_parse_config(const char *text, size_t size, struct oci_plan *plan, gb_error *err);

/* Whether an archive that holds this path (cleaned) can be one of an image: everything else is part of a root file system. */
bool oci_knows_path(const char *path);
/* The name that images use for the architecture of this host. */
const char *oci_architecture(void);

#endif
