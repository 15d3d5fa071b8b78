/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/database.h"

#include "base/fd.h"
#include "base/limits.h"
#include "base/quote.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

/* As mkdir -p, with 0700 for each that is new. */
static int make_directories(const char *path)
{
        _cleanup_free_ char *copy = strdup(path);

        if (!copy)
                return -ENOMEM;
        for (char *p = copy + 1; *p; p++) {
                if (*p != '/')
                        continue;
                *p = '\0';
                if (mkdir(copy, 0700) < 0 && errno != EEXIST)
                        return -errno;
                *p = '/';
        }
        return mkdir(copy, 0700) < 0 && errno != EEXIST ? -errno : 0;
}

static int check_directory(int fd, const char *path, gb_error *err)
{
        struct stat st;

        if (fstat(fd, &st) < 0)
                return error_set(err, GB_E_INTERNAL, errno, "cannot look at %s: %s", path, strerror(errno));
        if (st.st_uid != geteuid())
                return error_set(err, GB_E_DENIED, EPERM, "the directory %s belongs to uid %u, and this is uid %u: use a directory of your own", path, st.st_uid,
                                 geteuid());
        if (st.st_mode & (S_IWGRP | S_IWOTH))
                return error_set(err, GB_E_DENIED, EPERM, "others may write to the directory %s: chmod go-w it, or use another", path);
        return 0;
}

int state_directory_open(const char *path, bool make, char **ret_path, int *ret_fd, gb_error *err)
{
        if (!path || path[0] == '\0' || strlen(path) >= HOST_PATH_MAX)
                return error_set(err, GB_E_USAGE, EINVAL, "the directory for journal and tokens has no usable name");
        int r = make ? make_directories(path) : 0;
        if (r < 0)
                return error_set(err, r == -ENOSPC ? GB_E_DISK_FULL : GB_E_INTERNAL, -r, "cannot make the directory %s: %s", path, strerror(-r));
        _cleanup_free_ char *real = realpath(path, NULL);
        if (!real)
                return error_set(err, errno == ENOENT ? GB_E_NOT_FOUND : GB_E_INTERNAL, errno, "cannot open the directory %s: %s", path, strerror(errno));
        _cleanup_close_ int fd = open(real, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
                return error_set(err, errno == ENOTDIR ? GB_E_USAGE : GB_E_INTERNAL, errno, "cannot open the directory %s: %s", path, strerror(errno));
        r = check_directory(fd, path, err);
        if (r < 0)
                return r;
        *ret_path = TAKE_PTR(real);
        *ret_fd = TAKE_FD(fd);
        return 0;
}

void database_init(struct database *d, const struct database_form *form)
{
        *d = (struct database){.form = form, .lock = PTHREAD_MUTEX_INITIALIZER};
}

void database_close(struct database *d)
{
        for (size_t i = 0; i < ARRAY_SIZE(d->statements); i++) {
                (void)sqlite3_finalize(d->statements[i]);
                d->statements[i] = NULL;
        }
        (void)sqlite3_close(d->db);
        d->db = NULL;
        free(d->path);
        d->path = NULL;
}

void database_done(struct database *d)
{
        database_close(d);
        (void)pthread_mutex_destroy(&d->lock);
}

/* A log that was left without its file belongs to one that is gone, and must not be taken for the new one's. */
static int make_file(struct database *d, int directory_fd)
{
        const char *name = d->form->file;
        char log[64];
        struct stat st;

        if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 || errno != ENOENT)
                return 0;
        snprintf(log, sizeof(log), "%s-wal", name);
        (void)unlinkat(directory_fd, log, 0);
        snprintf(log, sizeof(log), "%s-shm", name);
        (void)unlinkat(directory_fd, log, 0);
        int fd = openat(directory_fd, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd < 0)
                return -errno;
        safe_close(fd);
        return 0;
}

