/* SPDX-License-Identifier: Apache-2.0
 *
 * The error object of glovebox: fixed size, no allocation, so that it survives
 * fork() and crosses a socket in one write. */
#ifndef GLOVEBOX_ERROR_H
#define GLOVEBOX_ERROR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* One list of codes. Each row: name, text in JSON, exit status of the command,
 * HTTP status of the server. Everything that maps an error reads this list. */
#define GB_ERROR_CODES(X)                                                       \
        X(GB_E_NONE, "none", 0, 200)                                            \
        X(GB_E_USAGE, "usage", 110, 400)             /* flags and arguments */  \
        X(GB_E_POLICY, "policy", 111, 400)           /* the policy file */      \
        X(GB_E_UNENFORCEABLE, "unenforceable", 112, 503) /* a control is missing */ \
        X(GB_E_NOT_FOUND, "not_found", 113, 404)     /* file, language, interpreter */ \
        X(GB_E_LIMIT, "limit", 114, 400)             /* above a maximum */      \
        X(GB_E_INTERNAL, "internal", 115, 500)       /* our own failure */      \
        X(GB_E_LOST, "lost", 116, 500)               /* outcome unknown */      \
        X(GB_E_UNAUTHORIZED, "unauthorized", 100, 401) /* no token, or none that counts */ \
        X(GB_E_DENIED, "denied", 101, 403)           /* a token without that right, a foreign Host or Origin */ \
        X(GB_E_CONFLICT, "conflict", 102, 409)       /* busy, or an Idempotency-Key used for something else */ \
        X(GB_E_TOO_LARGE, "too_large", 103, 413)     /* a request's body */     \
        X(GB_E_QUOTA, "quota", 104, 429)             /* the tenant has as much as it may have: try later */ \
        X(GB_E_UNAVAILABLE, "unavailable", 105, 503) /* the server has: try later */ \
        X(GB_E_DISK_FULL, "disk_full", 106, 507)     /* of the workspace, or of the host */ \
        X(GB_E_METHOD, "method", 107, 405)           /* not of this address */  \
        X(GB_E_MEDIA, "media", 108, 415)             /* a content type that nobody reads or writes here */ \
        X(GB_E_PROTOCOL, "protocol", 109, 400)       /* not HTTP as it should be */

#define GB_ERROR_ENUM(name, text, exit_status, http_status) name,
typedef enum gb_error_code { GB_ERROR_CODES(GB_ERROR_ENUM) } gb_error_code;
#undef GB_ERROR_ENUM

#define GB_ERROR_MESSAGE_MAX 504

typedef struct gb_error {
        int32_t code;   /* enum gb_error_code */
        int32_t errnum; /* positive errno, or 0 */
        char message[GB_ERROR_MESSAGE_MAX];
} gb_error;

#ifdef __cplusplus
}
#endif
#endif
