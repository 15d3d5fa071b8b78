/* SPDX-License-Identifier: Apache-2.0
 *
 * Entries into a root directory, without an archive: what tests of the command cannot reach in a time that one waits. */
#include "image/unpack.h"

#include "base/fd.h"
#include "image/tree.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

static char root[] = "/tmp/glovebox-test-unpack-XXXXXX";

/* One entry, when so many are there already; nothing follows it. */
static gb_error_code take(uint64_t before, const char *path)
{
        _cleanup_free_ struct image_entry *e = calloc(1, sizeof(*e));
        _cleanup_close_ int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), end = open("/dev/null", O_RDONLY | O_CLOEXEC);
        struct image_unpack u = {.root = fd, .cancel_fd = -1, .entries = before, .reader = IMAGE_READER_NONE};
        gb_error err = {0};

        assert_true(e && fd >= 0 && end >= 0);
        e->kind = IMAGE_DIRECTORY;
        e->mode = 0755;
        snprintf(e->path, sizeof(e->path), "%s", path);
        u.reader.helper.fd = end;
        assert_true(image_unpack_rest(&u, e, &err) < 0);
        image_unpack_finish(&u);
        return err.code;
}

/* GB_E_USAGE: it was taken, and the archive ends too early. */
static void test_implied_directories_count(void **state)
{
        (void)state;
        assert_int_equal(take(IMAGE_ENTRIES_MAX - 5, "a/b/c/d/e"), GB_E_USAGE);
        assert_int_equal(take(IMAGE_ENTRIES_MAX - 1, "a/b/c/d/f"), GB_E_USAGE); /* they are there now */
        assert_int_equal(take(IMAGE_ENTRIES_MAX - 5, "1/2/3/4/5/6"), GB_E_LIMIT);
        assert_int_equal(take(IMAGE_ENTRIES_MAX, "x"), GB_E_LIMIT);
}

static int setup(void **state)
{
        (void)state;
        return mkdtemp(root) ? 0 : -1;
}

static int teardown(void **state)
{
        _cleanup_close_ int above = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        (void)state;
        return tree_remove(above, root + strlen("/tmp/"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_implied_directories_count)};

        return cmocka_run_group_tests(tests, setup, teardown);
}
