/* SPDX-License-Identifier: Apache-2.0
 *
 * Both sides of the connection to a server of files. The first byte says which: from 0x80 on the rest is what a client says to the
 * server, below it is what a server answers, and the byte says to what. Whatever is taken obeys its rules. */
#include "base/fd.h"
#include "engine/files_wire.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define INPUT_MAX (64 * KIB) /* it fits a socket */
#define PAGE_LIMIT 5
#define ENTRIES_LIMIT 20
#define BYTES_LIMIT 5000

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const uint8_t *input;
static size_t input_size;
static int other_end = -1;

static void check(bool holds)
{
        if (!holds)
                abort();
}

/* The input on one end, to its end. */
static int connect_input(void)
{
        int ends[2];

        check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0);
        check(fd_write_all(ends[1], input, input_size) == 0);
        shutdown(ends[1], SHUT_WR);
        other_end = ends[1];
        return ends[0];
}

static int dial(void *data, gb_error *err)
{
        return connect_input();
}

static const struct files_remote remote = {.dial = dial, .bytes_max = BYTES_LIMIT, .entries_max = ENTRIES_LIMIT};
static const struct files files = {.root_fd = -1, .remote = &remote};

/* ---- the client ---- */

static void check_error(int r, const gb_error *err)
{
        check(r < 0 && err->code != GB_E_NONE && err->message[0] != '\0');
        for (const char *at = err->message; *at; at++)
                check((unsigned char)*at >= 0x20 && *at != 0x7f);
}

static void check_name(const char *name)
{
        check(name[0] && strlen(name) <= NAME_MAX && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
}

static void list(void)
{
        _cleanup_file_list_ struct file_list *l = NULL;
        gb_error err = {0};

        int r = files_list_page(&files, "d", "b", PAGE_LIMIT, &l, &err);
        if (r < 0) {
                check_error(r, &err);
                return;
        }
        check(l->n <= PAGE_LIMIT && l->truncated == (l->last != NULL));
        for (size_t i = 0; i < l->n; i++) {
                check_name(l->entries[i].name);
                check(strcmp(l->entries[i].name, i > 0 ? l->entries[i - 1].name : "b") > 0);
        }
        if (l->truncated)
                check(strcmp(l->last, "b") > 0);
}

static void check_copy(int fd, uint64_t size)
{
        struct stat st;

        check(fstat(fd, &st) == 0 && (uint64_t)st.st_size <= size && (uint64_t)st.st_blocks * 512 <= BYTES_LIMIT * 4096ULL);
}

static void read_file(void)
{
        gb_error err = {0};
        uint64_t size;

        _cleanup_close_ int fd = files_open(&files, "f", &size, &err);
        if (fd < 0)
                check_error(fd, &err);
        else
                check_copy(fd, size);
}

static void walk(void)
{
        _cleanup_files_walk_ struct files_walk *w = NULL;
        struct walk_entry e;
        gb_error err = {0};
        char checked[HOST_PATH_MAX];
        int n = 0;

        int r = files_walk_new(&files, "d", &w, &err);
        while (r >= 0 && (r = files_walk_next(w, &e, &err)) > 0) {
                check(++n <= ENTRIES_LIMIT && (S_ISREG(e.st.st_mode) || S_ISDIR(e.st.st_mode)) && S_ISDIR(e.st.st_mode) == (e.fd < 0));
                check(files_check_path(e.path, strlen(e.path), checked, NULL) == 0 && strcmp(checked, e.path) == 0);
                if (e.fd >= 0)
                        check_copy(e.fd, (uint64_t)e.st.st_size);
        }
        if (r < 0)
                check_error(r, &err);
}

static void ask(unsigned what)
{
        gb_error err = {0};
        int r = 0;

        switch (what % 5) {
        case 0:
                list();
                return;
        case 1:
                read_file();
                return;
        case 2:
                walk();
                return;
        case 3:
                r = files_write(&files, "f", "12345", 5, 0644, &err);
                break;
        default:
                r = files_remove(&files, "f", &err);
        }
        if (r < 0)
                check_error(r, &err);
}

/* ---- the server ---- */

static char root[] = "/tmp/glovebox-test-fuzz-XXXXXX";
static struct files workspace = {.root_fd = -1};

static void empty_workspace(void)
{
        _cleanup_file_list_ struct file_list *l = NULL;

        check(files_list(&workspace, ".", &l, NULL) == 0);
        for (size_t i = 0; i < l->n; i++)
                (void)files_remove_tree(&workspace, l->entries[i].name, NULL);
}

static void remove_workspace(void)
{
        empty_workspace();
        rmdir(root);
}

/* With something in it; what the last request has made is gone. */
static void make_workspace(void)
{
        if (workspace.root_fd < 0) {
                check(mkdtemp(root) != NULL);
                workspace = (struct files){.root_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), .uid = geteuid(), .gid = getegid()};
                check(workspace.root_fd >= 0 && atexit(remove_workspace) == 0);
        }
        empty_workspace();
        check(files_make_directory(&workspace, "d", 0755, NULL) == 0 && files_write(&workspace, "d/one", "12345", 5, 0644, NULL) == 0);
}

static void serve(void)
{
        int fd = connect_input();

        make_workspace();
        (void)files_server_run(fd, &workspace);
        safe_close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        if (size == 0 || size > INPUT_MAX)
                return 0;
        input = data + 1;
        input_size = size - 1;
        if (data[0] & 0x80)
                serve();
        else
                ask(data[0]);
        other_end = safe_close(other_end);
        return 0;
}
