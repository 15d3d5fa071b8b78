/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of a session's workspace in the public C API. */
#include "lib/session.h"

#include <errno.h>
#include <stdlib.h>

#define FILE_MODE_DEFAULT 0644
#define DIRECTORY_MODE_DEFAULT 0755

struct gb_file_list {
        struct file_list *list;
};

static int check(const gb_session *session, const char *path, bool rest, const char *function, gb_error *err)
{
        if (session && path && rest)
                return 0;
        return error_set(err, GB_E_USAGE, EINVAL, "%s: a session, a path and a place for the result are required", function);
}

int gb_file_write(gb_session *session, const char *path, const void *bytes, size_t size, unsigned mode, gb_error *err)
{
        int r = check(session, path, bytes || size == 0, "gb_file_write", err);

        return r < 0 ? r : session_file_write(session->session, path, bytes, size, mode ? (mode_t)mode : FILE_MODE_DEFAULT, err);
}

int gb_file_read(gb_session *session, const char *path, void **ret_bytes, size_t *ret_size, gb_error *err)
{
        int r = check(session, path, ret_bytes && ret_size, "gb_file_read", err);
        char *bytes;

        if (r == 0)
                r = session_file_read(session->session, path, &bytes, ret_size, err);
        if (r == 0)
                *ret_bytes = bytes;
        return r;
}

int gb_file_remove(gb_session *session, const char *path, gb_error *err)
{
        int r = check(session, path, true, "gb_file_remove", err);

        return r < 0 ? r : session_file_remove(session->session, path, err);
}

int gb_directory_make(gb_session *session, const char *path, unsigned mode, gb_error *err)
{
        int r = check(session, path, true, "gb_directory_make", err);

        return r < 0 ? r : session_directory_make(session->session, path, mode ? (mode_t)mode : DIRECTORY_MODE_DEFAULT, err);
}

int gb_file_list_read(gb_session *session, const char *path, gb_file_list **ret, gb_error *err)
{
        int r = check(session, path, ret != NULL, "gb_file_list_read", err);

        if (r < 0)
                return r;
        gb_file_list *l = calloc(1, sizeof(*l));
        r = l ? session_file_list(session->session, path, &l->list, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "gb_file_list_read: out of memory");
        if (r < 0)
                free(l);
        else
                *ret = l;
        return r;
}

size_t gb_file_list_count(const gb_file_list *list)
{
        return list->list->n;
}

int gb_file_list_is_truncated(const gb_file_list *list)
{
        return list->list->truncated;
}

int gb_file_list_get(const gb_file_list *list, size_t index, gb_file_info *ret)
{
        if (index >= list->list->n)
                return -ERANGE;
        const struct file_entry *e = &list->list->entries[index];
        *ret = (gb_file_info){e->name, (unsigned)e->mode, e->size, e->modified_usec};
        return 0;
}

void gb_file_list_free(gb_file_list *list)
{
        if (!list)
                return;
        file_list_free(list->list);
        free(list);
}
