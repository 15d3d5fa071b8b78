/* SPDX-License-Identifier: Apache-2.0
 *
 * Attacks on what a box sees: users, files, the network. */
#include "runner/probe_report.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <net/if.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <unistd.h>

#define LINK_TIMEOUT_SEC 1

/* ---- who we are, what we see ---- */

void probe_identity(void)
{
        uid_t asked = (uid_t)strtoul(probe_arguments[PROBE_ARG_UID], NULL, 10);
        uid_t r, e, s;
        gid_t groups[256];
        char map[512];
        unsigned long inside, outside, count;
        struct utsname u;

        if (getresuid(&r, &e, &s) < 0 || !probe_read_text("/proc/self/uid_map", map, sizeof(map))) {
                probe_unsure("the user id");
                return;
        }
        probe_report(r == asked && e == asked && s == asked && r != 0, "the user ids are %u, %u, %u", r, e, s);
        if (sscanf(map, "%lu %lu %lu", &inside, &outside, &count) != 3)
                probe_report(false, "cannot read the uid map");
        else
                probe_report(count == 1 && outside != 0 && inside != 0, "%lu user id of the host is mapped (%lu)", count, outside);
        int n = getgroups(ARRAY_SIZE(groups), groups);
        int foreign = 0;
        for (int i = 0; i < n; i++)
                foreign += groups[i] == 65534;
        probe_report(n >= 0 && getgid() != 0 && getegid() != 0, "the group is %u, with %d others", getgid(), n);
        for (int i = 0; i < n; i++)
                probe_report(groups[i] != 0, "group %u", groups[i]);
        if (foreign > 0)
                probe_tell("note", "%d groups of the caller cannot be dropped without root; they have no name here", foreign);
        probe_refused("setuid(0)", setuid(0));
        probe_refused("setgid(0)", setgid(0));
        probe_refused("setgroups(0)", setgroups(1, &(gid_t){0}));
        probe_refused("setresuid to a neighbour", setresuid(asked + 1, asked + 1, asked + 1));
        probe_report(uname(&u) == 0 && strcmp(u.nodename, probe_arguments[PROBE_ARG_HOST_NAME]) != 0, "the host's name is hidden (%s)",
               u.nodename);
}

static void check_root_entries(void)
{
        static const char *const known[] = {".", "..", "bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc",
                                            "run", "sandbox", "sbin", "tmp", "usr", "workspace", "probe"};
        DIR *dir = opendir("/");
        if (!dir) {
                probe_unsure("the root directory");
                return;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
                bool found = false;
                for (size_t i = 0; i < ARRAY_SIZE(known); i++)
                        found |= strcmp(known[i], entry->d_name) == 0;
                if (!found)
                        probe_report(false, "/%s is there", entry->d_name);
        }
        closedir(dir);
        probe_report(true, "the root holds only what a box has");
}

bool probe_is_host_root(void)
{
        struct stat st;
        char id[64];

        if (stat("/", &st) < 0 || access(probe_arguments[PROBE_ARG_HOST_FILE], F_OK) == 0)
                return true;
        snprintf(id, sizeof(id), "%llu:%llu", (unsigned long long)st.st_dev, (unsigned long long)st.st_ino);
        return strcmp(id, probe_arguments[PROBE_ARG_HOST_ROOT]) == 0;
}

void probe_root(void)
{
        static const char *const absent[] = {"/root", "/home", "/var", "/boot", "/srv", "/opt", "/sys/kernel",
                                             "/tmp/sandboxes", "/etc/ssh", "/run/systemd", "/run/docker.sock"};
        struct stat st, up;
        char what[PATH_MAX + 32];

        probe_refused("the host's file", access(probe_arguments[PROBE_ARG_HOST_FILE], F_OK));
        snprintf(what, sizeof(what), "/proc/1/root%s", probe_arguments[PROBE_ARG_HOST_FILE]);
        probe_refused("the host's file through /proc/1/root", access(what, F_OK));
        for (size_t i = 0; i < ARRAY_SIZE(absent); i++)
                probe_refused(absent[i], access(absent[i], F_OK));
        check_root_entries();
        if (stat("/", &st) < 0 || stat("/..", &up) < 0) {
                probe_unsure("the root directory");
                return;
        }
        probe_report(!probe_is_host_root(), "/ is not the host's");
        probe_report(st.st_dev == up.st_dev && st.st_ino == up.st_ino, "/.. is /");
        probe_refused("chroot", chroot("/tmp"));
}

