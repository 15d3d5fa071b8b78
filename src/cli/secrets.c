/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/secrets.h"

#include "base/fd.h"
#include "base/quote.h"
#include "cli/output.h"
#include "cli/request.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define ANY_POLICY "scrub: on\n" /* holds secrets, and nothing else of it counts */

/* What was a variable of the environment. */
static struct taken {
        char *name, *value;
} taken[SECRETS_MAX];
static size_t n_taken;

void secrets_wipe_text(char **text)
{
        if (*text)
                explicit_bzero(*text, strlen(*text));
        free(*text);
        *text = NULL;
}

/* ---- before anything else ---- */

/* Objects hold secrets on their way to a server, and from a file. */
static void wipe_and_free(void *memory)
{
        if (memory)
                explicit_bzero(memory, malloc_usable_size(memory));
        free(memory);
}

/* Nothing here is worth an error: without them a secret is as safe as this process is. 1 and not 0, which would still start a crash handler that is piped to. */
static void seal(void)
{
        (void)setrlimit(RLIMIT_CORE, &(struct rlimit){1, 1});
        (void)prctl(PR_SET_DUMPABLE, 0);
        json_set_alloc_funcs(malloc, wipe_and_free);
}

static bool is_about_secrets(enum option_id id)
{
        return id == OPT_SECRET || id == OPT_SECRET_FILE || id == OPT_SECRETS;
}

static bool is_name(const char *text, size_t size)
{
        for (size_t i = 0; i < size; i++)
                if (!(isalnum((unsigned char)text[i]) || text[i] == '_') || (unsigned char)text[i] >= 0x80)
                        return false;
        return size > 0 && size < RULE_NAME_MAX && !isdigit((unsigned char)text[0]);
}

static const struct taken *find_taken(const char *name)
{
        for (size_t i = 0; i < n_taken; i++)
                if (strcmp(taken[i].name, name) == 0)
                        return &taken[i];
        return NULL;
}

static void take(const char *name)
{
        char *value = getenv(name);

        if (!value || find_taken(name) || n_taken == SECRETS_MAX)
                return;
        taken[n_taken] = (struct taken){strdup(name), strdup(value)};
        if (!taken[n_taken].name || !taken[n_taken].value) {
                free(taken[n_taken].name);
                secrets_wipe_text(&taken[n_taken].value);
                return; /* it is missed where it is wanted */
        }
        n_taken++;
        explicit_bzero(value, strlen(value)); /* /proc/PID/environ shows this memory */
        unsetenv(name);
}

void secrets_take(const struct arguments *a)
{
        bool sealed = false;

        for (size_t i = 0; i < a->n_uses; i++) {
                const struct option_use *use = &a->uses[i];
                if (!is_about_secrets(use->option.id))
                        continue;
                if (!sealed)
                        seal();
                sealed = true;
                if (use->option.id == OPT_SECRET && is_name(use->value, strlen(use->value)))
                        take(use->value);
        }
}

void secrets_forget(void)
{
        while (n_taken > 0) {
                n_taken--;
                free(taken[n_taken].name);
                secrets_wipe_text(&taken[n_taken].value);
        }
}

/* ---- files ---- */

/* A path that is none may be the value itself, by mistake: it is not repeated. */
static int no_such_file(const struct option_use *use, const char *name, gb_error *err)
{
        return error_set(err, GB_E_USAGE, ENOENT,
                         "--%s %s=FILE: there is no such file. A value never stands on the command line, where others see it: put it into a file, or into the "
                         "environment and give --secret %s", use->option.name, name, name);
}

