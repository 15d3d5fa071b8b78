/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-server token: makes, lists and revokes tokens.
 *
 *   token create [--tenant NAME] [--scope LIST] [--expires SPAN] [--name TEXT]
 *   token list
 *   token revoke ID... | --tenant NAME
 *
 * Each takes --directory DIR, --config FILE and --json. The token is on standard output, alone and once; everything else that is said to people is on
 * standard error. A server that runs knows of a change at its next request. */
#include "base/json.h"
#include "base/quote.h"
#include "journal/journal.h"
#include "journal/tokens.h"
#include "server/command_state.h"
#include "server/commands.h"
#include "server/live.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_TENANT "default"
#define DEFAULT_SCOPE "run"
#define SCOPES_MAX 64
#define SPAN_MAX_USEC (3650ULL * 86400000000ULL)

struct flags {
        const char *directory, *config, *tenant, *scope, *expires, *name;
        bool json;
        char **words; /* what is no option */
        int n_words;
};

static const struct option options[] = {
        {"directory", required_argument, NULL, 'd'}, {"config", required_argument, NULL, 'c'}, {"tenant", required_argument, NULL, 't'},
        {"scope", required_argument, NULL, 's'}, {"scopes", required_argument, NULL, 's'}, {"expires", required_argument, NULL, 'e'},
        {"name", required_argument, NULL, 'n'}, {"json", no_argument, NULL, 'j'}, {0},
};

static int parse_flags(int argc, char **argv, const char *allowed, struct flags *ret, gb_error *err)
{
        int option;

        *ret = (struct flags){0};
        opterr = 0;
        optind = 1;
        while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
                if (option == '?' || !strchr(allowed, option))
                        return command_wrong_option(argc, argv, "token", err);
                const char **value = option == 'd'   ? &ret->directory
                                     : option == 'c' ? &ret->config
                                     : option == 't' ? &ret->tenant
                                     : option == 's' ? &ret->scope
                                     : option == 'e' ? &ret->expires
                                                     : &ret->name;
                if (option == 'j')
                        ret->json = true;
                else
                        *value = optarg;
        }
        ret->words = argv + optind;
        ret->n_words = argc - optind;
        return 0;
}

static int open_tokens(const struct flags *f, bool write, char **ret_directory, struct tokens **ret, gb_error *err)
{
        int e = command_directory(f->directory, f->config, ret_directory, err);

        return e < 0 ? e : tokens_open(*ret_directory, write, ret, err);
}

/* A server that runs writes what was done into the audit by itself. Without one nobody has the journal, and it is done here. */
static void tell_audit(const char *directory, struct tokens *t)
{
        _cleanup_journal_ struct journal *j = NULL;

        if (journal_open_briefly(directory, &j, NULL) == 0)
                (void)tokens_tidy(t, j, NULL);
}

static json_t *time_to_json(uint64_t usec)
{
        char text[JOURNAL_TIME_MAX];

        return usec > 0 ? json_string(journal_time_format(usec, text)) : json_null();
}

static const char *state_of(const struct token *t)
{
        uint64_t now = live_wall_usec();

        return t->revoked_usec > 0 ? "revoked" : t->expires_usec > 0 && t->expires_usec <= now ? "expired" : "valid";
}

static json_t *token_to_json(const struct token *t)
{
        _cleanup_json_ json_t *o = json_object(), *scopes = json_array();
        char text[SCOPES_MAX], *rest = text, *word;
        int r = 0;

        token_scopes_text(t->scopes, text, sizeof(text));
        while ((word = strsep(&rest, ",")))
                r |= json_array_append_new(scopes, json_string(word));
        r |= json_object_set_new(o, "id", json_string(t->id));
        r |= json_object_set_new(o, "tenant", json_string(t->tenant));
        r |= json_object_set_new(o, "name", t->name[0] ? json_string(t->name) : json_null());
        r |= json_object_set(o, "scopes", scopes);
        r |= json_object_set_new(o, "state", json_string(state_of(t)));
        r |= json_object_set_new(o, "created_at", time_to_json(t->created_usec));
        r |= json_object_set_new(o, "expires_at", time_to_json(t->expires_usec));
        r |= json_object_set_new(o, "revoked_at", time_to_json(t->revoked_usec));
        r |= json_object_set_new(o, "used_at", time_to_json(t->used_usec));
        return r == 0 ? TAKE_PTR(o) : NULL;
}

