/* SPDX-License-Identifier: Apache-2.0
 *
 * What glovebox-server does by its first argument. Each takes argv from that word on, and returns the exit status. */
#ifndef SERVER_COMMANDS_H
#define SERVER_COMMANDS_H

int command_serve(int argc, char **argv);
int command_token(int argc, char **argv);
int command_audit(int argc, char **argv);
int command_routes(int argc, char **argv);

#endif
