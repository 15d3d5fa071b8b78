/* SPDX-License-Identifier: Apache-2.0
 *
 * What is said between glovebox and its agent, process 1 of a container: frames on the agent's standard input and output, which
 * the engine carries. Both run on the same machine, so numbers are the machine's own.
 *
 * The agent is ours and the code beside it cannot touch it (it is not dumpable, and process 1 takes no signals from inside); all the
 * same its words are read here as those of an enemy: every frame is checked, and what is wrong ends the session.
 *
 * Frames carry a tag under keys that glovebox sends before anything is started: gVisor lets code open the standard streams of process 1, whoever that is; so
 * what comes from there in the agent's name, or is said to it in glovebox's, must be told from what they say.
 *
 * A stream of a program is a number of bytes in one direction, with a window: who sends may have WIRE_WINDOW bytes under way for
 * which no WIRE_CREDIT has come. So both sides can always read everything that comes, and one program that nobody listens to stands in
 * no other's way.
 *
 * A connection is one that code in the container has made to the agent's listener (WIRE_LISTEN), carried to glovebox: bytes both ways, each with a window of
 * WIRE_CONNECTION_WINDOW. It has a number of its own kind, which the agent chooses. Each side says WIRE_CONNECTION_CLOSE once, as its last word of it; what comes
 * from the other one after that is dropped, and when both have said it the number is free. */
#ifndef AGENT_WIRE_H
#define AGENT_WIRE_H

#include "base/ending.h"
#include "base/limits.h"
#include "base/siphash.h"

#include <stdint.h>

#define WIRE_VERSION 3U
#define WIRE_DATA_MAX (32 * KIB)      /* payload of one frame */
#define WIRE_WINDOW (256 * KIB)       /* of one stream of one program */
#define WIRE_PLAN_MAX (18 * MIB)      /* a plan: code, words, variables */
#define WIRE_PROGRAMS_MAX 64          /* at a time, in one session */
#define AGENT_OWN_TASKS 8             /* of the container's task limit: the agent, its supervisors and its spares (agent/spare.c) */
#define WIRE_CONNECTION_WINDOW (64 * KIB) /* of one direction of one connection */
#define WIRE_CONNECTIONS_MAX 256      /* at a time, in one session; more are accepted and closed at once */
#define WIRE_CONTROL_FD 20            /* where a program finds its control channel: an AF_UNIX stream socket */

/* Where things are in a container. */
#define AGENT_DIR "/.glovebox"            /* of the image: read-only */
#define AGENT_PATH AGENT_DIR "/agent"
#define AGENT_RUNNER_DIR AGENT_DIR "/runner" /* glovebox_runner.py and its kin */
#define AGENT_CODE_DIR "/run/glovebox"    /* a tmpfs that the code's files are written to */
#define AGENT_WORKSPACE "/sandbox" /* unless it is the working directory of the agent */
#define AGENT_SCRATCH "/tmp/sandbox" /* the other place where it may be */

enum wire_type {
        /* to the agent */
        WIRE_KEY = 16,  /* struct wire_keys: before all others, and only then. What follows has tags, of both sides */
        WIRE_PLAN = 1,  /* program; the next bytes of its plan. The first one makes the program */
        WIRE_START,     /* program: its plan is whole. Answer: WIRE_STARTED, or WIRE_FAILED and it is gone */
        WIRE_SIGNAL,    /* program, value: to its process group. Answer: WIRE_SIGNALLED, after it was sent */
        WIRE_STOP,      /* program: SIGKILL, to all that it started. Answer: its WIRE_ENDED, or WIRE_FAILED when
                         * it was not executed yet */
        WIRE_PASS,      /* program, stream WIRE_CONTROL: bytes as in WIRE_DATA, and with the first of them goes (SCM_RIGHTS) the reading end of a new
                         * pipe, whose stream is `value` (WIRE_PIPE_FIRST and up, none used twice at a time: again after its WIRE_EOF, or after the agent's WIRE_SHUT.
                         * What an old pipe of that number has not taken by then is dropped) */
        WIRE_LOOK,      /* value: any number. Answer: WIRE_USAGE with that value */
        WIRE_CLEAR,     /* SIGKILL to all that programs have started, but not to their own first processes. Answer: WIRE_CLEARED, when it is done */
        WIRE_LISTEN,    /* value: a port of 127.0.0.1, 0: any. Once, before the first program. Answer: WIRE_LISTENING */

        /* from the agent */
        WIRE_HELLO = 32, /* struct wire_hello: first of all */
        WIRE_STARTED,    /* program: executed (with a compiler: that one; when the program itself then cannot be, it exits with 127 and says why on its
                          * standard error). Before anything else of it. Of a context: its process stands; whether its interpreter does, its control channel tells */
        WIRE_FAILED,     /* program: gb_error: nothing was executed, or (GB_E_LOST) that is not known; its number is
                          * free again */
        WIRE_SIGNALLED,  /* program, value: the signal */
        WIRE_ENDED,      /* program: struct wire_end. All that it had written before was sent before; its number is free again */
        WIRE_USAGE,      /* value; struct wire_usage. Sent by itself, too: before bytes of a control channel, if something has changed (for that, tasks
                          * are counted every 50 ms at most) */
        WIRE_CLEARED,    /* value: how many processes there were; or 0, and gb_error: some may be alive */
        WIRE_LISTENING,  /* value: the port; or 0, and gb_error: it cannot */

