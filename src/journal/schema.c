/* SPDX-License-Identifier: Apache-2.0
 *
 * The file of the journal: its tables, and every statement that is run on them.
 *
 * A page that is touched is written to the log whole, so what is written for each run touches few: there are no more indexes than lists
 * need. Rows are numbered by us, in the order they are made, and removed from the front. */
#include "journal/state.h"

#define RUN_COLUMNS \
        "number, id, tenant, session, context, language, trust, token, state, created, started, ended, code, verdict, failed, events, out_bytes, err_bytes"
#define AUDIT_SELECT                                                                                                                       \
        "SELECT a.number, a.at, a.tenant, a.token, a.action, a.run, a.session, a.language, a.code, a.trust, a.verdict, a.failed, a.peaks, " \
        "coalesce(a.controls, t.text), a.more FROM audit a LEFT JOIN texts t ON t.number = a.text "
#define NUMBERED(x) #x
#define NUMBER(x) NUMBERED(x)
#define OF_RUN "(number << " NUMBER(SEQ_BITS) ")"
#define RESULT_PLACE "16777215"
_Static_assert(SEQ_RESULT == 16777215, "as the statements say");

static const char *const statements[ST_COUNT] = {
        [ST_BEGIN] = "BEGIN IMMEDIATE",
        [ST_COMMIT] = "COMMIT",

        [ST_KEY_GET] = "SELECT hash, id FROM keys WHERE tenant = ?1 AND key = ?2",
        [ST_KEY_ADD] = "INSERT INTO keys(number, tenant, key, hash, id, at) VALUES(?1, ?2, ?3, ?4, ?5, ?6)",
        [ST_KEY_FORGET] = "DELETE FROM keys WHERE tenant = ?1 AND key = ?2 AND id = ?3 AND hash = ?4",

        [ST_RUN_ADD] = "INSERT INTO runs(number, id, tenant, session, context, language, trust, token, state, created, code) "
                       "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, 0, ?9, ?10)",
        [ST_RUN_END] = "UPDATE runs SET state = 2, started = ?2, ended = ?3, verdict = ?4, failed = ?5, events = ?6, out_bytes = ?7, err_bytes = ?8 "
                       "WHERE number = ?1",
        [ST_EVENT_ADD] = "INSERT INTO events(key, kind, t, offset, data) VALUES(?1, ?2, ?3, ?4, ?5)",
        [ST_EVENTS] = "SELECT key, kind, t, offset, data FROM events WHERE key >= ?1 AND key < ?2 ORDER BY key",
        [ST_RUN_NUMBER] = "SELECT number FROM runs WHERE id = ?1 AND state < 3",
        [ST_RUN_GET] = "SELECT " RUN_COLUMNS ", CASE WHEN state = 2 THEN coalesce("
                       "(SELECT data FROM events WHERE key = (" OF_RUN " | " RESULT_PLACE ")), (SELECT data FROM events WHERE key = (" OF_RUN " | (runs.events - 1)))) END "
                       "FROM runs WHERE id = ?1 AND state < 3",
        [ST_RUN_ROW] = "SELECT " RUN_COLUMNS " FROM runs WHERE number = ?1 AND state < 3",
        [ST_RUNS_ALL] = "SELECT " RUN_COLUMNS " FROM runs WHERE number < ?1 AND state < 3 ORDER BY number DESC",
        [ST_RUNS_TENANT] = "SELECT " RUN_COLUMNS " FROM runs WHERE tenant = ?2 AND number < ?1 AND state < 3 ORDER BY number DESC",
        [ST_RUNS_SESSION] = "SELECT " RUN_COLUMNS " FROM runs WHERE session = ?2 AND number < ?1 AND state < 3 ORDER BY number DESC",
        [ST_RUN_TOTALS] = "SELECT count(*), sum(CASE kind WHEN 0 THEN offset ELSE 0 END), sum(CASE kind WHEN 1 THEN length(data) ELSE 0 END), "
                          "sum(CASE kind WHEN 2 THEN length(data) ELSE 0 END), max(t) FROM events WHERE key >= ?1 AND key < ?2",
        [ST_RUNS_OPEN] = "SELECT " RUN_COLUMNS " FROM runs WHERE number >= ?1 AND state < 2 ORDER BY number",

        [ST_SESSION_ADD] = "INSERT INTO sessions(number, id, tenant, token, trust, template, created) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        [ST_SESSION_END] = "UPDATE sessions SET ended = ?2, why = ?3 WHERE id = ?1 AND ended IS NULL",
        [ST_SESSION_GET] = "SELECT id, tenant, token, trust, template, created, ended, why FROM sessions WHERE id = ?1",
        [ST_SESSIONS_OPEN] = "SELECT id, tenant, token, trust, template, created, ended, why FROM sessions WHERE ended IS NULL",

        [ST_AUDIT_ADD] = "INSERT INTO audit(number, at, tenant, token, action, run, session, language, code, trust, verdict, failed, peaks, controls, text, more) "
                         "VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        [ST_AUDIT_ALL] = AUDIT_SELECT "WHERE a.number < ?1 ORDER BY a.number DESC",
        [ST_AUDIT_TENANT] = AUDIT_SELECT "WHERE a.tenant = ?2 AND a.number < ?1 ORDER BY a.number DESC",
        [ST_AUDIT_ALL_UP] = AUDIT_SELECT "WHERE a.number > ?1 ORDER BY a.number",
        [ST_AUDIT_TENANT_UP] = AUDIT_SELECT "WHERE a.tenant = ?2 AND a.number > ?1 ORDER BY a.number",
        [ST_MARK_ADD] = "INSERT OR IGNORE INTO marks(name) VALUES(?1)",
        [ST_TEXT_ADD] = "INSERT INTO texts(number, text) VALUES(?1, ?2)",
        [ST_TEXTS] = "SELECT number, text FROM texts ORDER BY number",
        [ST_META_SET] = "INSERT INTO meta(name, value) VALUES(?1, ?2) ON CONFLICT(name) DO UPDATE SET value = excluded.value",

        [ST_OLDEST_RUNS] = "SELECT number, state, ended, coalesce(out_bytes, 0) + coalesce(err_bytes, 0) FROM runs WHERE state >= 2 ORDER BY number LIMIT ?1",
        [ST_OLDEST_RUNS_OF] = "SELECT number, state, ended, coalesce(out_bytes, 0) + coalesce(err_bytes, 0) FROM runs WHERE tenant = ?2 AND state >= 2 "
                              "ORDER BY number LIMIT ?1",
        [ST_SHARES] = "SELECT tenant, sum(coalesce(out_bytes, 0) + coalesce(err_bytes, 0) + ?1) AS share FROM runs WHERE state = 2 GROUP BY tenant "
                      "ORDER BY share DESC LIMIT 2",
        [ST_RUN_GOING] = "UPDATE runs SET state = 3 WHERE number = ?1",
        [ST_EVENT_SIZES] = "SELECT key, length(data) FROM events WHERE key >= ?1 AND key <= ?2 ORDER BY key LIMIT ?3",
        [ST_EVENTS_REMOVE] = "DELETE FROM events WHERE key >= ?1 AND key <= ?2",
        [ST_RUN_REMOVE] = "DELETE FROM runs WHERE number = ?1",
        [ST_SESSIONS_REMOVE] = "DELETE FROM sessions WHERE number IN (SELECT number FROM sessions WHERE number < (SELECT min(number) FROM sessions) + 256 "
                               "AND ended IS NOT NULL AND (ended < ?1 OR number < ?2))",
        /* A key outlives its time as long as there is a record of what it stands for. */
        [ST_KEYS_REMOVE] = "DELETE FROM keys WHERE number IN (SELECT k.number FROM keys k WHERE k.number < (SELECT min(number) FROM keys) + 256 AND k.at < ?1 "
                           "AND NOT EXISTS (SELECT 1 FROM runs r WHERE r.id = k.id) AND NOT EXISTS (SELECT 1 FROM sessions s WHERE s.id = k.id))",
        [ST_AUDIT_OLDEST] = "SELECT number, at FROM audit WHERE number >= ?1 ORDER BY number LIMIT 256",
        [ST_AUDIT_REMOVE] = "DELETE FROM audit WHERE number < ?1",
};

