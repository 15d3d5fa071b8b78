/* SPDX-License-Identifier: Apache-2.0 */
#include "server/run_files.h"

#include "base/quote.h"

#include <errno.h>
#include <string.h>

#define FILE_MODE 0644
#define DIRECTORY_MODE 0755

int run_files_check(struct fields *f, const json_t **ret, gb_error *err)
{
        const json_t *files = NULL;
        const char *path;
        json_t *value;

        int r = fields_object(f, "files", &files, err);
        if (r < 0 || !files)
                return r;
        if (json_object_size(files) > RUN_FILES_MAX)
                return fields_error(f, "files", GB_E_LIMIT, err, "%zu files, at most %d come along with a run", json_object_size(files), RUN_FILES_MAX);
        json_object_foreach((json_t *)(uintptr_t)files, path, value) {
                _cleanup_free_ void *memory = NULL;
                char good[HOST_PATH_MAX];
                const char *bytes;
                gb_error why = {0};
                size_t size;
                if (files_check_path(path, strlen(path), good, &why) < 0 || strcmp(good, ".") == 0)
                        return fields_error(f, "files", GB_E_USAGE, err, "%s", why.message[0] ? why.message : "the workspace itself is no file");
                r = fields_bytes(f, "files", value, &bytes, &size, &memory, err);
                if (r < 0)
                        return r;
        }
        *ret = files;
        return 0;
}

static int make_parents(struct session *s, char *path, gb_error *err)
{
        for (char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
                *slash = '\0';
                int r = session_directory_make(s, path, DIRECTORY_MODE, err);
                *slash = '/';
                if (r < 0 && r != -EEXIST)
                        return r;
        }
        return 0;
}

static int write_file(struct session *s, const char *path, const json_t *value, gb_error *err)
{
        struct fields none = {.prefix = ""};
        _cleanup_free_ void *memory = NULL;
        char good[HOST_PATH_MAX];
        const char *bytes = NULL;
        size_t size = 0;

        int r = files_check_path(path, strlen(path), good, err);
        if (r == 0)
                r = fields_bytes(&none, "files", value, &bytes, &size, &memory, err);
        if (r == 0)
                r = make_parents(s, good, err);
        return r < 0 ? r : session_file_write(s, good, bytes, size, FILE_MODE, err);
}

int run_files_write(struct session *s, const json_t *files, gb_error *err)
{
        const char *path;
        json_t *value;

        json_object_foreach((json_t *)(uintptr_t)files, path, value) {
                int r = write_file(s, path, value, err);
                if (r < 0)
                        return r;
        }
        return 0;
}
