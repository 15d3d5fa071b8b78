/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of tokens. Every check asks the file, so that what the command has changed counts at once; the file may come, go and be
 * replaced while the server runs. When a token was last used is remembered, and written by tokens_tidy(): a request does not wait for it. */
#include "journal/tokens.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "journal/database.h"
#include "journal/journal.h"
#include "journal/token_text.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define USES_MAX 256 /* tokens whose last use waits to be written; further ones are not */
#define USE_STEP_USEC 60000000ULL
#define LOG_FILE "tokens.db-wal"
#define LOG_BYTES 1048576 /* of it; then it begins anew */
#define CREATE_ATTEMPTS_MAX 8

enum {
        ST_CHECK,
        ST_ADD,
        ST_COUNT_ALL,
        ST_COUNT_VALID,
        ST_PURGE,
        ST_REVOKE_ID,
        ST_REVOKE_TENANT,
        ST_LIST,
        ST_USED,
        ST_COUNT,
};

#define COLUMNS "id, tenant, name, scopes, created, expires, revoked, used"

static const char *const statements[ST_COUNT] = {
        [ST_CHECK] = "SELECT " COLUMNS ", hash FROM tokens WHERE id = ?1",
        [ST_ADD] = "INSERT INTO tokens(id, tenant, name, scopes, created, expires, revoked, used, hash) VALUES(?1, ?2, ?3, ?4, ?5, ?6, 0, 0, ?7)",
        [ST_COUNT_ALL] = "SELECT count(*) FROM tokens",
        [ST_COUNT_VALID] = "SELECT count(*) FROM tokens WHERE revoked = 0 AND (expires = 0 OR expires > ?1)",
        [ST_PURGE] = "DELETE FROM tokens WHERE (revoked > 0 AND revoked < ?1) OR (expires > 0 AND expires < ?1)",
        [ST_REVOKE_ID] = "UPDATE tokens SET revoked = ?2 WHERE id = ?1 AND revoked = 0",
        [ST_REVOKE_TENANT] = "UPDATE tokens SET revoked = ?2 WHERE tenant = ?1 AND revoked = 0",
        [ST_LIST] = "SELECT " COLUMNS " FROM tokens ORDER BY created, id",
        [ST_USED] = "UPDATE tokens SET used = ?2 WHERE id = ?1 AND used < ?2",
};

static const struct database_form tokens_form = {
        .file = "tokens.db",
        .what = "the file of tokens",
        .sql = statements,
        .n_sql = ARRAY_SIZE(statements),
        .application_id = 0x67627431,
        .version = 1,
        .schema = "CREATE TABLE tokens(id TEXT PRIMARY KEY, tenant TEXT NOT NULL, name TEXT, scopes INTEGER NOT NULL, created INTEGER NOT NULL, "
                  "expires INTEGER NOT NULL, revoked INTEGER NOT NULL, used INTEGER NOT NULL, hash BLOB NOT NULL) STRICT, WITHOUT ROWID;",
};

struct tokens {
        struct database database; /* its lock is of everything here */
        char *directory;
        int directory_fd; /* -1: there is no directory yet */
        dev_t device;
        ino_t inode; /* of the file that is open */
        struct {
                char id[TOKEN_ID_MAX];
                uint64_t usec;
        } uses[USES_MAX];
        size_t n_uses;
        sqlite3_int64 told; /* data_version at the last look for what the audit does not know */
};

