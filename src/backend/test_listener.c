/* SPDX-License-Identifier: Apache-2.0
 *
 * The one way out of a box with an allowlist: a socket that listens in its network namespace and is held outside. For each who may start boxes (the caller, a front
 * that was root, an ordinary user) and each way in which a box is made. Who changes his identity cannot go back, so each test has a process of its own. */
#include "backend/backend.h"
#include "backend/native/keeper.h"
#include "backend/native/listener.h"
#include "base/fd.h"
#include "base/message.h"
#include "base/path.h"
#include "kernel/privilege.h"
#include "policy/network.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define ACCOUNT 61200
#define WAIT_MSEC 30000
#define SKIPPED 77

/* In the process of a test: says what was not as it should be, and ends it. */
#define want(condition)                                                               \
        do {                                                                          \
                if (!(condition)) {                                                   \
                        fprintf(stderr, "%s:%d: %s (%m)\n", __FILE__, __LINE__, #condition); \
                        exit(1);                                                      \
                }                                                                     \
        } while (0)
#define want_0(result)                                                                \
        do {                                                                          \
                if ((result) < 0) {                                                   \
                        fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #result, err.message); \
                        exit(1);                                                      \
                }                                                                     \
        } while (0)

/* What code in the box tries. It says "ok", or what it could do and should not. */
static const char attacker[] =
        "import errno, os, socket, sys\n"
        "bad = []\n"
        "def expect(name, numbers, call):\n"
        "    try:\n"
        "        call()\n"
        "        bad.append(name)\n"
        "    except OSError as e:\n"
        "        if e.errno not in numbers: bad.append(name + ': ' + str(e))\n"
        "def bind(family, address, *options):\n"
        "    s = socket.socket(family)\n"
        "    for option in options: s.setsockopt(socket.SOL_SOCKET, option, 1)\n"
        "    s.bind(address)\n"
        "links = []\n"
        "for fd in os.listdir('/proc/self/fd'):\n"
        "    try: links.append(os.readlink('/proc/self/fd/' + fd))\n"
        "    except OSError: pass\n"
        "bad += [link for link in links if link.startswith('socket:')]\n"
        "c = socket.create_connection(('127.0.0.1', 3128), 30)\n"
        "c.sendall(b'out')\n"
        "if c.recv(3) != b'in!': bad.append('no answer')\n"
        "reuse = (socket.SO_REUSEADDR, socket.SO_REUSEPORT)\n"
        "used = (errno.EADDRINUSE,)\n"
        "expect('bind', used, lambda: bind(socket.AF_INET, ('127.0.0.1', 3128)))\n"
        "expect('bind again', used, lambda: bind(socket.AF_INET, ('127.0.0.1', 3128), *reuse))\n"
        "expect('bind all', used, lambda: bind(socket.AF_INET, ('0.0.0.0', 3128), *reuse))\n"
        "used6 = (errno.EADDRINUSE, errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)\n"
        "expect('bind mapped', used6, lambda: bind(socket.AF_INET6, ('::ffff:127.0.0.1', 3128), *reuse))\n"
        "expect('bind both', used6, lambda: bind(socket.AF_INET6, ('::', 3128), *reuse))\n"
        "nowhere = (errno.ENETUNREACH,)\n"
        "for a in ('1.1.1.1', '192.0.2.1', '169.254.169.254', '10.0.0.1'):\n"
        "    expect('to ' + a, nowhere, lambda: socket.create_connection((a, 443), 10))\n"
        "if len(open('/proc/self/net/route').readlines()) > 1: bad.append('a route')\n"
        "if os.path.exists('/etc/resolv.conf'): bad.append('resolv.conf')\n"
        "if 'certs' in sys.argv and not os.path.isdir('/etc/ssl/certs'): bad.append('no certificates')\n"
        "if 'ca' in sys.argv and open('" NETWORK_CA_PATH "').read() != 'own': bad.append('no certificate of its own')\n"
        "print(bad or 'ok')\n";

static const struct language python = {
        .name = (char *)(uintptr_t)"python", .file = (char *)(uintptr_t)"main.py",
        .run = {(char *)(uintptr_t)"python3", (char *)(uintptr_t)"-I", (char *)(uintptr_t)"{file}"},
};
static char *words[3];
static struct policy policy;

static void prepare(void)
{
        policy = (struct policy){
                .cpu_milli = 1000, .mem_limit_bytes = 256 * MIB, .timeout_usec = 60000000, .pids_limit = 64, .tmp_size_bytes = MIB, .disk_limit_bytes = MIB,
                .inode_limit = 64, .nofile = 128, .read_only = true, .warm = true, .allow_weaker = UINT32_MAX, .network_mode = NETWORK_ALLOWLIST,
        };
        if (access("/etc/ssl/certs", F_OK) == 0)
                words[0] = (char *)(uintptr_t)"certs";
}

static void wait_readable(int fd)
{
        struct pollfd p = {.fd = fd, .events = POLLIN};

        want(poll(&p, 1, WAIT_MSEC) == 1);
}

/* How many processes that we may look into hold this socket. */
static int count_holders(int socket)
{
        char wanted[64], path[300], link[300];
        struct stat st;
        int n = 0;

        want(fstat(socket, &st) == 0);
        snprintf(wanted, sizeof(wanted), "socket:[%llu]", (unsigned long long)st.st_ino);
        DIR *proc = opendir("/proc");
        want(proc);
        for (struct dirent *process; (process = readdir(proc));) {
                snprintf(path, sizeof(path), "/proc/%s/fd", process->d_name);
                DIR *dir = process->d_name[0] >= '0' && process->d_name[0] <= '9' ? opendir(path) : NULL;
                bool holds = false;
                for (struct dirent *fd; dir && (fd = readdir(dir));) {
                        ssize_t size = readlinkat(dirfd(dir), fd->d_name, link, sizeof(link) - 1);
                        link[size < 0 ? 0 : size] = '\0';
                        holds = holds || strcmp(link, wanted) == 0;
                }
                if (dir)
                        closedir(dir);
                n += holds;
        }
        closedir(proc);
        return n;
}

/* Is the proxy: hears the box through its listener and answers. */
static void answer(int listener)
{
        char text[4] = "";

        want(fcntl(listener, F_GETFL) & O_NONBLOCK && fcntl(listener, F_GETFD) & FD_CLOEXEC);
        want(count_holders(listener) == 1); /* nobody in the box, and nobody who built it */
        wait_readable(listener);
        int c = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        want(c >= 0);
        want(recv(c, text, 3, MSG_WAITALL) == 3 && strcmp(text, "out") == 0);
        want(send(c, "in!", 3, MSG_NOSIGNAL) == 3);
        safe_close(c);
}

static void expect_ok(int out)
{
        char text[4096];
        ssize_t n;
        size_t size = 0;

        for (;;) {
                wait_readable(out);
                n = read(out, text + size, sizeof(text) - 1 - size);
                if (n <= 0)
                        break;
                size += (size_t)n;
        }
        text[size] = '\0';
        if (strcmp(text, "ok\n") != 0)
                fprintf(stderr, "the attacker says: %s\n", text);
        want(strcmp(text, "ok\n") == 0);
}

/* ---- in each way ---- */

static void attack_from_session(struct backend_session *s)
{
        struct program_request q = {
                .mode = PROGRAM_ONCE, .policy = &policy, .language = &python, .code_name = "main.py", .code = attacker, .code_size = sizeof(attacker) - 1,
                .args = words, .stdin_fd = -1,
        };
        struct backend_program *p = NULL;
        struct program_io io;
        struct box_event event = {0};
        gb_error err = {0};

        int listener = backend_native.session_listener(s, &err);
        want_0(listener);
        want(backend_native.session_listener(s, &err) < 0); /* once */
        want_0(backend_native.program_start(s, &q, &p, &io, &err));
        answer(listener);
        expect_ok(io.out);
        while (event.kind != BOX_EVENT_ENDED) {
                wait_readable(backend_native.program_event_fd(p));
                want_0(backend_native.program_next_event(p, &event, &err));
        }
        want(ending_is_exit(&event.end.ending) && event.end.ending.value == 0);
        backend_native.program_free(p);
        safe_close(io.out);
        safe_close(io.err);
        safe_close(io.deadline);
        safe_close(listener);
}

static struct backend_session *open_session(const struct template *template, const struct box_file *ca)
{
        struct session_request q = {.policy = &policy, .template = template, .workspace_fd = -1, .ca = ca, .uid = BOX_UID_DEFAULT, .gid = BOX_UID_DEFAULT};
        struct backend_session *s = NULL;
        struct controls controls = {0};
        gb_error err = {0};

        want_0(backend_native.session_open(&q, &controls, &s, &err));
        const struct control_status *network = &controls.status[CONTROL_NETWORK];
        want(network->state == CONTROL_ENFORCED && !strstr(network->how, "127.0.0.1:3128") == (policy.network_mode == NETWORK_NONE));
        return s;
}

static void test_session(void)
{
        static const struct box_file ca = {.bytes = "own", .size = 3};

        prepare();
        words[1] = (char *)(uintptr_t)"ca";
        struct backend_session *s = open_session(NULL, &ca), *other = open_session(NULL, &ca);
        attack_from_session(s);
        attack_from_session(other); /* each has its own */
        backend_native.session_free(s);
        backend_native.session_free(other);
}

static void test_box(void)
{
        int out[2], null = open("/dev/null", O_RDWR | O_CLOEXEC);
        struct box_request q = {
                .policy = &policy, .language = &python, .code_name = "main.py", .code = attacker, .code_size = sizeof(attacker) - 1, .args = words,
                .workspace_fd = -1, .uid = BOX_UID_DEFAULT, .gid = BOX_UID_DEFAULT,
        };
        struct backend_box *box = NULL;
        struct box_event event = {0};
        struct controls controls = {0};
        gb_error err = {0};

        prepare();
        want(null >= 0 && pipe2(out, O_CLOEXEC) == 0);
        q.stdio[0] = null;
        q.stdio[1] = q.stdio[2] = out[1];
        want_0(backend_native.start(&q, &controls, &box, &err));
        safe_close(out[1]);
        while (event.kind != BOX_EVENT_STARTED) {
                wait_readable(backend_native.event_fd(box));
                want_0(backend_native.next_event(box, &event, &err));
        }
        int listener = backend_native.listener(box, &err);
        want_0(listener);
        answer(listener);
        expect_ok(out[0]);
        while (event.kind != BOX_EVENT_ENDED) {
                wait_readable(backend_native.event_fd(box));
                want_0(backend_native.next_event(box, &event, &err));
        }
        want(ending_is_exit(&event.end.ending) && event.end.ending.value == 0);
        backend_native.free(box);
        safe_close(listener);
}

/* Nobody gets the listener of another by way of what a template makes ahead. */
static void test_template(void)
{
        struct template template = {.name = (char *)(uintptr_t)"listener", .python = (char *)(uintptr_t)"/usr/bin/python3", .pool = 1};
        gb_error err = {0};

        prepare();
        for (int round = 0; round < 3; round++) {
                policy.network_mode = NETWORK_NONE; /* what is remembered, and made ahead */
                struct backend_session *plain = open_session(&template, NULL);
                if (!backend_native.session_is_warm(plain))
                        exit(SKIPPED);
                want(backend_native.session_listener(plain, &err) < 0);
                policy.network_mode = NETWORK_ALLOWLIST;
                struct backend_session *a = open_session(&template, NULL), *cold = open_session(NULL, NULL);
                attack_from_session(cold); /* meanwhile one like the first could be made */
                struct backend_session *b = open_session(&template, NULL);
                want(backend_native.session_is_warm(a) && backend_native.session_is_warm(b));
                attack_from_session(b);
                attack_from_session(a);
                backend_native.session_free(cold);
                backend_native.session_free(a);
                backend_native.session_free(b);
                backend_native.session_free(plain);
        }
}

/* ---- what comes through the socket is looked at ---- */

static int pass(int fd, int n)
{
        int pair[2];
        gb_error err = {0};

        want(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
        if (n >= 0)
                want(message_send(pair[1], "l", 1, (int[]){fd, fd}, n) == 0);
        safe_close(pair[1]);
        int r = listener_take(&pair[0], &err);
        want(pair[0] == -1);
        want(r >= 0 || err.code == GB_E_LOST);
        return r;
}

static void test_what_is_taken(void **state)
{
        struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
        int tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0), null = open("/dev/null", O_RDONLY | O_CLOEXEC);

        assert_true(tcp >= 0 && udp >= 0 && null >= 0);
        assert_true(pass(null, 1) < 0);
        assert_true(pass(udp, 1) < 0);
        assert_true(pass(tcp, 1) < 0); /* it does not listen */
        assert_int_equal(bind(tcp, (struct sockaddr *)&address, sizeof(address)), 0);
        assert_int_equal(listen(tcp, 1), 0);
        assert_true(pass(tcp, 1) < 0); /* another port */
        assert_true(pass(tcp, 0) < 0);
        assert_true(pass(tcp, 2) < 0);
        assert_true(pass(-1, -1) < 0); /* its sender is gone */
        safe_close(tcp);
        safe_close(udp);
        safe_close(null);
}

/* ---- who starts them ---- */

static void be_caller(void)
{
}

static void be_separated(void)
{
        struct separation s = {.uid = ACCOUNT, .gid = ACCOUNT};
        gb_error err = {0};

        want_0(native_separate(&s, &err));
}

static void be_ordinary(void)
{
        _cleanup_free_ char *warden = NULL;

        want(privilege_become(ACCOUNT, ACCOUNT, NULL, 0) == 0);
        want(path_libexec("glovebox-warden", &warden) == 0);
        if (access(warden, X_OK) < 0 || GLOVEBOX_SANITIZED) /* sanitizers need more addresses than he gives to a box */
                exit(SKIPPED);
}

static void run(void (*be)(void), void (*test)(void))
{
        int status = -1;

        if (!privilege_is_host_root() && be != be_caller) {
                print_message("needs root\n");
                skip();
        }
        fflush(NULL);
        pid_t pid = fork();
        if (pid == 0) {
                be();
                test();
                exit(0); /* ends wardens and keeper, too */
        }
        assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
        if (WIFEXITED(status) && WEXITSTATUS(status) == SKIPPED) {
                print_message("this host has no such box\n");
                skip();
        }
        assert_int_equal(status, 0);
}

#define IN_A_PROCESS(test, who)               \
        static void test##_##who(void **state) \
        {                                      \
                run(be_##who, test);           \
        }
IN_A_PROCESS(test_box, caller)
IN_A_PROCESS(test_box, separated)
IN_A_PROCESS(test_box, ordinary)
IN_A_PROCESS(test_session, caller)
IN_A_PROCESS(test_session, separated)
IN_A_PROCESS(test_session, ordinary)
IN_A_PROCESS(test_template, caller)
IN_A_PROCESS(test_template, separated)

int main(void)
{
        const struct CMUnitTest tests[] = {
                cmocka_unit_test(test_what_is_taken),     cmocka_unit_test(test_box_caller),         cmocka_unit_test(test_box_separated),
                cmocka_unit_test(test_box_ordinary),      cmocka_unit_test(test_session_caller),     cmocka_unit_test(test_session_separated),
                cmocka_unit_test(test_session_ordinary),  cmocka_unit_test(test_template_caller),    cmocka_unit_test(test_template_separated),
        };

        return cmocka_run_group_tests(tests, NULL, NULL);
}
