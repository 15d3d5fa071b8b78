/* SPDX-License-Identifier: Apache-2.0
 *
 * Which way leads to the files of a session, and how much room its workspace has when only the backend can count. */
#include "engine/session_state.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static gb_error_code refusal; /* of session_files() */
static struct box_usage used;
static int dialled;

static int give_files(struct backend_session *session, int *ret_fd, uid_t *ret_uid, gid_t *ret_gid, gb_error *err)
{
        if (refusal != GB_E_NONE)
                return error_set(err, refusal, EPERM, "refused");
        *ret_fd = 7;
        *ret_uid = 8;
        *ret_gid = 9;
        return 0;
}

static int dial(struct backend_session *session, gb_error *err)
{
        dialled++;
        return error_set(err, GB_E_LOST, ESRCH, "the box is gone");
}

static int no_workspace(const struct backend_session *session)
{
        return -1;
}

static int usage(struct backend_session *session, struct box_usage *ret, gb_error *err)
{
        *ret = used;
        return 0;
}

static const struct policy policy = {.disk_limit_bytes = 1000, .inode_limit = 10};

static void expect_way(const struct backend *backend, bool remote, gb_error_code code)
{
        struct session s = {.backend = backend, .policy = &policy};
        struct files f;
        gb_error err = {0};

        memset(&f, 0xff, sizeof(f));
        session_files_init(&s);
        int r = session_files(&s, &f, &err);
        assert_int_equal(err.code, code);
        assert_int_equal(r < 0, code != GB_E_NONE);
        if (r < 0)
                return;
        assert_int_equal(f.remote != NULL, remote);
        if (!remote) {
                assert_true(f.root_fd == 7 && f.uid == 8 && f.gid == 9);
                return;
        }
        assert_true(f.remote->bytes_max == 1000 && f.remote->entries_max == 10);
        int before = dialled;
        assert_int_equal(files_remove(&f, "x", &err), -ESRCH);
        assert_int_equal(dialled, before + 1);
        assert_string_equal(err.message, "the box is gone");
}

static void test_ways(void **state)
{
        struct backend both = {.name = "test", .session_files = give_files, .session_dial = dial};
        struct backend directory = {.name = "test", .session_files = give_files}, server = {.name = "test", .session_dial = dial}, none = {.name = "test"};

        refusal = GB_E_NONE;
        expect_way(&both, false, GB_E_NONE);
        expect_way(&directory, false, GB_E_NONE);
        expect_way(&server, true, GB_E_NONE);
        expect_way(&none, false, GB_E_INTERNAL);
        refusal = GB_E_UNENFORCEABLE;
        expect_way(&both, true, GB_E_NONE);
        expect_way(&directory, false, GB_E_UNENFORCEABLE);
        refusal = GB_E_LOST; /* another way would not help */
        expect_way(&both, false, GB_E_LOST);
}

static void expect_room(uint64_t bytes, uint64_t inodes, bool room)
{
        static const struct backend backend = {.name = "test", .session_workspace = no_workspace, .session_usage = usage};
        struct session s = {.backend = &backend, .policy = &policy, .backend_lock = PTHREAD_MUTEX_INITIALIZER};
        gb_error err = {0};

        s.places.workspace_fd = -1;
        int r = session_room(&s, bytes, inodes, 0, &err);
        assert_int_equal(r, room ? 0 : -ENOSPC);
        assert_int_equal(err.code, room ? GB_E_NONE : GB_E_DISK_FULL);
}

static void test_room(void **state)
{
        used = (struct box_usage){.disk_bytes = 600, .inodes = 7};
        expect_room(400, 3, true);
        expect_room(401, 3, false);
        expect_room(400, 4, false);
        expect_room(UINT64_MAX, 1, false);
        expect_room(1, UINT64_MAX, false);
        used = (struct box_usage){.disk_bytes = 1001, .inodes = 0}; /* more than there is: /tmp counts, too */
        expect_room(0, 0, false);
        used = (struct box_usage){.disk_bytes = 0, .inodes = 11};
        expect_room(0, 0, false);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_ways), cmocka_unit_test(test_room)};

        return cmocka_run_group_tests(tests, NULL, NULL);
}
