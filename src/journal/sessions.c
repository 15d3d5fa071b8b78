/* SPDX-License-Identifier: Apache-2.0
 *
 * Sessions: that there was one, whose, and how it ended. */
#include "journal/state.h"

#include "base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct session_begin {
        struct key_use use;
        struct journal_session session;
};

static int add_session(struct journal *j, const struct journal_session *s)
{
        _cleanup_statement_ sqlite3_stmt *statement = database_statement(&j->writer, ST_SESSION_ADD);

        if (!statement)
                return sqlite3_extended_errcode(j->writer.db);
        statement_bind_u64(statement, 1, j->next_session++);
        statement_bind_text(statement, 2, s->id);
        statement_bind_text(statement, 3, s->tenant);
        statement_bind_text(statement, 4, s->token);
        statement_bind_text(statement, 5, s->trust);
        statement_bind_text(statement, 6, s->template);
        statement_bind_u64(statement, 7, s->created_usec);
        return statement_run(statement);
}

static int write_begin(struct journal *j, void *args)
{
        struct session_begin *b = args;
        const struct journal_session *s = &b->session;
        int r = journal_key_look(&j->writer, &b->use);

        if (r != SQLITE_OK || b->use.found)
                return r;
        struct audit_row row = {.at_usec = s->created_usec, .tenant = s->tenant, .token = s->token, .action = "session.create", .session = s->id, .trust = s->trust};
        r = journal_key_add(j, &b->use);
        r = r != SQLITE_OK ? r : add_session(j, s);
        return r != SQLITE_OK ? r : journal_audit_row(j, &row);
}

int journal_session_begin(struct journal *j, const struct journal_session *s, const struct journal_key *key, char ret_id[static JOURNAL_ID_MAX], gb_error *err)
{
        static const struct journal_step step = {write_begin, NULL, "journal a session", false};
        struct session_begin b = {.use = {.tenant = s->tenant, .id = s->id, .key = key}, .session = *s};

        if (s->created_usec == 0)
                b.session.created_usec = journal_now();
        int e = journal_key_check(key, err);
        e = e < 0 ? e : journal_write(j, &step, &b, err);
        return e < 0 ? e : journal_key_answer(&b.use, ret_id, err);
}

void journal_session_from_row(sqlite3_stmt *statement, struct journal_session *ret)
{
        *ret = (struct journal_session){0};
        statement_text(statement, 0, ret->id, sizeof(ret->id));
        statement_text(statement, 1, ret->tenant, sizeof(ret->tenant));
        statement_text(statement, 2, ret->token, sizeof(ret->token));
        statement_text(statement, 3, ret->trust, sizeof(ret->trust));
        statement_text(statement, 4, ret->template, sizeof(ret->template));
        ret->created_usec = statement_u64(statement, 5);
        ret->ended_usec = statement_u64(statement, 6);
        statement_text(statement, 7, ret->end, sizeof(ret->end));
}

/* SQLITE_ROW, SQLITE_DONE when there is none, or what went wrong. */
static int get_session(struct database *d, const char *id, struct journal_session *ret)
{
        _cleanup_statement_ sqlite3_stmt *s = database_statement(d, ST_SESSION_GET);

        if (!s)
                return sqlite3_extended_errcode(d->db);
        statement_bind_text(s, 1, id);
        int r = sqlite3_step(s);
        if (r == SQLITE_ROW)
                journal_session_from_row(s, ret);
        return r;
}

int journal_session_write_end(struct journal *j, const struct journal_session *session, const char *why, const char *network, uint64_t ended_usec)
{
        _cleanup_free_ char *more = NULL;
        struct audit_row row = {
                .at_usec = ended_usec, .tenant = session->tenant, .token = session->token, .action = "session.end", .session = session->id,
                .trust = session->trust,
        };
        _cleanup_statement_ sqlite3_stmt *s = database_statement(&j->writer, ST_SESSION_END);

        if (!s)
                return sqlite3_extended_errcode(j->writer.db);
        if (asprintf(&more, "{\"end\":\"%.*s\"%s%s}", (int)strspn(why, "abcdefghijklmnopqrstuvwxyz_"), why, network ? ",\"network\":" : "", network ? network : "") < 0) {
                more = NULL;
                return SQLITE_NOMEM;
        }
        row.more = more;
        statement_bind_text(s, 1, session->id);
        statement_bind_u64(s, 2, ended_usec);
        statement_bind_text(s, 3, why);
        int r = statement_run(s);
        if (r == SQLITE_OK && sqlite3_changes(j->writer.db) != 1)
                return SQLITE_CORRUPT; /* it was just found */
        return r != SQLITE_OK ? r : journal_audit_row(j, &row);
}

struct session_end {
        const char *id, *why, *network;
        bool found;
};

static int write_end(struct journal *j, void *args)
{
        struct session_end *end = args;
        struct journal_session session;

        int r = get_session(&j->writer, end->id, &session);
        end->found = r == SQLITE_ROW;
        if (r != SQLITE_ROW)
                return r == SQLITE_DONE ? SQLITE_OK : r;
        if (session.ended_usec > 0)
                return SQLITE_OK; /* the first reason stays */
        return journal_session_write_end(j, &session, end->why, end->network, journal_now());
}

int journal_session_end(struct journal *j, const char *id, const char *why, const char *network, gb_error *err)
{
        static const struct journal_step step = {write_end, NULL, "journal the end of a session", true};
        struct session_end end = {.id = id, .why = why, .network = network};

        int e = journal_write(j, &step, &end, err);
        if (e == 0 && !end.found)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no session %s", quote(id).text);
        return e;
}

int journal_session_get(struct journal *j, const char *tenant, const char *id, struct journal_session *ret, gb_error *err)
{
        _cleanup_reader_ struct database *d = journal_reader(j);
        struct journal_session session;

        int r = get_session(d, id, &session);
        if (r == SQLITE_DONE || (r == SQLITE_ROW && tenant && strcmp(tenant, session.tenant) != 0))
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "there is no session %s", quote(id).text);
        if (r != SQLITE_ROW)
                return database_error(d, r, err, "read");
        *ret = session;
        return 0;
}
