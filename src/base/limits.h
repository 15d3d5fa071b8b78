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
#define POLICY_RULES_MAX 128              /* rules and sets that a policy switches */
#define POLICY_IMPORTS_MAX 256            /* modules of guard_imports */
#define MODULE_NAME_MAX 128               /* of a Python module, with its NUL */
#define RULE_NAME_MAX 64                  /* of a rule, a set or a secret, with its NUL */
#define SECRETS_MAX 256                   /* secrets of a session */
#define SECRET_BYTES_MIN 8                /* a shorter one would be found everywhere */
#define SECRET_BYTES_MAX (16 * KIB)       /* one secret */
#define SECRETS_BYTES_MAX (128 * KIB)     /* all secrets of a session */
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

/* The network of an allowlist */
#define NETWORK_RULES_MAX 256             /* rules of a policy, with those of its presets */
#define NETWORK_PORTS_MAX 16              /* ports or ranges of ports of a rule */
#define NETWORK_METHODS_MAX 16            /* methods of a rule */
#define NETWORK_METHOD_MAX 24             /* letters of a method, with its NUL */
#define NETWORK_PATHS_MAX 16              /* prefixes of paths of a rule */
#define NETWORK_PATH_MAX 1024             /* letters of such a prefix, with its NUL */
#define NETWORK_HEADERS_MAX 8             /* header fields that a rule adds */
#define NETWORK_HEADER_NAME_MAX 64        /* letters of a field's name, with its NUL */
#define NETWORK_HEADER_VALUE_MAX (8 * KIB) /* bytes of a field's value, with its NUL */
#define NETWORK_RANGES_MAX 64             /* ranges of addresses of a policy */
#define NETWORK_RULE_TEXT_MAX 320         /* a rule as it is shown, with its NUL */
#define EGRESS_POLICY_BYTES_MAX (2 * MIB) /* all of that for one box, as the proxy gets it */
#define EGRESS_RESOLVER_BYTES_MAX (1 * MIB) /* the host's resolv.conf and hosts */
#define EGRESS_ROOTS_BYTES_MAX (4 * MIB)  /* the certificates that the host trusts */
#define EGRESS_BOXES_MAX 4096             /* boxes of one proxy */
#define EGRESS_HEAD_USEC 20000000ULL      /* for a client's request, its greeting or its ClientHello */
#define EGRESS_IDLE_USEC 900000000ULL     /* a tunnel without a byte */
#define EGRESS_DNS_USEC 5000000ULL        /* for a name */
#define EGRESS_DIAL_USEC 10000000ULL      /* for a connection to one address */
#define EGRESS_DIALS_MAX 8                /* addresses of a name that are tried */
#define EGRESS_ANSWER_USEC 300000000ULL   /* for the first byte of an upstream's answer; its head has EGRESS_HEAD_USEC from then on */
#define EGRESS_INTERIM_MAX 8              /* answers of 1xx before the one that counts */
#define EGRESS_BUFFER_BYTES (128 * KIB)   /* of a body, that wait for one side to read; then the other side is not read from */
#define EGRESS_DRAIN_BYTES_MAX (64 * KIB) /* of the body of a request that was refused; with more of it the connection ends */
#define EGRESS_LEAVES_MAX 64              /* certificates for hosts that are kept, of one session */
#define EGRESS_HELLO_MAX (16 * KIB)       /* a ClientHello, with what is around it */
#define LEDGER_ROWS_MAX 256               /* hosts that are told apart in a session's ledger; the rest is counted together */

/* Output */
#define OUTPUT_CHUNK_BYTES (64 * KIB)     /* one read from a pipe */

/* Sessions */
#define CONTEXTS_MAX 32                   /* contexts of one session */
#define FRAME_BYTES_MAX (16 * MIB)        /* the payload of a frame on a control channel */
#define STDIN_FRAME_MAX (16 * MIB)        /* standard input that goes to a context as a frame */
#define CONTROL_DROPPED_MAX (64 * MIB)    /* what a run may send over its control channel in vain */
#define FILE_BYTES_MAX (64 * MIB)         /* a file that is put into or taken from a workspace */
#define FILE_LIST_MAX 4096                /* entries of a directory that are listed at a time */
#define FILE_PIECE_BYTES (256 * KIB)      /* of a file that is copied or sent piece by piece */
#define FILE_AFTER_USEC 10000000ULL       /* a file that a client reads goes on after the end of its session */
#define FILE_WALK_DEPTH_MAX 128           /* directories nested deeper are not put into an archive */
#define FILE_REMOVE_USEC 30000000ULL      /* for a directory with all that is in it to be removed */
#define REMOTE_QUIET_USEC 30000000ULL     /* without a byte from the server of files in a box; then the operation is lost */
#define REMOTE_MEMORY_BYTES (1 * MIB)     /* a file copied out of a box is kept in memory, a larger one on disk */

