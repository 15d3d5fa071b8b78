/* SPDX-License-Identifier: Apache-2.0
 *
 * Any bytes as a host, a host with its port, a pattern, an address and a range. What is taken is in canonical form: that is taken again, as the same. */
#include "base/host.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
        if (!holds)
                abort();
}

static void check_host(const struct host *host)
{
        char text[HOST_TEXT_MAX + 10];
        struct host_pattern any, exact;
        struct host back;
        uint16_t port;

        bool is_ipv6 = host->kind == HOST_ADDRESS && !address_is_ipv4(&host->address);
        snprintf(text, sizeof(text), is_ipv6 ? "[%s]" : "%s", host->text);
        check(host_parse(text, strlen(text), &back) == 0 && host_equals(&back, host) && address_equals(&back.address, &host->address));
        check(strlen(host->text) > 0 && strpbrk(host->text, " /?#@%\\*[]ABCDEFGHIJKLMNOPQRSTUVWXYZ") == NULL);
        check(is_ipv6 || strchr(host->text, ':') == NULL);

        check(host_pattern_parse("*", 1, &any) == 0 && host_pattern_has(&any, host) == (host->kind == HOST_NAME));
        check(host_pattern_parse(text, strlen(text), &exact) == 0 && host_pattern_has(&exact, host));
        check(host_pattern_covers(&any, &exact) == (host->kind == HOST_NAME) && !host_pattern_covers(&exact, &any));

        strcat(text, ":443");
        check(host_parse(text, strlen(text), &back) < 0);
        check(host_parse_port(text, strlen(text), &back, &port) == 0 && port == 443 && host_equals(&back, host));
}

static void check_addresses(const char *text, size_t size)
{
        char shown[ADDRESS_TEXT_MAX + 4];
        struct address_range range, same;
        struct address a, odd;

        if (address_parse(text, size, &a) == 0) {
                address_format(&a, shown);
                check(address_parse(shown, strlen(shown), &odd) == 0 && address_equals(&a, &odd));
                check(address_range_parse(text, size, &range) == 0 && range.bits == 128 && address_range_has(&range, &a));
                /* Two readers of four decimal parts do not differ. */
                if (address_parse_odd(text, size, &odd) == 0)
                        check(address_equals(&a, &odd));
        }
        if (address_range_parse(text, size, &range) == 0) {
                address_range_format(&range, shown);
                check(address_range_parse(shown, strlen(shown), &same) == 0 && memcmp(&same, &range, sizeof(same)) == 0);
                check(address_range_has(&range, &range.first));
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        const char *text = (const char *)data;
        struct host_pattern pattern;
        struct host host;
        uint16_t port;

        if (host_parse(text, size, &host) == 0)
                check_host(&host);
        if (host_parse_port(text, size, &host, &port) == 0) {
                check(port != 0);
                check_host(&host);
        }
        if (host_pattern_parse(text, size, &pattern) == 0) {
                check(host_pattern_covers(&pattern, &pattern));
                if (pattern.kind != PATTERN_ANY)
                        check_host(&pattern.host);
                check(pattern.kind != PATTERN_BELOW || !host_pattern_has(&pattern, &pattern.host));
        }
        check_addresses(text, size);
        return 0;
}
