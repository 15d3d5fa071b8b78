/* SPDX-License-Identifier: Apache-2.0
 *
 * The container's task limit counts the agent and its supervisors as well, so it is AGENT_OWN_TASKS above the limit of the code. What the agent does not
 * use of these is held by spares: processes that do nothing. One ends for each supervisor that starts, and starts again when that has ended.
 *
 * The first supervisor is not counted: programs that run one after the other start and end no spare.
 *
 * Spares run as the same user as the code, which can kill them. Then it has a few tasks more until the next program starts or ends; the container's limit
 * holds all the same. Under gVisor there are none: there the container's limit is not exact. */
#include "agent/spare.h"

#include "agent/facts.h"
#include "base/macro.h"
#include "kernel/sys.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t spares[SPARES_MAX];
static size_t n_spares;

static _noreturn_ void be_spare(pid_t agent)
{
        prctl(PR_SET_NAME, "glovebox-spare");
        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 || getppid() != agent)
                _exit(1);
        sys_close_range(0, ~0U, 0);
        for (;;)
                pause();
}

static bool start_one(void)
{
        pid_t agent = getpid(), pid = fork();

        if (pid == 0)
                be_spare(agent);
        if (pid > 0)
                spares[n_spares++] = pid;
        return pid > 0;
}

/* Waits until its task is free: the supervisor that is to be started must not be one too many. */
static void end_one(void)
{
        pid_t pid = spares[--n_spares];

        (void)kill(pid, SIGKILL);
        (void)waitpid(pid, NULL, 0);
}

void spare_adjust(size_t others)
{
        size_t wanted = others <= 1 ? SPARES_MAX : SPARES_MAX - MIN(others - 1, (size_t)SPARES_MAX);

        if (facts_count_for_host())
                return;
        while (n_spares > wanted)
                end_one();
        while (n_spares < wanted && start_one())
                ;
}

static size_t find(pid_t pid)
{
        size_t i = 0;

        while (i < n_spares && spares[i] != pid)
                i++;
        return i;
}

bool spare_is(pid_t pid)
{
        return find(pid) < n_spares;
}

bool spare_forget(pid_t pid)
{
        size_t i = find(pid);

        if (i == n_spares)
                return false;
        spares[i] = spares[--n_spares];
        return true;
}

size_t spare_list(pid_t list[static SPARES_MAX])
{
        for (size_t i = 0; i < n_spares; i++)
                list[i] = spares[i];
        return n_spares;
}