static uint64_t now_usec(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

static void lock(struct tokens *t)
{
        pthread_mutex_lock(&t->database.lock);
}

static void unlock(struct tokens *t)
{
        pthread_mutex_unlock(&t->database.lock);
}

/* ---- the file ---- */

static int open_file(struct tokens *t, enum database_mode mode, gb_error *err)
{
        struct stat st;

        int e = database_open(&t->database, t->directory, t->directory_fd, mode, err);
        if (e < 0)
                return e;
        /* A token that was created or revoked is on the disk before that is told; when one was used is less important. */
        if (mode == DATABASE_MAKE)
                (void)database_exec(&t->database, "PRAGMA synchronous=FULL");
        if (fstatat(t->directory_fd, tokens_form.file, &st, AT_SYMLINK_NOFOLLOW) == 0) {
                t->device = st.st_dev;
                t->inode = st.st_ino;
        }
        t->told = -1;
        return 0;
}

/* Whether the file that is open is still the one of that name. */
static bool is_current(struct tokens *t)
{
        struct stat st;

        return t->database.db && fstatat(t->directory_fd, tokens_form.file, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == t->device && st.st_ino == t->inode;
}

/* Opens it when it is not; 1: there is one now, 0: there is none. */
static int refresh(struct tokens *t, gb_error *err)
{
        if (is_current(t))
                return 1;
        database_close(&t->database);
        if (t->directory_fd < 0) {
                _cleanup_free_ char *path = NULL;
                gb_error why = {0};
                int e = state_directory_open(t->directory, false, &path, &t->directory_fd, &why);
                if (e == -ENOENT)
                        return 0;
                if (e < 0) {
                        *err = why;
                        return e;
                }
                free(t->directory);
                t->directory = TAKE_PTR(path);
        }
        gb_error why = {0};
        int e = open_file(t, DATABASE_WRITE, &why);
        if (e < 0 && why.code != GB_E_NOT_FOUND && faccessat(t->directory_fd, tokens_form.file, W_OK, AT_EACCESS) < 0)
                e = open_file(t, DATABASE_READ, &why);
        if (e == 0)
                return 1;
        if (why.code == GB_E_NOT_FOUND)
                return 0;
        *err = why;
        return e;
}

int tokens_open(const char *directory, bool write, struct tokens **ret, gb_error *err)
{
        _cleanup_tokens_ struct tokens *t = calloc(1, sizeof(*t));
        gb_error why = {0};
        int e;

        if (!t)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        database_init(&t->database, &tokens_form);
        t->directory_fd = -1;
        if (write) {
                e = state_directory_open(directory, true, &t->directory, &t->directory_fd, &why);
                e = e < 0 ? e : open_file(t, DATABASE_MAKE, &why);
        } else {
                t->directory = strdup(directory);
                e = t->directory ? refresh(t, &why) : error_set(&why, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        if (e < 0) {
                if (err)
                        *err = why;
                return e;
        }
        *ret = TAKE_PTR(t);
        return 0;
}

void tokens_close(struct tokens *t)
{
        if (!t)
                return;
        database_done(&t->database);
        safe_close(t->directory_fd);
        free(t->directory);
        free(t);
}

/* ---- changes ---- */

static int check_new(const struct token *token, uint64_t now, gb_error *err)
{
        size_t size = strnlen(token->tenant, sizeof(token->tenant));

        if (size == 0 || size >= sizeof(token->tenant) || strspn(token->tenant, "abcdefghijklmnopqrstuvwxyz0123456789._-") != size)
                return error_set(err, GB_E_USAGE, EINVAL, "the tenant's name %s is not 1 to %d of a-z 0-9 . _ -", quote(token->tenant).text, TENANT_NAME_MAX - 1);
        /* There are directories of these names. */
        if (strspn(token->tenant, ".") == size)
                return error_set(err, GB_E_USAGE, EINVAL, "the tenant's name %s has nothing but dots", quote(token->tenant).text);
        if (strcmp(token->tenant, "local") == 0)
                return error_set(err, GB_E_USAGE, EINVAL, "the tenant \"local\" is who comes through the unix socket, without a token: take another name");
        size = strnlen(token->name, sizeof(token->name));
        if (size >= sizeof(token->name) || !utf8_is_valid(token->name, size))
                return error_set(err, GB_E_USAGE, EINVAL, "a token's name is up to %d bytes of UTF-8", TENANT_NAME_MAX - 1);
        for (size_t i = 0; i < size; i++)
                if ((unsigned char)token->name[i] < ' ' || token->name[i] == 0x7f)
                        return error_set(err, GB_E_USAGE, EINVAL, "a token's name has no control characters");
        if (token_scopes_counting(token->scopes) == 0)
                return error_set(err, GB_E_USAGE, EINVAL, "a token needs a scope: read, run, metrics or admin");
        if (token->expires_usec > 0 && token->expires_usec <= now)
                return error_set(err, GB_E_USAGE, EINVAL, "the token would have expired already");
        return 0;
}

static int count(struct database *d, unsigned number, uint64_t argument, uint64_t *ret)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, number);

        if (!s)
                return sqlite3_extended_errcode(d->db);
        if (sqlite3_bind_parameter_count(s) > 0)
                statement_bind_u64(s, 1, argument);
        int r = sqlite3_step(s);
        *ret = r == SQLITE_ROW ? statement_u64(s, 0) : 0;
        return r == SQLITE_ROW || r == SQLITE_DONE ? SQLITE_OK : r;
}

static int add(struct database *d, const struct token *token, const unsigned char hash[static TOKEN_HASH_BYTES])
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, ST_ADD);

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_text(s, 1, token->id);
        statement_bind_text(s, 2, token->tenant);
        statement_bind_text(s, 3, token->name);
        (void)sqlite3_bind_int(s, 4, (int)token->scopes);
        statement_bind_u64(s, 5, token->created_usec);
        statement_bind_u64(s, 6, token->expires_usec);
        (void)sqlite3_bind_blob(s, 7, hash, TOKEN_HASH_BYTES, SQLITE_STATIC);
        return statement_run(s);
}

