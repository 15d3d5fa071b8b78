/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/network.h"

#include "base/fd.h"
#include "egress/client.h"
#include "egress/rules_write.h"
#include "engine/network_rules.h"
#include "policy/network.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct network_box {
        const struct policy *policy; /* the one it was opened with; its secrets stay */
        struct egress_box *egress;
        struct buffer ca;
        struct box_file ca_file;
        bool intercepts;           /* it has an authority, so rules may end TLS */
        const struct scrub *scrub; /* NULL: nothing is scrubbed */
        struct scrub *names;       /* secrets as they look in names of hosts */

        pthread_mutex_t lock;        /* of what follows */
        struct policy *changed;      /* the network that was set later; NULL: the policy's */
        unsigned runs;               /* that go on */
        /* as it was when the last of them ended; NULL: there was none yet, or it is lost */
        struct ledger_copy *quiet;
        /* there was no memory for it, so later traffic cannot be told from earlier traffic */
        bool quiet_lost;
        struct ledger_copy *outside; /* the traffic while there was none, but since then; NULL: it was taken */
};

/* ---- making one ---- */

/* The certificates of the host with ours: programs in the box look into one file. */
static int make_ca(struct network_box *n, const struct buffer *authority, gb_error *err)
{
        static const char end[] = "-----END CERTIFICATE-----\n";
        const char *behind = strstr(authority->data, end);

        if (!behind)
                return error_set(err, GB_E_UNENFORCEABLE, EBADMSG, "the certificate of the session is not as it should be");
        int r = egress_read_roots(&n->ca, err);
        if (r < 0)
                return r;
        if (buffer_add(&n->ca, authority->data, (size_t)(behind - authority->data) + strlen(end)) < 0)
                return error_set(err, GB_E_UNENFORCEABLE, EFBIG, "the certificates of this host are too many");
        n->ca_file = (struct box_file){.bytes = n->ca.data, .size = n->ca.size};
        return 0;
}

/* Names of hosts are lower case, whatever was asked for. */
static int make_names(struct network_box *n, gb_error *err)
{
        const struct policy *p = n->policy;
        struct scrub_secret secrets[SECRETS_MAX];
        size_t k = 0;
        int r = 0;

        if (!n->scrub || p->n_secrets == 0)
                return 0;
        for (; r == 0 && k < p->n_secrets; k++) {
                const struct policy_secret *from = &p->secrets[k];
                char *lower = malloc(from->size + 1);
                for (size_t i = 0; lower && i < from->size; i++)
                        lower[i] = (char)tolower((unsigned char)from->value[i]);
                secrets[k] = (struct scrub_secret){from->name, lower, lower ? from->size : 0};
                if (!lower)
                        r = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        }
        if (r == 0)
                r = scrub_new(NULL, SCRUB_ON, secrets, k, &n->names, err);
        while (k-- > 0) {
                char *lower = (char *)(uintptr_t)secrets[k].bytes;
                if (lower)
                        explicit_bzero(lower, secrets[k].size);
                free(lower);
        }
        return r;
}

static int open_egress(struct network_box *n, gb_error *err)
{
        _cleanup_buffer_ struct buffer authority = {0}, rules = {0};
        const struct policy *p = n->policy;

        n->intercepts = network_intercepts(p);
        int r = n->intercepts ? egress_make_authority(&authority, err) : 0;
        if (r == 0 && n->intercepts)
                r = make_ca(n, &authority, err);
        if (r == 0)
                r = network_rules_make(p, p, &rules, err);
        if (r == 0)
                r = egress_box_new(&rules, n->intercepts ? &authority : NULL, &n->egress, err);
        return r < 0 ? error_prefix(err, "network_mode allowlist cannot be had") : 0;
}

int network_box_open(const struct policy *p, const struct backend *backend, bool session, const struct scrub *scrub, struct network_box **ret, gb_error *err)
{
        *ret = NULL;
        if (p->network_mode != NETWORK_ALLOWLIST)
                return 0;
        if (session ? !backend->session_listener : !backend->listener)
                return error_set(err, GB_E_UNENFORCEABLE, ENOTSUP, "the backend %s has no network with an allowlist: use another backend, or network_mode none",
                                 backend->name);
        _cleanup_(network_box_free_ptr) struct network_box *n = calloc(1, sizeof(*n));
        if (!n)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        n->policy = p;
        n->scrub = scrub;
        pthread_mutex_init(&n->lock, NULL);
        /* Made now: later there may be no memory to say that there was no memory. */
        n->outside = calloc(1, sizeof(*n->outside));
        int r = n->outside ? make_names(n, err) : error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (r == 0)
                r = open_egress(n, err);
        if (r < 0)
                return r;
        *ret = TAKE_PTR(n);
        return 0;
}