/* Archives that are unpacked: the program that reads them */
#define ARCHIVE_ENTRIES_MAX 262144        /* files and directories of one */
#define ARCHIVE_MEMORY_BYTES (512 * MIB)  /* its memory */
#define ARCHIVE_CPU_SECONDS 120           /* its processor time */
#define ARCHIVE_SILENCE_USEC 60000000ULL  /* without a word from it; then it is ended */

/* Images */
#define IMAGES_MAX 4096                   /* of a store, that are listed */
#define IMAGE_BYTES_MAX (16 * GIB)        /* files of one that is imported or built, and an archive of one */
#define IMAGE_ENTRIES_MAX 2000000         /* files, directories and links of one */
#define IMAGE_DEPTH_MAX 128               /* directories nested in each other */
#define IMAGE_LAYERS_MAX 256              /* layers of one */
#define IMAGE_JSON_BYTES_MAX (4 * MIB)    /* an index, a manifest or a configuration */
#define IMAGE_ABOUT_BYTES_MAX (64 * KIB)  /* what the store says about one */
#define IMAGE_CPU_SECONDS 3600            /* processor time of the program that reads one */
#define IMAGE_CONTEXT_BYTES_MAX (16 * MIB) /* files that an engine builds one from */

/* Numbers for who watches */
#define METRICS_BYTES_MAX (1 * MIB)       /* the text for Prometheus */
#define METRICS_DEGRADED_USEC 10000000ULL /* after the journal has refused something the server says that it is degraded */
#define STATS_INTERVAL_MIN_USEC 100000ULL /* between two samples of a stream */
#define STATS_INTERVAL_MAX_USEC 60000000ULL /* and at most */

/* HTTP requests */
#define HTTP_METHOD_MAX 16                /* bytes of the method */
#define HTTP_TARGET_MAX (8 * KIB)         /* of the target */
#define HTTP_FIELDS_BYTES_MAX (16 * KIB)  /* of all header fields */
#define HTTP_FIELDS_MAX 64                /* header fields */
#define HTTP_QUERY_MAX 32                 /* parameters of a query */
#define HTTP_CHUNK_DIGITS_MAX 16          /* of the size of a chunk */
#define HTTP_REASON_MAX 512               /* of the text behind the status of an answer that the proxy reads */
#define HTTP_ANSWER_FIELDS_BYTES_MAX (63 * KIB) /* of all header fields of such an answer, and of its trailers */

/* The command as a client of a server */
#define CLIENT_HEAD_BYTES_MAX (64 * KIB)  /* the head of a request or an answer */
#define CLIENT_BODY_BYTES_MAX (1 * GIB)   /* an answer that is read whole, or a line of a stream */
#define CLIENT_STDIN_BYTES_MAX (1 * MIB)  /* standard input from a file that goes along with a request; more is sent while the run lasts */
#define CLIENT_KILL_USEC 10000000ULL      /* for the server to end a run that was killed */
#define CLIENT_ANSWER_USEC 120000000ULL   /* for the server to answer what waits for no run */
#define CLIENT_SLOW_MSEC 5000             /* after which the user is told that it has not answered yet */
#define CLIENT_PAGES_MAX 100              /* pages of a list, of 1000 items each */

/* An engine for containers (Docker, Podman) */
#define ENGINE_ANSWER_BYTES_MAX (8 * MIB) /* an answer in JSON, or one value of a stream of them */
#define ENGINE_JSON_DEPTH_MAX 64          /* nested values of it */
#define ENGINE_JSON_NODES_MAX 262144      /* keys and values of it, about */
#define ENGINE_EARLY_BYTES_MAX (256 * KIB) /* of a stream, that come together with its head */
#define ENGINE_CONFIG_BYTES_MAX (1 * MIB) /* ~/.docker/config.json, or a context's meta.json */
#define ENGINE_CONTEXTS_MAX 256           /* contexts that are looked at to find one */
#define ENGINE_SILENCE_USEC 60000000ULL   /* of an engine that sends an image */
#define ENGINE_RETRY_USEC 1000000ULL      /* after an engine could not be reached it is not tried again for so long */
#define ENGINE_FACTS_USEC 60000000ULL     /* what an engine said of itself is asked again after this */

