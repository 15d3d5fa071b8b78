/* SPDX-License-Identifier: Apache-2.0
 *
 * Who did what: one record for each run, at its end; for sessions and tokens, one for each begin and end. */
#include "journal/state.h"

#include "base/hash.h"
#include "base/json.h"
#include "base/limits.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* ---- writing ---- */

/* The number of a text that is kept once, and 0 when it is not: there are too many, or it is too long. */
static int text_number(struct journal *j, const char *text, uint64_t *ret)
{
        uint64_t hash = hash_string(HASH_INIT, text);

        *ret = 0;
        for (size_t i = 0; i < j->n_texts; i++)
                if (j->texts[i].hash == hash && strcmp(j->texts[i].text, text) == 0) {
                        *ret = i + 1;
                        return SQLITE_OK;
                }
        if (j->n_texts == TEXTS_MAX || strlen(text) > TEXT_BYTES_MAX)
                return SQLITE_OK;
        _cleanup_free_ char *copy = strdup(text);
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_TEXT_ADD);
        if (!copy || !s)
                return SQLITE_NOMEM;
        statement_bind_u64(s, 1, j->n_texts + 1);
        statement_bind_text(s, 2, text);
        int r = statement_run(s);
        if (r != SQLITE_OK)
                return r;
        j->texts[j->n_texts++] = (struct text){.hash = hash, .text = TAKE_PTR(copy)};
        *ret = j->n_texts;
        return SQLITE_OK;
}

void journal_audit_settle(struct journal *j, bool kept)
{
        while (!kept && j->n_texts > j->n_texts_kept)
                free(j->texts[--j->n_texts].text);
        j->n_texts_kept = j->n_texts;
}

int journal_audit_row(struct journal *j, const struct audit_row *row)
{
        uint64_t text = 0;
        int r = row->controls ? text_number(j, row->controls, &text) : SQLITE_OK;
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_AUDIT_ADD);

        if (r != SQLITE_OK || !s)
                return r != SQLITE_OK ? r : sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(s, 1, j->next_audit++); /* a number that is not used in the end is no harm */
        statement_bind_u64(s, 2, row->at_usec);
        statement_bind_text(s, 3, row->tenant);
        statement_bind_text(s, 4, row->token);
        statement_bind_text(s, 5, row->action);
        statement_bind_text(s, 6, row->run);
        statement_bind_text(s, 7, row->session);
        statement_bind_text(s, 8, row->language);
        if (row->code_hash)
                (void)sqlite3_bind_blob(s, 9, row->code_hash, JOURNAL_HASH_BYTES, SQLITE_STATIC);
        statement_bind_text(s, 10, row->trust);
        statement_bind_text(s, 11, row->verdict);
        (void)sqlite3_bind_int(s, 12, row->failed);
        statement_bind_text(s, 13, row->peaks);
        if (text == 0)
                statement_bind_text(s, 14, row->controls);
        else
                statement_bind_u64(s, 15, text);
        statement_bind_text(s, 16, row->more);
        return statement_run(s);
}

int journal_audit_load(struct journal *j)
{
        uint64_t last = 0;

        int r = database_number(&j->writer, "SELECT max(number) FROM audit", &last);
        j->next_audit = j->first_audit = last + 1;
        if (r == SQLITE_OK && last > 0)
                r = database_number(&j->writer, "SELECT min(number) FROM audit", &j->first_audit);
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_TEXTS);
        if (r != SQLITE_OK || !s)
                return r != SQLITE_OK ? r : sqlite3_extended_errcode(j->writer.db);
        while ((r = sqlite3_step(s)) == SQLITE_ROW && j->n_texts < TEXTS_MAX) {
                const char *text = (const char *)sqlite3_column_text(s, 1);
                if (statement_u64(s, 0) != j->n_texts + 1 || !text)
                        return SQLITE_CORRUPT;
                char *copy = strdup(text);
                if (!copy)
                        return SQLITE_NOMEM;
                j->texts[j->n_texts++] = (struct text){.hash = hash_string(HASH_INIT, copy), .text = copy};
        }
        journal_audit_settle(j, true);
        return r == SQLITE_DONE || r == SQLITE_ROW ? SQLITE_OK : r;
}

