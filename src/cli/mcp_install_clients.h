/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs that speak MCP, and what each wants to read about a server: one row of install_clients[] says where and how. */
#ifndef CLI_MCP_INSTALL_CLIENTS_H
#define CLI_MCP_INSTALL_CLIENTS_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/json.h"

#include <stdbool.h>
#include <stddef.h>

enum install_format { INSTALL_JSON, INSTALL_TOML, INSTALL_YAML, INSTALL_PYTHON };

/* What is to be installed. All borrowed. */
struct install_order {
        const char *name;         /* of the entry */
        const char *program;      /* this one, absolute */
        const char *const *args;  /* for `glovebox mcp`, NULL-terminated */
        const char *url;          /* of a running server's /mcp; NULL: the program is started, and spoken to by its streams */
        const char *token_env;    /* the variable with its token; NULL: none is sent, or it is this: */
        const char *token;        /* in clear; NULL: no */
        bool project;             /* for the current directory only */
};

struct install_client;

typedef int install_writer(struct buffer *out, const struct install_client *c, const struct install_order *o);

struct install_client {
        const char *name;  /* as it is given on the command line */
        const char *title;
        enum install_format format;
        const char *file;    /* of the user, below the home directory; NULL: there is none */
        const char *project; /* below the current directory; NULL: there is none */
        const char *key;     /* JSON: the object of servers in it */
        const char *type_stdio, *type_http; /* what `type` says; NULL: there is no such key */
        const char *url;     /* the key of an address; NULL: only programs can be named in its file */
        const char *variable, *variable_end; /* around the name of a variable in a header; NULL: headers are sent as they stand */
        install_writer *snippet; /* of what is not JSON */
        install_writer *command; /* a line for the shell that does the same; NULL: there is none */
        const char *note;    /* a sentence, or NULL */
};

extern const struct install_client install_clients[];
extern const size_t n_install_clients;

/* NULL: there is none of that name; err has the nearest. */
const struct install_client *install_client_find(const char *name, gb_error *err);
const char *install_format_name(enum install_format format);
/* Whether --write can change its file. */
bool install_client_writes(const struct install_client *c);

/* Whether the client can have it so: GB_E_USAGE says what to do instead. */
int install_check(const struct install_client *c, const struct install_order *o, gb_error *err);
/* The entry as JSON; NULL: out of memory, or a text that is not UTF-8. */
json_t *install_entry(const struct install_client *c, const struct install_order *o);
/* What is to be pasted, whole; with a newline at its end. 0, -ENOMEM, -EFBIG, or -EILSEQ for a text that is not UTF-8. */
int install_snippet(struct buffer *out, const struct install_client *c, const struct install_order *o);

#endif
