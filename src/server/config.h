/* SPDX-License-Identifier: Apache-2.0
 *
 * config/server.yaml and the flags of `glovebox serve`, as one struct: checked whole before anything starts. */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include "base/error.h"
#include "journal/journal.h"

#include <stdbool.h>
#include <stdint.h>

#define SERVER_LISTEN_MAX 8
#define SERVER_HOSTS_MAX 32
#define SERVER_NAMES_MAX 64
#define SERVER_ANY "*" /* as an image or runtime: every one that has a name */

struct server_listen {
        char *address; /* "unix:/path", "127.0.0.1:8080", "[::1]:8080" */
        bool tls;
};

/* Of one tenant, and of all together. */
struct server_quota {
        uint64_t sessions;     /* alive */
        uint64_t runs;         /* going on */
        uint64_t memory_bytes; /* the sum of the limits of what is alive */
};

struct server_config {
        char *directory; /* of the state: journal and tokens */
        struct server_listen listen[SERVER_LISTEN_MAX];
        size_t n_listen;
        char *certificate, *key; /* files; NULL: no TLS */
        bool tokens;             /* TCP callers need one; false only for loopback addresses */
        char *hosts[SERVER_HOSTS_MAX];   /* names that Host and Origin may have besides the addresses and localhost */
        size_t n_hosts;
        char *origins[SERVER_HOSTS_MAX]; /* whole origins that browsers may come from */
        size_t n_origins;
        char *policy_file; /* NULL: the default one */
        char *workspaces;  /* base of kept workspaces; NULL: there are none */
        char *warm[16];    /* templates that are kept warm */
        size_t n_warm;
        /* What callers may choose; the policy's own they always have. */
        char *backends[2];
        size_t n_backends;
        char *runtimes[SERVER_NAMES_MAX], *images[SERVER_NAMES_MAX];
        size_t n_runtimes, n_images;
        int parent_fd; /* the server ends when this closes: that of who started it for itself; -1: none */

        struct server_quota tenant, all;
        uint64_t free_memory_bytes; /* nothing is admitted when the host has less */
        uint64_t idle_usec, idle_max_usec;         /* of sessions */
        uint64_t lifetime_usec, lifetime_max_usec;
        uint64_t drain_usec; /* from SIGTERM to the end of what still runs */
        struct journal_limits journal;

        uint64_t connections;       /* at a time */
        uint64_t threads;           /* requests that are worked on at a time */
        uint64_t body_bytes;        /* of JSON */
        uint64_t upload_bytes;      /* of files and archives */
        uint64_t header_usec, body_usec, keep_alive_usec, stalled_usec;
};

/* One row for each key. Rows of numbers have a range and a default; of lists, how many items. */
enum config_type { CONFIG_PATH, CONFIG_HOST, CONFIG_ORIGIN, CONFIG_NAME, CONFIG_BACKEND, CONFIG_RUNTIME, CONFIG_IMAGE, CONFIG_LISTEN, CONFIG_BOOL, CONFIG_COUNT, CONFIG_SIZE, CONFIG_TIME };

struct config_row {
        const char *key;
        enum config_type type;
        size_t offset, count_offset; /* in struct server_config; 0: not a list */
        size_t max_items;
        uint64_t min, max;
        const char *fallback;    /* as text; NULL: none */
        const char *placeholder; /* of texts */
        const char *help;
};

extern const struct config_row config_rows[];
extern const size_t n_config_rows;
const struct config_row *config_row_by_key(const char *key); /* NULL: there is none */
#define CONFIG_RANGE_MAX 128
char *config_row_range(const struct config_row *row, char buf[static CONFIG_RANGE_MAX]);

/* Why `directory` is NULL after server_config_load(). */
#define STATE_UNKNOWN "where the state is kept is not known, since HOME is not an absolute path: use --directory, or set GLOVEBOX_STATE_DIR"

/* NULL: $GLOVEBOX_CONFIG_DIR/server.yaml or the built-in values. Every error has its place in the file. */
int server_config_load(const char *file, struct server_config *ret, gb_error *err);
void server_config_done(struct server_config *c);
/* Sets one value as the flag of the same key would: "listen", "directory", ... */
int server_config_set(struct server_config *c, const char *key, const char *value, const char *what, gb_error *err);
/* Lists are added to by that; this empties one before. */
int server_config_clear(struct server_config *c, const char *key, gb_error *err);
/* The last check: a non-loopback address without tokens is refused, TLS has both files, directories are absolute. */
int server_config_check(const struct server_config *c, gb_error *err);

#endif