struct record {
        const char *mark; /* NULL: each time */
        struct audit_row row;
        bool written;
};

static int write_record(struct journal *j, void *args)
{
        struct record *record = args;
        int r = SQLITE_OK;

        record->written = true;
        if (record->mark) {
                _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_MARK_ADD);
                if (s)
                        statement_bind_text(s, 1, record->mark);
                r = s ? statement_run(s) : sqlite3_extended_errcode(j->writer.db);
                record->written = r == SQLITE_OK && sqlite3_changes(j->writer.db) > 0;
        }
        if (r == SQLITE_OK && record->written)
                r = journal_audit_row(j, &record->row);
        return r;
}

static const struct journal_step record_step = {write_record, NULL, "write an audit record", false};

int journal_audit_add(struct journal *j, const char *tenant, const char *token, const char *action, const char *json, gb_error *err)
{
        struct record record = {.row = {.at_usec = journal_now(), .tenant = tenant, .token = token, .action = action, .more = json}};

        return journal_write(j, &record_step, &record, err);
}

int journal_session_note(struct journal *j, const char *session, const char *tenant, const char *token, const char *trust, const char *action, const char *json, gb_error *err)
{
        struct record record = {
                .row = {.at_usec = journal_now(), .tenant = tenant, .token = token, .action = action, .session = session, .trust = trust, .more = json}};

        return journal_write(j, &record_step, &record, err);
}

int journal_audit_once(struct journal *j, const char *mark, uint64_t at_usec, const char *tenant, const char *token, const char *action, const char *json,
                       gb_error *err)
{
        struct record record = {.mark = mark, .row = {.at_usec = at_usec, .tenant = tenant, .token = token, .action = action, .more = json}};

        int e = journal_write(j, &record_step, &record, err);
        return e < 0 ? e : record.written;
}

/* ---- reading ---- */

static json_t *column_text(sqlite3_stmt *s, int at)
{
        const char *text = (const char *)sqlite3_column_text(s, at);

        return text ? json_string(text) : json_null();
}

/* JSON that somebody gave us as text; null when it is none. */
static json_t *column_json(sqlite3_stmt *s, int at)
{
        const char *text = (const char *)sqlite3_column_text(s, at);
        json_t *value = text ? json_parse(text, strlen(text), JSON_DECODE_ANY, NULL) : NULL;

        return value ? value : json_null();
}

static json_t *column_hash(sqlite3_stmt *s, int at)
{
        const unsigned char *bytes = sqlite3_column_blob(s, at);
        char text[2 * JOURNAL_HASH_BYTES + 1];

        if (!bytes || sqlite3_column_bytes(s, at) != JOURNAL_HASH_BYTES)
                return json_null();
        for (size_t i = 0; i < JOURNAL_HASH_BYTES; i++)
                snprintf(text + 2 * i, 3, "%02x", bytes[i]);
        return json_string(text);
}

/* What only runs have. */
static int set_run(json_t *o, sqlite3_stmt *s)
{
        int r = 0;

        r |= json_object_set_new(o, "run", column_text(s, 5));
        r |= json_object_set_new(o, "language", column_text(s, 7));
        r |= json_object_set_new(o, "code_sha256", column_hash(s, 8));
        r |= json_object_set_new(o, "verdict", column_text(s, 10));
        r |= json_object_set_new(o, "failed", json_boolean(sqlite3_column_int(s, 11)));
        r |= json_object_set_new(o, "peaks", column_json(s, 12));
        r |= json_object_set_new(o, "controls", column_json(s, 13));
        return r;
}

