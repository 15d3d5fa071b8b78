/* SPDX-License-Identifier: Apache-2.0
 *
 * Each test replaces the memory of a child of its own. */
#include "runner/python/image.h"

#include "base/macro.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#if __has_include(<sys/rseq.h>)
#include <sys/rseq.h>
#endif
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cmocka.h>

#ifndef MADV_GUARD_INSTALL
#define MADV_GUARD_INSTALL 102
#endif

#define BLOCKS 200
#define BUFFER_PAGES 64

#define CHECK(x)                                                           \
        do {                                                               \
                if (!(x)) {                                                \
                        dprintf(2, "line %d: %s: %s\n", __LINE__, #x, strerror(errno)); \
                        _exit(1);                                          \
                }                                                          \
        } while (0)

static size_t page_size;
static int in_data = 4711;
static int in_bss[5000];
static _Thread_local int in_tls = 17;

static int status_of(void (*run)(void))
{
        int status = -1;
        pid_t pid = fork();

        if (pid == 0) {
                signal(SIGSEGV, SIG_DFL); /* cmocka would take it for a failure of its own */
                signal(SIGBUS, SIG_DFL);
                run();
                _exit(0);
        }
        CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
        return status;
}

static char *map_private(size_t size)
{
        char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        CHECK(p != MAP_FAILED);
        return p;
}

/* The flags and name of the mapping that p lies in. */
static void mapping_of(const void *p, char perms[5], char name[256])
{
        FILE *f = fopen("/proc/self/maps", "re");
        char line[512];
        unsigned long start, end;
        bool found = false;

        CHECK(f);
        while (!found && fgets(line, sizeof(line), f)) {
                name[0] = '\0';
                CHECK(sscanf(line, "%lx-%lx %4s %*s %*s %*s %255s", &start, &end, perms, name) >= 3);
                found = (uintptr_t)p >= start && (uintptr_t)p < end;
        }
        CHECK(found);
        fclose(f);
}

static bool in_image(const void *p)
{
        char perms[5], name[256];

        mapping_of(p, perms, name);
        return strcmp(name, "/memfd:glovebox-image") == 0 && strcmp(perms, "rwxp") == 0;
}

static void merge(void)
{
        struct image_stats stats;

        CHECK(image_merge(&stats) == 0);
}

static void change_all(void)
{
        in_data = 1;
        in_bss[4000] = 1;
        in_tls = 1;
}

static void child_contents(void)
{
        struct image_stats stats = {0};
        char *blocks[BLOCKS], *anonymous = map_private(8 << 20);
        sigset_t mask, before;

        for (size_t i = 0; i < BLOCKS; i++) {
                blocks[i] = malloc(i * 331 + 1);
                CHECK(blocks[i]);
                memset(blocks[i], (int)i, i * 331 + 1);
        }
        in_bss[4000] = 23;
        memset(anonymous + (1 << 20), 'a', 5000);
        memset(anonymous + (6 << 20), 'b', 5000);
        sigemptyset(&before);
        sigaddset(&before, SIGUSR1);
        sigprocmask(SIG_SETMASK, &before, NULL);

        CHECK(image_merge(&stats) == 0);
        CHECK(stats.mappings_after > 0 && stats.mappings_after < stats.mappings_before);
        CHECK(stats.copied_bytes <= stats.image_bytes && stats.resident_bytes >= stats.copied_bytes);
        CHECK(in_image(&in_data) && in_image(blocks[0]) && in_image(anonymous + (6 << 20)));
        CHECK(in_image((void *)image_merge) && !in_image(&stats));
        CHECK(!in_image(anonymous + (3 << 20))); /* a gap */
#ifdef RSEQ_SIG
        CHECK(__rseq_size == 0 || !in_image((char *)__builtin_thread_pointer() + __rseq_offset));
#endif

        sigprocmask(SIG_SETMASK, NULL, &mask);
        CHECK(sigismember(&mask, SIGUSR1) == 1 && sigismember(&mask, SIGUSR2) == 0 && sigismember(&mask, SIGTERM) == 0);
        CHECK(in_data == 4711 && in_bss[4000] == 23 && in_bss[0] == 0 && in_tls == 17);
        for (size_t i = 0; i < BLOCKS; i++) {
                for (size_t k = 0; k < i * 331 + 1; k++)
                        CHECK(blocks[i][k] == (char)i);
                free(blocks[i]);
        }
        for (int i = 0; i < 8 << 20; i++) {
                int k = i & ((1 << 20) - 1);
                CHECK(anonymous[i] == (k >= 5000 ? 0 : i >> 20 == 1 ? 'a' : i >> 20 == 6 ? 'b' : 0));
        }
        CHECK(status_of(change_all) == 0);
        CHECK(in_data == 4711 && in_bss[4000] == 23 && in_tls == 17);
        munmap(anonymous, 8 << 20);
}

static void child_libraries(void)
{
        merge();
        void *library = dlopen("libm.so.6", RTLD_NOW);
        double (*cosine)(double) = NULL;

        CHECK(library);
        *(void **)&cosine = dlsym(library, "cos");
        CHECK(cosine && cosine(0) == 1);
        CHECK(dlclose(library) == 0);
        merge(); /* once more */
        CHECK(in_image(&in_data) && in_data == 4711);
}

static void *shared_page, *wiped, *unreadable, *marked, *short_file;

static void check_wiped(void)
{
        CHECK(*(char *)wiped == 0);
        *(char *)shared_page = 'c';
}

static void read_unreadable(void)
{
        *(volatile char *)unreadable;
}

static void read_marked(void)
{
        *(volatile char *)marked;
}

/* What would lose its meaning stays. */
static void child_special(void)
{
        char *guarded = map_private(3 * page_size), *stack = map_private(3 * page_size);
        FILE *f = tmpfile();

        CHECK(f && ftruncate(fileno(f), (off_t)page_size) == 0 && pwrite(fileno(f), "x", 1, 0) == 1);
        char *place = map_private(4 * page_size); /* the file, then untouched pages, the last one touched */
        short_file = mmap(place, 2 * page_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, fileno(f), 0);
        place[3 * page_size] = 'p';
        shared_page = mmap(NULL, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        wiped = map_private(page_size);
        CHECK(short_file != MAP_FAILED && shared_page != MAP_FAILED);
        CHECK(madvise(wiped, page_size, MADV_WIPEONFORK) == 0);
        *(char *)wiped = 'w';
        *(char *)shared_page = 's';
        ((char *)short_file)[1] = 'y';
        memset(guarded, 'g', 3 * page_size);
        unreadable = guarded + page_size;
        CHECK(mprotect(unreadable, page_size, PROT_NONE) == 0);
        marked = stack + page_size;
        memset(stack, 'm', 3 * page_size);
        bool marks = madvise(marked, page_size, MADV_GUARD_INSTALL) == 0; /* since Linux 6.13 */

        merge();
        CHECK(memcmp(short_file, "xy", 2) == 0 && !in_image(short_file));
        CHECK(in_image(place + 2 * page_size) && place[2 * page_size] == 0 && place[3 * page_size] == 'p');
        CHECK(in_image(guarded) && !in_image(unreadable) && in_image(guarded + 2 * page_size));
        CHECK(*(char *)wiped == 'w' && *(char *)shared_page == 's');
        CHECK(status_of(check_wiped) == 0);
        CHECK(*(char *)wiped == 'w' && *(char *)shared_page == 'c');
        CHECK(WTERMSIG(status_of(read_unreadable)) == SIGSEGV);
        CHECK(!marks || WTERMSIG(status_of(read_marked)) == SIGSEGV);
        CHECK(stack[0] == 'm' && stack[2 * page_size] == 'm');
        CHECK(mprotect(unreadable, page_size, PROT_READ) == 0 && *(char *)unreadable == 'g');
}

/* Whoever gets hold of the memfd must not write to what all children share. */
static void child_sealed(void)
{
        unsigned long start, end;
        char line[512], path[64];
        int n = 0;

        merge();
        for (int fd = 3; fd < 64; fd++) {
                snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
                ssize_t size = readlink(path, line, sizeof(line) - 1);
                CHECK(size < 0 || !memmem(line, (size_t)size, "glovebox-image", 14));
        }
        FILE *f = fopen("/proc/self/maps", "re");
        CHECK(f);
        while (fgets(line, sizeof(line), f)) {
                if (!strstr(line, "glovebox-image") || sscanf(line, "%lx-%lx", &start, &end) != 2)
                        continue;
                snprintf(path, sizeof(path), "/proc/self/map_files/%lx-%lx", start, end);
                int fd = open(path, O_RDWR | O_CLOEXEC);
                if (fd < 0) /* only root can */
                        CHECK(errno == EPERM || errno == EACCES || errno == ENOENT);
                else
                        CHECK(pwrite(fd, "", 1, 0) == -1 && ftruncate(fd, 0) == -1 && close(fd) == 0);
                n++;
        }
        CHECK(n > 0);
}

static void *wait_forever(void *unused)
{
        pause();
        return NULL;
}

static void child_threads(void)
{
        struct image_stats stats;
        pthread_t thread;

        CHECK(pthread_create(&thread, NULL, wait_forever, NULL) == 0);
        CHECK(image_merge(&stats) == -EBUSY && !in_image(&in_data));
}

static ucontext_t main_context, other_context;
static int other_result;

static void merge_on_other_stack(void)
{
        struct image_stats stats;

        other_result = image_merge(&stats);
}

static void child_stack(void)
{
        getcontext(&other_context);
        other_context.uc_stack.ss_size = 1 << 18;
        other_context.uc_stack.ss_sp = malloc(1 << 18);
        other_context.uc_link = &main_context;
        makecontext(&other_context, merge_on_other_stack, 0);
        CHECK(swapcontext(&main_context, &other_context) == 0);
        CHECK(other_result == -ENOTSUP && !in_image(&in_data));
}

static void child_file_limit(void)
{
        static const rlim_t limits[] = {0, 4096, 300000};
        struct image_stats stats;

        for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
                CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){limits[i], RLIM_INFINITY}) == 0);
                CHECK(image_merge(&stats) == -EFBIG && !in_image(&in_data)); /* and no SIGXFSZ */
        }
        CHECK(setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}) == 0);
        merge();
        CHECK(in_image(&in_data));
}