/* Opened without waiting and looked at afterwards; a pipe, as <(command) of a shell gives one, is waited for. */
static int open_file(const char *path, struct stat *ret_st)
{
        _cleanup_close_ int fd = open(path, O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);

        if (fd < 0 || fstat(fd, ret_st) < 0)
                return -errno;
        if (S_ISDIR(ret_st->st_mode))
                return -EISDIR;
        if (!S_ISREG(ret_st->st_mode) && !S_ISFIFO(ret_st->st_mode))
                return -EINVAL;
        if (S_ISFIFO(ret_st->st_mode)) {
                struct pollfd p = {.fd = fd, .events = POLLIN};
                int flags = fcntl(fd, F_GETFL);
                if (flags < 0 || fcntl(fd, F_SETFL, flags & ~O_NONBLOCK) < 0 || poll(&p, 1, -1) < 0)
                        return -errno;
        }
        return TAKE_FD(fd);
}

static const char *reason(int r)
{
        return r == -EINVAL ? "it is neither a file nor a pipe" : strerror(-r);
}

static int cannot_read(const struct option_use *use, const char *path, int r, gb_error *err)
{
        return error_set(err, r == -ENOENT ? GB_E_NOT_FOUND : GB_E_USAGE, -r, "--%s: cannot read %s: %s", use->option.name, quote_path(path).text, reason(r));
}

static ssize_t read_up_to(int fd, char *bytes, size_t max)
{
        size_t size = 0;

        while (size < max) {
                ssize_t n = read(fd, bytes + size, max - size);
                if (n < 0 && errno == EINTR)
                        continue;
                if (n < 0)
                        return -errno;
                if (n == 0)
                        break;
                size += (size_t)n;
        }
        return (ssize_t)size;
}

/* Without one newline at its end, which editors and echo put there. */
static size_t without_newline(const char *bytes, size_t size)
{
        if (size > 0 && bytes[size - 1] == '\n')
                size -= size > 1 && bytes[size - 2] == '\r' ? 2 : 1;
        return size;
}

static int add_file(const struct option_use *use, const char *name, const char *path, struct policy *p, gb_error *err)
{
        char bytes[SECRET_BYTES_MAX + 3], in_box[BOX_PATH_MAX]; /* one more than may be, with a newline */
        struct stat st;

        _cleanup_close_ int fd = open_file(path, &st);
        if (fd == -ENOENT || fd == -ENOTDIR || fd == -ENAMETOOLONG)
                return no_such_file(use, name, err);
        ssize_t n = fd < 0 ? fd : read_up_to(fd, bytes, sizeof(bytes));
        if (n < 0)
                return cannot_read(use, path, (int)n, err);
        snprintf(in_box, sizeof(in_box), SECRETS_DIR "/%s", name);
        int r = policy_add_secret(p, name, bytes, without_newline(bytes, (size_t)n), use->option.id == OPT_SECRET_FILE ? in_box : NULL, err);
        explicit_bzero(bytes, sizeof(bytes));
        return r < 0 ? error_prefix(err, "--%s", use->option.name) : 0;
}

static int add_list(const struct option_use *use, bool quiet, struct policy *p, gb_error *err)
{
        struct stat st;

        if (strcmp(use->value, "-") == 0)
                return error_set(err, GB_E_USAGE, EINVAL, "--secrets takes a file: standard input is for the program. With bash, --secrets <(command) takes what a command prints");
        _cleanup_close_ int fd = open_file(use->value, &st);
        if (fd < 0 && strchr(use->value, '='))
                return error_set(err, GB_E_USAGE, -fd, "--secrets takes a file of lines NAME=VALUE, and there is no such file; one secret alone is --secret NAME or --secret NAME=FILE");
        if (fd < 0)
                return cannot_read(use, use->value, fd, err);
        if (S_ISREG(st.st_mode) && st.st_mode & 077 && !quiet)
                message_print(MESSAGE_WARNING, "%s may be read by others (mode %03o): chmod 600 keeps the secrets in it to yourself", quote_path(use->value).text,
                              (unsigned)st.st_mode & 0777);
        return policy_read_secrets(p, fd, quote_path(use->value).text, err);
}

/* ---- flags ---- */

