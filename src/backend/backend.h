/* SPDX-License-Identifier: Apache-2.0
 *
 * Who isolates. The engine knows backends only through this table. */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "base/ending.h"
#include "base/full_place.h"
#include "base/error.h"
#include "policy/control.h"
#include "policy/language.h"
#include "policy/policy.h"
#include "policy/template.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* A file that a box has besides those of its code; borrowed. */
struct box_file {
        const char *bytes;
        size_t size;
};

/* Everything a backend needs to start one run. Descriptors are borrowed. */
struct box_request {
        const struct policy *policy;
        const struct language *language;
        const char *code_name; /* a plain file name */
        const char *code;
        size_t code_size;
        char *const *args;
        int workspace_fd; /* directory on the host, or -1: private */
        const int *mount_fds; /* of the policy's mounts, in order: directories or regular files */
        const char *rootfs; /* or NULL: the host's */
        const struct box_file *ca; /* NETWORK_CA_PATH in the box; NULL: it has none */
        uid_t uid;
        gid_t gid;
        int stdio[3];
};

enum box_event_kind { BOX_EVENT_NONE, BOX_EVENT_STARTED, BOX_EVENT_ENDED };

/* Why the backend ended the box by itself. */
enum box_stop { BOX_STOP_NONE, BOX_STOP_TIMEOUT, BOX_STOP_CPU, BOX_STOP_DISK, BOX_STOP_MEMORY, BOX_STOP_ASKED };

struct box_end {
        struct ending ending; /* not seen: only where the backend ended it, and `stop` says why */
        enum box_stop stop;
        bool compiling, disk_hidden, pids_full;
        unsigned disk_full; /* enum full_place */
        uint64_t wall_usec, cpu_usec, memory_peak_bytes, pids_peak, disk_peak_bytes, inodes_peak;
        uint64_t oom_kills, pids_refused;
        uint64_t tasks_left; /* the most of what it had left running when it ended, which was given a moment to show itself; 0: nobody has looked */
        /* whether they were observed; of a program in a session: session_usage() says */
        bool cpu_known, memory_known, pids_known;
        bool kills_known; /* oom_kills: a cgroup counts them */
        bool disk_known;  /* disk_peak_bytes, inodes_peak */
};

struct box_event {
        enum box_event_kind kind;
        uint64_t t_usec;
        struct box_end end;
};

struct backend_box; /* each backend's own */

/* ---- sessions: a box that lives over several programs ---- */

struct session_request {
        const struct policy *policy;
        const struct template *template; /* interpreters come from it where that is possible; NULL: from a fresh exec */
        bool only_warm; /* without a template that waits already it fails: GB_E_NOT_FOUND, and why */
        const struct languages *languages; /* what they need of the host's /etc is there */
        int workspace_fd; /* as in box_request, and so are these */
        const int *mount_fds;
        const char *rootfs;
        const struct box_file *ca; /* with it: a root of its own, so no template */
        uid_t uid;
        gid_t gid;
};

enum program_mode {
        PROGRAM_CONTEXT, /* an interpreter that takes code through its control channel, run after run */
        PROGRAM_ONCE,    /* code in a file, compiled and run to its end */
};

struct program_request {
        enum program_mode mode;
        const struct policy *policy;
        const struct language *language; /* PROGRAM_CONTEXT: one with a context runner */
        bool warm; /* PROGRAM_CONTEXT: fork it from the session's template where there is one */
        /* PROGRAM_ONCE: */
        const char *code_name;
        const char *code;
        size_t code_size;
        char *const *args;
        int stdin_fd; /* the box's end of a pipe, borrowed; -1: empty */
        bool alone;   /* the session has and will have no other: its code lies where that of a box does */
};

/* What the engine holds of a program; its own from then on, non-blocking. */
struct program_io {
        int control;  /* PROGRAM_CONTEXT: the control channel; -1 otherwise */
        int out, err; /* pipes */
        int deadline; /* a timerfd (CLOCK_MONOTONIC): when it expires the backend ends the program for its time, also
                       * while nobody here listens. Armed and disarmed by the engine with each run */
        bool ready;   /* PROGRAM_CONTEXT: the interpreter waits for its configuration, and need not be waited for */
};

