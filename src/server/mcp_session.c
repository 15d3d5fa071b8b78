/* SPDX-License-Identifier: Apache-2.0
 *
 * Which session a tool works in, and reset_session.
 *
 * A client that is known from one request to the next has a session of its own. It is made when it is needed first, with `making` held, so that two calls that
 * come together make one; and when it has ended (nobody used it for too long, say) the next call makes another, and says so. Who ends the client
 * marks it first and then waits for `making`: so whoever makes a session here either sees the mark, or leaves one that is found. */
#include "server/mcp_client.h"

#include "base/fd.h"
#include "server/server.h"
#include "server/session_order.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define OWN_NAME "mcp"
#define CLIENT_DIGITS 8           /* of its id, in the metadata of its session: who knows all of them is the client */
#define RESET_USEC 10000000ULL    /* for runs that were killed to end, and for files to go */
#define RESET_PAUSE_USEC 20000ULL /* between two looks at a context that somebody uses for a moment */

/* ---- making one ---- */

/* Where the options say nothing, its list of sessions says whose it is. */
static int add_names(const struct mcp_call *c, const json_t *options, struct session_order *o, json_t **ret_metadata)
{
        if (!json_object_get(options, "name"))
                o->request.name = OWN_NAME;
        if (json_object_get(options, "metadata") || !c->client)
                return 0;
        *ret_metadata = json_pack("{s:s%}", "mcp_client", c->client->id, (size_t)CLIENT_DIGITS);
        o->request.metadata = *ret_metadata;
        return *ret_metadata ? 0 : -ENOMEM;
}