/* Makes text and id until the id is new. */
static int add_new(struct tokens *t, struct token *token, char text[static TOKEN_TEXT_MAX], gb_error *err)
{
        struct token_parts parts;
        unsigned char hash[TOKEN_HASH_BYTES];
        int r = SQLITE_CONSTRAINT;

        for (int i = 0; i < CREATE_ATTEMPTS_MAX && (r & 0xff) == SQLITE_CONSTRAINT; i++) {
                int e = token_text_make(text, token->id);
                if (e < 0)
                        return error_set(err, GB_E_INTERNAL, -e, "the kernel gives no random bytes");
                token_text_split(text, TOKEN_TEXT_SIZE, &parts);
                e = token_secret_hash(&parts, hash);
                explicit_bzero(&parts, sizeof(parts));
                if (e < 0)
                        return error_set(err, GB_E_INTERNAL, -e, "cannot compute SHA-256");
                r = add(&t->database, token, hash);
        }
        return r == SQLITE_OK ? 0 : database_error(&t->database, r, err, "write to");
}

static int create(struct tokens *t, struct token *token, char text[static TOKEN_TEXT_MAX], gb_error *err)
{
        uint64_t n = 0, ignored;

        int r = count(&t->database, ST_PURGE, now_usec() - TOKEN_GONE_USEC, &ignored);
        r = r != SQLITE_OK ? r : count(&t->database, ST_COUNT_ALL, 0, &n);
        if (r != SQLITE_OK)
                return database_error(&t->database, r, err, "write to");
        if (n >= TOKENS_MAX)
                return error_set(err, GB_E_LIMIT, EOVERFLOW, "there are %llu tokens; those that are revoked make room after 30 days", (unsigned long long)n);
        return add_new(t, token, text, err);
}

static int check_open(struct tokens *t, gb_error *err)
{
        int e = refresh(t, err);

        return e != 0 ? e : error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no token so far");
}

int tokens_create(struct tokens *t, struct token *token, char ret_text[static TOKEN_TEXT_MAX], gb_error *err)
{
        char text[TOKEN_TEXT_MAX];
        uint64_t now = now_usec();
        struct token made = *token;
        gb_error ignored = {0};

        err = err ? err : &ignored;
        int e = check_new(token, now, err);
        if (e < 0)
                return e;
        made.scopes = token_scopes_counting(token->scopes);
        made.created_usec = now;
        made.revoked_usec = made.used_usec = 0;
        lock(t);
        e = check_open(t, err);
        e = e < 0 ? e : create(t, &made, text, err);
        unlock(t);
        if (e == 0) {
                *token = made;
                memcpy(ret_text, text, sizeof(text));
        }
        explicit_bzero(text, sizeof(text));
        return e;
}

static int revoke_some(struct tokens *t, const char *which, unsigned number, gb_error *err)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&t->database, number);

        if (s)
                statement_bind_text(s, 1, which);
        if (s)
                statement_bind_u64(s, 2, now_usec());
        int r = s ? statement_run(s) : sqlite3_extended_errcode(t->database.db);
        return r == SQLITE_OK ? sqlite3_changes(t->database.db) : database_error(&t->database, r, err, "write to");
}

int tokens_revoke(struct tokens *t, const char *id_or_tenant, bool is_tenant, gb_error *err)
{
        gb_error ignored = {0};

        err = err ? err : &ignored;
        lock(t);
        int e = check_open(t, err);
        e = e < 0 ? e : revoke_some(t, id_or_tenant, is_tenant ? ST_REVOKE_TENANT : ST_REVOKE_ID, err);
        unlock(t);
        if (e == 0)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, is_tenant ? "no token of the tenant %s counts" : "there is no token %s that counts",
                                 quote(id_or_tenant).text);
        return e;
}

/* ---- looking ---- */

