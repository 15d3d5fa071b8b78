/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify.h"

#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GRACE_USEC 500000ULL /* from a limit of time to the end of everything */

void judge(struct row *row, enum outcome outcome, const char *format, ...)
{
        va_list ap;

        row->outcome = outcome;
        va_start(ap, format);
        vsnprintf(row->happened, sizeof(row->happened), format, ap);
        va_end(ap);
}

/* ---- what the program said ---- */

static void read_line(struct trial *t, const char *line, size_t size)
{
        size_t token = strlen(t->v->host.token);
        char kind[8] = "", text[256];

        if (size < token + 2 || memcmp(line, t->v->host.token, token) != 0 || line[token] != ' ')
                return;
        snprintf(kind, sizeof(kind), "%.4s", line + token + 1);
        size_t skip = token + 1 + strcspn(line + token + 1, " ") + 1;
        snprintf(text, sizeof(text), "%.*s", skip < size ? (int)(size - skip) : 0, line + skip);
        if (strcmp(kind, "ran ") == 0)
                t->ran = true;
        else if (strcmp(kind, "held") == 0)
                t->held++;
        else if (strcmp(kind, "open") == 0 && t->open++ == 0)
                snprintf(t->first_open, sizeof(t->first_open), "%s", text);
        else if (strcmp(kind, "note") == 0)
                snprintf(t->note, sizeof(t->note), "%s", text);
        else if (strcmp(kind, "done") == 0) {
                t->ended = true;
                t->done = (unsigned)atoi(text);
        }
}

void trial_read(struct trial *t)
{
        const char *p = t->result->out.data;
        size_t left = t->result->out.size;

        while (left > 0) {
                const char *end = memchr(p, '\n', left);
                if (!end)
                        break;
                read_line(t, p, (size_t)(end - p));
                left -= (size_t)(end - p) + 1;
                p = end + 1;
        }
}

/* ---- the judges ---- */

/* The program's own word: it ran to the end, and nothing was open. */
void judge_report(struct trial *t, struct row *row)
{
        const struct verdict *verdict = &t->result->verdict;

        if (t->open > 0)
                judge(row, OUTCOME_FAIL, "%u of %u attempts succeeded: %s", t->open, t->open + t->held, t->first_open);
        else if (!t->ran || !t->ended || t->done == 0 || t->done != t->held)
                judge(row, OUTCOME_FAIL, "the probe did not run to its end: verdict %s, %.200s", verdict_name(verdict->kind),
                      verdict->message);
        else if (verdict->kind != VERDICT_OK)
                judge(row, OUTCOME_FAIL, "the probe did not end well: verdict %s, %.200s", verdict_name(verdict->kind),
                      verdict->message);
        else
                judge(row, OUTCOME_PASS, "%u attempt%s, none succeeded%s%s", t->held, t->held == 1 ? "" : "s",
                      t->note[0] ? "; " : "", t->note);
}

