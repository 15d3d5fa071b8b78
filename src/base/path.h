/* SPDX-License-Identifier: Apache-2.0
 *
 * Where glovebox finds its own files. A program that runs from its build tree takes the
 * configuration from the source tree and its helpers from the build tree; an installed one
 * takes both from where they were installed. */
#ifndef BASE_PATH_H
#define BASE_PATH_H

#include <stdbool.h>

/* $GLOVEBOX_CONFIG_DIR/name when that is set, else config/name of the source tree, else
 * <sysconfdir>/glovebox/name. The file need not exist. 0 or a negative errno. */
int path_config_file(const char *name, char **ret);

/* Whether built-in values may stand for a configuration file that does not exist. They may not
 * when $GLOVEBOX_CONFIG_DIR names a directory that is not there: that is a slip to be told. */
bool path_config_is_optional(void);

/* $GLOVEBOX_LIBEXEC_DIR/name when that is set, else where the build put it, else
 * <libexecdir>/glovebox/name. */
int path_libexec(const char *name, char **ret);

/* $GLOVEBOX_RUNNER_DIR/name when that is set, else where the build put it, else <datadir>/glovebox/runner/name: what
 * is put into a box to run code there. */
int path_runner(const char *name, char **ret);

/* $GLOVEBOX_RECIPES_DIR/name when that is set, else images/name of the source tree, else <datadir>/glovebox/images/name: what an image is built from. */
int path_recipe(const char *name, char **ret);

/* $GLOVEBOX_RULES_DIR/name when that is set, else rules/name of the source tree, else <datadir>/glovebox/rules/name: the shipped rules of the guard. */
int path_rules(const char *name, char **ret);

/* A file in this user's own directory for sockets: $GLOVEBOX_RUNTIME_DIR when that is set, else $XDG_RUNTIME_DIR/glovebox, /run/glovebox for root, else
 * /tmp/glovebox-UID. -EPERM when somebody else could have made or could change that directory; it need not exist. */
int path_runtime(const char *name, char **ret);

/* The directory for what lasts: $GLOVEBOX_STATE_DIR when that is set, else /var/lib/glovebox for root, else $XDG_STATE_HOME/glovebox, else
 * $HOME/.local/state/glovebox. It need not exist. -ENOENT when there is no home. */
int path_state(char **ret);

#endif
