/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WARDEN_BOX_H
#define WARDEN_BOX_H

#include "kernel/userns.h"
#include "runner/runner.h"
#include "warden/children.h"
#include "warden/protocol.h"

#include <stdbool.h>
#include <sys/types.h>

/* The life of a box, and what may happen in each state:
 *   NONE      a request
 *   SHELL     the same: namespaces, init and the waiting program were made ahead, as most want them
 *   BUILDING  frames from the setup process; stop
 *   RUNNING   the program's end; signal, stop, deadlines, samples
 *   OPEN      a session: programs come and go (program.h); stop, samples
 *   DYING     a session nobody wants any more: all in it was killed; their ends
 *   DEAD      nobody inside lives; the event can be sent, then the rest removed */
enum box_state { BOX_NONE, BOX_SHELL, BOX_BUILDING, BOX_RUNNING, BOX_OPEN, BOX_DYING, BOX_DEAD };

struct channel;
struct program;
struct template;

struct box {
        _Alignas(16) enum box_state state;
        struct box_spec spec;
        bool session;              /* it stays when a program ends */
        bool peopled;              /* of a template: children may be forked into it */
        bool active;               /* of a session: a program of it has a run, as the last tick saw it */
        bool stopping;             /* its programs go with it */
        struct channel *channel;   /* who hears of it; NULL: nobody yet */
        struct program *programs;  /* of a session */
        struct program *parked;    /* waits in it for the first who wants one; NULL: nobody */
        struct template *own;      /* the template that lives in it; NULL: none */
        struct template *template; /* whose namespaces ours are made in; NULL: the host's */
        struct userns_map identity; /* uid_outside as its maker sees it */
        uint32_t slot; /* of its template's ids */
        uint32_t host_uid, host_gid;
        struct cgroup_box cgroup;
        bool has_cgroup;
        bool host_root; /* the warden is the host's root, so the box has a uid of its own */
        int cgroup_parents[CGROUP_KIND_COUNT];

        struct child setup, init, program;
        struct child foreman; /* of a template */
        bool init_ended;    /* and with it all of its pid namespace */
        bool program_ended; /* before it could start; the setup process will say why */
        int socket;         /* frames from inside */
        int proc;   /* the box's own /proc */
        int namespaces[FORK_NAMESPACE_COUNT]; /* of a session, where we may not open them by its init */
        int ruleset, workspace; /* of a session: for its programs, for the front */
        int watch[BOX_WRITABLE_MAX];
        int n_watch;

        dev_t devices[BOX_WRITABLE_MAX]; /* of the host, where the box can write */
        size_t n_devices;
        uint64_t unlinked_peak_bytes;
        bool unlinked_over; /* more than the limit, or too many to count */
        uint64_t unlinked_next_usec; /* not looked at again before this */
        uint64_t tasks_seen; /* in a v2 group, without init */

        uint64_t asked_usec;   /* when the request came */
        uint64_t started_usec; /* when user code was about to run */
        uint64_t sampled_usec;
        uint64_t ended_usec;   /* when its program was seen to have ended, and had left processes */
        uint64_t grown_usec;   /* when these last became more */
        uint64_t oom_kills_known; /* of a session: those that programs were told of */
        bool executed;  /* user code runs */
        bool announced; /* and WARDEN_STARTED was sent */
        bool failed;    /* error says why nothing ran */
        gb_error error;
        struct box_report report;
};

/* Ids that sessions of one template have, besides its own. */
#define TEMPLATE_UIDS_MAX 60000U

/* Keeps the table of all of them from children. */
void box_keep_private(void);
/* All boxes; an unused one has the state BOX_NONE. NULL: all are in use. */
struct box *box_new(void);
/* Calls visit for each that is in use. */
void box_for_each(void (*visit)(struct box *b, void *data), void *data);

/* build.c: makes a shell ahead, for the user that most have inside and with a network namespace of its own. */
void box_make_shell(void);
/* That shell, when there is one, or a new box; NULL: all are in use. */
struct box *box_take_shell(void);

void box_init(struct box *b);
/* build.c: starts building, in the shell when it fits, or below the template that b->template names. With is_template
 * the box becomes that template's own. fds[] are the descriptors of spec->fds, of which it takes what it uses. */
int box_create(struct box *b, const struct box_spec *spec, struct template *is_template, int *fds, gb_error *err);
/* Something can be read from the socket of the setup process. */
void box_on_frame(struct box *b);
/* The program, init or the setup process has ended. */
void box_on_end(struct box *b);
/* How many tasks its cgroup counts, init and the dead that are not reaped among them; -ENOENT: nobody counts them. */
int box_tasks(const struct box *b, uint64_t *ret);
/* Looks at limits and peaks; ends the box when one is passed. */
void box_sample(struct box *b, uint64_t now_usec);
/* Reads the counters of its cgroups, tasks and disks into the report. */
void box_measure(struct box *b);
/* When box_sample wants to be called next (monotonic); 0: never. */
uint64_t box_next_sample(const struct box *b);
/* Removes what boxes of dead wardens left; done while this box runs, so that nobody waits for it. */
void box_sweep(const struct box *b);
void box_signal(struct box *b, int sig);
/* Of a session: kills what its programs have started and left running, not these themselves. Returns how many there were, or a negative errno. */
int box_clear(struct box *b);
/* Ends and reaps every process of the box. */
void box_kill(struct box *b);
/* Kills everything inside and reads the last counters. What was started in the box is dead then. */
void box_stop(struct box *b, enum warden_stop why);
/* Closes what a session needs only until somebody has it: there may be thousands. */
void box_keep_little(struct box *b);
/* Kills everything in a session that stands and does not wait for it; the ends of its processes do the rest. */
void box_abandon(struct box *b);
/* Removes the cgroups, which are empty by then, waits for init and closes everything. */
void box_done(struct box *b);

#endif