struct box_usage {
        uint64_t cpu_usec;          /* of the whole session, since it was opened */
        uint64_t memory_bytes, memory_peak_bytes;
        uint64_t pids, pids_peak;
        uint64_t oom_kills, pids_refused;
        uint64_t disk_bytes, inodes; /* in its private places now */
        unsigned disk_full;  /* enum full_place */
        bool disk_unknown; /* the three could not be read now: they have their last known values, or 0 */
        bool cpu_known, memory_known, pids_known; /* whether the host counts them */
        bool cpu_is_old; /* cpu_usec may be of some time ago: an engine was asked, and not the kernel */
        bool memory_peak_known, pids_peak_known;  /* and their peaks: not every kernel and engine does */
        bool kills_known; /* the same: oom_kills */
        bool io_known;    /* the same: bytes from and to its disks */
        uint64_t io_read_bytes, io_write_bytes;
};

struct backend_session;
struct backend_program;

/* ---- a process that gives up its privilege ---- */

#define SEPARATION_FDS_MAX 8

struct separation {
        uid_t uid; /* who it will be */
        gid_t gid;
        gid_t groups[1]; /* that it keeps besides */
        size_t n_groups;
        /* Called when that helper has been started, while this process still has its rights: for what the helper is not to know. May be NULL. */
        int (*between)(void *data, gb_error *err);
        /* Called when the process has ended, by the helper that keeps the privilege; it holds the descriptors until then. */
        void (*at_end)(void *data);
        void *data;
        int kept[SEPARATION_FDS_MAX]; /* borrowed */
        size_t n_kept;
};

/* What somebody wants to know of a sweep. */
struct backend_sweep {
        bool only_look; /* nothing is removed */
        void (*found)(void *data, const char *kind, const char *name); /* what was removed, or would be; NULL: nobody asks */
        void *data;
};

struct backend {
        const char *name;
        /* When the kernel has killed a task for the session's memory, all programs of the session are ended. */
        bool memory_ends_all;
        /* For a service, before any thread and before anything else is asked of the backend: makes itself room where its manager has put it. NULL: no need. */
        void (*settle)(void);
        /* Root becomes an ordinary user for good, and a helper starts from then on what needs privilege. Before any thread, and before anything was
         * started. When it fails the process must end. NULL: there is nothing to separate. */
        int (*separate)(const struct separation *separation, gb_error *err);
        /* Before that, as root, for a backend whose rights are those of a group: the group that the process is to keep. Finds later what root has found now.
         * NULL: there is none to keep. */
        int (*keep_access)(gid_t *ret, gb_error *err);
        /* Readable when that helper has ended: what has been started goes on, and nothing new can be; -1: there is none. */
        int (*separated_fd)(void);
        /* Has that helper start glovebox-hide, as hide_start_function of hide/hide.h. */
        int (*separated_hide)(int *ret_socket, int *ret_pidfd, gb_error *err);
        /* What this policy would have on this host, or why it cannot have it. Nothing is started. */
        int (*admit)(const struct policy *policy, struct controls *ret, gb_error *err);
        /* Starts helpers early; optional. forget() ends those that no start() has taken. */
        void (*prepare)(void);
        void (*forget)(void);
        /* Fills controls with what will be enforced; fails when the policy wants more. */
        int (*start)(const struct box_request *request, struct controls *ret_controls, struct backend_box **ret,
                     gb_error *err);
        /* Readable when next_event() has something. */
        int (*event_fd)(const struct backend_box *box);
        /* One event, or BOX_EVENT_NONE. An error: nothing ran (err tells), or the box is lost. */
        int (*next_event)(struct backend_box *box, struct box_event *ret, gb_error *err);
        void (*signal)(struct backend_box *box, int sig);
        void (*stop)(struct backend_box *box);
        /* Ends it if it still lives. */
        void (*free)(struct backend_box *box);
        /* NETWORK_ALLOWLIST, once after BOX_EVENT_STARTED: where its connections come from, as EGRESS_ORDER_BOX wants it (egress/protocol.h); the caller's. */
        int (*listener)(struct backend_box *box, gb_error *err);

