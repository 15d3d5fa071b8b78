/* SPDX-License-Identifier: Apache-2.0
 *
 * The attacks of `glovebox verify`. One list for both sides: the program that makes them inside a
 * box (probe.c) and the verb that starts it and judges (cli/verify.c).
 *
 * What the program prints is one line for each thing, after the token it was given, so that no
 * line can come from anywhere else:
 *
 *   TOKEN ran NAME     it was started and is about to attack
 *   TOKEN held TEXT    an attempt that failed, as it should
 *   TOKEN open TEXT    an attempt that succeeded
 *   TOKEN note TEXT    to be shown
 *   TOKEN done COUNT   the end; COUNT is the number of attempts
 *
 * Bombs are not meant to reach their end; the host judges them by the verdict. */
#ifndef RUNNER_PROBE_H
#define RUNNER_PROBE_H

/* function, name, number in the catalogue of attacks (0: it has none), what is tried */
#define PROBES(X)                                                                                               \
        X(identity, "identity", 27, "be root or anybody of the host, become it by setuid, setgid, setgroups")   \
        X(root, "root", 33, "see the host's files, leave the root directory")                                   \
        X(secrets, "secrets", 43, "read shadow files, kernel memory, the environment of others")                \
        X(workspace, "workspace", 0, "make a file that belongs to the caller on the host")                      \
        X(network, "network", 105, "reach an address, the host's loopback, its sockets")                        \
        X(processes, "processes", 62, "see and signal processes of the host")                                   \
        X(capabilities, "capabilities", 0, "hold a capability, gain one later")                                 \
        X(filter, "filter", 4, "run without the system call filter, also after fork and exec")                  \
        X(syscalls, "syscalls", 8, "call what a box may not: mounts, namespaces, kernel surface")               \
        X(writes, "writes", 49, "write to /usr, /etc, /proc and the root")                                      \
        X(devices, "devices", 45, "make or find a device")                                                      \
        X(setuid, "setuid", 30, "gain by set-user-id files")                                                    \
        X(rlimits, "rlimits", 82, "open files without end, raise a limit, leave a core file")                   \
        X(memory, "memory bomb", 73, "take more memory than the limit")                                         \
        X(forks, "fork bomb", 71, "start more processes than the limit")                                        \
        X(disk_tmp, "disk bomb, /tmp", 81, "fill /tmp")                                                         \
        X(disk_workspace, "disk bomb, workspace", 81, "fill the host through the workspace")                    \
        X(output, "output flood", 83, "write without end to standard output")                                   \
        X(loop, "endless loop", 91, "ignore every signal and never end")                                        \
        X(survivor, "survivors", 95, "leave a daemon behind")                                                   \
        X(kill_all, "kill all", 68, "kill every process there is")

enum probe_id {
#define PROBE_ENUM(function, name, catalogue, tries) PROBE_##function,
        PROBES(PROBE_ENUM)
#undef PROBE_ENUM
        PROBE_COUNT
};

/* Where the program is in the box. */
#define PROBE_TARGET "/probe"

/* argv: PROBE_TARGET TOKEN FUNCTION, then for each probe what it needs to know of the host. */
enum probe_argument {
        PROBE_ARG_TOKEN = 1,
        PROBE_ARG_FUNCTION,
        PROBE_ARG_UID,       /* the identity that was asked for */
        PROBE_ARG_HOST_FILE, /* a file that only the host has */
        PROBE_ARG_HOST_ROOT, /* "device:inode" of the host's / */
        PROBE_ARG_HOST_NAME,
        PROBE_ARG_HOST_PID,  /* a living process of the host */
        PROBE_ARG_PORT,      /* the host listens there on its loopback */
        PROBE_ARG_SOCKET,    /* ... and at this abstract address */
        PROBE_ARG_SOCKET_PATH,
        PROBE_ARG_SECRET,    /* in an environment variable of the host */
        PROBE_ARG_PIDS,      /* the limit of processes */
        PROBE_ARG_NOFILE,    /* the limit of open files */
        PROBE_ARG_COUNT
};

/* The file that the workspace probe makes, with the token in it. */
#define PROBE_WORKSPACE_FILE "verify"

#endif