/* Connections of the server */
#define READ_BYTES (64 * KIB)             /* one read from a client */
#define ACCEPT_BATCH_MAX 64               /* connections taken from one listener before others are looked at */
#define OUTPUT_BYTES_MAX (256 * KIB)      /* of an answer, that wait for a client to read */
#define BODY_MEMORY_MAX (256 * KIB)       /* a larger body goes to a file */
#define BODIES_MEMORY_MAX (64 * MIB)      /* of all bodies together; then they go to files at once */
#define BODIES_FILES_MAX (4 * GIB)        /* of all bodies in files; then 503 */
#define HEADS_MEMORY_MAX (64 * MIB)       /* of all heads that have not come to their end; then 503 */
#define OUTPUTS_MEMORY_MAX (512 * MIB)    /* of all answers that wait for clients to read; then those that read nothing are cut off */
#define BODY_WINDOW_USEC 5000000ULL       /* in each such time of a body */
#define BODY_WINDOW_BYTES (4 * KIB)       /* at least so much must come */
#define LINGER_USEC 2000000ULL            /* from our last word to a client's close */
#define LINGER_BYTES_MAX (4 * MIB)        /* that are read from it in that time, and dropped */
#define LOOP_STOP_USEC 2000000ULL         /* for answers to be sent when the server ends */
#define ACCEPT_PAUSE_USEC 100000ULL       /* without accepting, when there is no descriptor */
#define AUTH_FAILURES_MAX 20              /* wrong tokens from one address in AUTH_WINDOW_USEC before it is 429 */
#define AUTH_WINDOW_USEC 60000000ULL      /* after which they are forgotten */
#define AUTH_PEERS_MAX 512                /* addresses that are remembered for that */
#define WORKER_STACK_BYTES (256 * KIB)    /* of a thread; with sanitizers eight times that */
#define WORKER_IDLE_USEC 10000000ULL      /* an idle thread ends */
#define WORKERS_QUEUE_MAX 256             /* requests that wait for a thread */
#define WORKERS_WAIT_USEC 2000000ULL      /* and how long */
#define REQUEST_SHARE 3                   /* requests of one tenant under way: at most so many times the threads that are left for others */
#define REQUEST_SPARE 8                   /* one thread of so many is left out of that, */
#define REQUEST_FIRST 2                   /* for the first requests of a tenant */
#define JSON_DEPTH_MAX 64                 /* nested values of a request's body */
#define JSON_NODES_MAX 32768              /* keys and values of it */
#define JSON_NUMBER_BYTES_MAX 64          /* of a number in it */
#define JSON_LARGE_BYTES_MAX (256 * MIB)  /* of all bodies from files and of large results, whose JSON is in memory; then 503 */

/* Lines that were typed */
#define HISTORY_LINES_MAX 2000            /* kept from one time to the next */
#define HISTORY_LINE_BYTES_MAX 4096       /* a longer one is not kept */

/* Runs and sessions of the server */
#define OPENINGS_WAITING_MAX 1024         /* boxes that wait until others are built; one more is refused */
#define OPENING_WAIT_USEC 20000000ULL     /* and for so long */
#define SESSION_NAME_MAX 64               /* characters of a session's name */
#define METADATA_MAX 32                   /* of a session */
#define METADATA_KEY_MAX 64               /* characters of a key of them */
#define METADATA_VALUE_MAX 1024           /* characters of a value */
#define RUN_FILES_MAX 1024                /* that come along with a run */
#define RUN_OUTPUT_MAX (64 * MIB)         /* output_limit that a request may ask for */
#define RESULT_SMALL_MAX (1 * MIB)        /* output of a run; of more the result is made from the journal, and counts in JSON_LARGE_BYTES_MAX */
#define RESULT_KEPT_MAX (16 * MIB)        /* output_limit up to which output is in memory while somebody waits for the run */
#define RESULT_GROWTH 4                   /* so often: as JSON it is several times as large */
#define HOST_MEMORY_USEC 100000ULL        /* the host's memory is looked at this often */
#define SESSION_LOOK_USEC 200000ULL       /* whether a session's time is over */
#define FOLLOW_PING_USEC 15000000ULL      /* of silence in a stream of events */
#define FOLLOW_BYTES_MAX (256 * KIB)      /* of events that are read from the journal at a time */
#define EVENTS_PAGE_BYTES_MAX (1 * MIB)   /* of events in one page, about */
#define STDIN_LOOK_USEC 100000ULL         /* whether its client is still there, who waits for that */
#define STDIN_WAIT_USEC 10000000ULL       /* for an interactive run to take what was sent to it */
#define STOP_RUNS_USEC 10000000ULL        /* for runs to end when the server does, after they were killed */

