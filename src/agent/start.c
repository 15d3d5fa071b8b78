/* SPDX-License-Identifier: Apache-2.0
 *
 * From a program's plan to its supervisor. */
#include "agent/facts.h"
#include "agent/program.h"
#include "agent/spare.h"
#include "agent/supervisor.h"
#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define LAST_OOM_SCORE "1000" /* of programs and their supervisors: they go before the agent */

static int ruleset = -1, oom_score = -1;
static char own_oom_score[16];

int program_start_init(void)
{
        /* While it can be opened: a process that is not dumpable does not own its files. */
        oom_score = open("/proc/self/oom_score_adj", O_RDWR | O_CLOEXEC);
        if (oom_score >= 0 && read(oom_score, own_oom_score, sizeof(own_oom_score) - 1) <= 0)
                oom_score = safe_close(oom_score);
        return facts_ruleset(&ruleset);
}

int program_add_to_plan(struct program *p, const char *bytes, size_t size)
{
        if (p->plan_size + size > WIRE_PLAN_MAX)
                return -EPROTO;
        if (p->plan_size + size > p->plan_allocated && !p->plan_lost) {
                size_t want = MAX(p->plan_size + size, p->plan_allocated * 2);
                char *grown = realloc(p->plan, want);
                p->plan_lost = !grown; /* said at its start */
                p->plan = grown ? grown : p->plan;
                p->plan_allocated = grown ? want : p->plan_allocated;
        }
        if (!p->plan_lost)
                memcpy(p->plan + p->plan_size, bytes, size);
        p->plan_size += size;
        return 0;
}

int program_make_pipe(int *ret_read, int *ret_write, bool we_read)
{
        int pair[2];

        *ret_read = *ret_write = -1;
        if (pipe2(pair, O_CLOEXEC) < 0)
                return -errno;
        int r = fd_set_nonblock(we_read ? pair[0] : pair[1]);
        if (r < 0) {
                safe_close(pair[0]);
                safe_close(pair[1]);
                return r;
        }
        *ret_read = pair[0];
        *ret_write = pair[1];
        return 0;
}

static int make_control(struct program *p, struct launch *launch)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        launch->control = pair[1];
        source_open(p, WIRE_CONTROL, pair[0]);
        int copy = fcntl(pair[0], F_DUPFD_CLOEXEC, 3); /* the two directions end by themselves */
        if (copy < 0)
                return -errno;
        sink_open(p, WIRE_CONTROL, copy);
        return 0;
}

static int make_streams(struct program *p, struct launch *launch)
{
        uint32_t flags = launch->plan->head.flags;
        int ours, r = 0;

        for (uint32_t i = WIRE_STDOUT; i <= WIRE_CONTROL; i++)
                p->sources[i].fd = -1;
        for (uint32_t i = WIRE_STDOUT; r == 0 && i <= WIRE_STDERR; i++) {
                r = program_make_pipe(&ours, &launch->streams[i], true);
                if (r == 0)
                        source_open(p, i, ours);
        }
        if (r == 0 && flags & WIRE_PLAN_STDIN) {
                r = program_make_pipe(&launch->streams[0], &ours, false);
                if (r == 0)
                        sink_open(p, WIRE_STDIN, ours);
        }
        if (r == 0 && flags & (WIRE_PLAN_CONTEXT | WIRE_PLAN_FILES))
                r = make_control(p, launch);
        return r;
}

/* Children inherit the score that we have in that moment. */
static pid_t fork_expendable(void)
{
        if (oom_score >= 0)
                (void)!pwrite(oom_score, LAST_OOM_SCORE, strlen(LAST_OOM_SCORE), 0);
        pid_t pid = fork();
        int saved = errno;
        if (pid != 0 && oom_score >= 0)
                (void)!pwrite(oom_score, own_oom_score, strlen(own_oom_score), 0);
        errno = saved;
        return pid;
}

static int fork_supervisor(struct program *p, struct launch *launch)
{
        int pair[2];

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return -errno;
        pid_t pid = fork_expendable();
        if (pid == 0)
                supervisor_run(launch, pair[1]);
        int r = pid < 0 ? -errno : 0;
        safe_close(pair[1]);
        p->report = pair[0];
        p->supervisor = MAX(pid, 0);
        return r;
}

static void fail_start(struct program *p, int r, const char *what)
{
        error_set(&p->error, GB_E_LIMIT, -r, "cannot %s: %s", what, strerror(-r));
        program_say(WIRE_FAILED, p, 0, &p->error, sizeof(p->error));
        program_release(p);
}

int program_start(struct program *p)
{
        static struct plan plan;
        struct launch launch = {.plan = &plan, .streams = {-1, -1, -1}, .control = -1, .ruleset = ruleset, .number = p->number};

        p->report = -1;
        if (p->plan_lost) {
                fail_start(p, -ENOMEM, "keep the program's code in the session's memory");
                return 0;
        }
        int r = plan_parse(p->plan, p->plan_size, &plan);
        if (r < 0)
                return r;
        p->serves_files = plan.head.flags & WIRE_PLAN_FILES;
        r = make_streams(p, &launch);
        if (r == 0) {
                spare_adjust(programs_own_tasks() + (p->serves_files ? 2 : 1));
                r = fork_supervisor(p, &launch);
        }
        for (int i = 0; i < 3; i++)
                safe_close(launch.streams[i]);
        safe_close(launch.control);
        if (r < 0) {
                fail_start(p, r, "start a process in the session");
                spare_adjust(programs_own_tasks());
                return 0;
        }
        free(p->plan);
        p->plan = NULL;
        p->state = PROGRAM_STARTING;
        return 0;
}