static int print_json(const json_t *o, gb_error *err)
{
        if (!o || json_dumpf(o, stdout, JSON_COMPACT) < 0)
                return error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        putchar('\n');
        return 0;
}

/* ---- create ---- */

static int fill_token(const struct flags *f, struct token *ret, gb_error *err)
{
        const char *tenant = f->tenant ? f->tenant : DEFAULT_TENANT, *name = f->name ? f->name : "";
        uint64_t span = 0;

        *ret = (struct token){0};
        if (f->n_words > 0)
                return error_set(err, GB_E_USAGE, EINVAL, "token create: %s is too much", quote(f->words[0]).text);
        if (strlen(tenant) >= sizeof(ret->tenant) || strlen(name) >= sizeof(ret->name))
                return error_set(err, GB_E_USAGE, EINVAL, "the names of tenants and tokens have up to %d bytes", TENANT_NAME_MAX - 1);
        strcpy(ret->tenant, tenant);
        strcpy(ret->name, name);
        if (f->expires && (command_span(f->expires, &span) < 0 || span == 0 || span > SPAN_MAX_USEC))
                return error_set(err, GB_E_USAGE, EINVAL, "--expires: %s is not a time such as 12h, 30d or 4w, up to ten years", quote(f->expires).text);
        ret->expires_usec = span > 0 ? live_wall_usec() + span : 0;
        return token_scopes_parse(f->scope ? f->scope : DEFAULT_SCOPE, &ret->scopes, err);
}

static int print_new(const struct flags *f, const struct token *token, const char *text, gb_error *err)
{
        char scopes[SCOPES_MAX], until[JOURNAL_TIME_MAX];

        if (f->json) {
                _cleanup_json_ json_t *o = token_to_json(token);
                return o && json_object_set_new(o, "token", json_string(text)) == 0 ? print_json(o, err) : print_json(NULL, err);
        }
        token_scopes_text(token->scopes, scopes, sizeof(scopes));
        fprintf(stderr, "the token %s of the tenant %s lets %s%s%s; it is shown this once\n", token->id, token->tenant, scopes,
                token->expires_usec > 0 ? " until " : "", token->expires_usec > 0 ? journal_time_format(token->expires_usec, until) : "");
        printf("%s\n", text);
        return 0;
}

static int create(const struct flags *f, gb_error *err)
{
        _cleanup_tokens_ struct tokens *t = NULL;
        _cleanup_free_ char *directory = NULL;
        char text[TOKEN_TEXT_MAX];
        struct token token;

        int e = fill_token(f, &token, err);
        e = e < 0 ? e : open_tokens(f, true, &directory, &t, err);
        e = e < 0 ? e : tokens_create(t, &token, text, err);
        if (e < 0)
                return e;
        tell_audit(directory, t);
        e = print_new(f, &token, text, err);
        explicit_bzero(text, sizeof(text));
        return e;
}

/* ---- list ---- */

static void print_row(const struct token *t)
{
        char scopes[SCOPES_MAX], expires[JOURNAL_TIME_MAX] = "never", used[JOURNAL_TIME_MAX] = "-";

        token_scopes_text(t->scopes, scopes, sizeof(scopes));
        if (t->expires_usec > 0)
                journal_time_format(t->expires_usec, expires)[19] = '\0';
        if (t->used_usec > 0)
                journal_time_format(t->used_usec, used)[16] = '\0';
        printf("%-8s  %-16s  %-22s  %-7s  %-19s  %-16s  %s\n", t->id, t->tenant, scopes, state_of(t), expires, used, quote_path(t->name).text);
}