static char *record_text(sqlite3_stmt *s)
{
        _cleanup_json_ json_t *o = json_object();
        char at[JOURNAL_TIME_MAX];
        int r = 0;

        r |= json_object_set_new(o, "at", json_string(journal_time_format(statement_u64(s, 1), at)));
        r |= json_object_set_new(o, "tenant", column_text(s, 2));
        r |= json_object_set_new(o, "token", column_text(s, 3));
        r |= json_object_set_new(o, "action", column_text(s, 4));
        r |= json_object_set_new(o, "session", column_text(s, 6));
        r |= json_object_set_new(o, "trust", column_text(s, 9));
        if (sqlite3_column_type(s, 5) != SQLITE_NULL)
                r |= set_run(o, s);
        _cleanup_json_ json_t *more = column_json(s, 14);
        if (json_is_object(more))
                r |= json_object_update_missing(o, more);
        return r == 0 ? json_print(o, 0) : NULL;
}

static bool column_is(sqlite3_stmt *s, int at, const char *wanted)
{
        const char *text = (const char *)sqlite3_column_text(s, at);

        return !wanted || (text && strcmp(text, wanted) == 0);
}

static bool matches(sqlite3_stmt *s, const struct journal_query *q)
{
        uint64_t at = statement_u64(s, 1);

        return at >= q->since_usec && (q->until_usec == 0 || at < q->until_usec) && column_is(s, 10, q->verdict) && column_is(s, 6, q->session);
}

struct page {
        struct found {
                uint64_t number;
                char *text;
        } *records;
        size_t n;
        uint64_t before; /* where to go on */
        bool more;       /* there is one behind the last */
};

static void page_done(struct page *p)
{
        for (size_t i = 0; i < p->n; i++)
                free(p->records[i].text);
        free(p->records);
}

/* Looks at a bounded number of records, so that the connection is not held for long. SQLITE_DONE: there are no more, or enough; SQLITE_ROW: go on. */
static int look(struct database *d, const struct journal_query *q, struct page *p)
{
        unsigned number = q->tenant ? (q->oldest_first ? ST_AUDIT_TENANT_UP : ST_AUDIT_TENANT) : q->oldest_first ? ST_AUDIT_ALL_UP : ST_AUDIT_ALL;
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, number);
        int r;

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_u64(s, 1, p->before);
        if (q->tenant)
                statement_bind_text(s, 2, q->tenant);
        for (size_t seen = 0; (r = sqlite3_step(s)) == SQLITE_ROW; seen++) {
                if (seen == JOURNAL_SCAN_MAX)
                        return SQLITE_ROW;
                if (!matches(s, q)) {
                        p->before = statement_u64(s, 0);
                        continue;
                }
                if (p->n == q->limit) {
                        p->more = true;
                        return SQLITE_DONE;
                }
                char *text = record_text(s);
                if (!text)
                        return SQLITE_NOMEM;
                p->before = statement_u64(s, 0);
                p->records[p->n++] = (struct found){.number = p->before, .text = text};
        }
        return r;
}

int journal_audit(struct journal *j, const struct journal_query *q, journal_audit_function *f, void *data, uint64_t *ret_next, gb_error *err)
{
        _cleanup_(page_done) struct page p = {.before = q->before > 0 || q->oldest_first ? q->before : INT64_MAX};
        int r = SQLITE_ROW, e = 0;

        p.records = calloc(MAX(q->limit, (size_t)1), sizeof(*p.records));
        if (!p.records)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        while (r == SQLITE_ROW) {
                _cleanup_reader_ struct database *d = journal_reader(j);
                r = look(d, q, &p);
                if (r != SQLITE_ROW && r != SQLITE_DONE)
                        return database_error(d, r, err, "read");
        }
        for (size_t i = 0; i < p.n && e >= 0; i++)
                e = f(data, p.records[i].number, p.records[i].text);
        if (e < 0)
                return e;
        if (ret_next)
                *ret_next = p.more && p.n > 0 ? p.records[p.n - 1].number : 0;
        return 0;
}