const struct box_file *network_box_ca(const struct network_box *n)
{
        return n && n->ca_file.bytes ? &n->ca_file : NULL;
}

int network_box_attach(struct network_box *n, int source, gb_error *err)
{
        if (source < 0)
                return source;
        if (n)
                return egress_box_attach(n->egress, source, err);
        safe_close(source);
        return 0;
}

void network_box_end(struct network_box *n)
{
        if (n)
                egress_box_end(n->egress);
}

void network_box_free(struct network_box *n)
{
        if (!n)
                return;
        egress_box_free(n->egress);
        buffer_done(&n->ca);
        scrub_free(n->names);
        policy_free(n->changed);
        free(n->quiet);
        free(n->outside);
        pthread_mutex_destroy(&n->lock);
        free(n);
}

unsigned network_restarts(void)
{
        return egress_restarts();
}

/* ---- another network ---- */

static int copy_network(struct policy *to, const struct policy *from)
{
        network_allow_clear(to);
        to->n_network_ranges = 0;
        if (from->network_mode == NETWORK_ALLOWLIST) {
                if (network_allow_copy(to, from) < 0)
                        return -ENOMEM;
                memcpy(to->network_ranges, from->network_ranges, sizeof(to->network_ranges));
                to->n_network_ranges = from->n_network_ranges;
        }
        to->network_bytes = from->network_bytes;
        to->network_requests = from->network_requests;
        to->network_connections = from->network_connections;
        return 0;
}

static int check_change(const struct network_box *n, const struct policy *p, gb_error *err)
{
        if (!n)
                return error_set(err, GB_E_CONFLICT, ENOTSUP, "the session was opened without network_mode allowlist, and keeps the network that it has: open a new one");
        if (p->network_mode == NETWORK_HOST)
                return error_set(err, GB_E_CONFLICT, ENOTSUP, "a session with an allowlist cannot get the host's network: open a new one");
        if (network_intercepts(p) && !n->intercepts)
                return error_set(err, GB_E_CONFLICT, ENOTSUP,
                                 "intercept: the session was opened without a rule that has it, so its programs do not trust the proxy: open a new one");
        return 0;
}

