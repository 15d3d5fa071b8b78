/* SPDX-License-Identifier: Apache-2.0
 *
 * Images of the native backend: directories with a root file system, by name, below $GLOVEBOX_IMAGES, /var/lib/glovebox-images (root) or
 * $XDG_DATA_HOME/glovebox/images. What lies there is whole: an image is made beside its place and renamed. The store itself is closed to others, since what is in it
 * need not be.
 *
 *   <store>/<name>/rootfs/       the files; of "name:tag" the directory is "name+tag"
 *   <store>/<name>/image.json    where it is from
 *   <store>/.making/<name>.XXXXXX/  under way: its maker holds a lock on it. What nobody locks is swept at the next start
 *   <store>/.locks/<name>        held by who makes or removes that name
 *   <store>/.cache/              what builds keep for the next one */
#ifndef IMAGE_STORE_H
#define IMAGE_STORE_H

#include "base/error.h"
#include "base/limits.h"

#include <jansson.h>
#include <stddef.h>
#include <sys/types.h>

#define IMAGE_STORE_NAME_MAX 128 /* [a-z0-9][a-z0-9._-]* , and perhaps :tag of the same */

/* The root directory of an image, to be freed. GB_E_NOT_FOUND with the nearest name and the command that makes one. */
int image_store_root(const char *name, char **ret, gb_error *err);

/* The directory of the store, to be freed; it need not exist. */
int image_store_path(char **ret, gb_error *err);
/* Lets a group into it, which must be there, and nobody else. Another's store stays as it is. */
int image_store_share(gid_t group, gb_error *err);
/* Whether it is a name; ":latest" at its end is taken off. ret: the name, or NULL. */
int image_check_name(const char *name, char *ret, gb_error *err);

/* All images as an array of objects, by name: what image.json says of each (image_made_json()), with "name". */
int image_store_list(json_t **ret, gb_error *err);
/* The same of one. */
int image_store_show(const char *name, json_t **ret, gb_error *err);
/* Takes it out of its place at once, then removes its files. Who runs from it keeps what it has open. */
int image_store_remove(const char *name, gb_error *err);

/* ---- making one ---- */

struct image_draft {
        int store, lock; /* the store's directory; the lock of the name */
        int fd, root;    /* its own directory, which it has locked; rootfs in that */
        char name[IMAGE_STORE_NAME_MAX];
        char place[IMAGE_STORE_NAME_MAX];     /* the directory it will be */
        char dir[IMAGE_STORE_NAME_MAX + 16]; /* and is in .making until then */
};
#define IMAGE_DRAFT_NONE {.store = -1, .lock = -1, .fd = -1, .root = -1}

/* GB_E_CONFLICT when somebody makes that name now. Sweeps what dead makers have left. */
int image_draft_begin(const char *name, struct image_draft *ret, gb_error *err);
/* Removes everything but the root: what was needed on the way. */
int image_draft_clear(struct image_draft *d, gb_error *err);
/* Puts it into its place, with this image.json, instead of what is there. */
int image_draft_commit(struct image_draft *d, const json_t *about, gb_error *err);
/* Its own directory by path, to be freed; "rootfs" is in it. */
int image_draft_path(const struct image_draft *d, char **ret, gb_error *err);
/* Removes what was not committed; may be called after that, too. */
void image_draft_done(struct image_draft *d);
#define _cleanup_image_draft_ _cleanup_(image_draft_done)

/* A directory below .cache of the store, made when it is not there; its path, to be freed. */
int image_store_cache(const char *name, char **ret, gb_error *err);

#endif