/* MCP */
#define MCP_CLIENTS_MAX 4096              /* clients that are known */
#define MCP_TENANT_CLIENTS_MAX 512        /* of them, of one tenant; then the one that was silent for longest goes */
#define MCP_CLIENT_IDLE_USEC 3600000000ULL /* a client that was silent for so long is forgotten, and its own session ended */
#define MCP_SUBSCRIPTIONS_MAX 64          /* resources that one client wants to hear of */
#define MCP_SUBSCRIPTIONS_BYTES_MAX (32 * KIB) /* of all of their addresses */
#define MCP_LOOK_USEC 1000000ULL          /* they are looked at this often */
#define MCP_CALLS_MAX 64                  /* calls of one client at a time */
#define MCP_STREAMS_MAX 64                /* answers of one client that are kept for who lost the connection */
#define MCP_EVENTS_BYTES_MAX (16 * MIB)   /* of all of them */
#define MCP_KEPT_BYTES_MAX (256 * MIB)    /* of those of all clients; then no more are kept */
#define MCP_STREAM_KEPT_USEC 120000000ULL /* and for so long after their end */
#define MCP_TEXT_BYTES_MAX (32 * KIB)     /* of each output, value or error in what a model reads; more is cut in the middle */
#define MCP_MESSAGE_BYTES_MAX (8 * MIB)   /* of a message; pictures and files that do not fit are left out, and that is said */
#define MCP_PICTURES_MAX 8                /* of one result */
#define MCP_PICTURES_BYTES_MAX (4 * MIB)  /* of all of them, encoded */
#define MCP_FILES_MAX 20                  /* links to changed files of one result */
#define MCP_READ_BYTES_MAX (256 * KIB)    /* of a file that read_file gives at a time */
#define MCP_RESOURCE_BYTES_MAX (4 * MIB)  /* of a resource that is read whole */
#define MCP_WALK_ENTRIES_MAX 2000         /* files and directories that are looked at for a list */
#define MCP_WALK_DEPTH_MAX 16             /* directories in each other */
#define MCP_PAGE 500                      /* resources of one page */
#define MCP_PROGRESS_USEC 100000ULL       /* between two pieces of output that are told */
#define MCP_PROGRESS_BYTES_MAX 4096       /* of one of them */
#define MCP_HEARTBEAT_USEC 5000000ULL     /* of silence, before a run is told to go on */
#define MCP_TURN_USEC 600000000ULL        /* a call waits so long for one before it in the same interpreter */
#define MCP_OPTIONS_BYTES_MAX (14 * KIB)  /* of the header Glovebox-Session */
#define MCP_LINE_BYTES_MAX (24 * MIB)     /* a message of a client */

/* Names of what an engine has */
#define RUNTIME_NAME_MAX 63               /* characters of a runtime's name */
#define IMAGE_REFERENCE_MAX 255           /* characters of an image's name, with registry, tag or digest */

/* Rules about code and secrets */
#define WATCH_INPUT_MAX (16 * MIB)        /* of a standard input that is a file, that is looked at for secrets before the run */
#define RULES_FILES_MAX 64                /* files of rules, with the shipped ones */
#define RULES_MAX 1024                    /* rules of all of them */
#define RULES_BYTES_MAX (64 * MIB)        /* what they are compiled to */
#define RULES_CPU_SECONDS 60              /* of the program that compiles them */
#define RULES_CACHED_MAX 8                /* files of compiled rules that are kept */
#define PATTERN_BYTES_MAX 4096            /* a pattern */
#define GUARD_TEXT_MAX 256                /* a message or a remedy, with its NUL */
#define SHAPE_START_MIN 3                 /* bytes by which a secret's shape begins */
#define SHAPE_START_MAX 128               /* and at most */
#define SHAPE_BYTES_MAX 16384             /* that may belong to one secret of a shape */

