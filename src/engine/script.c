/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/script.h"

#include "base/fd.h"
#include "base/utf8.h"
#include "policy/network.h"
#include "policy/place.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define CODE_DIR "/run/glovebox"
#define SCRIPT_ARGS_MAX (128 * KIB) /* of arguments; more is left to a fresh exec, and to its limit */
#define ENTRIES_MAX 4096            /* of a workspace that are looked at */

/* What a template was started with (backend/native). */
static const char *const template_env[] = {"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=/sandbox", "PYTHONSAFEPATH=1"};

/* Variables that are read while an interpreter starts, or when a module is imported: in a child it is too late for them. */
static const char *const early_env[] = {
        "PYTHON", "PATH", "HOME", "LANG", "LC_", "LD_", "GLIBC_", "MALLOC_", "OPENSSL_", "MPL", "OMP_", "OPENBLAS_", "GOTO_", "MKL_",
        "NUMEXPR_", "BLIS_",
};

static bool is_early(const char *name)
{
        for (size_t i = 0; i < ARRAY_SIZE(early_env); i++)
                if (strncmp(name, early_env[i], strlen(early_env[i])) == 0)
                        return true;
        return false;
}

static bool has_template_env(const char *variable)
{
        for (size_t i = 0; i < ARRAY_SIZE(template_env); i++)
                if (strcmp(variable, template_env[i]) == 0)
                        return true;
        return false;
}

static const char *check_variables(const struct script *s)
{
        size_t n_same = 0;

        if (s->policy->scratch_only)
                return "the home directory is another one";
        for (size_t i = 0; s->language->env[i]; i++) {
                _cleanup_free_ char *variable = policy_fill_places(s->policy, s->language->env[i]);
                bool same = variable && has_template_env(variable);
                n_same += same;
                if (!same && is_early(s->language->env[i]))
                        return "the language has other variables";
        }
        if (n_same != ARRAY_SIZE(template_env))
                return "the language has other variables";
        for (size_t i = 0; i < s->policy->n_env; i++)
                if (is_early(s->policy->env[i].name))
                        return "a variable of the policy is for the start of Python";
        for (size_t i = 0; i < s->policy->n_secrets; i++)
                if (!s->policy->secrets[i].path && !network_uses_secret(s->policy, s->policy->secrets[i].name) && is_early(s->policy->secrets[i].name))
                        return "a secret is for the start of Python";
        return NULL;
}

static bool has_suffix(const char *name, const char *suffix)
{
        size_t n = strlen(name), k = strlen(suffix);

        return n > k && strcmp(name + n - k, suffix) == 0;
}

/* Whether `import` could find the entry. A link may be anything. */
static bool is_module(int dir, const struct dirent *entry)
{
        struct stat st;

        if (has_suffix(entry->d_name, ".py") || has_suffix(entry->d_name, ".pyc") || has_suffix(entry->d_name, ".so"))
                return true;
        if (entry->d_name[0] == '.' || strchr(entry->d_name, '.') || fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
                return false;
        if (!S_ISDIR(st.st_mode))
                return S_ISLNK(st.st_mode);
        _cleanup_close_ int fd = openat(dir, entry->d_name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        return fd < 0 || fstatat(fd, "__init__.py", &st, AT_SYMLINK_NOFOLLOW) == 0 ||
               fstatat(fd, "__init__.pyc", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

static void close_dir(DIR **dir)
{
        if (*dir)
                closedir(*dir);
}

/* A module of the workspace comes before one of the same name that the template has imported. Which it has
 * imported is known only inside. */
static bool holds_modules(int workspace_fd)
{
        int fd = openat(workspace_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        _cleanup_(close_dir) DIR *dir = fd < 0 ? NULL : fdopendir(fd);

        if (!dir) {
                safe_close(fd);
                return true;
        }
        for (size_t n = 0; n < ENTRIES_MAX; n++) {
                const struct dirent *entry = readdir(dir);
                if (!entry)
                        return false;
                if (is_module(dirfd(dir), entry))
                        return true;
        }
        return true;
}

static bool has_usual_command(const struct script *s)
{
        const struct language *l = s->language;

        return l->context && strcmp(l->context, "python") == 0 && !l->compile[0] && l->run[0] && strcmp(l->run[0], s->python) == 0 &&
               l->run[1] && strcmp(l->run[1], "{file}") == 0 && !l->run[2];
}

const char *script_why_not(const struct script *s)
{
        size_t bytes = 0;

        if (!s->policy->warm)
                return "the policy says warm: false";
        if (!has_usual_command(s))
                return "the language has another command than the template";
        /* Python tells of such code in other words when it reads a file. */
        if (!utf8_is_valid(s->code, s->code_size) || memchr(s->code, '\0', s->code_size))
                return "the code is not UTF-8";
        for (size_t i = 0; s->args && s->args[i]; i++)
                bytes += strlen(s->args[i]) + 1;
        if (bytes > SCRIPT_ARGS_MAX)
                return "the arguments are long";
        const char *why = check_variables(s);
        if (!why && s->workspace_fd >= 0 && holds_modules(s->workspace_fd))
                why = "the workspace has modules of its own";
        return why;
}

int script_path(const char *name, char ret[static SCRIPT_FILE_MAX])
{
        int n = snprintf(ret, SCRIPT_FILE_MAX, CODE_DIR "/%s", name);

        return n < BOX_PATH_MAX ? 0 : -ENAMETOOLONG;
}