static void from_row(sqlite3_stmt *s, struct token *ret)
{
        *ret = (struct token){0};
        statement_text(s, 0, ret->id, sizeof(ret->id));
        statement_text(s, 1, ret->tenant, sizeof(ret->tenant));
        statement_text(s, 2, ret->name, sizeof(ret->name));
        ret->scopes = token_scopes_counting((unsigned)sqlite3_column_int(s, 3));
        ret->created_usec = statement_u64(s, 4);
        ret->expires_usec = statement_u64(s, 5);
        ret->revoked_usec = statement_u64(s, 6);
        ret->used_usec = statement_u64(s, 7);
}

static int list(struct tokens *t, struct token **ret, size_t *ret_n)
{
        _cleanup_free_ struct token *found = NULL;
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&t->database, ST_LIST);
        size_t n = 0, room = 0;
        int r;

        if (!s)
                return sqlite3_extended_errcode(t->database.db);
        while ((r = sqlite3_step(s)) == SQLITE_ROW) {
                if (n == room) {
                        room = room ? 2 * room : 16;
                        struct token *more = reallocarray(found, room, sizeof(*found));
                        if (!more)
                                return SQLITE_NOMEM;
                        found = more;
                }
                from_row(s, &found[n++]);
        }
        if (r != SQLITE_DONE)
                return r;
        *ret = TAKE_PTR(found);
        *ret_n = n;
        return SQLITE_OK;
}

int tokens_list(struct tokens *t, struct token **ret, size_t *ret_n, gb_error *err)
{
        gb_error ignored = {0};

        err = err ? err : &ignored;
        lock(t);
        int e = refresh(t, err);
        if (e == 0) {
                *ret = NULL;
                *ret_n = 0;
        } else if (e > 0) {
                int r = list(t, ret, ret_n);
                e = r == SQLITE_OK ? 0 : database_error(&t->database, r, err, "read");
        }
        unlock(t);
        return e;
}

int64_t tokens_count(struct tokens *t)
{
        gb_error err = {0};
        uint64_t n = 0;

        lock(t);
        int e = refresh(t, &err);
        if (e > 0 && count(&t->database, ST_COUNT_VALID, now_usec(), &n) != SQLITE_OK)
                e = -EIO;
        unlock(t);
        return e < 0 ? e : (int64_t)n;
}

/* ---- checking ---- */

static void note_use(struct tokens *t, const struct token *token, uint64_t now)
{
        uint64_t usec = now - now % USE_STEP_USEC;
        size_t i = 0;

        if (token->used_usec >= usec)
                return;
        while (i < t->n_uses && strcmp(t->uses[i].id, token->id) != 0)
                i++;
        if (i == USES_MAX)
                return;
        memcpy(t->uses[i].id, token->id, sizeof(t->uses[i].id));
        t->uses[i].usec = usec;
        t->n_uses = MAX(t->n_uses, i + 1);
}

/* The row of that id, and its hash; of one that there is not, a hash that no secret has. */
static int find(struct tokens *t, const char *id, struct token *ret, unsigned char hash[static TOKEN_HASH_BYTES])
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&t->database, ST_CHECK);

        memset(hash, 0, TOKEN_HASH_BYTES);
        if (!s)
                return sqlite3_extended_errcode(t->database.db);
        statement_bind_text(s, 1, id);
        int r = sqlite3_step(s);
        if (r == SQLITE_ROW) {
                from_row(s, ret);
                if (sqlite3_column_bytes(s, 8) == TOKEN_HASH_BYTES)
                        memcpy(hash, sqlite3_column_blob(s, 8), TOKEN_HASH_BYTES);
        }
        return r;
}

int tokens_check(struct tokens *t, const char *text, size_t size, struct token *ret, gb_error *err)
{
        unsigned char given[TOKEN_HASH_BYTES] = {0}, kept[TOKEN_HASH_BYTES] = {0};
        struct token_parts parts;
        struct token token = {0};
        gb_error why = {0};
        uint64_t now = now_usec();

        token_text_split(text, size, &parts);
        bool hashed = token_secret_hash(&parts, given) == 0;
        explicit_bzero(parts.secret, sizeof(parts.secret));
        lock(t);
        int e = refresh(t, &why), r = e > 0 ? find(t, parts.id, &token, kept) : SQLITE_DONE;
        if (e >= 0 && r != SQLITE_ROW && r != SQLITE_DONE)
                e = database_error(&t->database, r, &why, "read");
        /* All of it is looked at, whatever the first part says. */
        bool same = CRYPTO_memcmp(given, kept, sizeof(given)) == 0;
        bool counts = hashed & same & (r == SQLITE_ROW) & (token.revoked_usec == 0) & (token.expires_usec == 0 || token.expires_usec > now);
        if (counts)
                note_use(t, &token, now);
        unlock(t);
        if (e < 0) {
                if (err)
                        *err = why;
                return e;
        }
        if (!hashed)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "cannot compute SHA-256");
        if (!counts)
                return error_set(err, GB_E_UNAUTHORIZED, EACCES, "this needs a token that counts");
        *ret = token;
        return 0;
}