void judge_workspace(struct trial *t, struct row *row)
{
        struct verify_host *h = &t->v->host;
        char text[64] = "";
        struct stat st;

        judge_report(t, row);
        if (row->outcome != OUTCOME_PASS)
                return;
        _cleanup_close_ int dir = open(h->workspace, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (dir < 0 || fstatat(dir, PROBE_WORKSPACE_FILE, &st, AT_SYMLINK_NOFOLLOW) < 0)
                judge(row, OUTCOME_FAIL, "the file did not appear on the host: %s", strerror(errno));
        else if (!S_ISREG(st.st_mode) || file_read_at(dir, PROBE_WORKSPACE_FILE, text, sizeof(text)) < 0 ||
                 strcmp(text, h->token) != 0)
                judge(row, OUTCOME_FAIL, "the file on the host is not what was written");
        else if (st.st_uid != geteuid() || st.st_gid != getegid())
                judge(row, OUTCOME_FAIL, "on the host the file is owned by %u:%u, not by the caller", st.st_uid, st.st_gid);
        else
                judge(row, OUTCOME_PASS, "on the host the file is the caller's (%u:%u)", st.st_uid, st.st_gid);
}

void judge_network(struct trial *t, struct row *row)
{
        struct verify_host *h = &t->v->host;
        bool reached = verify_host_was_reached(h);

        judge_report(t, row);
        if (reached)
                judge(row, OUTCOME_FAIL, "a listener of the host was reached");
        else if (row->outcome == OUTCOME_PASS && !verify_host_can_be_reached(h))
                judge(row, OUTCOME_FAIL, "the host's own listeners do not work, so that nothing was proved");
}

void judge_bystander(struct trial *t, struct row *row)
{
        judge_report(t, row);
        if (!verify_host_bystander_lives(&t->v->host))
                judge(row, OUTCOME_FAIL, "a process of the host was killed");
        else if (row->outcome == OUTCOME_PASS)
                judge(row, OUTCOME_PASS, "no process of the host was harmed");
}

/* A bomb must have been started, and end with this verdict. */
static bool judge_bomb(struct trial *t, struct row *row, enum verdict_kind kind, enum verdict_kind also)
{
        const struct verdict *verdict = &t->result->verdict;

        if (!t->ran) {
                judge(row, OUTCOME_FAIL, "the probe did not run: verdict %s, %.200s", verdict_name(verdict->kind), verdict->message);
                return false;
        }
        if (t->open > 0) {
                judge(row, OUTCOME_FAIL, "%s", t->first_open);
                return false;
        }
        if (verdict->kind != kind && verdict->kind != also) {
                judge(row, OUTCOME_FAIL, "verdict %s instead of %s: %.200s", verdict_name(verdict->kind), verdict_name(kind),
                      verdict->message);
                return false;
        }
        judge(row, OUTCOME_PASS, "verdict %s after %" PRIu64 " ms", verdict_name(verdict->kind),
              t->result->facts.wall_usec / 1000);
        return true;
}

/* Of a control that the caller allowed to be weaker nothing is claimed. */
static bool judge_weaker(struct trial *t, struct row *row, enum control_id id)
{
        const struct control_status *s = &t->result->controls.status[id];

        if (!t->ran || s->state == CONTROL_ENFORCED)
                return false;
        judge(row, OUTCOME_WEAKER, "not enforced (allowed weaker): %s", s->how);
        return true;
}

void judge_memory(struct trial *t, struct row *row)
{
        uint64_t peak = t->result->facts.memory_peak_bytes, limit = t->policy->mem_limit_bytes;

        if (judge_weaker(t, row, CONTROL_MEMORY) || !judge_bomb(t, row, VERDICT_MEMORY, VERDICT_MEMORY))
                return;
        if (!t->result->facts.known.memory)
                judge(row, OUTCOME_FAIL, "verdict memory, but its memory was not measured");
        else if (peak > limit)
                judge(row, OUTCOME_FAIL, "it had %" PRIu64 " MiB, the limit is %" PRIu64, peak >> 20, limit >> 20);
        else
                judge(row, OUTCOME_PASS, "verdict memory at %" PRIu64 " of %" PRIu64 " MiB", peak >> 20, limit >> 20);
}

void judge_forks(struct trial *t, struct row *row)
{
        char cgroup[VERIFY_CGROUP_MAX];

        if (judge_weaker(t, row, CONTROL_PIDS) || !judge_bomb(t, row, VERDICT_PIDS, VERDICT_TIMEOUT))
                return;
        int left = verify_host_find(&t->v->host, cgroup);
        if (left < 0)
                judge(row, OUTCOME_FAIL, "cannot look for processes: %s", strerror(-left));
        else if (left > 0)
                judge(row, OUTCOME_FAIL, "%d processes of the bomb are still there", left);
        else if (t->held != 1)
                judge(row, OUTCOME_FAIL, "the probe could not count its processes");
        else if (!t->result->facts.known.pids)
                judge(row, OUTCOME_FAIL, "its processes were not counted");
        else if (t->result->facts.pids_peak > VERIFY_PIDS_LIMIT)
                judge(row, OUTCOME_FAIL, "%" PRIu64 " processes, the limit is %d", t->result->facts.pids_peak, VERIFY_PIDS_LIMIT);
        else
                judge(row, OUTCOME_PASS, "verdict %s, never more than %d processes, none left",
                      verdict_name(t->result->verdict.kind), VERIFY_PIDS_LIMIT);
}

void judge_disk(struct trial *t, struct row *row)
{
        if (judge_bomb(t, row, VERDICT_DISK, VERDICT_DISK))
                judge(row, OUTCOME_PASS, "verdict disk at %" PRIu64 " MiB; the limit is %" PRIu64,
                      t->result->facts.disk_peak_bytes >> 20, t->policy->disk_limit_bytes >> 20);
}

void judge_output(struct trial *t, struct row *row)
{
        if (!judge_bomb(t, row, VERDICT_OUTPUT, VERDICT_OUTPUT))
                return;
        if (t->result->out.size > t->policy->output_limit_bytes)
                judge(row, OUTCOME_FAIL, "%zu bytes were kept", t->result->out.size);
}

void judge_loop(struct trial *t, struct row *row)
{
        if (judge_bomb(t, row, VERDICT_TIMEOUT, VERDICT_TIMEOUT) && t->took_usec > t->policy->timeout_usec + GRACE_USEC)
                judge(row, OUTCOME_FAIL, "it ended after %" PRIu64 " ms; the limit is %" PRIu64, t->took_usec / 1000,
                      t->policy->timeout_usec / 1000);
}

void judge_survivor(struct trial *t, struct row *row)
{
        char cgroup[VERIFY_CGROUP_MAX];
        int left = verify_host_find(&t->v->host, cgroup);

        judge_report(t, row);
        if (left > 0)
                judge(row, OUTCOME_FAIL, "%d processes outlived the run", left);
        else if (left < 0)
                judge(row, OUTCOME_FAIL, "cannot look for processes: %s", strerror(-left));
        else if (row->outcome == OUTCOME_PASS && t->v->seen_alive < 1)
                judge(row, OUTCOME_FAIL, "the daemon could not be seen from outside while it lived, so that nothing was proved");
        else if (row->outcome == OUTCOME_PASS)
                judge(row, OUTCOME_PASS, "%d processes were seen before the end, none after it", t->v->seen_alive);
}
