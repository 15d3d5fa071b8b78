/* SPDX-License-Identifier: Apache-2.0
 *
 * `glovebox-server serve`: the process is made fit to serve, then the server is started (serve.c). */
#include "backend/backend.h"
#include "base/fd.h"
#include "base/limits.h"
#include "base/path.h"
#include "base/quote.h"
#include "server/commands.h"
#include "server/log.h"
#include "server/notify.h"
#include "server/serve.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <jansson.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static int print_config(void)
{
        json_t *all = json_object();
        char range[CONFIG_RANGE_MAX];

        for (size_t i = 0; i < n_config_rows; i++) {
                const struct config_row *row = &config_rows[i];
                json_object_set_new(all, row->key, json_pack("{s:s?, s:s, s:b, s:s}", "default", row->fallback, "allowed", config_row_range(row, range),
                                                             "list", row->count_offset != 0, "help", row->help));
        }
        int r = json_dumpf(all, stdout, JSON_INDENT(2));
        json_decref(all);
        puts("");
        return r == 0 && fflush(stdout) == 0 ? 0 : error_exit_status(GB_E_INTERNAL);
}

/* The unix socket that clients look for, unless addresses were given. */
static int add_default_address(struct server_config *c, gb_error *err)
{
        _cleanup_free_ char *path = NULL, *text = NULL;

        if (c->n_listen > 0)
                return 0;
        int r = path_runtime("glovebox.sock", &path);
        if (r == -EPERM)
                return error_set(err, GB_E_USAGE, EPERM, "the directory for sockets of this user is not his, or others can write to it: "
                                 "remove it (/run/glovebox of root, else glovebox in $XDG_RUNTIME_DIR, else /tmp/glovebox-UID)");
        if (r < 0 || asprintf(&text, "unix:%s", path) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return server_config_set(c, "listen", text, "the default address", err);
}

#define LARGE_PIECE_BYTES (1 * MIB)

/* Large pieces of memory go back to the host when they are freed. Otherwise a few large requests in threads that come and go would make the process large for good. */
static void tame_memory(void)
{
#ifdef __GLIBC__
        (void)mallopt(M_MMAP_THRESHOLD, (int)LARGE_PIECE_BYTES);
        (void)mallopt(M_TRIM_THRESHOLD, (int)LARGE_PIECE_BYTES);
#endif
}

/* Nothing that others hand down shall matter: descriptors 0 to 2 are there, dumps are off (there are secrets in memory), signals are as usual. */
static int tame_process(gb_error *err)
{
        struct rlimit core = {1, 1}, files; /* 0 would still start a piped crash handler on the host, and boxes could not have 1 any more */
        int fd;

        do
                fd = open("/dev/null", O_RDWR);
        while (fd >= 0 && fd <= STDERR_FILENO);
        safe_close(fd);
        if (fd < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot open /dev/null: %s", strerror(errno));
        umask(0077);
        tame_memory();
        (void)setrlimit(RLIMIT_CORE, &core);
        if (prctl(PR_SET_DUMPABLE, 0) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot switch dumps off: %s", strerror(errno));
        if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
                files.rlim_cur = files.rlim_max;
                (void)setrlimit(RLIMIT_NOFILE, &files);
        }
        return 0;
}

/* OpenSSL sets itself up when it is first used, once, and does not bear it when it lacks memory for that: it uses what it could not make. So it is
 * set up before anything else, and the process ends in its place. Afterwards it gets along without. */
static bool crypto_begins;

static void *crypto_given(void *p)
{
        static const char text[] = "glovebox-server: out of memory\n";

        if (p || !crypto_begins)
                return p;
        (void)!write(STDERR_FILENO, text, sizeof(text) - 1);
        _exit(error_exit_status(GB_E_INTERNAL));
}

static void *crypto_malloc(size_t size, const char *file, int line)
{
        return crypto_given(malloc(size));
}

static void *crypto_realloc(void *old, size_t size, const char *file, int line)
{
        return crypto_given(realloc(old, size));
}

static void crypto_free(void *p, const char *file, int line)
{
        free(p);
}

static int prepare_crypto(gb_error *err)
{
        unsigned char hash[EVP_MAX_MD_SIZE];

        crypto_begins = CRYPTO_set_mem_functions(crypto_malloc, crypto_realloc, crypto_free) == 1;
        bool good = OPENSSL_init_ssl(0, NULL) == 1 && EVP_Digest("", 0, hash, NULL, EVP_sha256(), NULL) == 1;
        crypto_begins = false;
        return good ? 0 : error_set(err, GB_E_INTERNAL, EIO, "cannot set up the cryptographic library");
}

#define SESSION_FILES 4096 /* sessions have descriptors, too: a dozen each */

static void fit_connections(struct server_config *c)
{
        struct rlimit files;

        if (getrlimit(RLIMIT_NOFILE, &files) < 0 || files.rlim_cur == RLIM_INFINITY)
                return;
        uint64_t most = files.rlim_cur > 2 * SESSION_FILES ? files.rlim_cur - SESSION_FILES : files.rlim_cur / 2;
        if (c->connections <= most)
                return;
        c->connections = most;
        log_warning("limits", "the process may have %llu open files: at most %llu connections at a time (raise RLIMIT_NOFILE for more)",
                    (unsigned long long)files.rlim_cur, (unsigned long long)c->connections);
}

#define SERVE_INIT(o) {.server = {.config = (o)->config}, .signals = -1, .loop_over = -1, .reload = -1, .rules_told = -1, .user = (o)->user}

static int check(const struct serve_options *o, gb_error *err)
{
        struct serve s = SERVE_INIT(o);

        int r = serve_look(&s, err);
        serve_done(&s);
        return r;
}

static int serve(struct serve_options *o, gb_error *err)
{
        struct serve s = SERVE_INIT(o);

        int r = tame_process(err);
        if (r == 0)
                r = prepare_crypto(err);
        if (r == 0) {
                log_open(o->json);
                notify_open();
                fit_connections(&s.server.config);
                if (s.server.config.parent_fd < 0)
                        backend_native.settle();
                r = serve_start(&s, err);
        }
        if (r == 0)
                r = serve_run(&s, err);
        serve_done(&s);
        if (r == 0 && s.left == 0)
                log_info("ended", "everything has ended");
        else if (r == 0)
                log_warning("ended", "the server has ended, and %zu sessions had not ended in time", s.left);
        o->config = s.server.config;
        return r;
}

int command_serve(int argc, char **argv)
{
        struct serve_options o = {0};
        gb_error err = {.code = GB_E_INTERNAL, .message = "unknown failure"};
        bool started = false;

        int r = serve_options_parse(argc, argv, &o, &err);
        if (r == 0 && o.print)
                r = print_config();
        else if (r == 0) {
                r = add_default_address(&o.config, &err);
                if (r == 0)
                        r = server_config_check(&o.config, &err);
                started = r == 0 && !o.check;
                if (r == 0)
                        r = o.check ? check(&o, &err) : serve(&o, &err);
        }
        if (r < 0 && started)
                log_error("failed", "%s", err.message);
        else if (r < 0)
                fprintf(stderr, "glovebox-server: %s\n", err.message);
        serve_options_done(&o);
        return r < 0 ? error_exit_status(err.code) : r;
}
