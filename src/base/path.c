/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path.h"

#include "base/limits.h"
#include "base/macro.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int join(const char *dir, const char *name, char **ret)
{
        char *path;

        if (asprintf(&path, "%s/%s", dir, name) < 0)
                return -ENOMEM;
        *ret = path;
        return 0;
}

static bool runs_from_build_tree(void)
{
        char exe[HOST_PATH_MAX];
        _cleanup_free_ char *root = realpath(GLOVEBOX_BUILD_ROOT, NULL);

        if (!root)
                return false;
        ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
        if (n < 0)
                return false;
        exe[n] = '\0';
        size_t size = strlen(root);
        return strncmp(exe, root, size) == 0 && exe[size] == '/';
}

static const char *env_dir(const char *name)
{
        const char *dir = secure_getenv(name);

        return dir && *dir ? dir : NULL;
}

int path_config_file(const char *name, char **ret)
{
        const char *dir = env_dir("GLOVEBOX_CONFIG_DIR");

        if (!dir)
                dir = runs_from_build_tree() ? GLOVEBOX_SOURCE_CONFDIR : GLOVEBOX_CONFDIR;
        return join(dir, name, ret);
}

bool path_config_is_optional(void)
{
        const char *dir = env_dir("GLOVEBOX_CONFIG_DIR");

        return !dir || access(dir, F_OK) == 0;
}

int path_libexec(const char *name, char **ret)
{
        const char *dir = env_dir("GLOVEBOX_LIBEXEC_DIR");

        if (dir)
                return join(dir, name, ret);
        if (!runs_from_build_tree())
                return join(GLOVEBOX_LIBEXECDIR, name, ret);

        /* In the build tree each helper lies in the directory of its part. */
        static const char *const parts[][2] = {
                {"glovebox-agent", "agent"}, {"glovebox-archive", "server"}, {"glovebox-egress", "egress"}, {"glovebox-hide", "hide"}, {"glovebox-probe", "runner"}, {"glovebox-server", "server"},
                {"glovebox-reader", "guard"}, {"glovebox-rules", "guard"},
        };
        const char *part = "warden";
        for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
                if (strcmp(name, parts[i][0]) == 0)
                        part = parts[i][1];
        char *path;
        if (asprintf(&path, "%s/src/%s/%s", GLOVEBOX_BUILD_ROOT, part, name) < 0)
                return -ENOMEM;
        *ret = path;
        return 0;
}

int path_runner(const char *name, char **ret)
{
        const char *dir = env_dir("GLOVEBOX_RUNNER_DIR");

        if (!dir)
                dir = runs_from_build_tree() ? GLOVEBOX_BUILD_ROOT "/src/runner/python" : GLOVEBOX_DATADIR "/runner";
        return join(dir, name, ret);
}

int path_recipe(const char *name, char **ret)
{
        const char *dir = env_dir("GLOVEBOX_RECIPES_DIR");

        if (!dir)
                dir = runs_from_build_tree() ? GLOVEBOX_SOURCE_CONFDIR "/../images" : GLOVEBOX_DATADIR "/images";
        return join(dir, name, ret);
}

int path_rules(const char *name, char **ret)
{
        const char *dir = env_dir("GLOVEBOX_RULES_DIR");

        if (!dir)
                dir = runs_from_build_tree() ? GLOVEBOX_SOURCE_CONFDIR "/../rules" : GLOVEBOX_DATADIR "/rules";
        return join(dir, name, ret);
}

int path_runtime(const char *name, char **ret)
{
        const char *runtime = env_dir("XDG_RUNTIME_DIR"), *own = env_dir("GLOVEBOX_RUNTIME_DIR");
        char dir[HOST_PATH_MAX];
        struct stat st;

        if (own)
                snprintf(dir, sizeof(dir), "%s", own);
        else if (geteuid() == 0)
                snprintf(dir, sizeof(dir), "/run/glovebox");
        else if (runtime)
                snprintf(dir, sizeof(dir), "%s/glovebox", runtime);
        else
                snprintf(dir, sizeof(dir), "/tmp/glovebox-%u", (unsigned)geteuid());
        if (lstat(dir, &st) == 0 && (!S_ISDIR(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 022))
                return -EPERM;
        return join(dir, name, ret);
}

int path_state(char **ret)
{
        const char *own = env_dir("GLOVEBOX_STATE_DIR"), *state = env_dir("XDG_STATE_HOME"), *home = env_dir("HOME");

        if (own)
                return (*ret = strdup(own)) ? 0 : -ENOMEM;
        if (geteuid() == 0)
                return join("/var/lib", "glovebox", ret);
        if (state && state[0] == '/')
                return join(state, "glovebox", ret);
        return home && home[0] == '/' ? join(home, ".local/state/glovebox", ret) : -ENOENT;
}
