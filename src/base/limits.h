/* SPDX-License-Identifier: Apache-2.0
 *
 * Every bound of glovebox has its name here; docs/limits.md lists them. */
#ifndef BASE_LIMITS_H
#define BASE_LIMITS_H

#define KIB 1024ULL
#define MIB (1024ULL * KIB)
#define GIB (1024ULL * MIB)

/* Input */
#define CODE_BYTES_MAX (16 * MIB)         /* the code of one run */
#define YAML_BYTES_MAX (256 * KIB)        /* one YAML file */
#define YAML_DEPTH_MAX 16                 /* nested collections */
#define YAML_NODES_MAX 8192               /* keys, items and scalars of one file */
#define ARG_COUNT_MAX 1024                /* arguments of the program */
#define ENV_COUNT_MAX 256                 /* variables of the program */
#define ARG_BYTES_MAX (256 * KIB)         /* arguments and variables together */
#define MOUNT_COUNT_MAX 32                /* mounts of a policy */
#define BOX_PATH_MAX 256                  /* a path inside the box, with its NUL */
#define HOST_PATH_MAX 4096                /* a path on the host, with its NUL */
#define LANGUAGE_COUNT_MAX 64             /* rows of languages.yaml */
#define COMMAND_WORDS_MAX 32              /* words of a language's command */
#define TEMPLATE_COUNT_MAX 32             /* rows of templates.yaml */
#define TEMPLATE_MODULES_MAX 128          /* modules of a template */

/* Kernel text files */
#define KERNEL_FILE_BYTES_MAX (1 * MIB)   /* mountinfo and its kin */

/* A box */
#define BOX_OPS_MAX 128                   /* steps that build the root */
#define BOX_FDS_MAX 64                    /* descriptors sent with one request */
#define BOX_PAYLOAD_MAX (32 * MIB)        /* ops, strings, small files and the code */
#define BOX_COMMANDS_MAX 2                /* compile, then run */
#define BUILD_TIMEOUT_USEC 30000000ULL    /* from the request to the start of the program */
#define BOX_WRITABLE_MAX 40               /* tmpfs mounts and writable mounts of a box */
#define BOXES_MAX 4096                    /* of one warden: runs, sessions and templates at a time */
#define PROGRAMS_MAX 8192                 /* of its sessions */
#define TEMPLATES_MAX 16                  /* of one warden */
#define TEMPLATE_MEMORY_BYTES (4 * GIB)   /* of a template; what its children share is in it */
#define TEMPLATE_TASKS_MAX (BOXES_MAX + 64) /* processes of a template; on v2 the inits of its sessions are among them */
#define TEMPLATE_START_USEC 60000000ULL   /* for its imports */
#define FORK_TIMEOUT_USEC 1500000ULL      /* for a template to fork a child; it needs a thousandth of that */
#define TEMPLATE_POOL_MAX 64              /* sessions made ahead from one template */
#define CHANNELS_MAX 12288                /* to one warden: one for each session, program and template */

/* Output */
#define OUTPUT_CHUNK_BYTES (64 * KIB)     /* one read from a pipe */

/* Sessions */
#define CONTEXTS_MAX 32                   /* contexts of one session */
#define FRAME_BYTES_MAX (16 * MIB)        /* the payload of a frame on a control channel */
#define STDIN_FRAME_MAX (16 * MIB)        /* standard input that goes to a context as a frame */
#define CONTROL_DROPPED_MAX (64 * MIB)    /* what a run may send over its control channel in vain */
#define FILE_BYTES_MAX (64 * MIB)         /* a file that is put into or taken from a workspace */
#define FILE_LIST_MAX 4096                /* entries of a directory that are listed */

/* Lines that were typed */
#define HISTORY_LINES_MAX 2000            /* kept from one time to the next */
#define HISTORY_LINE_BYTES_MAX 4096       /* a longer one is not kept */

/* The end of a run */
#define INTERRUPT_GRACE_USEC 2000000ULL   /* from the interrupt to the kill */
#define SAMPLE_PERIOD_USEC 50000ULL       /* peaks, cpu time and disk are looked at this often */
#define DEADLINE_SLACK_USEC 500000ULL     /* the backend ends a run in a context this long after we should have */
#define STOP_WAIT_USEC 5000000ULL         /* from the kill of a program in a session to the news of its end */

#endif
