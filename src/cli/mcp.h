/* SPDX-License-Identifier: Apache-2.0
 *
 * `glovebox mcp`: what a client says on standard input goes to /mcp of a server, and what the server answers goes to standard output.
 *
 *   mcp.c           the verb: which server, the loop, the end
 *   mcp_message.c   lines of standard input, and what a message is
 *   mcp_call.c      one request to the server, from its beginning to its end
 *   mcp_answer.c    what its answers mean: the handshake, errors, a server that has forgotten us
 *   mcp_events.c    a stream of events
 *   mcp_private.c   a server of our own */
#ifndef CLI_MCP_H
#define CLI_MCP_H

#include "base/json.h"
#include "cli/mcp_events.h"
#include "cli/mcp_private.h"
#include "cli/output.h"
#include "client/client.h"

#define MCP_TARGET "/mcp"
#define MCP_VERSION_HEADER_MAX 32
#define MCP_NAME_BYTES 33 /* 32 hex digits, with the NUL */

/* The codes of JSON-RPC that we say or look for ourselves. */
enum { MCP_PARSE = -32700, MCP_INVALID = -32600, MCP_INTERNAL = -32603, MCP_SESSION_UNKNOWN = -32001 };

/* ---- messages ---- */

/* One line. What is not here only the server looks at. */
struct message {
        char *text; /* owned, NUL-terminated */
        size_t size;
        json_t *id;         /* of a request; NULL: nothing is answered */
        json_t *cancels;    /* notifications/cancelled: the id of a request; NULL: none */
        char *method;       /* NULL: an answer of the client's */
        char *version;      /* of a request that stands alone: what its _meta says; NULL: one of a handshake */
        char *name;         /* what a tool or resource of such a one is called; NULL: none */
};

void message_done(struct message *m);
#define _cleanup_message_ _cleanup_(message_done)

/* Takes the text. 0; or the code of an error with its reason: *ret_why. ret->id is there also then, if it has a good one. */
int message_read(struct message *ret, char *text, size_t size, const char **ret_why);
bool message_is(const struct message *m, const char *method);

/* Standard input. */
struct input {
        struct buffer bytes;
        size_t begin, looked; /* of the next line; where the search for its end goes on */
        bool too_long;        /* the line is skipped up to its end */
        bool ended, failed;   /* failed: it could not be read any more */
};

void input_init(struct input *in);
void input_done(struct input *in);
/* Reads what is there: once. 0 or a negative errno. */
int input_read(struct input *in, int fd);
enum input_line { INPUT_NONE, INPUT_LINE, INPUT_TOO_LONG };
/* The next line that is not blank: a copy, the caller's to free. */
enum input_line input_next(struct input *in, char **ret, size_t *ret_size);

/* ---- calls ---- */

enum call_kind {
        CALL_REQUEST,
        CALL_NOTIFICATION,
        CALL_LISTEN,      /* the stream of what belongs to no request */
        CALL_HANDSHAKE,   /* our own, when the server has forgotten the client's */
        CALL_INITIALIZED, /* the notification after that */
        CALL_FORGET,      /* a session that another one has taken the place of */
};

enum call_state {
        CALL_RUNS,
        CALL_PAUSES, /* until again_usec; then it comes back for the rest, or is sent again if nothing was */
        CALL_WAITS,  /* for a new session; then it is sent again */
        CALL_OVER,
};

struct call {
        struct call *next;
        enum call_kind kind;
        enum call_state state;
        struct message message;
        struct client client;
        struct event_reader events;
        bool streams;    /* its answer is a stream */
        bool answered;   /* nothing more is to come */
        bool silent;     /* it was cancelled: nothing of it is written */
        bool sent;       /* something of it may have been carried out */
        bool repeated;   /* it was sent again after a new handshake */
        bool lost;       /* it fails when its pause is over, unless somebody knows better why */
        unsigned tries;
        uint64_t began_usec, again_usec;
        uint64_t deadline_usec;              /* 0: none */
        char session[RESPONSE_SESSION_MAX];  /* what it was sent with */
        gb_error why;
};

enum handshake { HANDSHAKE_NONE, HANDSHAKE_DONE, HANDSHAKE_LOST };

struct bridge {
        const struct arguments *arguments;
        struct client_address address;
        const char *token;     /* borrowed; NULL: none */
        struct buffer headers; /* that go with every request: who we are, what sessions are made of */
        bool is_private;
        struct private_server server;
        int cancel_fd;

        struct input input;
        struct message pending; /* cannot be sent yet; text NULL: none */
        struct sink out;

        struct call *calls;
        size_t n_requests;
        enum handshake handshake;
        char *initialize; /* of the client, for another time; NULL: there was none */
        size_t initialize_size;
        char session[RESPONSE_SESSION_MAX]; /* empty: the server has none */
        char version[MCP_VERSION_HEADER_MAX];
        bool listens;     /* the stream of the handshake was opened, or is wanted again after another one */
        bool told_refused;
        bool again; /* a server of our own has ended, and another one has taken its place */
        bool alone; /* a request of the client stood alone: the server knows us by our name, too */
};

/* ---- mcp_call.c ---- */

/* Sends it; takes the message, also when that failed. kind CALL_LISTEN and CALL_FORGET have none. NULL: out of memory, and who waits was told. */
struct call *call_new(struct bridge *b, enum call_kind kind, struct message *message);
/* Begins it, or begins again. */
void call_begin(struct bridge *b, struct call *c);
/* Something has happened at its connection. */
void call_step(struct bridge *b, struct call *c);
/* Its time has come: a pause is over, or nobody waits any longer. */
void call_look(struct bridge *b, struct call *c, uint64_t now);
/* When to look; UINT64_MAX: never. */
uint64_t call_time(const struct call *c);
/* The end of one that got no answer: who waits for it is told. */
void call_fail(struct bridge *b, struct call *c, const char *why);
/* Frees those that are over. */
void calls_tidy(struct bridge *b);
void calls_free(struct bridge *b);
/* The one with this id; NULL: there is none. */
struct call *call_find(struct bridge *b, const json_t *id);
/* The client does not want it any more: stateless ones end, of others nothing is written. */
void call_cancel(struct call *c);

/* ---- mcp_answer.c ---- */

/* One message of the server: an event, or a whole body. 0 or a negative errno. */
int answer_take(struct bridge *b, struct call *c, const char *text, size_t size);
/* A whole body that is no stream. */
void answer_body(struct bridge *b, struct call *c);
/* Begins a handshake of ours, unless one goes on; false: it cannot. */
bool answer_shake_hands(struct bridge *b);
/* Whether one goes on. */
bool answer_shakes_hands(const struct bridge *b);
/* That failed: who waits for it is told why. */
void answer_no_handshake(struct bridge *b, const char *why);
/* A line with an error; id NULL: null. */
void answer_error(struct bridge *b, json_t *id, int code, const char *format, ...) _printf_(4, 5);

#endif