/* Never opens a file that is there: closing a second descriptor of it would drop the locks that SQLite holds for this process. */
static int find_file(struct database *d, int directory_fd, enum database_mode mode, gb_error *err)
{
        const char *name = d->form->file;
        struct stat st;

        int r = mode == DATABASE_MAKE ? make_file(d, directory_fd) : 0;
        if (r < 0)
                return error_set(err, r == -ENOSPC || r == -EDQUOT ? GB_E_DISK_FULL : GB_E_INTERNAL, -r, "cannot make %s: %s", d->path, strerror(-r));
        if (fstatat(directory_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return error_set(err, errno == ENOENT ? GB_E_NOT_FOUND : GB_E_INTERNAL, errno, "there is no %s: %s", d->path, strerror(errno));
        if (!S_ISREG(st.st_mode) || st.st_uid != geteuid())
                return error_set(err, GB_E_DENIED, EPERM, "%s is not a file of ours: move it away", d->path);
        if ((st.st_mode & 077) && fchmodat(directory_fd, name, 0600, 0) < 0)
                return error_set(err, GB_E_DENIED, errno, "others may read %s, and that cannot be changed: %s", d->path, strerror(errno));
        return 0;
}

/* Settings of the connection, not of the file. */
static int configure(struct database *d)
{
        int r = sqlite3_db_config(d->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);

        (void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
        (void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
        (void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
        (void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_DQS_DDL, 0, NULL);
        (void)sqlite3_db_config(d->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
        (void)sqlite3_busy_timeout(d->db, DATABASE_BUSY_MSEC);
        /* No memory mapping: a file that is cut short would end the process. */
        return r != SQLITE_OK ? r
                              : database_exec(d, "PRAGMA mmap_size=0; PRAGMA cell_size_check=ON; PRAGMA secure_delete=OFF; PRAGMA temp_store=MEMORY;"
                                                 "PRAGMA wal_autocheckpoint=0; PRAGMA synchronous=NORMAL");
}

static int make_tables(struct database *d, gb_error *err)
{
        char text[96];
        int r;

        /* How the file is laid out is said before anything is in it; WAL comes last, since it writes the first page. */
        snprintf(text, sizeof(text), "PRAGMA page_size=%d; PRAGMA auto_vacuum=%s", DATABASE_PAGE_BYTES, d->form->incremental ? "INCREMENTAL" : "NONE");
        r = database_exec(d, text);
        r = r != SQLITE_OK ? r : database_exec(d, "PRAGMA journal_mode=WAL");
        r = r != SQLITE_OK ? r : database_exec(d, "BEGIN IMMEDIATE");
        r = r != SQLITE_OK ? r : database_exec(d, d->form->schema);
        snprintf(text, sizeof(text), "PRAGMA application_id=%d; PRAGMA user_version=%d", d->form->application_id, d->form->version);
        r = r != SQLITE_OK ? r : database_exec(d, text);
        r = r != SQLITE_OK ? r : database_exec(d, "COMMIT");
        return r == SQLITE_OK ? 0 : database_error(d, database_undo(d, r), err, "make");
}

static int refuse(struct database *d, gb_error *err, const char *why)
{
        return error_set(err, GB_E_INTERNAL, EBADMSG, "%s is %s: move it away together with its -wal and -shm, and a new one is made at the next start", d->path,
                         why);
}

/* That it is ours, and of the form that we know. */
static int check_form(struct database *d, enum database_mode mode, gb_error *err)
{
        const struct database_form *form = d->form;
        uint64_t application = 0, version = 0, tables = 0;

        int r = database_number(d, "PRAGMA application_id", &application);
        r = r != SQLITE_OK ? r : database_number(d, "PRAGMA user_version", &version);
        r = r != SQLITE_OK ? r : database_number(d, "SELECT count(*) FROM sqlite_schema", &tables);
        if (r != SQLITE_OK)
                return database_error(d, r, err, "open");
        if (application == 0 && version == 0 && tables == 0)
                return mode == DATABASE_MAKE ? make_tables(d, err) : error_set(err, GB_E_NOT_FOUND, ENOENT, "%s is empty so far", d->path);
        if (application != (uint64_t)form->application_id)
                return refuse(d, err, "no file of glovebox");
        if (version > (uint64_t)form->version)
                return error_set(err, GB_E_INTERNAL, EPROTONOSUPPORT, "%s was written by a newer glovebox (form %llu, this one knows %d): use that one, or move the file "
                                 "away together with its -wal and -shm", d->path, (unsigned long long)version, form->version);
        if (version < (uint64_t)form->version)
                return refuse(d, err, "of an older form");
        return 0;
}

static int open_and_check(struct database *d, int directory_fd, enum database_mode mode, gb_error *err)
{
        int flags = SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_PRIVATECACHE | SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW;
        int e = find_file(d, directory_fd, mode, err);

        if (e < 0)
                return e;
        int r = sqlite3_open_v2(d->path, &d->db, flags | (mode == DATABASE_READ ? SQLITE_OPEN_READONLY : SQLITE_OPEN_READWRITE), NULL);
        r = r != SQLITE_OK ? r : configure(d);
        return r == SQLITE_OK ? check_form(d, mode, err) : database_error(d, r, err, "open");
}

int database_open(struct database *d, const char *directory, int directory_fd, enum database_mode mode, gb_error *err)
{
        if (asprintf(&d->path, "%s/%s", directory, d->form->file) < 0) {
                d->path = NULL;
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        /* Two who make it at the same time do so one after the other. */
        if (mode == DATABASE_MAKE)
                while (flock(directory_fd, LOCK_EX) < 0 && errno == EINTR)
                        ;
        int e = open_and_check(d, directory_fd, mode, err);
        if (mode == DATABASE_MAKE)
                (void)flock(directory_fd, LOCK_UN);
        if (e < 0)
                database_close(d);
        return e;
}

sqlite3_stmt *database_statement(struct database *d, unsigned number)
{
        sqlite3_stmt **s = &d->statements[number];

        if (!*s && sqlite3_prepare_v3(d->db, d->form->sql[number], -1, SQLITE_PREPARE_PERSISTENT, s, NULL) != SQLITE_OK)
                *s = NULL;
        return *s;
}

int statement_run(sqlite3_stmt *s)
{
        int r = sqlite3_step(s);

        while (r == SQLITE_ROW)
                r = sqlite3_step(s);
        return r == SQLITE_DONE ? SQLITE_OK : r;
}

void statement_bind_text(sqlite3_stmt *s, int at, const char *text)
{
        if (text && text[0])
                (void)sqlite3_bind_text(s, at, text, -1, SQLITE_STATIC);
        else
                (void)sqlite3_bind_null(s, at);
}

void statement_bind_u64(sqlite3_stmt *s, int at, uint64_t value)
{
        (void)sqlite3_bind_int64(s, at, (sqlite3_int64)MIN(value, (uint64_t)INT64_MAX));
}

void statement_text(sqlite3_stmt *s, int at, char *ret, size_t size)
{
        const char *text = (const char *)sqlite3_column_text(s, at);

        snprintf(ret, size, "%s", text ? text : "");
}

uint64_t statement_u64(sqlite3_stmt *s, int at)
{
        sqlite3_int64 value = sqlite3_column_int64(s, at);

        return value < 0 ? 0 : (uint64_t)value;
}

int database_exec(struct database *d, const char *sql)
{
        return sqlite3_exec(d->db, sql, NULL, NULL, NULL);
}

int database_number(struct database *d, const char *pragma, uint64_t *ret)
{
        sqlite3_stmt *s = NULL;
        int r = sqlite3_prepare_v2(d->db, pragma, -1, &s, NULL);

        if (r == SQLITE_OK)
                r = sqlite3_step(s);
        if (r == SQLITE_ROW) {
                *ret = statement_u64(s, 0);
                r = SQLITE_DONE;
        }
        (void)sqlite3_finalize(s);
        return r == SQLITE_DONE ? SQLITE_OK : r;
}

int database_undo(struct database *d, int rc)
{
        /* Some errors have undone it already. */
        if (!sqlite3_get_autocommit(d->db))
                (void)database_exec(d, "ROLLBACK");
        return rc;
}

static bool is_full(struct database *d, int rc)
{
        int e = d->db ? sqlite3_system_errno(d->db) : 0;

        return (rc & 0xff) == SQLITE_FULL || ((rc & 0xff) == SQLITE_IOERR && (e == ENOSPC || e == EDQUOT || rc == SQLITE_IOERR_SHMSIZE));
}

int database_error(struct database *d, int rc, gb_error *err, const char *doing)
{
        const char *what = d->form->what;

        if (is_full(d, rc))
                return error_set(err, GB_E_DISK_FULL, ENOSPC, "%s is full: make room on the disk of %s, or let it be larger", what, d->path);
        switch (rc & 0xff) {
        case SQLITE_CORRUPT:
        case SQLITE_NOTADB:
                return refuse(d, err, "damaged");
        case SQLITE_NOMEM:
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        case SQLITE_BUSY:
        case SQLITE_LOCKED:
                return error_set(err, GB_E_UNAVAILABLE, EAGAIN, "%s is held by another process: try again", what);
        case SQLITE_READONLY:
                return error_set(err, GB_E_INTERNAL, EROFS, "%s cannot be written to", d->path);
        default: {
                bool has_errno = d->db && ((rc & 0xff) == SQLITE_IOERR || (rc & 0xff) == SQLITE_CANTOPEN);
                int e = has_errno ? sqlite3_system_errno(d->db) : 0;
                return error_set(err, GB_E_INTERNAL, e > 0 ? e : EIO, "cannot %s %s: %s%s%s", doing, d->path, sqlite3_errstr(rc), e > 0 ? ": " : "",
                                 e > 0 ? strerror(e) : "");
        }
        }
}