        /* both */
        WIRE_DATA = 64,  /* program, stream, bytes */
        WIRE_EOF,        /* program, stream: no more bytes */
        WIRE_CREDIT,     /* program, stream, value: so many bytes more may be sent */
        WIRE_SHUT,       /* program, stream: nobody reads it any more: what is under way is dropped, no credit comes. To the agent: who writes gets a SIGPIPE */

        /* of connections, both; `program` is the number of the connection: 1 to WIRE_CONNECTIONS_MAX */
        WIRE_CONNECTION_OPEN = 96, /* from the agent: a new one */
        WIRE_CONNECTION_DATA,      /* bytes */
        WIRE_CONNECTION_EOF,       /* no more bytes */
        WIRE_CONNECTION_CREDIT,    /* value: so many bytes more may be sent */
        WIRE_CONNECTION_CLOSE,     /* over: bytes that came before are handed on, none are taken any more */
};

enum wire_stream {
        WIRE_STDIN,      /* to the agent: PROGRAM_ONCE with WIRE_PLAN_STDIN */
        WIRE_STDOUT,     /* from it */
        WIRE_STDERR,     /* from it */
        WIRE_CONTROL,    /* both ways, each with a window of its own */
        WIRE_PIPE_FIRST, /* to the agent: pipes that were passed */
        WIRE_STREAMS_MAX = 16,
};

struct wire_frame {
        uint16_t type;
        uint16_t stream;
        uint32_t program; /* chosen by glovebox: 1 to WIRE_PROGRAMS_MAX, free again after WIRE_ENDED or WIRE_FAILED */
        uint32_t value;
        uint32_t size;    /* of the payload that follows: WIRE_DATA_MAX at most */
        uint64_t tag;     /* wire_tag(); 0 in WIRE_HELLO and WIRE_KEY */
};

struct wire_keys {
        uint64_t to_agent[2], from_agent[2];
};

/* The tag of the frame that is number `counter` in its direction, counted from 0. */
static inline uint64_t wire_tag(const uint64_t key[static 2], uint64_t counter, const struct wire_frame *f, const void *payload)
{
        const uint64_t head[] = {
                counter, (uint64_t)f->type | (uint64_t)f->stream << 16 | (uint64_t)f->program << 32, (uint64_t)f->value | (uint64_t)f->size << 32,
        };

        return siphash(key, head, sizeof(head) / sizeof(head[0]), payload, f->size);
}

/* What the agent sees of itself before it starts anything. */
struct wire_hello {
        uint32_t version;
        uint32_t uid, gid;
        uint32_t no_new_privs, seccomp; /* of /proc/self/status */
        uint64_t capabilities;          /* all five sets, or-ed */
        uint32_t pid;                   /* 1 */
        uint32_t interfaces;            /* network interfaces other than lo that are up, by /proc/net/dev */
        uint32_t root_writable;         /* 1: / is not mounted read-only */
        uint32_t is_gvisor;             /* 1: the kernel says so in its log (syslog(2)), which Linux's would not let us read */
        uint32_t landlock_abi;
        uint64_t workspace_dev, workspace_ino; /* of the workspace */
        char release[65], version_text[65]; /* of uname() */
        char apparmor[64];              /* /proc/self/attr/current; empty: none */
};

/* Bits of wire_usage.known: the agent could read these numbers. The others are 0. */
#define WIRE_USAGE_DISK 1U  /* disk_bytes, inodes, disk_full: of all places */
#define WIRE_USAGE_TASKS 2U /* tasks */
struct wire_usage {
        uint32_t known;              /* WIRE_USAGE_... */
        uint32_t disk_full;          /* enum full_place: those of them that have no room left */
        uint64_t disk_bytes, inodes; /* in /sandbox (when it is a tmpfs), /tmp, /dev/shm and the place of the code,
                                      * less what was there at the start */
        uint32_t tasks;              /* processes and threads in the container but the agent's own */
        uint32_t reserved;           /* 0 */
};

struct wire_end {
        struct ending ending;      /* of its leader; not seen when the leader could not be killed, or its end was
                                    * not observed */
        uint32_t compiling;
        uint32_t unkillable;       /* something that it started did not die in time: the container must */
        uint32_t starved;          /* the agent has ended it by itself: there was no room for its input */
        uint32_t by_itself;        /* its leader had ended before anybody was told to end it */
        uint32_t tasks_left;       /* processes that its leader had left running, the most that were seen: they were given a moment */
        uint32_t reserved;         /* 0 */
        uint64_t wall_usec;        /* of the program's, without its compiler */
        struct wire_usage usage;   /* after its end */
};

/* A plan: this, then the texts, each with its NUL: cwd, path of the code ("" : none), n_compile words, n_run words, n_env variables; then
 * code_size bytes, and nothing behind them. */
#define WIRE_PLAN_CONTEXT 1U /* its control channel is at WIRE_CONTROL_FD; standard input is empty */
#define WIRE_PLAN_STDIN 2U   /* standard input is the stream WIRE_STDIN; without it: empty */
#define WIRE_PLAN_FILES 4U   /* no program of the image: the agent itself, serving files (engine/files_wire.h) on its control channel, in the working directory of the plan */
struct wire_plan {
        uint32_t flags;
        uint32_t n_compile, n_run, n_env;
        uint32_t code_size;
        uint32_t reserved; /* 0 */
        uint64_t rlimit_fsize, rlimit_nofile; /* 0: as they are */
};

#endif