static int make_session(const struct mcp_call *c, struct live_session **ret, gb_error *err)
{
        const json_t *options = c->options ? c->options : c->client ? c->client->options : NULL;
        _cleanup_session_order_ struct session_order order = {0};
        _cleanup_json_ json_t *nothing = NULL, *metadata = NULL;
        char id[JOURNAL_ID_MAX];

        if (!options)
                options = nothing = json_object();
        if (!options)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        int r = session_order_read(c->server, c->caller, options, &order, err);
        if (r < 0) {
                (void)error_prefix(err, "Glovebox-Session");
                return r;
        }
        if (add_names(c, options, &order, &metadata) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        return session_order_open(c->server, &order, NULL, ret, id, err);
}

/* ---- the client's own ---- */

static int find_own(const struct mcp_call *c, bool touch, char ret_id[static JOURNAL_ID_MAX], struct live_session **ret)
{
        struct mcp_client *client = c->client;

        pthread_mutex_lock(&client->lock);
        memcpy(ret_id, client->session, sizeof(client->session));
        pthread_mutex_unlock(&client->lock);
        return ret_id[0] ? live_session_get(c->server->live, c->caller, ret_id, touch, ret, NULL) : -ENOENT;
}

struct live_session *mcp_session_own(struct mcp_call *c)
{
        struct live_session *s = NULL;
        char id[JOURNAL_ID_MAX];

        return c->client && find_own(c, false, id, &s) == 0 ? s : NULL;
}

/* What has become of the one before. */
static const char *end_note(const struct mcp_call *c, const char *id)
{
#define GONE "so this is a new one: its variables and files are gone."
        static const struct {
                const char *end, *note;
        } notes[] = {
                {"idle", "The session before had ended because nothing was done in it for too long, " GONE},
                {"expired", "The session before had ended because it had reached its greatest age, " GONE},
                {"died", "The session before had died, " GONE},
                {"lost", "The session before was lost when the server ended, " GONE},
                {"stopped", "The session before had ended with the server, " GONE},
                {"deleted", "The session before was deleted, " GONE},
        };
        struct journal_session record = {0};

        if (journal_session_get(c->server->journal, c->caller->tenant, id, &record, NULL) == 0)
                for (size_t i = 0; i < ARRAY_SIZE(notes); i++)
                        if (strcmp(record.end, notes[i].end) == 0)
                                return notes[i].note;
        return "The session before had ended, " GONE;
#undef GONE
}

/* With `making`. */
static int make_own(struct mcp_call *c, struct live_session **ret, const char **ret_note, gb_error *err)
{
        struct mcp_client *client = c->client;
        char before[JOURNAL_ID_MAX];

        if (find_own(c, true, before, ret) == 0) /* who came first has made it */
                return 0;
        if (mcp_client_is_ended(client))
                return error_set(err, GB_E_UNAVAILABLE, ESHUTDOWN, "this client has ended: shake hands again");
        int r = make_session(c, ret, err);
        if (r < 0)
                return r;
        pthread_mutex_lock(&client->lock);
        memcpy(client->session, (*ret)->id, sizeof(client->session));
        bool again = client->again;
        client->again = false;
        pthread_mutex_unlock(&client->lock);
        *ret_note = before[0] ? end_note(c, before) : again ? "The server was started anew, and a session from before is lost: its variables and files are gone." : NULL;
        return 0;
}

static int get_own(struct mcp_call *c, struct live_session **ret, const char **ret_note, gb_error *err)
{
        char id[JOURNAL_ID_MAX];

        if (find_own(c, true, id, ret) == 0)
                return 0;
        pthread_mutex_lock(&c->client->making);
        int r = make_own(c, ret, ret_note, err);
        pthread_mutex_unlock(&c->client->making);
        return r;
}

/* ---- any ---- */

static int get_named(const struct mcp_call *c, const char *id, struct live_session **ret, gb_error *err)
{
        if (strlen(id) != ID_DIGITS || strspn(id, "0123456789abcdef") != ID_DIGITS)
                return error_set(err, GB_E_USAGE, EINVAL, "session: the %d hexadecimal digits are wanted that a result before has given, or \"new\"", ID_DIGITS);
        int r = live_session_get(c->server->live, c->caller, id, true, ret, err);
        if (r == -ENOENT)
                return error_set(err, GB_E_NOT_FOUND, ENOENT, "that session has ended or never was: leave `session` out, or pass \"new\"");
        return r;
}

int mcp_session_get(struct mcp_call *c, const json_t *arguments, bool make, struct live_session **ret, const char **ret_note, gb_error *err)
{
        const char *which = json_string_value(json_object_get(arguments, "session"));

        *ret_note = NULL;
        if (which && strcmp(which, "new") == 0)
                return make_session(c, ret, err);
        if (which)
                return get_named(c, which, ret, err);
        if (c->client)
                return get_own(c, ret, ret_note, err);
        if (make)
                return make_session(c, ret, err);
        return error_set(err, GB_E_USAGE, EINVAL, "session: a client without a handshake has no session of its own; pass the one that a result before has given");
}

/* ---- reset_session ---- */

/* Until it has ended, or it is so late. */
static bool wait_for_end(struct live_run *run, uint64_t until_usec)
{
        struct timespec until = {.tv_sec = (time_t)(until_usec / 1000000), .tv_nsec = (long)(until_usec % 1000000) * 1000};

        pthread_mutex_lock(&run->lock);
        while (!run->ended && pthread_cond_timedwait(&run->changed, &run->lock, &until) == 0)
                ;
        bool ended = run->ended;
        pthread_mutex_unlock(&run->lock);
        return ended;
}

/* Whatever runs in it, also what begins meanwhile. */
static int kill_runs(struct live_session *s, uint64_t until_usec, bool *ret_some, gb_error *err)
{
        struct live_run *run;

        while ((run = live_run_of(s->live, s))) {
                *ret_some = true;
                live_run_cancel(run, true);
                bool ended = wait_for_end(run, until_usec);
                live_run_put(run);
                if (!ended || monotonic_usec() >= until_usec) /* also when one comes after the other */
                        return error_set(err, GB_E_CONFLICT, EBUSY, "something runs in the session and does not end, although it was killed: try again");
        }
        return 0;
}

/* One that a run, or somebody who looks, has for a moment. */
static int restart(struct live_session *s, const char *id, uint64_t until_usec, bool *ret_some, gb_error *err)
{
        struct context *context = NULL;

        for (;;) {
                int r = live_context_get(s, id, NULL, true, &context, err);
                if (r == 0)
                        break;
                if (r == -ENOENT) /* closed meanwhile: there is nothing to restart */
                        return 0;
                if (r != -EBUSY || monotonic_usec() >= until_usec)
                        return r;
                (void)nanosleep(&(struct timespec){.tv_nsec = (long)RESET_PAUSE_USEC * 1000}, NULL);
                r = kill_runs(s, until_usec, ret_some, err);
                if (r < 0)
                        return r;
        }
        int r = context_restart(context, err);
        live_context_put(s, context, true);
        return r;
}

static int restart_all(struct live_session *s, uint64_t until_usec, bool *ret_some, gb_error *err)
{
        struct context_info all[CONTEXTS_MAX];

        int r = kill_runs(s, until_usec, ret_some, err);
        size_t n = r == 0 ? MIN(session_contexts(s->session, all, CONTEXTS_MAX), (size_t)CONTEXTS_MAX) : 0;
        for (size_t i = 0; i < n && r == 0; i++)
                r = restart(s, all[i].id, until_usec, ret_some, err);
        return r;
}

/* Everything in the workspace. What code in the session makes meanwhile goes, too, as long as there is time. */
static int delete_files(struct live_session *s, uint64_t until_usec, gb_error *err)
{
        struct files files;

        int r = session_files(s->session, &files, err);
        while (r == 0) {
                _cleanup_file_list_ struct file_list *list = NULL;
                r = files_list(&files, ".", &list, err);
                if (r < 0 || list->n == 0)
                        return r;
                for (size_t i = 0; i < list->n && r == 0; i++)
                        r = files_remove_tree(&files, list->entries[i].name, err);
                if (r == -ENOENT) /* somebody else was faster */
                        r = 0;
                if (r == 0 && monotonic_usec() >= until_usec)
                        return error_set(err, GB_E_CONFLICT, EBUSY, "files were deleted, but something in the session makes new ones: try again");
        }
        return r;
}

static json_t *reset_result(const struct live_session *s, bool deleted, bool killed, const char *note)
{
        static const char killed_note[] = "Something was running, and was killed.";
        _cleanup_json_ json_t *notes = json_array();
        _cleanup_buffer_ struct buffer text;
        int r = 0;

        buffer_init(&text, MCP_TEXT_BYTES_MAX);
        if (note)
                r |= json_array_append_new(notes, json_string(note)) | buffer_printf(&text, "%s\n", note);
        if (killed)
                r |= json_array_append_new(notes, json_string(killed_note)) | buffer_printf(&text, "%s\n", killed_note);
        r |= buffer_printf(&text, "Session %s was reset: all variables are gone, and the files of its workspace were %s.\n", s->id, deleted ? "deleted" : "kept");
        json_t *o = NULL;
        if (r == 0 && notes)
                o = json_pack("{s:s, s:s, s:s, s:O}", "session", s->id, "variables", "gone", "files", deleted ? "deleted" : "kept", "notes", notes);
        return o ? content_of_object(o, &text) : NULL;
}

int mcp_tool_reset_session(struct mcp_call *c, const json_t *arguments, json_t **ret, struct rpc_error *err)
{
        const char *files = json_string_value(json_object_get(arguments, "files"));
        _cleanup_live_session_ struct live_session *s = NULL;
        bool delete = files && strcmp(files, "delete") == 0, killed = false;
        uint64_t until_usec = monotonic_usec() + RESET_USEC;
        const char *note = NULL;
        gb_error why = {0};

        int r = mcp_session_get(c, arguments, false, &s, &note, &why);
        /* What a caller has lent from the host is not ours to delete. */
        if (r == 0 && delete && s->workspace && !s->kept)
                r = error_set(&why, GB_E_DENIED, EPERM, "the workspace of this session is a directory of the host, and is not emptied from here: nothing was done; "
                                                        "reset it with files \"keep\", and delete single files by code");
        if (r == 0)
                r = restart_all(s, until_usec, &killed, &why);
        if (r == 0 && delete)
                r = delete_files(s, until_usec, &why);
        if (s)
                mcp_session_touched(c, s);
        if (r < 0)
                return mcp_tool_failed(c, s, &why, ret, err);
        *ret = reset_result(s, delete, killed, note);
        return *ret ? 0 : mcp_out_of_memory(err);
}
