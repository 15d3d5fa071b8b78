/* SPDX-License-Identifier: Apache-2.0
 *
 * Certificates, as the front needs them: those that the host trusts, and an authority for one session. */
#include "egress/client.h"

#include "base/fd.h"
#include "base/helper.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#define PROGRAM "glovebox-egress"
#define AUTHORITY_USEC 10000000ULL
#define AUTHORITY_BYTES_MAX (64 * KIB)

int egress_read_roots(struct buffer *ret, gb_error *err)
{
        const char *const places[] = {
                getenv("SSL_CERT_FILE"), "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem",
        };

        buffer_init(ret, EGRESS_ROOTS_BYTES_MAX);
        for (size_t i = 0; i < ARRAY_SIZE(places); i++) {
                _cleanup_close_ int fd = places[i] && places[i][0] ? open(places[i], O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY) : -1;
                _cleanup_free_ char *text = NULL;
                size_t size = 0;
                if (fd < 0)
                        continue;
                int r = fd_read_all(fd, EGRESS_ROOTS_BYTES_MAX - 1, &text, &size);
                if (r == 0)
                        r = buffer_add(ret, text, size);
                if (r == 0 && size > 0 && text[size - 1] != '\n')
                        r = buffer_add(ret, "\n", 1);
                return r < 0 ? error_set(err, GB_E_UNENFORCEABLE, -r, "cannot read the certificates of %s: %s", quote(places[i]).text, strerror(-r)) : 0;
        }
        return error_set(err, GB_E_UNENFORCEABLE, ENOENT,
                         "this host has no certificates by which TLS could be verified: install ca-certificates, or name a file with SSL_CERT_FILE");
}

static int read_authority(int fd, struct buffer *ret)
{
        uint64_t end_usec = monotonic_usec() + AUTHORITY_USEC;
        char chunk[4096];
        ssize_t n = 1;
        int r = 0;

        while (r == 0 && n != 0) {
                uint64_t now = monotonic_usec();
                struct pollfd ready = {fd, POLLIN, 0};
                int events = now < end_usec ? poll(&ready, 1, (int)((end_usec - now) / 1000 + 1)) : 0;
                if (events < 0 && errno == EINTR)
                        continue;
                n = events > 0 ? read(fd, chunk, sizeof(chunk)) : -1;
                if (events == 0)
                        r = -ETIMEDOUT;
                else if (n < 0 && errno != EINTR)
                        r = -errno;
                else if (n > 0)
                        r = buffer_add(ret, chunk, (size_t)n);
        }
        explicit_bzero(chunk, sizeof(chunk));
        return r;
}

int egress_make_authority(struct buffer *ret, gb_error *err)
{
        static const char *const words[] = {"authority", NULL};
        _cleanup_close_ int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
        _cleanup_helper_ struct helper h = HELPER_NONE;

        if (nothing < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot open /dev/null: %s", strerror(errno));
        int r = helper_start(&h, PROGRAM, words, nothing, err);
        if (r < 0) {
                if (err)
                        err->code = GB_E_UNENFORCEABLE;
                return r;
        }
        buffer_init(ret, AUTHORITY_BYTES_MAX);
        ret->secret = true;
        r = read_authority(h.fd, ret);
        if (r == 0 && (!ret->data || !strstr(ret->data, "-----BEGIN CERTIFICATE-----") || !strstr(ret->data, "PRIVATE KEY-----")))
                r = -EBADMSG;
        if (r < 0)
                buffer_done(ret);
        return r < 0 ? error_set(err, GB_E_UNENFORCEABLE, -r, PROGRAM " has made no certificate for the session: %s", strerror(-r)) : 0;
}
