/* SPDX-License-Identifier: Apache-2.0
 *
 * The policy: limits, network, mounts. It comes from YAML, is chosen by trust level,
 * changed by options, and validated before anything starts. */
#ifndef POLICY_POLICY_H
#define POLICY_POLICY_H

#include "base/error.h"
#include "base/host.h"
#include "base/limits.h"
#include "policy/control.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum network_mode { NETWORK_NONE, NETWORK_ALLOWLIST, NETWORK_HOST };
enum backend_kind { BACKEND_NATIVE, BACKEND_DOCKER };
/* Of the guard and of the scrubber (guard/). */
enum watch_mode { WATCH_OFF, WATCH_ON, WATCH_STRICT };
/* What is done about code that a rule finds: as enum guard_action. */
enum rule_action { RULE_OFF, RULE_LOG, RULE_WARN, RULE_BLOCK };

#define IMAGE_DEFAULT "glovebox-python"
#define SECRETS_DIR "/run/secrets" /* in the box, where files of secrets lie */
#define NAME_DEFAULT "default" /* as runtime or image: none was chosen, the field is NULL */

struct policy_mount {
        char *source; /* absolute path on the host */
        char *target; /* absolute path in the box */
        bool writable;
        bool hides; /* files that hold credentials are not there. Never with writable */
};

struct policy_env {
        char *name;
        char *value;
};

/* Known to the code of one session, and to the scrubber; shown to nobody else. One that a rule of the network uses is not known to the code (network_uses_secret()). */
struct policy_secret {
        char *name;  /* of the variable, and in the place of what was scrubbed */
        char *value; /* with a NUL behind it that is not counted */
        size_t size;
        char *path;  /* of the file in the box that has it; NULL: it is a variable */
};

/* A rule or a set of rules, by name. */
struct policy_rule {
        char *name;
        enum rule_action action;
};

/* How a rule of the network is spoken: TLS in a tunnel, requests of HTTP that the proxy makes, a tunnel for whatever bytes. */
enum network_protocol { NETWORK_HTTPS, NETWORK_HTTP, NETWORK_TCP };

struct network_header {
        char *name;
        char *value; /* may hold ${secret:NAME} (policy/network.h) */
};

/* What code in the box may reach when the mode is allowlist. */
struct network_rule {
        char *text; /* as it is shown: "https://pypi.org:443" */
        struct host_pattern pattern;
        enum network_protocol protocol;
        bool intercept; /* NETWORK_HTTPS: TLS ends in the proxy */
        size_t n_ports;
        uint16_t ports[NETWORK_PORTS_MAX][2]; /* first, last */
        char *methods[NETWORK_METHODS_MAX];
        size_t n_methods;
        char *paths[NETWORK_PATHS_MAX];
        size_t n_paths;
        struct network_header headers[NETWORK_HEADERS_MAX];
        size_t n_headers;
};

struct policy {
        char *origin; /* the file it came from, or "built-in" */
        char *trust;  /* the trust level it was resolved for */

        uint64_t cpu_milli; /* thousandths of a CPU */
        uint64_t mem_limit_bytes;
        uint64_t timeout_usec, timeout_max_usec;
        uint64_t cpu_time_usec; /* 0: no limit of its own */
        uint64_t pids_limit;
        uint64_t tmp_size_bytes;
        uint64_t disk_limit_bytes;
        uint64_t inode_limit;
        uint64_t output_limit_bytes;
        uint64_t result_count;       /* results and figures of one run */
        uint64_t result_limit_bytes; /* all results of one run together */
        uint64_t nofile;

        bool read_only;
        bool scratch_only; /* the workspace is at BOX_SCRATCH, and besides /dev/shm nothing else can be written */
        enum network_mode network_mode;
        enum backend_kind backend; /* who isolates */
        char *runtime; /* of the engine: "runsc"; NULL: its default. Only with BACKEND_DOCKER */
        char *image;   /* native: one of `glovebox image list`; docker: one of the engine. NULL: the host's /usr; docker: IMAGE_DEFAULT */
        bool warm;             /* from a warmed template when there is one */
        uint32_t allow_weaker; /* bit (1u << enum control_id): may be weaker or missing */

        enum watch_mode guard, scrub;
        struct policy_rule rules[POLICY_RULES_MAX];
        size_t n_rules;
        char *imports[POLICY_IMPORTS_MAX + 1]; /* modules that the rule of browser automation finds instead of its own */
        size_t n_imports;
        bool has_imports; /* an empty list is one, too */

        struct policy_mount mounts[MOUNT_COUNT_MAX];
        size_t n_mounts;
        struct policy_env env[ENV_COUNT_MAX];
        size_t n_env;
        struct policy_secret secrets[SECRETS_MAX]; /* no file sets them */
        size_t n_secrets;

        struct network_rule **network_allow; /* NETWORK_ALLOWLIST: none lets nothing pass */
        size_t n_network_allow;
        bool network_is_whitelist; /* the rules are those of network_mode: whitelist, and the first that is named takes their place */
        struct address_range network_ranges[NETWORK_RANGES_MAX]; /* that may be dialled although they are not public */
        size_t n_network_ranges;
        uint64_t network_bytes;       /* up and down together; 0: no limit */
        uint64_t network_requests;    /* 0: no limit */
        uint64_t network_connections; /* at a time */
};

