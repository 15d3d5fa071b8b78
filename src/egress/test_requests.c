/* SPDX-License-Identifier: Apache-2.0 */
#include "egress/test_requests.h"

#include "base/fd.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

static const uint16_t all_ports[][2] = {{1, 65535}};
static const char *const some_methods[] = {"GET", "HEAD", "POST"}, *const some_paths[] = {"/ok/"}, *const reading[] = {"GET", "HEAD"};
static const char *const secret[][2] = {{"Authorization", "Bearer s3cret"}, {"X-Api-Key", "k3y"}};

struct egress_rule_source rules[4];
static uint16_t port, other_port;
int server, other_server;

static void make_rule(struct egress_rule_source *r, const char *host)
{
        *r = (struct egress_rule_source){.protocol = EGRESS_HTTP, .n_ports = 1, .ports = all_ports, .text = host};
        assert_int_equal(host_pattern_parse(host, strlen(host), &r->pattern), 0);
}

int requests_setup(void **state)
{
        make_rule(&rules[0], "a.test");
        make_rule(&rules[1], "b.test");
        rules[1].methods = some_methods;
        rules[1].n_methods = ARRAY_SIZE(some_methods);
        rules[1].headers = secret;
        rules[1].n_headers = ARRAY_SIZE(secret);
        make_rule(&rules[2], "c.test");
        rules[2].paths = some_paths;
        rules[2].n_paths = ARRAY_SIZE(some_paths);
        make_rule(&rules[3], "e.test");
        rules[3].methods = reading;
        rules[3].n_methods = ARRAY_SIZE(reading);
        world_open(rules, ARRAY_SIZE(rules), NULL, NULL);
        server = server_open(&port);
        other_server = server_open(&other_port);
        return 0;
}

int requests_teardown(void **state)
{
        world_close();
        server = safe_close(server);
        other_server = safe_close(other_server);
        return 0;
}

char *fill(const char *text)
{
        _cleanup_buffer_ struct buffer b = {0};

        buffer_init(&b, 1 << 20);
        buffer_add_string(&b, "");
        for (; *text; text++) {
                if (*text == '@' || *text == '&')
                        buffer_printf(&b, "%u", *text == '@' ? port : other_port);
                else
                        buffer_add(&b, text, 1);
        }
        return TAKE_PTR(b.data);
}

void say_filled(int fd, const char *text)
{
        _cleanup_free_ char *filled = fill(text);
        say(fd, filled);
}

void hear_filled(int fd, const char *text)
{
        _cleanup_free_ char *filled = fill(text);
        hear(fd, filled);
}

void hear_refusal(int client, int status, const char *word, bool stays)
{
        _cleanup_buffer_ struct buffer head = {0};
        char text[64];

        hear_head(client, &head);
        snprintf(text, sizeof(text), "HTTP/1.1 %d ", status);
        if (strncmp(head.data, text, strlen(text)) != 0)
                fail_msg("not %d: %s", status, head.data);
        snprintf(text, sizeof(text), "\r\nGlovebox-Denied: %s\r\n", word);
        if (!strstr(head.data, text))
                fail_msg("not %s: %s", word, head.data);
        assert_non_null(strstr(head.data, "\r\nContent-Type: text/plain; charset=utf-8\r\n"));
        assert_int_equal(strstr(head.data, "\r\nConnection: close\r\n") == NULL, stays);
        size_t length = strtoul(strstr(head.data, "Content-Length: ") + strlen("Content-Length: "), NULL, 10);
        _cleanup_free_ char *body = calloc(1, length + 1);
        for (size_t i = 0; i < length; i++)
                while (recv(client, body + i, 1, 0) < 0)
                        world_turn();
        assert_memory_equal(body, "glovebox: ", strlen("glovebox: "));
        assert_int_equal(body[length - 1], '\n');
}
