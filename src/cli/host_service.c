/* SPDX-License-Identifier: Apache-2.0
 *
 * The checks of programs: our own helpers, interpreters. */
#include "cli/host.h"

#include "base/json.h"
#include "base/macro.h"
#include "base/path.h"
#include "base/quote.h"
#include "guard/reader.h"
#include "guard/rules.h"
#include "image/store.h"
#include "policy/language.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void check_warden(struct host_finding *f)
{
        _cleanup_free_ char *path = NULL;

        if (path_libexec("glovebox-warden", &path) < 0 || access(path, X_OK) < 0) {
                host_found(f, HOST_MISSING, "%s: %s", path ? quote_path(path).text : "its place", strerror(errno));
                host_remedy(f, "reinstall glovebox, or set GLOVEBOX_LIBEXEC_DIR");
                return;
        }
        host_found(f, HOST_OK, "%s", quote_path(path).text);
}

/* ---- interpreters ---- */

static void check_languages(struct host_finding *f)
{
        _cleanup_languages_ struct languages *l = NULL;
        char found[200] = "", missing[200] = "";
        size_t n_found = 0, n_missing = 0, n = 0;
        gb_error err;

        if (languages_load(NULL, &l, &err) < 0) {
                host_found(f, HOST_MISSING, "%.200s", err.message);
                host_remedy(f, "put the table of languages right");
                return;
        }
        for (size_t i = 0; i < l->n; i++) {
                const struct language *row = &l->rows[i];
                bool has = language_is_found(row);
                char *list = has ? found : missing;
                size_t *used = has ? &n_found : &n_missing;
                n += has;
                if (*used < sizeof(found))
                        *used += (size_t)snprintf(list + *used, sizeof(found) - *used, "%s%s", *used ? ", " : "", row->name);
        }
        host_found(f, n > 0 ? HOST_OK : HOST_MISSING, "%s", n > 0 ? found : "none");
        if (n_missing > 0)
                host_remedy(f, "install in /usr what you need of: %s", missing);
}

static void check_images(struct host_finding *f)
{
        _cleanup_json_ json_t *list = NULL;
        gb_error err;

        if (image_store_list(&list, &err) < 0)
                host_found(f, HOST_INFO, "not known: %.220s", err.message);
        else
                host_found(f, HOST_INFO, "%zu here", json_array_size(list));
}

static void check_rules(struct host_finding *f)
{
        const struct rules *r = NULL;
        gb_error err;

        if (rules_get(&r, &err) < 0) {
                host_found(f, HOST_MISSING, "%.250s", err.message);
                host_remedy(f, "put the files of rules right ('glovebox guard test FILE' tries one), or take them away; until then nothing runs");
                return;
        }
        host_found(f, HOST_OK, "%zu rules about code, %zu shapes of secrets", r->n_code, r->n_shapes);
}

static void ignore_item(void *data, const struct reader_item *item)
{
        (void)data;
        (void)item;
}

static void check_reader(struct host_finding *f)
{
        gb_error err = {.message = "it dies"};
        int r = reader_ask("1\n", 2, ignore_item, NULL, &err);

        reader_forget();
        if (r != 0) {
                host_found(f, HOST_MISSING, "%.250s", err.message);
                host_remedy(f, "reinstall glovebox, or set GLOVEBOX_LIBEXEC_DIR; with 'guard: off' Python runs without it");
                return;
        }
        host_found(f, HOST_OK, "it starts and answers");
}

const struct host_check host_service_checks[] = {
        {"warden", "the helper that makes boxes", check_warden, true},
        {"languages", "what 'glovebox run' can run with the host's /usr", check_languages, false},
        {"rules", "what code is held against before it runs, and what is scrubbed: 'glovebox guard list'", check_rules, false},
        {"reader", "the sealed helper that reads Python for the guard", check_reader, false},
        {"images", "for --image of the native backend: 'glovebox image list'", check_images, false},
};
const size_t n_host_service_checks = ARRAY_SIZE(host_service_checks);