void probe_secrets(void)
{
        static const char *const paths[] = {"/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/root/.ssh/id_rsa",
                                            "/proc/1/environ", "/proc/1/mem", "/proc/kcore", "/proc/kmsg", "/proc/keys",
                                            "/proc/kallsyms", "/proc/sched_debug", "/dev/mem", "/dev/kmsg"};
        extern char **environ;
        char text[16384];

        probe_opens(paths, ARRAY_SIZE(paths), O_RDONLY);
        bool seen = false;
        for (char **e = environ; *e; e++)
                seen |= strstr(*e, probe_arguments[PROBE_ARG_SECRET]) != NULL;
        probe_report(!seen, "the host's environment is not ours");
        if (!probe_read_text("/proc/self/mountinfo", text, sizeof(text)))
                probe_unsure("the mount table");
        else
                probe_report(!strstr(text, probe_arguments[PROBE_ARG_HOST_FILE]), "the mount table does not show the host's file");
}

void probe_workspace(void)
{
        struct stat a, b;

        int fd = open("/workspace/" PROBE_WORKSPACE_FILE, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        size_t size = strlen(probe_arguments[PROBE_ARG_TOKEN]);
        if (fd < 0 || write(fd, probe_arguments[PROBE_ARG_TOKEN], size) != (ssize_t)size || fstat(fd, &a) < 0) {
                probe_unsure("/workspace");
                return;
        }
        close(fd);
        probe_report(a.st_uid == getuid() && a.st_gid == getgid(), "inside, the file is owned by %u:%u", a.st_uid, a.st_gid);
        probe_report(stat("/sandbox/" PROBE_WORKSPACE_FILE, &b) == 0 && a.st_ino == b.st_ino, "/sandbox and /workspace are one");
        probe_refused("giving the file to root", chown("/workspace/" PROBE_WORKSPACE_FILE, 0, 0));
        probe_refused("a hard link from /usr", link("/usr/bin/env", "/workspace/linked"));
}

/* ---- network ---- */

static int try_connect(int family, int type, const void *address, socklen_t size)
{
        static const struct timeval timeout = {.tv_sec = LINK_TIMEOUT_SEC};
        int fd = socket(family, type | SOCK_CLOEXEC, 0);
        if (fd < 0)
                return -1;
        setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof(timeout));
        int r = connect(fd, address, size);
        int e = errno;
        close(fd);
        errno = e;
        return r;
}

static void check_interfaces(void)
{
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        if (fd < 0) {
                probe_unsure("the interfaces");
                return;
        }
        for (int i = 1; i < 256; i++) {
                struct ifreq request = {.ifr_ifindex = i};
                if (ioctl(fd, SIOCGIFNAME, &request) == 0)
                        probe_report(strcmp(request.ifr_name, "lo") == 0, "interface %s", request.ifr_name);
                else if (errno != ENODEV) {
                        probe_unsure("the interfaces");
                        break;
                }
        }
        close(fd);
}

static void check_routes(void)
{
        char text[4096];

        if (!probe_read_text("/proc/self/net/route", text, sizeof(text))) {
                probe_unsure("the routes");
                return;
        }
        char *second = strchr(text, '\n');
        probe_report(!second || second[1] == '\0', "no route");
}

static void check_unix(const char *what, const char *name, bool abstract)
{
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        size_t n = strlen(name);

        memcpy(address.sun_path + abstract, name, MIN(n, sizeof(address.sun_path) - 2));
        probe_refused(what, try_connect(AF_UNIX, SOCK_STREAM, &address,
                                  (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1)));
}

void probe_network(void)
{
        static const char *const outside[] = {"192.0.2.1", "1.1.1.1", "169.254.169.254", "10.0.0.1"};
        uint16_t port = (uint16_t)atoi(probe_arguments[PROBE_ARG_PORT]);
        char what[96];

        check_interfaces();
        check_routes();
        for (size_t i = 0; i < ARRAY_SIZE(outside); i++) {
                struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(53)};
                inet_pton(AF_INET, outside[i], &to.sin_addr);
                snprintf(what, sizeof(what), "tcp to %s", outside[i]);
                probe_refused(what, try_connect(AF_INET, SOCK_STREAM, &to, sizeof(to)));
                snprintf(what, sizeof(what), "udp to %s", outside[i]);
                probe_refused(what, try_connect(AF_INET, SOCK_DGRAM, &to, sizeof(to)));
        }
        struct sockaddr_in6 to6 = {.sin6_family = AF_INET6, .sin6_port = htons(53)};
        inet_pton(AF_INET6, "2001:db8::1", &to6.sin6_addr);
        probe_refused("udp to 2001:db8::1", try_connect(AF_INET6, SOCK_DGRAM, &to6, sizeof(to6)));
        struct sockaddr_in loop = {.sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        probe_refused("the host's loopback port", try_connect(AF_INET, SOCK_STREAM, &loop, sizeof(loop)));
        check_unix("the host's abstract socket", probe_arguments[PROBE_ARG_SOCKET], true);
        check_unix("the host's socket by path", probe_arguments[PROBE_ARG_SOCKET_PATH], false);
}
