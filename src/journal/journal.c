/* SPDX-License-Identifier: Apache-2.0 */
#include "journal/state.h"

#include "base/fd.h"
#include "base/limits.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <time.h>
#include <unistd.h>

#define LOCK_FILE "journal.lock"
#define LOG_FILE "journal.db-wal"
#define LOCK_ATTEMPTS 20
#define LOCK_PAUSE_NSEC 50000000

uint64_t journal_now(void)
{
        struct timespec t;

        (void)clock_gettime(CLOCK_REALTIME, &t);
        return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

struct database *journal_reader(struct journal *j)
{
        unsigned turn = j->turn++;

        for (unsigned i = 0; i < JOURNAL_READERS; i++) {
                struct database *d = &j->readers[(turn + i) % JOURNAL_READERS];
                if (pthread_mutex_trylock(&d->lock) == 0)
                        return d;
        }
        struct database *d = &j->readers[turn % JOURNAL_READERS];
        pthread_mutex_lock(&d->lock);
        return d;
}

void journal_reader_done(struct database *d)
{
        pthread_mutex_unlock(&d->lock);
}

static int log_grew(void *data, sqlite3 *db, const char *name, int pages)
{
        struct journal *j = data;

        (void)db;
        (void)name;
        j->log_pages = (uint64_t)pages;
        return SQLITE_OK;
}

/* A command holds it for moments only: a server that starts just then waits for that. */
static int flock_soon(int fd, bool wait)
{
        for (unsigned i = 0;; i++) {
                if (flock(fd, LOCK_EX | LOCK_NB) == 0)
                        return 0;
                if (errno != EWOULDBLOCK || !wait || i == LOCK_ATTEMPTS)
                        return -errno;
                (void)nanosleep(&(struct timespec){.tv_nsec = LOCK_PAUSE_NSEC}, NULL);
        }
}

static int take_lock(struct journal *j, int directory_fd, const char *path, bool wait, gb_error *err)
{
        j->lock_fd = openat(directory_fd, LOCK_FILE, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (j->lock_fd < 0)
                return error_set(err, errno == ENOSPC || errno == EDQUOT ? GB_E_DISK_FULL : GB_E_INTERNAL, errno, "cannot open %s/" LOCK_FILE ": %s", path,
                                 strerror(errno));
        int r = flock_soon(j->lock_fd, wait);
        if (r == -EWOULDBLOCK)
                return error_set(err, GB_E_CONFLICT, EBUSY, "another server has the journal in %s: stop it, or give this one a directory of its own", path);
        return r == 0 ? 0 : error_set(err, GB_E_INTERNAL, -r, "cannot lock %s/" LOCK_FILE ": %s", path, strerror(-r));
}

/* What the numbers go on from, and where to look for what was under way. */
static int load_numbers(struct journal *j)
{
        struct database *d = &j->writer;
        uint64_t last = 0, last_event = 0, runs = 0;

        int r = database_number(d, "SELECT max(number) FROM runs", &last);
        r = r != SQLITE_OK ? r : database_number(d, "SELECT max(key) FROM events", &last_event);
        j->next_run = MAX(last, last_event >> SEQ_BITS) + 1;
        r = r != SQLITE_OK ? r : database_number(d, "SELECT max(number) FROM sessions", &last);
        j->next_session = last + 1;
        r = r != SQLITE_OK ? r : database_number(d, "SELECT max(number) FROM keys", &last);
        j->next_key = last + 1;
        r = r != SQLITE_OK ? r : database_number(d, "SELECT count(*) FROM runs", &runs);
        j->runs = runs;
        r = r != SQLITE_OK ? r : database_number(d, "SELECT value FROM meta WHERE name = 'floor'", &j->floor_written);
        return r != SQLITE_OK ? r : journal_audit_load(j);
}

static int open_writer(struct journal *j, const char *path, int directory_fd, gb_error *err)
{
        int e = database_open(&j->writer, path, directory_fd, DATABASE_MAKE, err);

        if (e < 0)
                return e;
        int r = database_exec(&j->writer, j->limits.sync ? "PRAGMA synchronous=FULL; PRAGMA cache_size=-8192" : "PRAGMA cache_size=-8192");
        if (r == SQLITE_OK)
                (void)sqlite3_wal_hook(j->writer.db, log_grew, j);
        r = r != SQLITE_OK ? r : load_numbers(j);
        return r == SQLITE_OK ? 0 : database_error(&j->writer, r, err, "open");
}

static int open_readers(struct journal *j, const char *path, int directory_fd, gb_error *err)
{
        int e = 0;

        for (size_t i = 0; i < JOURNAL_READERS && e == 0; i++)
                e = database_open(&j->readers[i], path, directory_fd, DATABASE_READ, err);
        /* What they keep is old with the next commit. */
        for (size_t i = 0; i < JOURNAL_READERS && e == 0; i++)
                (void)database_exec(&j->readers[i], "PRAGMA cache_size=-512");
        return e;
}

static int start_log(struct journal *j, int directory_fd, gb_error *err)
{
        pthread_mutex_lock(&j->writer.lock);
        int r = journal_restart_log(j, true);
        pthread_mutex_unlock(&j->writer.lock);
        if (r != SQLITE_OK)
                return database_error(&j->writer, r, err, "open");
        j->log_fd = openat(directory_fd, LOG_FILE, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
        return 0; /* -1: then only what is copied into the file is known to be on the disk */
}

static int new_journal(struct journal **ret, gb_error *err)
{
        struct journal *j = calloc(1, sizeof(*j));

        if (!j)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        j->lock_fd = j->log_fd = -1;
        pthread_mutex_init(&j->underway_lock, NULL);
        pthread_mutex_init(&j->queue_lock, NULL);
        database_init(&j->writer, &journal_form);
        database_init(&j->upkeep, &journal_form);
        for (size_t i = 0; i < JOURNAL_READERS; i++)
                database_init(&j->readers[i], &journal_form);
        *ret = j;
        return 0;
}

static int open_all(struct journal *j, const char *path, int directory_fd, bool wait, uint64_t *ret_lost, gb_error *err)
{
        int e = take_lock(j, directory_fd, path, wait, err);

        e = e < 0 ? e : open_writer(j, path, directory_fd, err);
        e = e < 0 ? e : database_open(&j->upkeep, path, directory_fd, DATABASE_WRITE, err);
        e = e < 0 ? e : journal_settle_lost(j, ret_lost, err);
        e = e < 0 ? e : open_readers(j, path, directory_fd, err);
        e = e < 0 ? e : start_log(j, directory_fd, err);
        if (e < 0)
                return e;
        j->max_pages = j->limits.bytes / DATABASE_PAGE_BYTES;
        int r = journal_bound_pages(j, j->max_pages);
        return r == SQLITE_OK ? 0 : database_error(&j->writer, r, err, "open");
}

static int open_journal(const char *directory, const struct journal_limits *limits, bool wait, struct journal **ret, uint64_t *ret_lost, gb_error *err)
{
        _cleanup_journal_ struct journal *j = NULL;
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;
        uint64_t lost = 0;

        int e = state_directory_open(directory, true, &path, &fd, err);
        e = e < 0 ? e : new_journal(&j, err);
        if (e < 0)
                return e;
        j->limits = *limits;
        if (j->limits.bytes > 0)
                j->limits.bytes = MAX(j->limits.bytes, JOURNAL_BYTES_MIN);
        e = open_all(j, path, fd, wait, &lost, err);
        if (e < 0)
                return e;
        if (ret_lost)
                *ret_lost = lost;
        *ret = TAKE_PTR(j);
        return 0;
}

int journal_open(const char *directory, const struct journal_limits *limits, struct journal **ret, uint64_t *ret_lost, gb_error *err)
{
        return open_journal(directory, limits, true, ret, ret_lost, err);
}

int journal_open_briefly(const char *directory, struct journal **ret, gb_error *err)
{
        static const struct journal_limits none;

        return open_journal(directory, &none, false, ret, NULL, err);
}

int journal_open_reader(const char *directory, struct journal **ret, gb_error *err)
{
        _cleanup_journal_ struct journal *j = NULL;
        _cleanup_free_ char *path = NULL;
        _cleanup_close_ int fd = -1;

        int e = state_directory_open(directory, false, &path, &fd, err);
        e = e < 0 ? e : new_journal(&j, err);
        if (e < 0)
                return e;
        j->read_only = true;
        e = open_readers(j, path, fd, err);
        if (e < 0)
                return e;
        *ret = TAKE_PTR(j);
        return 0;
}

void journal_close(struct journal *j)
{
        if (!j)
                return;
        for (size_t i = 0; i < JOURNAL_READERS; i++)
                database_done(&j->readers[i]);
        database_done(&j->upkeep);
        /* The last connection copies the log into the file, and removes it. */
        database_done(&j->writer);
        j->n_texts_kept = 0;
        journal_audit_settle(j, false);
        underway_clear(j);
        pthread_mutex_destroy(&j->underway_lock);
        pthread_mutex_destroy(&j->queue_lock);
        safe_close(j->log_fd);
        safe_close(j->lock_fd);
        free(j);
}