/* The reader of Python */
#define READER_CODE_BYTES_MAX (16u << 20) /* code that is read */
#define READER_ITEMS_MAX 65536u           /* items of an answer */
#define READER_ANSWER_BYTES_MAX (64u << 20)/* texts of all items together */
#define READER_TEXT_BYTES_MAX (64u << 10) /* a text that was put together; what is longer is told in pieces */
#define READER_CALL_BYTES_MAX 1024u       /* the text of a call */
#define READER_INNER_BYTES_MAX 128u       /* of a call in the arguments of another; a longer one is {} */
#define READER_NAME_BYTES_MAX 256u        /* a dotted name; a longer one is not known */
#define READER_PATH_BYTES_MAX 1024u       /* a path that is told without its detours, too */
#define READER_DEPTH_MAX 200u             /* expressions in each other; what is deeper is skipped */
#define READER_CODE_DEPTH_MAX 3u          /* code in strings of code */
#define READER_LIST_MAX 65536u            /* members of a list that are known */
#define READER_STACK_MAX 131072u          /* members of all lists and calls that are open */
#define READER_NAMES_MAX 65536u           /* names that are remembered; a power of two */
#define READER_NAMES_MIN 512u             /* places for them in a short code; a power of two */
#define READER_TOUCH_BYTES 8192u          /* of each kind of memory that a reader has fetched before it is asked */
#define READER_PROBES_MAX 64u             /* places where one of them is looked for */
#define READER_TARGETS_MAX 8u             /* a = b = ... = value */
#define READER_WORK_MAX (128u << 20)      /* bytes that are copied or looked at to put texts together */
#define READER_ARENA_BYTES (64u << 20)    /* texts and lists that are remembered */
#define READER_MEMORY_BYTES (256u << 20)  /* address space of a reader */
#define READER_CPU_SECONDS 2              /* its processor time */
#define READER_LOOK_USEC 200ULL           /* after a question, before we sleep until the answer comes */
#define READER_ANSWER_USEC 5000000ULL     /* for the whole of a question */
#define READER_READY_USEC 2000000ULL      /* for a reader to be there */
#define READER_END_USEC 50000ULL          /* for the program to end by itself, before it is killed */
#define READER_LOST_USEC 20000ULL         /* for the end of the program to show, when a reader has ended without a word */
#define READER_AHEAD_MAX 64u              /* readers that wait at a time */

/* The end of a run */
#define INTERRUPT_GRACE_USEC 2000000ULL   /* from the interrupt to the kill */
#define SAMPLE_PERIOD_USEC 50000ULL       /* peaks, cpu time and disk are looked at this often */
#define DEADLINE_SLACK_USEC 500000ULL     /* the backend ends a run in a context this long after we should have */
#define STOP_WAIT_USEC 5000000ULL         /* from the kill of a program in a session to the news of its end */

/* The journal */
#define JOURNAL_BYTES_MIN (4 * MIB)       /* a smaller bound of its file is raised to this */
#define JOURNAL_RESERVE_BYTES (4 * MIB)   /* above the bound, for how runs ended */
#define JOURNAL_EVENT_BYTES_MAX (64 * MIB) /* one event */
#define JOURNAL_SCAN_MAX 4096             /* records that are looked at without a pause for others */
#define JOURNAL_LOG_BYTES (128 * MIB)     /* of its log; then upkeep begins it anew, for which all stand still for some milliseconds */
#define JOURNAL_LOG_KEPT_BYTES (32 * MIB) /* a larger file of the log is made smaller when there is little to do */
#define JOURNAL_LOG_BYTES_MAX (256 * MIB) /* when upkeep did not come to it, who writes does */
#define TOKENS_MAX 10000                  /* tokens, with those that do not count any more */
#define TOKEN_GONE_USEC 2592000000000ULL  /* so long those stay in the list */

/* The server as a process */
#define KEEPER_WARDENS_MAX 4              /* wardens alive that a keeper has started */
#define KEEPER_HIDES_MAX 1024             /* the same of glovebox-hide: mounts without credential files */
#define LISTEN_BACKLOG 1024               /* connections that nobody has accepted yet */
#define LISTEN_LOCK_USEC 5000000ULL       /* for a server that is ending to leave its socket */
#define SERVER_READERS_AHEAD 4            /* readers of code that wait in a server */
#define AUDIT_FINDINGS_MAX 8              /* of the guard, in the audit record of a run */
#define AUDIT_HOSTS_MAX 64                /* of a ledger, in the audit record of a run or of a session's end */
#define LOG_LINE_MAX 1024                 /* bytes of a message in the log; the rest is cut */
#define DRAIN_LOOK_USEC 50000ULL          /* whether everything has ended is looked at this often */
#define STOP_ANSWERS_USEC 2000000ULL      /* for answers about what was ended with the server */
#define STOP_SEC 20                       /* from then on, before the process is ended by force */

#endif