        /* Builds the box and waits until it stands: milliseconds. */
        int (*session_open)(const struct session_request *request, struct controls *ret_controls,
                            struct backend_session **ret, gb_error *err);
        /* The workspace, to be looked at from outside (fstatfs); borrowed. -1: it cannot be, and session_usage() counts it. */
        int (*session_workspace)(const struct backend_session *session);
        /* The workspace to read and write files in: a directory (borrowed), and whose file system identity to take for that. GB_E_UNENFORCEABLE where the host
         * cannot give it. From any thread. */
        int (*session_files)(struct backend_session *session, int *ret_fd, uid_t *ret_uid, gid_t *ret_gid, gb_error *err);
        /* NULL, or: a stream to a server of files inside (engine/files_wire.h), for a workspace that cannot be opened from here; the caller's, one operation long. From
         * any thread. */
        int (*session_dial)(struct backend_session *session, gb_error *err);
        int (*session_usage)(struct backend_session *session, struct box_usage *ret, gb_error *err);
        /* Kills what its programs have started and left running, and not these themselves; for a session whose tasks are counted. How many there were. */
        int (*session_clear)(struct backend_session *session, unsigned *ret_ended, gb_error *err);
        /* Whether a process of it could compute now, or is about to: not all of them wait. False also where nobody knows. */
        bool (*session_is_busy)(struct backend_session *session);
        /* As listener(), once after session_open(). */
        int (*session_listener)(struct backend_session *session, gb_error *err);
        /* Readable when the session has ended by itself (its init was killed, say). */
        int (*session_event_fd)(const struct backend_session *session);
        /* Whether its interpreters come from a template; NULL: never. */
        bool (*session_is_warm)(const struct backend_session *session);
        /* Ends every program in it, removes the box. False when that was not seen: something of it may still run. */
        bool (*session_free)(struct backend_session *session);

        /* Starts a program in the session and waits until it was executed or forked. */
        int (*program_start)(struct backend_session *session, const struct program_request *request,
                             struct backend_program **ret, struct program_io *ret_io, gb_error *err);
        /* As event_fd() and next_event() of a box: BOX_EVENT_ENDED comes once. end.stop says whether the backend
         * ended it (BOX_STOP_TIMEOUT: by the deadline; BOX_STOP_MEMORY; BOX_STOP_ASKED); usage is the session's. */
        int (*program_event_fd)(const struct backend_program *program);
        int (*program_next_event)(struct backend_program *program, struct box_event *ret, gb_error *err);
        void (*program_signal)(struct backend_program *program, int sig); /* to its process group */
        /* Waits until every signal that was asked for has been sent: what follows, none of them can hit. May be NULL. */
        void (*program_settle)(struct backend_program *program);
        void (*program_stop)(struct backend_program *program); /* SIGKILL, also to what it started */
        void (*program_free)(struct backend_program *program); /* ends it if it still lives */

        /* Removes what processes left behind that are dead, if that outlives them; NULL: it does not. May take seconds. From any thread. */
        int (*sweep)(const struct backend_sweep *sweep, gb_error *err);

        const struct backend_warm *warm; /* NULL: templates are this process's own affair */
};

/* ---- templates that this user's processes share ---- */

#define WARM_MISSING_MAX 128

struct backend_warm {
        /* Whether somebody serves. */
        bool (*is_served)(void);
        /* Whether who serves has the template ready. */
        bool (*has)(const struct template *template);
        /* Serves from here on, by the listening socket (borrowed), until end() or the end of this process. Called again
         * it ends what it served before. */
        int (*serve)(int listen_fd, gb_error *err);
        /* Serves nobody but this process, which from here on uses no templates of others. Called again it starts anew what has died. */
        int (*own)(gb_error *err);
        /* Who serves: makes sure that the template waits, which takes as long as its imports. missing: modules that could not
         * be imported, with spaces between; perhaps cut. GB_E_LOST: nothing is served any more. */
        int (*start)(const struct template *template, char missing[static WARM_MISSING_MAX], gb_error *err);
        /* Readable when the template has ended; -1: it has. */
        int (*event_fd)(const struct template *template);
        void (*end)(void);
};

extern const struct backend backend_native, backend_docker;

/* The one that a policy asks for. */
const struct backend *backend_for(const struct policy *policy);
/* Each has what dead processes of it left behind removed. The first failure; the others are done all the same. */
int backends_sweep(const struct backend_sweep *sweep, gb_error *err);

#endif