/* Without image_prepare() this ends with SIGBUS. */
static void child_realloc(void)
{
        image_prepare();
        char *block = malloc(1 << 20);
        CHECK(block);
        memset(block, 'r', 1 << 20);
        merge();
        char *larger = realloc(block, 64 << 20);
        CHECK(larger);
        for (size_t i = 0; i < 64 << 20; i += page_size)
                larger[i] += i < 1 << 20 ? 1 : 0;
        CHECK(larger[0] == 's' && larger[1] == 'r');
        free(larger);
}

static struct image_hot *hot;
static char *buffer;
static volatile char sink;

static void trial(void)
{
        char *own = map_private(page_size);

        own[0] = 1;
        buffer[3 * page_size] = 1;
        buffer[7 * page_size] = 1;
        buffer[8 * page_size + 1] = 1;
        sink = buffer[40 * page_size];
        sink = buffer[5 * page_size]; /* written before the fork, by the template */
        CHECK(image_record(hot) == 0);
}

static bool has_page(const struct image_pages *pages, const char *page)
{
        for (uint32_t i = 0; i < pages->n_ranges; i++)
                if ((uintptr_t)page >= pages->ranges[i].start && (uintptr_t)page < pages->ranges[i].end)
                        return true;
        return false;
}

static bool is_private_page(const char *page)
{
        uint64_t entry;
        int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

        CHECK(pread(fd, &entry, sizeof(entry), (off_t)((uintptr_t)page / page_size * sizeof(entry))) == sizeof(entry));
        close(fd);
        return entry >> 63 & 1 && !(entry >> 61 & 1);
}

