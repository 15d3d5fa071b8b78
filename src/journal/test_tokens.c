/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/test_fixture.h"
#include "journal/tokens.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static uint64_t now_usec(void)
{
        return (uint64_t)time(NULL) * 1000000;
}

static struct tokens *open_tokens(bool write)
{
        struct tokens *t = NULL;
        gb_error err = {0};

        assert_ok(tokens_open(top, write, &t, &err), &err);
        return t;
}

static struct token create(struct tokens *t, const char *tenant, unsigned scopes, char text[static TOKEN_TEXT_MAX])
{
        struct token token = {.scopes = scopes, .name = "for the tests"};
        gb_error err = {0};

        snprintf(token.tenant, sizeof(token.tenant), "%s", tenant);
        assert_ok(tokens_create(t, &token, text, &err), &err);
        return token;
}

static bool counts(struct tokens *t, const char *text)
{
        struct token token;
        gb_error err = {0};

        int r = tokens_check(t, text, strlen(text), &token, &err);
        if (r < 0) {
                assert_int_equal(err.code, GB_E_UNAUTHORIZED);
                assert_string_equal(err.message, "this needs a token that counts"); /* one wording */
        }
        return r == 0;
}

static void test_form(void **state)
{
        _cleanup_tokens_ struct tokens *t = open_tokens(true);
        char text[TOKEN_TEXT_MAX], other[TOKEN_TEXT_MAX];
        struct token token = create(t, "acme", SCOPE_RUN, text), got;
        gb_error err = {0};

        assert_int_equal(strlen(text), 56);
        assert_memory_equal(text, "gbx_", 4);
        assert_memory_equal(text + 4, token.id, 8);
        assert_int_equal(text[12], '_');
        assert_int_equal(strspn(text + 13, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"), 43);
        assert_true(token.scopes == (SCOPE_RUN | SCOPE_READ) && token.created_usec > 0);
        assert_ok(tokens_check(t, text, 56, &got, &err), &err);
        assert_string_equal(got.tenant, "acme");
        assert_string_equal(got.id, token.id);
        assert_string_equal(got.name, "for the tests");
        assert_int_equal(got.scopes, SCOPE_RUN | SCOPE_READ);
        (void)create(t, "acme", SCOPE_RUN, other);
        assert_true(strcmp(text + 13, other + 13) != 0 && strcmp(text, other) != 0);
        assert_int_equal(tokens_count(t), 2);
}

static void test_wrong_texts(void **state)
{
        _cleanup_tokens_ struct tokens *t = open_tokens(true);
        char text[TOKEN_TEXT_MAX], other[TOKEN_TEXT_MAX], wrong[TOKEN_TEXT_MAX + 8];
        struct token token;
        gb_error err = {0};

        (void)create(t, "acme", SCOPE_RUN, text);
        (void)create(t, "other", SCOPE_RUN, other);
        /* Any one character, and anything that is missing or too much. */
        for (size_t i = 0; i < 56; i++) {
                strcpy(wrong, text);
                wrong[i] = wrong[i] == 'A' ? 'B' : 'A';
                assert_false(counts(t, wrong));
                strcpy(wrong, text);
                wrong[i] = '\0';
                assert_false(counts(t, wrong));
        }
        snprintf(wrong, sizeof(wrong), "%sA", text);
        assert_false(counts(t, wrong));
        snprintf(wrong, sizeof(wrong), " %s", text);
        assert_false(counts(t, wrong));
        /* The secret of one with the name of another. */
        snprintf(wrong, sizeof(wrong), "%.13s%s", text, other + 13);
        assert_false(counts(t, wrong));
        memcpy(wrong, text, 56);
        wrong[20] = '\0'; /* a NUL inside, with the full length */
        assert_true(tokens_check(t, wrong, 56, &token, &err) < 0);
        assert_true(tokens_check(t, "", 0, &token, &err) < 0);
        assert_true(counts(t, text) && counts(t, other));

        size_t size = 2 << 20;
        _cleanup_free_ char *large = malloc(size + 1);
        memset(large, 'a', size);
        large[size] = '\0';
        memcpy(large, text, 56);
        assert_false(counts(t, large));
}

static void test_expiry(void **state)
{
        _cleanup_tokens_ struct tokens *t = open_tokens(true);
        struct token token = {.tenant = "acme", .scopes = SCOPE_READ, .expires_usec = now_usec() + 3600000000ULL}, past = token, soon = token;
        char text[TOKEN_TEXT_MAX];
        gb_error err = {0};

        assert_ok(tokens_create(t, &token, text, &err), &err);
        assert_true(counts(t, text));
        past.expires_usec = now_usec() - 1000000;
        assert_true(tokens_create(t, &past, text, &err) < 0);
        /* A slow disk may need longer than a second to keep it. */
        uint64_t ahead_usec = 1000000;
        do
                soon.expires_usec = now_usec() + ahead_usec;
        while (tokens_create(t, &soon, text, &err) < 0 && (ahead_usec *= 3) < 60000000);
        assert_true(ahead_usec < 60000000);
        while (now_usec() <= soon.expires_usec)
                usleep(50000);
        assert_false(counts(t, text));
        assert_int_equal(tokens_count(t), 1);
}

static void test_revoke(void **state)
{
        _cleanup_tokens_ struct tokens *t = open_tokens(true);
        char a[TOKEN_TEXT_MAX], b[TOKEN_TEXT_MAX], c[TOKEN_TEXT_MAX];
        struct token token = create(t, "acme", SCOPE_RUN, a), *list = NULL;
        gb_error err = {0};
        size_t n;

        (void)create(t, "acme", SCOPE_RUN, b);
        (void)create(t, "other", SCOPE_RUN, c);
        assert_int_equal(tokens_revoke(t, token.id, false, &err), 1);
        assert_true(!counts(t, a) && counts(t, b));
        assert_true(tokens_revoke(t, token.id, false, &err) < 0); /* it does not count any more */
        assert_int_equal(err.code, GB_E_NOT_FOUND);
        assert_true(tokens_revoke(t, "acme", false, &err) < 0); /* a tenant's name is no id */
        assert_int_equal(tokens_revoke(t, "acme", true, &err), 1);
        assert_true(!counts(t, b) && counts(t, c));
        assert_true(tokens_revoke(t, "nobody", true, &err) < 0);
        assert_ok(tokens_list(t, &list, &n, &err), &err);
        assert_int_equal(n, 3);
        assert_true(list[0].revoked_usec > 0 && list[1].revoked_usec > 0 && list[2].revoked_usec == 0);
        free(list);
}

/* The server reads what another process writes: at the next request it counts. */
static void test_other_process(void **state)
{
        _cleanup_tokens_ struct tokens *server = open_tokens(false);
        char text[TOKEN_TEXT_MAX];
        gb_error err = {0};
        int fds[2], back[2], status;

        assert_false(counts(server, "gbx_aaaaaaaa_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA")); /* there is no file so far */
        assert_int_equal(tokens_count(server), 0);
        assert_true(pipe(fds) == 0 && pipe(back) == 0);
        pid_t pid = fork();
        if (pid == 0) {
                struct tokens *t = NULL;
                struct token token = {.tenant = "acme", .scopes = SCOPE_RUN};
                char go;
                if (tokens_open(top, true, &t, &err) < 0 || tokens_create(t, &token, text, &err) < 0 || write(fds[1], text, sizeof(text)) != sizeof(text))
                        _exit(1);
                if (read(back[0], &go, 1) != 1 || tokens_revoke(t, token.id, false, &err) != 1 || write(fds[1], "r", 1) != 1)
                        _exit(2);
                tokens_close(t);
                _exit(0);
        }
        assert_int_equal(read(fds[0], text, sizeof(text)), sizeof(text));
        assert_true(counts(server, text));
        assert_true(counts(server, text));
        assert_int_equal(write(back[1], "g", 1), 1);
        char revoked;
        assert_int_equal(read(fds[0], &revoked, 1), 1);
        assert_false(counts(server, text));
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_int_equal(status, 0);
        assert_false(counts(server, text));
        for (int i = 0; i < 2; i++) {
                close(fds[i]);
                close(back[i]);
        }
}

/* A file that is taken away takes its tokens along, and they do not come back with a new one. */
static void test_replaced(void **state)
{
        _cleanup_tokens_ struct tokens *server = open_tokens(false), *writer = open_tokens(true), *again = NULL;
        char text[TOKEN_TEXT_MAX], new[TOKEN_TEXT_MAX], path[128];

        (void)create(writer, "acme", SCOPE_RUN, text);
        assert_true(counts(server, text));
        snprintf(path, sizeof(path), "%s/tokens.db", top);
        assert_int_equal(unlink(path), 0); /* its log stays behind */
        assert_false(counts(server, text));
        again = open_tokens(true);
        assert_false(counts(again, text));
        (void)create(again, "acme", SCOPE_RUN, new);
        assert_true(!counts(server, text) && counts(server, new));
        tokens_close(TAKE_PTR(writer));
        assert_true(!counts(server, text) && counts(server, new) && counts(again, new));
}

static void test_refused_names(void **state)
{
        _cleanup_tokens_ struct tokens *t = open_tokens(true);
        static const char *const tenants[] = {"", "local", "Acme", "a b", "a/b", "\xc3\xa9", "a\n"};
        char text[TOKEN_TEXT_MAX];
        struct token token = {.tenant = "fine", .scopes = SCOPE_READ};
        gb_error err = {0};

        for (size_t i = 0; i < ARRAY_SIZE(tenants); i++) {
                struct token wrong = {.scopes = SCOPE_READ};
                snprintf(wrong.tenant, sizeof(wrong.tenant), "%s", tenants[i]);
                assert_true(tokens_create(t, &wrong, text, &err) < 0);
                assert_int_equal(err.code, GB_E_USAGE);
        }
        memset(token.tenant, 'a', 64);
        assert_ok(tokens_create(t, &token, text, &err), &err);
        strcpy(token.name, "bad\x1b[31m");
        assert_true(tokens_create(t, &token, text, &err) < 0);
        strcpy(token.name, "\xff");
        assert_true(tokens_create(t, &token, text, &err) < 0);
        token.name[0] = '\0';
        token.scopes = 0;
        assert_true(tokens_create(t, &token, text, &err) < 0);
}

static void test_scopes(void **state)
{
        static const struct {
                const char *text;
                unsigned scopes;
                const char *back;
        } right[] = {
                {"read", SCOPE_READ, "read"}, {"run", SCOPE_READ | SCOPE_RUN, "read,run"}, {"run,read", SCOPE_READ | SCOPE_RUN, "read,run"},
                {"metrics", SCOPE_METRICS, "metrics"}, {"admin", SCOPE_READ | SCOPE_RUN | SCOPE_METRICS | SCOPE_ADMIN, "read,run,metrics,admin"},
        };
        static const char *const wrong[] = {"", ",", "read,", "Read", "read run", "root", "read,,run"};
        char text[64], small[6];
        unsigned scopes = 99;
        gb_error err = {0};

        for (size_t i = 0; i < ARRAY_SIZE(right); i++) {
                assert_ok(token_scopes_parse(right[i].text, &scopes, &err), &err);
                assert_int_equal(scopes, right[i].scopes);
                token_scopes_text(scopes, text, sizeof(text));
                assert_string_equal(text, right[i].back);
        }
        scopes = 99;
        for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
                assert_true(token_scopes_parse(wrong[i], &scopes, &err) < 0);
        assert_int_equal(scopes, 99);
        token_scopes_text(15, small, sizeof(small));
        assert_int_equal(strlen(small), 5);
}

/* The secret is nowhere in the files. */
static void test_only_the_hash_is_kept(void **state)
{
        struct tokens *t = open_tokens(true);
        char text[TOKEN_TEXT_MAX], command[256];
        struct stat st;

        (void)create(t, "acme", SCOPE_RUN, text);
        snprintf(command, sizeof(command), "grep -rqaF -- '%s' %s", text + 13, top);
        assert_int_not_equal(system(command), 0);
        tokens_close(t);
        assert_int_not_equal(system(command), 0);
        snprintf(command, sizeof(command), "%s/tokens.db", top);
        assert_int_equal(stat(command, &st), 0);
        assert_int_equal(st.st_mode & 0777, 0600);
}

struct records {
        unsigned created, revoked;
};

static int count_record(void *data, uint64_t cursor, const char *json)
{
        struct records *r = data;

        r->created += strstr(json, "\"action\":\"token.create\"") && strstr(json, "\"tenant\":\"acme\"") && strstr(json, "\"scopes\":\"read,run\"");
        r->revoked += strstr(json, "\"action\":\"token.revoke\"") != NULL;
        return 0;
}

static void check_audit(struct tokens *t, struct journal *j, unsigned created, unsigned revoked)
{
        struct journal_query q = {.limit = 100};
        struct records r = {0};
        gb_error err = {0};

        assert_ok(tokens_tidy(t, j, &err), &err);
        assert_ok(journal_audit(j, &q, count_record, &r, NULL, &err), &err);
        assert_int_equal(r.created, created);
        assert_int_equal(r.revoked, revoked);
}

/* What the command did is in the audit once, and when a token was used is in the file. */
static void test_upkeep(void **state)
{
        _cleanup_tokens_ struct tokens *server = open_tokens(false), *command = open_tokens(true);
        _cleanup_journal_ struct journal *j = open_journal(NULL, NULL);
        _cleanup_free_ struct token *list = NULL;
        char text[TOKEN_TEXT_MAX], other[TOKEN_TEXT_MAX];
        gb_error err = {0};
        size_t n;

        check_audit(server, j, 0, 0);
        struct token token = create(command, "acme", SCOPE_RUN, text);
        check_audit(server, j, 1, 0);
        check_audit(server, j, 1, 0);
        (void)create(command, "acme", SCOPE_RUN, other);
        assert_int_equal(tokens_revoke(command, token.id, false, &err), 1);
        check_audit(server, j, 2, 1);
        assert_true(counts(server, other));
        check_audit(server, j, 2, 1);
        assert_ok(tokens_list(command, &list, &n, &err), &err);
        assert_int_equal(n, 2);
        for (size_t i = 0; i < 2; i++) {
                bool used = strncmp(list[i].id, other + 4, 8) == 0;
                assert_int_equal(list[i].used_usec > 0, used);
                assert_int_equal(list[i].used_usec % 60000000, 0);
        }
        /* Another process of the server does not tell it again. */
        tokens_close(TAKE_PTR(server));
        server = open_tokens(false);
        check_audit(server, j, 2, 1);
}

/* When a use cannot be written, it is written another time. */
static void test_use_that_cannot_be_written(void **state)
{
        _cleanup_tokens_ struct tokens *server = open_tokens(false), *command = open_tokens(true);
        _cleanup_free_ struct token *before = NULL, *after = NULL;
        struct rlimit limit, none;
        char text[TOKEN_TEXT_MAX];
        gb_error err = {0};
        size_t n;

        (void)create(command, "acme", SCOPE_RUN, text);
        assert_true(counts(server, text));
        assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
        none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
        void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
        (void)tokens_tidy(server, NULL, &err);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
        (void)signal(SIGXFSZ, old);
        assert_ok(tokens_list(command, &before, &n, &err), &err);
        assert_int_equal(before[0].used_usec, 0);
        assert_ok(tokens_tidy(server, NULL, &err), &err);
        assert_ok(tokens_list(command, &after, &n, &err), &err);
        assert_true(after[0].used_usec > 0);
}

static void test_damaged(void **state)
{
        _cleanup_tokens_ struct tokens *t = NULL;
        char path[128], text[TOKEN_TEXT_MAX];
        struct token token;
        gb_error err = {0};

        tokens_close(open_tokens(true));
        snprintf(path, sizeof(path), "%s/tokens.db", top);
        int fd = open(path, O_WRONLY | O_CLOEXEC);
        memset(text, 'x', sizeof(text));
        assert_int_equal(pwrite(fd, text, sizeof(text), 0), sizeof(text));
        close(fd);
        for (int write = 0; write < 2; write++) {
                assert_true(tokens_open(top, write, &t, &err) < 0);
                assert_non_null(strstr(err.message, "move it away"));
        }
        /* One that becomes so while the server runs lets nobody in, and is not "unauthorized". */
        assert_int_equal(truncate(path, 0), 0);
        t = open_tokens(false);
        fd = open(path, O_WRONLY | O_CLOEXEC);
        assert_int_equal(pwrite(fd, text, sizeof(text), 0), sizeof(text));
        close(fd);
        assert_true(tokens_check(t, "x", 1, &token, &err) < 0);
        assert_int_equal(err.code, GB_E_INTERNAL);
}

#define CHECKERS 4

struct checker {
        struct tokens *t;
        const char *right;
        _Atomic bool *revoked;
        bool wrong;
};

static void *check_often(void *data)
{
        struct checker *c = data;
        struct token token;
        gb_error err;

        for (int i = 0; i < 300; i++) {
                bool before = *c->revoked;
                bool ok = tokens_check(c->t, c->right, 56, &token, &err) == 0;
                bool after = *c->revoked;
                c->wrong |= (ok && before) || (!ok && !after && err.code != GB_E_UNAUTHORIZED);
                c->wrong |= tokens_check(c->t, "gbx_nobodyyy_", 13, &token, &err) == 0;
                (void)tokens_tidy(c->t, NULL, &err);
        }
        return NULL;
}

static void test_threads(void **state)
{
        _cleanup_tokens_ struct tokens *command = open_tokens(true), *server = open_tokens(false);
        char text[TOKEN_TEXT_MAX];
        struct token token = create(command, "acme", SCOPE_RUN, text);
        struct checker c[CHECKERS];
        pthread_t threads[CHECKERS];
        _Atomic bool revoked = false;
        gb_error err = {0};

        for (int i = 0; i < CHECKERS; i++) {
                c[i] = (struct checker){.t = server, .right = text, .revoked = &revoked};
                assert_int_equal(pthread_create(&threads[i], NULL, check_often, &c[i]), 0);
        }
        assert_int_equal(tokens_revoke(command, token.id, false, &err), 1);
        revoked = true;
        for (int i = 0; i < CHECKERS; i++) {
                pthread_join(threads[i], NULL);
                assert_false(c[i].wrong);
        }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_top, remove_top)

int main(void)
{
        const struct CMUnitTest tests[] = {
                TEST(test_form), TEST(test_wrong_texts), TEST(test_expiry), TEST(test_revoke), TEST(test_other_process), TEST(test_replaced),
                TEST(test_refused_names), TEST(test_scopes), TEST(test_only_the_hash_is_kept), TEST(test_upkeep), TEST(test_damaged), TEST(test_threads),
                TEST(test_use_that_cannot_be_written),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
