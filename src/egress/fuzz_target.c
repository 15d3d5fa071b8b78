/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as what a client asks the proxy for: the target of a request and, in the next line, its Host field; and as SOCKS5, where the same must come out however
 * they are cut. */
#include "egress/socks.h"
#include "egress/target.h"

#include "base/macro.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
        if (!holds)
                abort();
}

/* The canonical form says the same. */
static void check_target(const struct target *t, const char *field)
{
        char text[HOST_TEXT_MAX + 20];
        struct target back;

        bool is_ipv6 = t->host.kind == HOST_ADDRESS && !address_is_ipv4(&t->host.address);
        snprintf(text, sizeof(text), is_ipv6 ? "[%s]:%u" : "%s:%u", t->host.text, t->port);
        check(t->port != 0 && target_parse_authority(text, &back) == 0);
        check(host_equals(&back.host, &t->host) && back.port == t->port && !back.path);
        check(target_is_host_field(t, text, 1) && target_is_host_field(t, text, 80));
        *strrchr(text, ':') = '\0';
        check(target_is_host_field(t, text, t->port) && !target_is_host_field(t, text, (uint16_t)(t->port ^ 1)));

        /* A field that agrees can be put in the place of the target. */
        if (target_is_host_field(t, field, t->port) && target_parse_authority(field, &back) == 0)
                check(host_equals(&back.host, &t->host) && back.port == t->port);
}

static void run_target(const char *text, const char *field)
{
        struct target t;

        if (target_parse_authority(text, &t) == 0) {
                check_target(&t, field);
                check(!t.path && target_parse_absolute(text, &t) < 0);
        }
        if (target_parse_absolute(text, &t) == 0) {
                check_target(&t, field);
                check(t.path[0] == '/' && strpbrk(t.path, " #\\\"\r\n\t\x7f") == NULL);
                check(strncmp(t.path, "/", 2) == 0 || (t.path > text && t.path < text + strlen(text)));
        }
}

/* Runs it to its end; the bytes come in pieces of this size. What was said in the end, and after how many bytes. */
static enum socks_step run_socks(const uint8_t *data, size_t size, size_t piece, struct socks *s, size_t *ret_used)
{
        size_t at = 0, end = 0, used;

        for (;;) {
                enum socks_step step = socks_feed(s, data + at, end - at, &used);
                check(used <= end - at && (step == SOCKS_MORE ? used == 0 : step == SOCKS_REFUSED || used > 0));
                at += used;
                if (step == SOCKS_GREETED)
                        continue;
                if (step != SOCKS_MORE || end == size) {
                        *ret_used = at;
                        return step;
                }
                end += MIN(piece, size - end);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        _cleanup_free_ char *text = strndup((const char *)data, size);
        struct socks whole = {}, cut = {};
        size_t used, used_cut;

        check(text != NULL);
        char *newline = strchr(text, '\n');
        if (newline)
                *newline = '\0';
        run_target(text, newline ? newline + 1 : "");

        enum socks_step step = run_socks(data, size, size, &whole, &used);
        check(step == run_socks(data, size, 1, &cut, &used_cut) && used == used_cut);
        check(whole.greeted == cut.greeted && whole.port == cut.port && host_equals(&whole.host, &cut.host) && whole.why == cut.why);
        check(whole.answer_size == cut.answer_size && memcmp(whole.answer, cut.answer, sizeof(whole.answer)) == 0);
        if (step == SOCKS_REQUEST)
                check(whole.port != 0 && whole.host.text[0] != '\0');
        if (step == SOCKS_REFUSED)
                check(whole.why && whole.answer_size <= sizeof(whole.answer));
        return 0;
}