const struct database_form journal_form = {
        .file = "journal.db",
        .what = "the journal",
        .sql = statements,
        .n_sql = ARRAY_SIZE(statements),
        .application_id = 0x67627831,
        .version = 1,
        .incremental = true,
        .schema =
                "CREATE TABLE meta(name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT, WITHOUT ROWID;"

                /* state: 0 queued, 1 is not used here (a run that goes on has an event of kind 0), 2 ended, 3 being removed.
                 * Times are microseconds since 1970. started and what follows are set at the end. */
                "CREATE TABLE runs(number INTEGER PRIMARY KEY, id TEXT NOT NULL, tenant TEXT NOT NULL, session TEXT, context TEXT, language TEXT, trust TEXT, "
                "token TEXT, state INTEGER NOT NULL, created INTEGER NOT NULL, started INTEGER, ended INTEGER, code BLOB NOT NULL, verdict TEXT, "
                "failed INTEGER, events INTEGER, out_bytes INTEGER, err_bytes INTEGER) STRICT;"
                "CREATE UNIQUE INDEX runs_id ON runs(id);"
                "CREATE INDEX runs_tenant ON runs(tenant);"
                "CREATE INDEX runs_session ON runs(session) WHERE session IS NOT NULL;"

                /* key: the run's number << 24 | the event's. kind: enum journal_kind. offset: of output the bytes of that stream before it, of
                 * `started` the time since 1970. At 24 ones: the result, where it is not the data of the last event. */
                "CREATE TABLE events(key INTEGER PRIMARY KEY, kind INTEGER NOT NULL, t INTEGER NOT NULL, offset INTEGER NOT NULL, data BLOB NOT NULL) STRICT;"

                "CREATE TABLE keys(number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, key TEXT NOT NULL, hash BLOB NOT NULL, id TEXT NOT NULL, at INTEGER NOT NULL) "
                "STRICT;"
                "CREATE UNIQUE INDEX keys_key ON keys(tenant, key);"

                "CREATE TABLE sessions(number INTEGER PRIMARY KEY, id TEXT NOT NULL, tenant TEXT NOT NULL, token TEXT, trust TEXT, template TEXT, "
                "created INTEGER NOT NULL, ended INTEGER, why TEXT) STRICT;"
                "CREATE UNIQUE INDEX sessions_id ON sessions(id);"
                "CREATE INDEX sessions_open ON sessions(number) WHERE ended IS NULL;"

                /* What was enforced is nearly always the same: such texts are in a table of their own, once. */
                "CREATE TABLE audit(number INTEGER PRIMARY KEY, at INTEGER NOT NULL, tenant TEXT NOT NULL, token TEXT, action TEXT NOT NULL, run TEXT, session TEXT, "
                "language TEXT, code BLOB, trust TEXT, verdict TEXT, failed INTEGER, peaks TEXT, controls TEXT, text INTEGER, more TEXT) STRICT;"
                "CREATE INDEX audit_tenant ON audit(tenant);"
                "CREATE TABLE texts(number INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;"
                "CREATE TABLE marks(name TEXT PRIMARY KEY) STRICT, WITHOUT ROWID;",
};