int network_box_change(struct network_box *n, const struct policy *p, gb_error *err)
{
        _cleanup_buffer_ struct buffer rules = {0};

        int r = check_change(n, p, err);
        if (r < 0)
                return r;
        _cleanup_policy_ struct policy *changed = policy_copy(n->policy);
        if (!changed || copy_network(changed, p) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        r = network_check(changed, err);
        if (r == 0)
                r = network_rules_make(changed, n->policy, &rules, err);
        if (r < 0)
                return r;
        /* With the lock: the last one that was set is the one that is shown. */
        pthread_mutex_lock(&n->lock);
        r = egress_box_change(n->egress, &rules, err);
        if (r == 0) {
                policy_free(n->changed);
                n->changed = TAKE_PTR(changed);
        }
        pthread_mutex_unlock(&n->lock);
        return r;
}

struct policy *network_box_policy(struct network_box *n, const struct policy *p)
{
        if (!n)
                return policy_copy(p);
        pthread_mutex_lock(&n->lock);
        struct policy *copy = policy_copy(n->changed ? n->changed : p);
        pthread_mutex_unlock(&n->lock);
        return copy;
}

/* ---- what was sent where ---- */

static int scrub_name_of_host(const struct scrub *scrub, char *host, size_t room)
{
        _cleanup_buffer_ struct buffer out;

        buffer_init(&out, KIB * 64);
        int r = scrub ? scrub_text(scrub, host, strlen(host), &out, NULL) : 0;
        if (r > 0)
                snprintf(host, room, "%.*s", (int)MIN(out.size, room - 1), out.data);
        return MIN(r, 0);
}

/* A secret that was sent as a name is not shown to those who may see where it went. 0 or -ENOMEM. */
static int scrub_hosts(const struct network_box *n, struct ledger_copy *l)
{
        for (size_t i = 0; i < l->n; i++) {
                char *host = l->rows[i].host;
                int r = scrub_name_of_host(n->names, host, sizeof(l->rows[i].host));
                if (r == 0)
                        r = scrub_name_of_host(n->scrub, host, sizeof(l->rows[i].host));
                if (r < 0)
                        return r;
        }
        return 0;
}

static struct ledger_copy *without_secrets(const struct network_box *n, struct ledger_copy *l)
{
        if (l && scrub_hosts(n, l) < 0) {
                free(l);
                return NULL;
        }
        if (l)
                l->unserved = !egress_box_is_served(n->egress);
        return l;
}

struct ledger_copy *network_box_ledger(struct network_box *n)
{
        return n ? without_secrets(n, ledger_read(egress_box_ledger(n->egress))) : NULL;
}

static bool is_same(const struct ledger_entry *a, const struct ledger_entry *b)
{
        return a->port == b->port && a->decision == b->decision && a->protocol == b->protocol && strcmp(a->host, b->host) == 0 && strcmp(a->rule, b->rule) == 0;
}

static void add_row(struct ledger_copy *to, const struct ledger_entry *row)
{
        for (size_t i = 0; i < to->n; i++) {
                struct ledger_entry *e = &to->rows[i];
                if (!is_same(e, row))
                        continue;
                e->requests += row->requests;
                e->bytes_up += row->bytes_up;
                e->bytes_down += row->bytes_down;
                return;
        }
        to->rows[to->n++] = *row;
}

/* The sum of both, in the place of the first. Without memory the rows of the second are missing, and it says so. */
static void add_ledger(struct ledger_copy **to, const struct ledger_copy *more)
{
        struct ledger_copy *sum = *to;

        if (!network_ledger_says(more))
                return;
        struct ledger_copy *larger = realloc(sum, sizeof(*sum) + (sum->n + more->n) * sizeof(sum->rows[0]));
        if (larger)
                *to = sum = larger;
        sum->incomplete = sum->incomplete || !larger || more->incomplete;
        sum->cut = more->cut != EGRESS_ALLOWED ? more->cut : sum->cut;
        sum->requests += more->requests;
        sum->denied += more->denied;
        sum->bytes_up += more->bytes_up;
        sum->bytes_down += more->bytes_down;
        for (size_t i = 0; larger && i < more->n; i++)
                add_row(sum, &more->rows[i]);
}

/* With the lock: traffic from here on is counted as outside of a run. */
static void note_quiet(struct network_box *n)
{
        free(n->quiet);
        n->quiet = ledger_read(egress_box_ledger(n->egress));
        n->quiet_lost = !n->quiet;
}

/* With the lock, while there is no run. */
static void count_outside(struct network_box *n)
{
        const struct ledger *l = egress_box_ledger(n->egress);
        _cleanup_free_ struct ledger_copy *since = n->quiet_lost ? NULL : ledger_since(l, n->quiet);

        if (!n->outside) /* the box has ended, and the rest was told */
                return;
        if (since)
                add_ledger(&n->outside, since);
        else
                n->outside->incomplete = true;
        note_quiet(n);
}

int network_run_begin(struct network_run *run, struct network_box *n)
{
        *run = (struct network_run){0};
        if (!n)
                return 0;
        egress_refresh();
        run->before = ledger_read(egress_box_ledger(n->egress));
        if (!run->before)
                return -ENOMEM;
        run->box = n;
        pthread_mutex_lock(&n->lock);
        if (n->runs++ == 0)
                count_outside(n);
        pthread_mutex_unlock(&n->lock);
        return 0;
}

struct ledger_copy *network_run_ledger(const struct network_run *run)
{
        return run->box ? without_secrets(run->box, ledger_since(egress_box_ledger(run->box->egress), run->before)) : NULL;
}

void network_run_end(struct network_run *run)
{
        struct network_box *n = run->box;

        if (!n)
                return;
        pthread_mutex_lock(&n->lock);
        if (--n->runs == 0)
                note_quiet(n);
        pthread_mutex_unlock(&n->lock);
        free(run->before);
        *run = (struct network_run){0};
}

struct ledger_copy *network_box_rest(struct network_box *n)
{
        if (!n)
                return NULL;
        pthread_mutex_lock(&n->lock);
        if (n->runs == 0)
                count_outside(n);
        struct ledger_copy *rest = TAKE_PTR(n->outside);
        pthread_mutex_unlock(&n->lock);
        if (!network_ledger_says(rest)) {
                free(rest);
                return NULL;
        }
        if (scrub_hosts(n, rest) < 0) {
                rest->n = 0;
                rest->incomplete = true;
        }
        rest->unserved = !egress_box_is_served(n->egress);
        return rest;
}

/* ---- for people and programs ---- */

static json_t *number(uint64_t n)
{
        return json_integer((json_int_t)MIN(n, (uint64_t)INT64_MAX));
}

static json_t *row_to_json(const struct ledger_entry *e)
{
        return json_pack("{s:s, s:i, s:s, s:s, s:s?, s:o, s:o, s:o}", "host", e->host, "port", (int)e->port, "protocol",
                         network_protocol_name((enum network_protocol)e->protocol), "decision", egress_decision_word(e->decision), "rule",
                         e->rule[0] ? e->rule : NULL, "requests", number(e->requests), "bytes_up", number(e->bytes_up), "bytes_down", number(e->bytes_down));
}
_Static_assert((int)NETWORK_HTTPS == (int)EGRESS_HTTPS && (int)NETWORK_HTTP == (int)EGRESS_HTTP && (int)NETWORK_TCP == (int)EGRESS_TCP, "names are those of policies");

/* Those that were let through, or the others, up to so many in all. */
static int add_rows(json_t *hosts, const struct ledger_copy *l, bool denied, size_t max)
{
        for (size_t i = 0; i < l->n && json_array_size(hosts) < max; i++)
                if (egress_is_denied(l->rows[i].decision) == denied && json_array_append_new(hosts, row_to_json(&l->rows[i])) < 0)
                        return -ENOMEM;
        return 0;
}

json_t *network_ledger_to_json(const struct ledger_copy *l, size_t hosts_max)
{
        static const struct ledger_copy nothing;

        l = l ? l : &nothing;
        json_t *hosts = json_array();
        if (!hosts || add_rows(hosts, l, false, hosts_max) < 0 || add_rows(hosts, l, true, hosts_max) < 0) {
                json_decref(hosts);
                return NULL;
        }
        size_t told = json_array_size(hosts);
        json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:s?, s:o}", "requests", number(l->requests), "denied", number(l->denied), "bytes_up", number(l->bytes_up),
                              "bytes_down", number(l->bytes_down), "cut", l->cut != EGRESS_ALLOWED ? egress_decision_word(l->cut) : NULL, "hosts", hosts);
        int r = 0;
        if (o && told < l->n)
                r |= json_object_set_new(o, "hosts_more", number(l->n - told));
        if (o && l->incomplete)
                r |= json_object_set_new(o, "incomplete", json_true());
        if (r < 0) {
                json_decref(o);
                return NULL;
        }
        return o;
}