static void check_prefault(void)
{
        CHECK(!is_private_page(buffer + 3 * page_size) && !is_private_page(buffer + 8 * page_size));
        image_prefault(hot);
        CHECK(is_private_page(buffer + 3 * page_size) && is_private_page(buffer + 8 * page_size));
        CHECK(!is_private_page(buffer + 4 * page_size) && !is_private_page(buffer + 40 * page_size));
        for (size_t i = 0; i < BUFFER_PAGES * page_size; i++)
                CHECK(buffer[i] == (i == 5 * page_size ? 'T' : 't'));
        /* The ranges of others are out of reach. */
        CHECK(mprotect(hot, sizeof(*hot), PROT_READ | PROT_WRITE) == 0);
        memset(hot, 0xff, sizeof(*hot));
}

static void child_hot(void)
{
        uint32_t n_pages = 0;

        buffer = map_private(BUFFER_PAGES * page_size);
        memset(buffer, 't', BUFFER_PAGES * page_size);
        merge();
        buffer[5 * page_size] = 'T';
        hot = image_hot_new();
        CHECK(hot);
        CHECK(status_of(trial) == 0);
        for (int i = 0; i < BUFFER_PAGES; i++)
                CHECK(has_page(&hot->written, buffer + (size_t)i * page_size) == (i == 3 || i == 7 || i == 8));
        CHECK(has_page(&hot->read, buffer + 40 * page_size) && !has_page(&hot->read, buffer + 3 * page_size));

        uint32_t recorded = hot->written.n_pages;
        CHECK(image_hot_settle(hot) == 0);
        CHECK(hot->written.n_pages < recorded); /* not the mapping that the trial made */
        for (uint32_t i = 0; i < hot->written.n_ranges; i++)
                n_pages += (uint32_t)((hot->written.ranges[i].end - hot->written.ranges[i].start) / page_size);
        CHECK(n_pages == hot->written.n_pages && n_pages >= 3);
        CHECK(status_of(check_prefault) == 0);
        CHECK(hot->written.n_pages == n_pages);
        CHECK(buffer[3 * page_size] == 't');
}

static void run_child(void **state)
{
        assert_int_equal(status_of((void (*)(void))*state), 0);
}

#define CHILD(name) {#name, run_child, NULL, NULL, (void *)child_##name}

int main(void)
{
        const struct CMUnitTest tests[] = {
                CHILD(contents), CHILD(libraries),  CHILD(special), CHILD(sealed), CHILD(threads),
                CHILD(stack),    CHILD(file_limit), CHILD(realloc), CHILD(hot),
        };
        page_size = (size_t)getpagesize();
        return cmocka_run_group_tests(tests, NULL, NULL);
}
