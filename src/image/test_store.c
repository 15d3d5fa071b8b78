/* SPDX-License-Identifier: Apache-2.0
 *
 * The store: names, drafts that are put into their place or go away, and what dead makers have left. */
#include "image/store.h"

#include "base/fd.h"
#include "base/json.h"
#include "image/tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

static char store[] = "/tmp/glovebox-test-store-XXXXXX";

static int count(const char *below)
{
        char path[256];
        int n = 0;

        snprintf(path, sizeof(path), "%s%s", store, below);
        DIR *dir = opendir(path);
        for (struct dirent *e; dir && (e = readdir(dir));)
                n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
        if (dir)
                closedir(dir);
        return n;
}

static void test_names(void **state)
{
        static const char *const good[] = {"a", "a:b", "a.b-c_d:1.2", "0", "glovebox-python"};
        static const char *const bad[] = {"", "A", ".a", "-a", "a/b", "../a", "a:", ":a", "a:b:c", "a+b", "a b", "a:.b", "a\n"};
        char name[IMAGE_STORE_NAME_MAX], longest[2 * IMAGE_STORE_NAME_MAX];

        (void)state;
        for (size_t i = 0; i < ARRAY_SIZE(good); i++) {
                assert_int_equal(image_check_name(good[i], name, NULL), 0);
                assert_string_equal(name, good[i]);
        }
        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                assert_true(image_check_name(bad[i], name, NULL) < 0);
        assert_int_equal(image_check_name("a:latest", name, NULL), 0);
        assert_string_equal(name, "a");
        memset(longest, 'a', sizeof(longest));
        longest[IMAGE_STORE_NAME_MAX] = '\0';
        assert_true(image_check_name(longest, name, NULL) < 0);
        longest[IMAGE_STORE_NAME_MAX - 1] = '\0';
        assert_int_equal(image_check_name(longest, name, NULL), 0);
}

static void make(const char *name, const char *file, bool commit)
{
        _cleanup_image_draft_ struct image_draft d = IMAGE_DRAFT_NONE;
        _cleanup_json_ json_t *about = json_pack("{s:s}", "source", file);
        gb_error err = {0};

        assert_int_equal(image_draft_begin(name, &d, &err), 0);
        _cleanup_close_ int fd = openat(d.root, file, O_WRONLY | O_CREAT, 0644);
        assert_true(fd >= 0);
        assert_int_equal(mkdirat(d.root, "closed", 0), 0);
        if (commit)
                assert_int_equal(image_draft_commit(&d, about, &err), 0);
}

static void test_life(void **state)
{
        _cleanup_json_ json_t *list = NULL, *one = NULL, *none = NULL;
        _cleanup_free_ char *root = NULL, *path = NULL;
        gb_error err = {0};

        (void)state;
        assert_int_equal(image_store_list(&none, &err), 0);
        assert_int_equal(json_array_size(none), 0);
        make("one:2", "first", false);
        assert_int_equal(count("/.making"), 0);
        assert_true(image_store_root("one:2", &root, &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);

        make("one:2", "first", true);
        make("one:2", "second", true);
        make("two", "third", true);
        assert_int_equal(count("/.making"), 0);
        assert_int_equal(count("/one+2/rootfs"), 2);
        assert_int_equal(image_store_root("one:2", &root, &err), 0);
        assert_true(asprintf(&path, "%s/second", root) > 0);
        assert_int_equal(access(path, F_OK), 0);
        assert_int_equal(image_store_list(&list, &err), 0);
        assert_int_equal(json_array_size(list), 2);
        assert_string_equal(json_string_value(json_object_get(json_array_get(list, 0), "name")), "one:2");
        assert_int_equal(image_store_show("one:2", &one, &err), 0);
        assert_string_equal(json_string_value(json_object_get(one, "source")), "second");

        assert_int_equal(image_store_remove("one:2", &err), 0);
        assert_true(image_store_remove("one:2", &err) < 0);
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        assert_true(image_store_remove("tvo", &err) < 0);
        assert_non_null(strstr(err.message, "'two'"));
        assert_int_equal(image_store_remove("two:latest", &err), 0);
        assert_int_equal(count(""), 2); /* .locks and .making */
}

/* Two that make the same name, two that make others, and one that is killed. */
/* Without descriptors nobody can tell which images there are: that is not "none". */
static void test_not_seen(void **state)
{
        struct rlimit before;
        gb_error err = {0};
        json_t *list = NULL, *about = NULL;

        make("seen", "file", true);
        assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
        int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
        assert_true(next >= 0);
        close(next);
        struct rlimit one = {.rlim_cur = (rlim_t)next + 1, .rlim_max = before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &one), 0);
        int listed = image_store_list(&list, &err), list_errnum = err.errnum;
        int shown = image_store_show("seen", &about, &err), show_code = err.code;
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);

        assert_true(listed < 0);
        assert_int_equal(list_errnum, EMFILE);
        assert_true(shown < 0);
        assert_int_not_equal(show_code, GB_E_NOT_FOUND);
        assert_int_equal(image_store_list(&list, &err), 0);
        assert_true(json_array_size(list) > 0);
        json_decref(list);
        assert_int_equal(image_store_remove("seen", &err), 0);
}

