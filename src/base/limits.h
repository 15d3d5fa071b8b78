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

/* Kernel text files */
#define KERNEL_FILE_BYTES_MAX (1 * MIB)   /* mountinfo and its kin */

/* A box */
#define BOX_OPS_MAX 128                   /* steps that build the root */
#define BOX_FDS_MAX 64                    /* descriptors sent with one request */
#define BOX_PAYLOAD_MAX (32 * MIB)        /* ops, strings, small files and the code */
#define BOX_COMMANDS_MAX 2                /* compile, then run */
#define BUILD_TIMEOUT_USEC 30000000ULL    /* from the request to the start of the program */
#define BOX_WRITABLE_MAX 40               /* tmpfs mounts and writable mounts of a box */

/* Output */
#define OUTPUT_CHUNK_BYTES (64 * KIB)     /* one read from a pipe */

/* The end of a run */
#define INTERRUPT_GRACE_USEC 2000000ULL   /* from the interrupt to the kill */
#define SAMPLE_PERIOD_USEC 50000ULL       /* peaks, cpu time and disk are looked at this often */

#endif
