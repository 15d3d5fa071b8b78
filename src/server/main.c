/* SPDX-License-Identifier: Apache-2.0
 *
 * glovebox-server: what `glovebox serve`, `glovebox token` and `glovebox audit` execute. The command line here is for programs; the nice one
 * is glovebox's.
 *
 *   glovebox-server [serve] [FLAG...]
 *   glovebox-server token ...      see token.c
 *   glovebox-server audit ...      see audit.c
 *   glovebox-server routes         the table of routes, as JSON
 *
 * Flags of serve, each as --flag VALUE or --flag=VALUE:
 *   --config FILE        instead of $GLOVEBOX_CONFIG_DIR/server.yaml
 *   --set KEY=VALUE      any key of the configuration (config.c has the rows, docs/server.md lists them)
 *   --KEY VALUE          the same: the key's _ as -, such as --idle-timeout 5m. A list (listen, hosts, origins, warm) takes the place of the file's
 *                        with its first flag, and is added to with the next ones
 *   --tls-cert FILE      --certificate
 *   --tls-key FILE       --key
 *   --no-tokens          --tokens false
 *   --parent-fd N        ends when the other end of this descriptor (a pipe or a socket) closes: for who starts a server for itself
 *   --user NAME          started as root: the account to become, by name or number (default: glovebox, or a number of our own; docs/server.md)
 *   --json               log lines are JSON objects
 *   --check              reads and checks the configuration, says what is wrong, starts nothing
 *   --print-config       the keys with their defaults and ranges, as JSON
 *
 * Exit status: 0 after an orderly end; else the one of the error's code (docs/exit-codes.md). When it is ready it says so: a line with the event "ready" on standard
 * error, READY=1 to $NOTIFY_SOCKET, and /readyz answers 200. */
#include "base/json.h"
#include "base/quote.h"
#include "server/commands.h"
#include "server/options.h"
#include "server/privilege.h"

#include <stdio.h>
#include <string.h>

/* What root writes beside a server that is not root any more must be that server's. */
static int become_owner(int argc, char **argv, gb_error *err)
{
        const char *directory = serve_options_find(argc, argv, "--directory");
        struct server_config config;

        if (directory)
                return privilege_become_owner(directory, err);
        int r = server_config_load(serve_options_find(argc, argv, "--config"), &config, err);
        if (r < 0)
                return r;
        r = privilege_become_owner(config.directory, err);
        server_config_done(&config);
        return r;
}

static int run(int (*command)(int argc, char **argv), bool as_owner, int argc, char **argv)
{
        gb_error err = {0};

        if (as_owner && become_owner(argc, argv, &err) < 0) {
                fprintf(stderr, "glovebox-server: %s\n", err.message);
                return error_exit_status(err.code);
        }
        return command(argc, argv);
}

int main(int argc, char **argv)
{
        static const struct {
                const char *name;
                int (*run)(int argc, char **argv);
                bool as_owner; /* root becomes the owner of the state's directory first */
        } commands[] = {
                {"serve", command_serve, false},
                {"token", command_token, true},
                {"audit", command_audit, true},
                {"routes", command_routes, false},
        };

        json_guard_memory();
        if (argc < 1)
                return 110;
        if (argc < 2 || argv[1][0] == '-')
                return command_serve(argc, argv);
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
                if (strcmp(argv[1], commands[i].name) == 0 && commands[i].run)
                        return run(commands[i].run, commands[i].as_owner, argc - 1, argv + 1);
        fprintf(stderr, "glovebox-server: unknown command %s; there are serve, token, audit and routes\n", quote(argv[1]).text);
        return 110;
}