bool network_ledger_says(const struct ledger_copy *l)
{
        return l && (l->incomplete || l->n > 0 || l->requests > 0 || l->denied > 0 || l->cut != EGRESS_ALLOWED);
}

char *network_hint(const struct ledger_copy *l, char buf[static NETWORK_HINT_MAX])
{
        const struct ledger_entry *first = NULL;
        int n = 0;

        buf[0] = '\0';
        for (size_t i = 0; l && i < l->n && !first; i++)
                if (egress_is_denied(l->rows[i].decision) && l->rows[i].host[0])
                        first = &l->rows[i];
        if (l && l->unserved)
                n = snprintf(buf, NETWORK_HINT_MAX, "The proxy of the network is gone and could not be started again: nothing passes any more, open a new session.");
        else if (l && l->cut != EGRESS_ALLOWED)
                n = snprintf(buf, NETWORK_HINT_MAX, "The network policy's budget of %s was used up.", egress_decision_word(l->cut));
        if (l && l->denied > 0 && first)
                snprintf(buf + n, (size_t)(NETWORK_HINT_MAX - n), "%s%llu request%s refused by the network policy%s: %s:%u (%s).", n > 0 ? " " : "",
                         (unsigned long long)l->denied, l->denied == 1 ? " was" : "s were", l->denied == 1 ? "" : ", the first of them", first->host, first->port,
                         egress_decision_word(first->decision));
        return buf;
}
