/* SPDX-License-Identifier: Apache-2.0
 *
 * The events of one answer, or (number 0) of what belongs to none. Those of a client that shook hands have ids, "3-0": stream and place; they are kept for a while, and who
 * lost the connection asks for those behind the last one he has seen. */
#ifndef SERVER_MCP_STREAM_H
#define SERVER_MCP_STREAM_H

#include "server/mcp_client.h"

/* For the call's answer: c->stream. Its head is sent, and from then on errors are events, too. */
int mcp_stream_open(struct mcp_call *c);
/* One message; taken. It is kept, and sent if somebody reads it. NULL: there was no memory for it, and the stream is cut. */
void mcp_stream_send(struct mcp_call *c, json_t *message);
/* There are no more. */
void mcp_stream_end(struct mcp_call *c);
/* Something for who is silent for long. */
void mcp_stream_ping(struct mcp_call *c);

/* GET: the events behind that id, to the end of their stream; id NULL: what belongs to no request, until the client goes away. Answers. */
void mcp_stream_follow(struct request *r, struct mcp_client *c, const char *after);

/* subscriptions/listen of a stateless client: tells changes until it goes away. */
void mcp_stream_listen(struct mcp_call *c, struct mcp_client *watch, bool list);

/* With the client's lock: what was kept for long enough goes. */
void mcp_streams_trim(struct mcp_client *c);
/* Of a client that is freed. */
void mcp_streams_free(struct mcp_client *c);

/* mcp_clients.c: bytes of all events that are kept. */
_Atomic size_t *mcp_kept_bytes(struct mcp *m);

#endif