/* Trust levels of one file. */
#define TRUST_LEVELS_MAX 32
/* The level that every policy has; the top-level values of a file as they stand. */
#define TRUST_DEFAULT "standard"
/* The level at which the host's network is refused whatever a file or flag says. */
#define TRUST_UNTRUSTED "untrusted"

/* $GLOVEBOX_CONFIG_DIR/sandbox.yaml, or the source tree's or installed one: see base/path.h. */
int policy_default_path(char **ret);

/* Loads file (NULL: the default one, see policy_default_path) and resolves it for a trust
 * level (NULL: the file's `default_trust`). A wrong file is refused whole. When the default
 * file does not exist the built-in policy is used, which is the same as the shipped file. */
int policy_load(const char *file, const char *trust, struct policy **ret, gb_error *err);
/* The trust levels of a file (NULL: the default one), each checked, in the file's order. */
struct policy_levels {
        struct policy *rows[TRUST_LEVELS_MAX + 1];
        size_t n;
};
int policy_load_levels(const char *file, struct policy_levels *ret, gb_error *err);
void policy_levels_done(struct policy_levels *l);
/* The same from memory; name stands for the file in errors and becomes the origin. */
int policy_parse(const char *name, const char *text, size_t size, const char *trust, struct policy **ret, gb_error *err);
/* With all that it owns; NULL when out of memory. */
struct policy *policy_copy(const struct policy *p);
void policy_free(struct policy *p);
DEFINE_CLEANUP(struct policy, policy_free)
#define _cleanup_policy_ _cleanup_(policy_free_ptr)

/* Sets one value from text, as a flag or an environment variable gives it: `key` is the
 * YAML key ("mem_limit"), `what` names the giver in errors ("--memory"). Lists (mounts, env,
 * guard_rules, allow_weaker, network_allow, network_ranges) are added to; a rule of network_allow makes the network an allowlist. */
int policy_set(struct policy *p, const char *key, const char *value, const char *what, gb_error *err);

/* guard_imports: the modules (NULL-terminated) take the place of those that are there. */
int policy_set_imports(struct policy *p, const char *const *modules, gb_error *err);

/* Adds a secret; a name that is there already gets the new value. path: where it lies in the box, below /run/secrets, or NULL: it is a variable. */
int policy_add_secret(struct policy *p, const char *name, const void *value, size_t size, const char *path, gb_error *err);
/* Whether one of them lies in a file in the box. */
bool policy_has_secret_files(const struct policy *p);
/* Reads them from a file: lines NAME=VALUE as in a .env file, or (a file that begins with "{") a JSON object of names to values or {"value", "file"}. fd stays the
 * caller's; what names it in errors. */
int policy_read_secrets(struct policy *p, int fd, const char *what, gb_error *err);

/* The last check, after all changes: every value in its range, the timeout under its
 * maximum, mounts not nested in one another. Nothing may start before it returned 0. */
int policy_validate(const struct policy *p, gb_error *err);

/* One row per scalar key: config key, flag, environment, range, default and help are the same
 * line. The command line, the man page, completions and docs are made from these rows. */
enum option_type {
        OPTION_SIZE,
        OPTION_DURATION,
        OPTION_COUNT,
        OPTION_CPUS,
        OPTION_BOOL,
        OPTION_NETWORK,
        OPTION_BACKEND,
        OPTION_WATCH,
        OPTION_NAME,  /* texts: the field is a char *, NULL for the word of the default */
        OPTION_IMAGE,
};

struct policy_option {
        const char *key;  /* "mem_limit" */
        const char *flag; /* "memory", or NULL when only the file can set it */
        const char *env;  /* "GLOVEBOX_MEMORY", or NULL */
        enum option_type type;
        size_t offset; /* in struct policy */
        uint64_t min, max;
        const char *fallback;    /* the built-in default, as text */
        const char *placeholder; /* "SIZE" */
        const char *help;
};

extern const struct policy_option policy_options[];
extern const size_t n_policy_options;

/* NULL when there is no such key. */
const struct policy_option *policy_option_by_key(const char *key);
/* The value p has, and the range it may have ("4m to 1t", "true or false"), as text. */
#define POLICY_VALUE_MAX (IMAGE_REFERENCE_MAX + 1)
#define POLICY_RANGE_MAX 96
char *policy_option_value(const struct policy_option *o, const struct policy *p, char buf[static POLICY_VALUE_MAX]);
char *policy_option_range(const struct policy_option *o, char buf[static POLICY_RANGE_MAX]);
/* Whether its values are words and names, and no amounts. */
bool policy_option_is_word(const struct policy_option *o);
/* The words it may be, with spaces between; NULL: not a list of them. */
const char *policy_option_words(const struct policy_option *o);
/* The name that a policy file gives a backend. */
const char *backend_kind_name(enum backend_kind kind);
const char *watch_mode_name(enum watch_mode mode);
const char *rule_action_name(enum rule_action action);
/* The alphabets of the keys runtime and image. Nothing of either can be taken for a flag, a path or a word of a shell. */
bool runtime_name_is_valid(const char *name);
bool image_name_is_valid(const char *name);

#endif
