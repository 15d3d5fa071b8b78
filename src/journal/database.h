/* SPDX-License-Identifier: Apache-2.0
 *
 * A SQLite file of ours: the directory it may live in, how it is opened, statements that are kept, and what went wrong in our own words.
 * Inside src/journal only. A connection has a lock of its own; every function that takes a database wants it held. */
#ifndef JOURNAL_DATABASE_H
#define JOURNAL_DATABASE_H

#include "base/error.h"
#include "base/macro.h"

#include <pthread.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define DATABASE_STATEMENTS_MAX 44
#define DATABASE_PAGE_BYTES 4096
#define DATABASE_BUSY_MSEC 5000 /* another process that reads may be in the way for moments */

/* Opens the directory that holds our files, and makes it (0700) when asked. It has to be ours, and nobody else may
 * write to it. *ret_path is its real path, for those who take no descriptor. */
int state_directory_open(const char *path, bool make, char **ret_path, int *ret_fd, gb_error *err);

/* What a kind of file is. */
struct database_form {
        const char *file;  /* "journal.db" */
        const char *what;  /* "the journal" */
        const char *const *sql; /* texts of the statements, by number */
        size_t n_sql;
        const char *schema;
        int application_id, version;
        bool incremental; /* gives room back to the file system when asked */
};

enum database_mode { DATABASE_MAKE, DATABASE_WRITE, DATABASE_READ };

struct database {
        pthread_mutex_t lock;
        sqlite3 *db; /* NULL: not open */
        const struct database_form *form;
        char *path;
        sqlite3_stmt *statements[DATABASE_STATEMENTS_MAX];
};

void database_init(struct database *d, const struct database_form *form);
/* MAKE: 0600, with its tables, when it is not there. Otherwise GB_E_NOT_FOUND. A file that is damaged, of a newer form or
 * not ours is refused. */
int database_open(struct database *d, const char *directory, int directory_fd, enum database_mode mode, gb_error *err);
void database_close(struct database *d); /* may be opened again */
void database_done(struct database *d);

/* The statement of that number, ready to be bound; NULL: out of memory, or the file is damaged (database_error() says). To be given back with statement_done(). */
sqlite3_stmt *database_statement(struct database *d, unsigned number);
static inline void statement_done(sqlite3_stmt *s)
{
        (void)sqlite3_reset(s);
        (void)sqlite3_clear_bindings(s);
}
DEFINE_CLEANUP(sqlite3_stmt, statement_done)
#define _cleanup_statement_ _cleanup_(statement_done_ptr)

/* Runs it to its end: SQLITE_OK or what went wrong. */
int statement_run(sqlite3_stmt *s);
/* A text: NULL when it is empty. Not copied: it lives until statement_done(). */
void statement_bind_text(sqlite3_stmt *s, int at, const char *text);
void statement_bind_u64(sqlite3_stmt *s, int at, uint64_t value);
/* A column as text into a fixed array, cut where it does not fit; empty for NULL. */
void statement_text(sqlite3_stmt *s, int at, char *ret, size_t size);
uint64_t statement_u64(sqlite3_stmt *s, int at);

/* A statement without rows, and a number that a PRAGMA answers with. SQLITE_OK or what went wrong. */
int database_exec(struct database *d, const char *sql);
int database_number(struct database *d, const char *pragma, uint64_t *ret);

/* Undoes a transaction that did not come to its end, and returns rc. */
int database_undo(struct database *d, int rc);

/* rc of SQLite as our error. */
int database_error(struct database *d, int rc, gb_error *err, const char *doing);

#endif
