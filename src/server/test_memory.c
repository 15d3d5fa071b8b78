/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of the HTTP side fails, one after the other: a request is then refused or its connection closed, and the next one works. What
 * leaks is found by the sanitizers. The linker puts our functions in the place of malloc() and its kin, for our own code. */
#include "base/buffer.h"
#include "base/fd.h"
#include "server/loop.h"
#include "server/test_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#define HOST "Host: localhost\r\n"

void *__real_malloc(size_t size);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__wrap_strdup(const char *text);

/* Allocations until one fails; below 0: none does. */
static _Atomic int left = -1;
static _Atomic unsigned failed;
static _Thread_local bool exempt; /* the test itself */

static bool fails(void)
{
        if (exempt || left < 0 || atomic_fetch_sub(&left, 1) != 0)
                return false;
        failed++;
        return true;
}

void *__wrap_malloc(size_t size)
{
        return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t n, size_t size)
{
        return fails() ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *old, size_t size)
{
        return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
        return fails() ? NULL : __real_strdup(text);
}

/* One of each kind; in pieces, so that there is much to keep. Nothing is said about the answers but that they come or the connection ends. */
static void everything(const struct fixture *f)
{
        static const char *const texts[] = {
                "GET /echo/w%C3%A9?x=a&n=3 HTTP/1.1\r\n" HOST "\r\n",
                "GET /none HTTP/1.1\r\n" HOST "\r\nGET /open HTTP/1.1\r\n" HOST "\r\n",
                "POST /json HTTP/1.1\r\n" HOST "Content-Type: application/json\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
                "PUT /bytes/a/b HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
                "GET /stream HTTP/1.1\r\n" HOST "Accept: text/event-stream\r\n\r\n",
                "GET /nothing HTTP/1.1\r\n" HOST "\r\n",
                "GET /bad HTTP/1.1\n",
        };
        for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
                _cleanup_close_ int fd = fixture_connect(f);
                size_t half = strlen(texts[i]) / 2;
                say_bytes(fd, texts[i], half);
                say(fd, texts[i] + half);
                shutdown(fd, SHUT_WR);
                assert_true(is_closed(fd));
        }
        _cleanup_close_ int fd = fixture_connect(f);
        say(fd, "GET /large?size=1000000 HTTP/1.1\r\n" HOST "Connection: close\r\n\r\n");
        assert_true(is_closed(fd));
}

static void test_each_allocation_fails_once(void **state)
{
        static struct fixture f;
        unsigned before;
        int n = 0;

        exempt = true;
        fixture_init(&f);
        fixture_start(&f);
        do {
                before = failed;
                left = n++;
                everything(&f);
                left = -1;
                _cleanup_answer_ struct answer a = ask(&f, "GET /echo/a HTTP/1.1\r\n" HOST "\r\n");
                assert_int_equal(a.status, 200);
        } while (failed > before && n < 2000);
        assert_true(n > 50); /* it did what it says */
        assert_true(n < 2000);
        fixture_stop(&f);
}

int main(void)
{
        const struct CMUnitTest tests[] = {cmocka_unit_test(test_each_allocation_fails_once)};
        return cmocka_run_group_tests(tests, NULL, NULL);
}