static void test_makers(void **state)
{
        struct image_draft d = IMAGE_DRAFT_NONE, other = IMAGE_DRAFT_NONE;
        gb_error err = {0};
        int pair[2];
        char byte;

        (void)state;
        assert_int_equal(pipe(pair), 0);
        pid_t child = fork();
        if (child == 0) {
                struct image_draft mine = IMAGE_DRAFT_NONE;
                if (image_draft_begin("killed", &mine, NULL) < 0 || write(pair[1], "x", 1) != 1)
                        _exit(1);
                pause();
                _exit(0);
        }
        assert_int_equal(read(pair[0], &byte, 1), 1);
        assert_true(image_draft_begin("killed", &d, &err) < 0);
        assert_int_equal(err.code, GB_E_CONFLICT);
        assert_true(image_store_remove("nothing", &err) < 0);
        assert_int_equal(image_draft_begin("living", &other, &err), 0);
        assert_int_equal(count("/.making"), 2);

        kill(child, SIGKILL);
        assert_int_equal(waitpid(child, NULL, 0), child);
        assert_int_equal(image_draft_begin("killed", &d, &err), 0);
        assert_int_equal(count("/.making"), 2); /* the dead one's is gone, the other's is not */
        image_draft_done(&d);
        image_draft_done(&other);
        assert_int_equal(count("/.making"), 0);
        close(pair[0]);
        close(pair[1]);
}

static mode_t mode_of(const char *path)
{
        struct stat st;

        assert_int_equal(stat(path, &st), 0);
        return st.st_mode & 07777;
}

/* What others could get into is closed, a group that was let in stays, and a directory for other things is refused instead. */
static void test_gate(void **state)
{
        struct image_draft d = IMAGE_DRAFT_NONE;
        char path[sizeof(store) + 16], image[sizeof(path) + 16];
        gb_error err = {0};

        (void)state;
        assert_int_equal(chmod(store, 0775), 0);
        make("gate", "x", true);
        assert_int_equal(mode_of(store), 0700);
        assert_int_equal(image_store_share(getegid(), &err), 0);
        assert_int_equal(mode_of(store), 0750);
        make("gate", "y", true);
        assert_int_equal(mode_of(store), 0750);
        assert_int_equal(image_store_remove("gate", &err), 0);

        snprintf(path, sizeof(path), "%s/own/images", store);
        assert_int_equal(setenv("GLOVEBOX_IMAGES", path, 1), 0);
        make("gate", "x", true);
        assert_int_equal(mode_of(path), 0700);

        snprintf(path, sizeof(path), "%s/shared", store);
        snprintf(image, sizeof(image), "%s/other", path);
        assert_int_equal(mkdir(path, 0755), 0);
        assert_int_equal(mkdir(image, 0755), 0);
        assert_int_equal(chmod(path, 0755), 0);
        assert_int_equal(setenv("GLOVEBOX_IMAGES", path, 1), 0);
        assert_true(image_draft_begin("gate", &d, &err) < 0);
        assert_int_equal(err.code, GB_E_USAGE);
        assert_true(image_store_share(getegid(), &err) < 0);
        assert_int_equal(mode_of(path), 0755);
        assert_int_equal(setenv("GLOVEBOX_IMAGES", store, 1), 0);
}

static int setup(void **state)
{
        (void)state;
        return mkdtemp(store) ? setenv("GLOVEBOX_IMAGES", store, 1) : -1;
}

static int teardown(void **state)
{
        _cleanup_close_ int above = open("/tmp", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

        (void)state;
        return tree_remove(above, store + strlen("/tmp/"));
}

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_names),  cmocka_unit_test(test_life), cmocka_unit_test(test_not_seen),
                cmocka_unit_test(test_makers), cmocka_unit_test(test_gate),
        };

        return cmocka_run_group_tests(tests, setup, teardown);
}