/* As variables are named, mostly: anything else may be a value that was given in the place of a name. */
static bool may_be_shown(const char *name)
{
        for (; *name; name++)
                if (!isupper((unsigned char)*name) && !isdigit((unsigned char)*name) && *name != '_')
                        return false;
        return true;
}

static int add_variable(const char *name, struct policy *p, gb_error *err)
{
        const struct taken *t = find_taken(name);
        const char *shown = may_be_shown(name) ? name : "NAME";

        if (!t)
                return error_set(err, GB_E_USAGE, ENOENT, "--secret %s: there is no variable of that name in the environment; export it before, or give --secret %s=FILE", shown, shown);
        int r = policy_add_secret(p, name, t->value, strlen(t->value), NULL, err);
        return r < 0 ? error_prefix(err, "--secret") : 0;
}

static int add(const struct option_use *use, bool quiet, struct policy *p, gb_error *err)
{
        size_t n = strcspn(use->value, "=");
        char name[RULE_NAME_MAX];

        if (use->option.id == OPT_SECRETS)
                return add_list(use, quiet, p, err);
        bool has_file = use->value[n] == '=' && use->value[n + 1];
        if (!is_name(use->value, n) || (!has_file && (use->option.id == OPT_SECRET_FILE || use->value[n] == '=')))
                return error_set(err, GB_E_USAGE, EINVAL,
                                 "--%s takes %s, where NAME is the name of a variable: letters, digits and _, at most %d of them, and no digit at its start", use->option.name,
                                 use->option.placeholder, RULE_NAME_MAX - 1);
        snprintf(name, sizeof(name), "%.*s", (int)n, use->value);
        return has_file ? add_file(use, name, use->value + n + 1, p, err) : add_variable(name, p, err);
}

int secrets_read(const struct arguments *a, struct policy *p, gb_error *err)
{
        bool quiet = arguments_has(a, OPT_QUIET);
        int r = 0;

        for (size_t i = 0; i < a->n_uses && r == 0; i++)
                if (is_about_secrets(a->uses[i].option.id))
                        r = add(&a->uses[i], quiet, p, err);
        return r;
}

/* ---- requests ---- */

static int set_secret(json_t *list, const struct policy_secret *s, gb_error *err)
{
        json_t *with_path = NULL;
        int r = 0;

        if (s->path) {
                with_path = json_object();
                r = json_object_set_new(list, s->name, with_path) < 0 || json_object_set_new(with_path, "file", json_string(s->path)) < 0 ? -ENOMEM : 0;
        }
        if (r == 0)
                r = request_set_text(s->path ? with_path : list, s->path ? "value" : s->name, s->value, s->size);
        if (r == -EILSEQ)
                return error_set(err, GB_E_USAGE, EILSEQ, "the secret %s is not UTF-8 without NUL, and cannot go to a server; with --embedded the run is done without one", s->name);
        return r < 0 ? error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory") : 0;
}

int secrets_set_request(json_t *body, const struct arguments *a, const struct policy *from, gb_error *err)
{
        _cleanup_policy_ struct policy *own = NULL;
        _cleanup_json_ json_t *list = json_object();
        int r = 0;

        if (!from) {
                r = policy_parse("the request", ANY_POLICY, strlen(ANY_POLICY), NULL, &own, err);
                if (r == 0)
                        r = secrets_read(a, own, err);
        }
        const struct policy *p = from ? from : own;
        for (size_t i = 0; r == 0 && i < p->n_secrets; i++)
                r = set_secret(list, &p->secrets[i], err);
        if (r < 0 || p->n_secrets == 0)
                return r;
        return json_object_set(body, "secrets", list) < 0 ? error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory") : 0;
}

void secrets_warn(const json_t *body, const struct client_address *to)
{
        if (json_object_get(body, "secrets") && !to->is_local)
                message_print(MESSAGE_WARNING, "the secrets go to %s without encryption", to->authority);
}
