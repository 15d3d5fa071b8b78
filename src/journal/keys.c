/* SPDX-License-Identifier: Apache-2.0
 *
 * Idempotency: a key and what it was used for, in the same transaction as the record it stands for. */
#include "journal/state.h"

#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

bool journal_key_is_given(const struct key_use *u)
{
        return u->key && u->key->key;
}

int journal_key_look(struct database *d, struct key_use *u)
{
        if (!journal_key_is_given(u))
                return SQLITE_OK;
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, ST_KEY_GET);
        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_text(s, 1, u->tenant);
        statement_bind_text(s, 2, u->key->key);
        int r = sqlite3_step(s);
        u->found = r == SQLITE_ROW;
        if (u->found) {
                const void *hash = sqlite3_column_blob(s, 0);
                u->differs = sqlite3_column_bytes(s, 0) != JOURNAL_HASH_BYTES || memcmp(hash, u->key->hash, JOURNAL_HASH_BYTES) != 0;
                statement_text(s, 1, u->found_id, sizeof(u->found_id));
        }
        return r == SQLITE_ROW || r == SQLITE_DONE ? SQLITE_OK : r;
}

int journal_key_add(struct journal *j, const struct key_use *u)
{
        if (!journal_key_is_given(u))
                return SQLITE_OK;
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_KEY_ADD);
        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, j->next_key++);
        statement_bind_text(s, 2, u->tenant);
        statement_bind_text(s, 3, u->key->key);
        (void)sqlite3_bind_blob(s, 4, u->key->hash, JOURNAL_HASH_BYTES, SQLITE_STATIC);
        statement_bind_text(s, 5, u->id);
        statement_bind_u64(s, 6, journal_now());
        return statement_run(s);
}

/* What the caller is told. */
int journal_key_answer(const struct key_use *u, char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        if (u->found && u->differs)
                return error_set(err, GB_E_CONFLICT, EEXIST, "the Idempotency-Key %s was used for another request: take a new one", quote(u->key->key).text);
        snprintf(ret_id, JOURNAL_ID_MAX, "%s", u->found ? u->found_id : u->id);
        return u->found;
}

int journal_key_check(const struct journal_key *key, gb_error *err)
{
        if (key && key->key && (key->key[0] == '\0' || strlen(key->key) >= JOURNAL_KEY_MAX))
                return error_set(err, GB_E_USAGE, EINVAL, "an Idempotency-Key has 1 to %d characters", JOURNAL_KEY_MAX - 1);
        return 0;
}

int journal_key_get(struct journal *j, const char *tenant, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        struct key_use use = {.tenant = tenant, .id = "", .key = key};

        int e = journal_key_check(key, err);
        if (e < 0)
                return e;
        {
                _cleanup_reader_ struct database *d = journal_reader(j);
                int r = journal_key_look(d, &use);
                if (r != SQLITE_OK)
                        return database_error(d, r, err, "read");
        }
        char id[JOURNAL_ID_MAX];
        e = journal_key_answer(&use, id, err);
        if (e == 1)
                memcpy(ret_id, id, sizeof(id));
        return e;
}

struct forget {
        struct key_use use;
        bool done;
};

static int write_forget(struct journal *j, void *args)
{
        struct forget *f = args;
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_KEY_FORGET);

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_text(s, 1, f->use.tenant);
        statement_bind_text(s, 2, f->use.key->key);
        statement_bind_text(s, 3, f->use.id);
        (void)sqlite3_bind_blob(s, 4, f->use.key->hash, JOURNAL_HASH_BYTES, SQLITE_STATIC);
        int r = statement_run(s);
        f->done = r == SQLITE_OK && sqlite3_changes(j->writer.db) > 0;
        return r;
}

int journal_key_forget(struct journal *j, const char *tenant, const struct journal_key *key, const char *id, gb_error *err)
{
        static const struct journal_step step = {write_forget, NULL, "forget a key of", true};
        struct forget f = {.use = {.tenant = tenant, .id = id, .key = key}};

        if (!journal_key_is_given(&f.use))
                return 0;
        int e = journal_write(j, &step, &f, err);
        return e < 0 ? e : f.done;
}