/* ---- upkeep ---- */

static int write_uses(struct tokens *t)
{
        int r = SQLITE_OK;

        for (size_t i = 0; i < t->n_uses && r == SQLITE_OK; i++) {
                _cleanup_statement_ sqlite3_stmt *s = database_statement(&t->database, ST_USED);
                if (!s)
                        return sqlite3_extended_errcode(t->database.db);
                statement_bind_text(s, 1, t->uses[i].id);
                statement_bind_u64(s, 2, t->uses[i].usec);
                r = statement_run(s);
        }
        return r;
}

/* Where the file cannot be written to, nobody is told when tokens were used; nothing else depends on it. Nobody is waited for, since requests wait for us. */
static void flush(struct tokens *t)
{
        sqlite3 *db = t->database.db;
        struct stat st;
        int r = SQLITE_OK;

        (void)sqlite3_busy_timeout(db, 0);
        if (t->n_uses > 0 && !sqlite3_db_readonly(db, "main")) {
                r = database_exec(&t->database, "BEGIN IMMEDIATE");
                r = r != SQLITE_OK ? r : write_uses(t);
                r = r != SQLITE_OK ? r : database_exec(&t->database, "COMMIT");
                (void)database_undo(&t->database, r);
        }
        /* What could not be written now is written another time. */
        if (r == SQLITE_OK || (r & 0xff) == SQLITE_READONLY)
                t->n_uses = 0;
        if (fstatat(t->directory_fd, LOG_FILE, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_size > LOG_BYTES)
                (void)sqlite3_wal_checkpoint_v2(db, NULL, SQLITE_CHECKPOINT_TRUNCATE, NULL, NULL);
        (void)sqlite3_busy_timeout(db, DATABASE_BUSY_MSEC);
}

static int tell(struct journal *j, const struct token *token, bool revoked, gb_error *err)
{
        char mark[32], more[512], scopes[64], expires[JOURNAL_TIME_MAX + 2] = "null", at[JOURNAL_TIME_MAX];

        snprintf(mark, sizeof(mark), "%s:%s", revoked ? "token.revoke" : "token.create", token->id);
        token_scopes_text(token->scopes, scopes, sizeof(scopes));
        if (token->expires_usec > 0)
                snprintf(expires, sizeof(expires), "\"%s\"", journal_time_format(token->expires_usec, at));
        snprintf(more, sizeof(more), "{\"scopes\":\"%s\",\"expires_at\":%s}", scopes, expires);
        int e = journal_audit_once(j, mark, revoked ? token->revoked_usec : token->created_usec, token->tenant, token->id, revoked ? "token.revoke" : "token.create",
                                   revoked ? NULL : more, err);
        return e < 0 ? e : 0;
}

int tokens_tidy(struct tokens *t, struct journal *j, gb_error *err)
{
        _cleanup_free_ struct token *found = NULL;
        size_t n = 0;
        uint64_t version = 0;
        gb_error ignored = {0};

        err = err ? err : &ignored;
        lock(t);
        int e = refresh(t, err);
        if (e > 0) {
                flush(t);
                int r = database_number(&t->database, "PRAGMA data_version", &version);
                /* Changes of our own do not count there; those are last uses. */
                if (r == SQLITE_OK && (sqlite3_int64)version != t->told)
                        r = list(t, &found, &n);
                e = r == SQLITE_OK ? 0 : database_error(&t->database, r, err, "read");
        }
        unlock(t);
        for (size_t i = 0; i < n && e == 0 && j; i++) {
                e = tell(j, &found[i], false, err);
                if (e == 0 && found[i].revoked_usec > 0)
                        e = tell(j, &found[i], true, err);
        }
        if (e == 0 && version > 0) {
                lock(t);
                t->told = (sqlite3_int64)version;
                unlock(t);
        }
        return e;
}
