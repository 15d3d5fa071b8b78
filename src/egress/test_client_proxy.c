/* SPDX-License-Identifier: Apache-2.0
 *
 * A proxy for test_client.c that serves nobody. The rules of a box say what it does: texts of its rules are words.
 *
 *   die       ends when it is told of the box        wrong     answers for another box
 *   mute      does not answer                        refuse    answers with an error
 *   relapse   dies when it is told of a box that another was told of
 *   deaf      closes its socket and goes on          note:HOST counts a refused request to that host
 *
 * It notes each order in the ledger of the box that it concerns: a row for its own process and kind, "ORDER.PID". Started as "glovebox-egress authority" it prints
 * what could be one. */
#include "base/fd.h"
#include "base/message.h"
#include "egress/ledger.h"
#include "egress/protocol.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define KNOWN_MAX 8

static struct {
        uint64_t id;
        struct ledger *ledger;
        int source;
} boxes[KNOWN_MAX];

static bool has_word(int fd, const char *word)
{
        _cleanup_free_ char *bytes = NULL;
        size_t size;

        (void)lseek(fd, 0, SEEK_SET); /* one that dies has left it somewhere */
        if (fd_read_all(fd, EGRESS_POLICY_BYTES_MAX, &bytes, &size) < 0)
                return false;
        return memmem(bytes, size, word, strlen(word)) != NULL;
}

static void note(struct ledger *l, const char *what)
{
        char name[64];

        snprintf(name, sizeof(name), "%s.%d", what, (int)getpid());
        ledger_count(l, ledger_row(l, name, 443, EGRESS_ALLOWED, EGRESS_HTTPS, NULL));
}

static void count_refused(int fd, struct ledger *l)
{
        _cleanup_free_ char *block = NULL;
        size_t size;

        (void)lseek(fd, 0, SEEK_SET);
        if (fd_read_all(fd, EGRESS_POLICY_BYTES_MAX, &block, &size) < 0 || !egress_rules_valid(block, size))
                _exit(3);
        const struct egress_rules *r = (const void *)block;
        ledger_count(l, ledger_row(l, egress_text(r, r->rules[0].text) + strlen("note:"), 443, EGRESS_NO_RULE, EGRESS_HTTPS, NULL));
}

static size_t place_of(uint64_t id)
{
        size_t i = 0;

        while (i < KNOWN_MAX - 1 && boxes[i].id != id)
                i++;
        return i;
}

/* What is said about the order; the answer is not sent when it is false. */
static bool take(const struct egress_order *o, int *fds, int n_fds, struct egress_answer *a)
{
        static const char *const names[] = {[EGRESS_ORDER_BOX] = "box", [EGRESS_ORDER_RULES] = "rules", [EGRESS_ORDER_GONE] = "gone"};
        size_t i = place_of(o->kind == EGRESS_ORDER_BOX ? 0 : o->box);
        int rules = o->kind == EGRESS_ORDER_BOX || o->kind == EGRESS_ORDER_RULES ? fds[0] : -1;

        if (o->kind == EGRESS_ORDER_BOX && n_fds >= 3) {
                boxes[i].id = o->box;
                (void)ledger_map(fds[1], &boxes[i].ledger);
                boxes[i].source = dup(fds[2]);
        }
        if (o->kind == EGRESS_ORDER_BOX && boxes[i].ledger && boxes[i].ledger->n_rows > 0 && has_word(rules, "relapse"))
                _exit(1);
        if (o->kind < EGRESS_ORDER_ROOTS && names[o->kind] && boxes[i].ledger)
                note(boxes[i].ledger, names[o->kind]);
        if (o->kind == EGRESS_ORDER_GONE) {
                safe_close(boxes[i].source);
                ledger_unmap(boxes[i].ledger);
                memset(&boxes[i], 0, sizeof(boxes[i]));
        }
        if (rules < 0)
                return true;
        if (has_word(rules, "note:"))
                count_refused(rules, boxes[i].ledger);
        if (has_word(rules, "die"))
                _exit(1);
        if (has_word(rules, "deaf")) {
                close(EGRESS_SOCKET_FD);
                pause();
        }
        if (has_word(rules, "wrong"))
                a->box++;
        if (has_word(rules, "refuse"))
                error_set(&a->error, GB_E_LIMIT, ENOSPC, "no, thank you");
        return !has_word(rules, "mute");
}

int main(int argc, char **argv)
{
        int fds[BOX_FDS_MAX], n_fds;
        struct egress_order o;

        if (argc > 1 && strcmp(argv[1], "authority") == 0) {
                puts("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n-----BEGIN PRIVATE KEY-----\nBBBB\n-----END PRIVATE KEY-----");
                return 0;
        }
        /* Nothing of the front is here: neither its variables nor its descriptors. */
        extern char **environ;
        if (environ[0] || fcntl(EGRESS_SOCKET_FD + 1, F_GETFD) >= 0)
                return 2;
        while (message_receive(EGRESS_SOCKET_FD, 0, &o, sizeof(o), fds, &n_fds) == sizeof(o)) {
                struct egress_answer a = {.version = EGRESS_PROTOCOL_VERSION, .kind = o.kind, .box = o.box};
                bool answer = take(&o, fds, n_fds, &a);
                for (int i = 0; i < n_fds; i++)
                        close(fds[i]);
                if (answer)
                        (void)message_send(EGRESS_SOCKET_FD, &a, sizeof(a), NULL, 0);
        }
        return 0;
}