static int list(const struct flags *f, gb_error *err)
{
        _cleanup_tokens_ struct tokens *t = NULL;
        _cleanup_free_ char *directory = NULL;
        _cleanup_free_ struct token *found = NULL;
        _cleanup_json_ json_t *all = json_array();
        size_t n = 0;

        if (f->n_words > 0)
                return error_set(err, GB_E_USAGE, EINVAL, "token list: %s is too much", quote(f->words[0]).text);
        int e = open_tokens(f, false, &directory, &t, err);
        e = e < 0 ? e : tokens_list(t, &found, &n, err);
        if (e < 0)
                return e;
        if (!f->json && n == 0)
                fprintf(stderr, "there is no token so far: 'glovebox token create' makes one\n");
        if (!f->json && n > 0)
                printf("%-8s  %-16s  %-22s  %-7s  %-19s  %-16s  %s\n", "ID", "TENANT", "SCOPES", "STATE", "EXPIRES", "USED", "NAME");
        for (size_t i = 0; i < n && e == 0; i++)
                if (!f->json)
                        print_row(&found[i]);
                else if (json_array_append_new(all, token_to_json(&found[i])) < 0)
                        e = error_set(err, GB_E_INTERNAL, ENOMEM, "out of memory");
        if (e < 0 || !f->json)
                return e;
        _cleanup_json_ json_t *o = json_pack("{s:O}", "tokens", all);
        return print_json(o, err);
}

/* ---- revoke ---- */

static int revoke_all(const struct flags *f, struct tokens *t, gb_error *err)
{
        int n = 0;

        if (f->tenant)
                return tokens_revoke(t, f->tenant, true, err);
        for (int i = 0; i < f->n_words; i++) {
                /* Somebody gives the whole token: its name is in it. */
                const char *word = f->words[i];
                char id[TOKEN_ID_MAX];
                snprintf(id, sizeof(id), "%s", strncmp(word, "gbx_", 4) == 0 ? word + 4 : word);
                int e = tokens_revoke(t, strncmp(word, "gbx_", 4) == 0 ? id : word, false, err);
                if (e < 0)
                        return e;
                n += e;
        }
        return n;
}

static int revoke_tokens(const struct flags *f, gb_error *err)
{
        _cleanup_tokens_ struct tokens *t = NULL;
        _cleanup_free_ char *directory = NULL;

        if ((f->n_words > 0) == (f->tenant != NULL))
                return error_set(err, GB_E_USAGE, EINVAL, "token revoke: give the ids of tokens, or --tenant NAME for all of one");
        int e = open_tokens(f, false, &directory, &t, err);
        int n = e < 0 ? e : revoke_all(f, t, err);
        if (t)
                tell_audit(directory, t);
        if (n < 0)
                return n;
        if (f->json) {
                _cleanup_json_ json_t *o = json_pack("{s:i}", "revoked", n);
                return print_json(o, err);
        }
        fprintf(stderr, n == 1 ? "%d token does not count any more\n" : "%d tokens do not count any more\n", n);
        return 0;
}

int command_token(int argc, char **argv)
{
        static const struct {
                const char *name, *options;
                int (*run)(const struct flags *f, gb_error *err);
        } verbs[] = {{"create", "dctsenj", create}, {"list", "dcj", list}, {"revoke", "dctj", revoke_tokens}};
        struct flags flags = {0};
        gb_error err = {0};
        int e = -EINVAL;

        for (size_t i = 0; argc > 1 && i < ARRAY_SIZE(verbs); i++)
                if (strcmp(argv[1], verbs[i].name) == 0) {
                        e = parse_flags(argc - 1, argv + 1, verbs[i].options, &flags, &err);
                        e = e < 0 ? e : verbs[i].run(&flags, &err);
                        return e < 0 ? command_failed(&err, flags.json) : command_end(0);
                }
        (void)error_set(&err, GB_E_USAGE, EINVAL, "token: what? There are create, list and revoke");
        return command_failed(&err, false);
}
