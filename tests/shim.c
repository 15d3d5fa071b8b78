/* SPDX-License-Identifier: Apache-2.0
 *
 * A library to be preloaded into the server: one allocation fails, or the wall clock jumps, when a test wants it.
 *
 * $GLOVEBOX_SHIM is a file of at least sizeof(struct control) bytes that both sides map. Only the process that was started with it is concerned: programs
 * that it starts do not get the library, and children of it count nothing. $GLOVEBOX_SHIM_TRACE is a file for where the failed allocations were. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

struct control {
        _Atomic uint64_t allocations; /* so far */
        _Atomic uint64_t fail_at;     /* the number of the first one that fails; 0: none */
        _Atomic uint64_t fail_count;  /* how many fail from there on */
        _Atomic uint64_t failed;      /* did */
        _Atomic int64_t wall_sec;     /* how far the wall clock has jumped */
};

static struct control *control;
static pid_t concerned;
static int trace = -1;
static __thread int inside __attribute__((tls_model("initial-exec")));

static void *(*next_malloc)(size_t);
static void *(*next_calloc)(size_t, size_t);
static void *(*next_realloc)(void *, size_t);
static int (*next_posix_memalign)(void **, size_t, size_t);
static void *(*next_aligned_alloc)(size_t, size_t);
static int (*next_clock_gettime)(clockid_t, struct timespec *);

static void find(void *where, const char *name)
{
        *(void **)where = dlsym(RTLD_NEXT, name);
}

__attribute__((constructor)) static void begin(void)
{
        const char *path = getenv("GLOVEBOX_SHIM"), *traces = getenv("GLOVEBOX_SHIM_TRACE");
        void *frames[4];

        inside = 1;
        unsetenv("LD_PRELOAD");
        (void)backtrace(frames, 4); /* it loads a library the first time */
        int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
        void *memory = fd >= 0 ? mmap(NULL, sizeof(*control), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) : MAP_FAILED;
        if (fd >= 0)
                close(fd);
        if (traces)
                trace = open(traces, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        concerned = getpid();
        if (memory != MAP_FAILED)
                control = memory;
        inside = 0;
}

static void tell(void)
{
        void *frames[24];

        inside = 1;
        int n = backtrace(frames, 24);
        backtrace_symbols_fd(frames + 2, n - 2, trace);
        (void)!write(trace, "\n", 1);
        inside = 0;
}

static int fails(void)
{
        if (!control || inside || getpid() != concerned)
                return 0;
        uint64_t number = ++control->allocations, at = control->fail_at;
        if (at == 0 || number < at || number >= at + control->fail_count)
                return 0;
        control->failed++;
        if (trace >= 0)
                tell();
        errno = ENOMEM;
        return 1;
}

void *malloc(size_t size)
{
        if (!next_malloc)
                find(&next_malloc, "malloc");
        return fails() ? NULL : next_malloc(size);
}

void *calloc(size_t n, size_t size)
{
        if (!next_calloc)
                find(&next_calloc, "calloc");
        return fails() ? NULL : next_calloc(n, size);
}

void *realloc(void *old, size_t size)
{
        if (!next_realloc)
                find(&next_realloc, "realloc");
        return fails() ? NULL : next_realloc(old, size);
}

int posix_memalign(void **ret, size_t alignment, size_t size)
{
        if (!next_posix_memalign)
                find(&next_posix_memalign, "posix_memalign");
        return fails() ? ENOMEM : next_posix_memalign(ret, alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
        if (!next_aligned_alloc)
                find(&next_aligned_alloc, "aligned_alloc");
        return fails() ? NULL : next_aligned_alloc(alignment, size);
}

/* ---- time ---- */

int clock_gettime(clockid_t clock, struct timespec *ret)
{
        if (!next_clock_gettime)
                find(&next_clock_gettime, "clock_gettime");
        int r = next_clock_gettime(clock, ret);
        if (r == 0 && control && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
                ret->tv_sec += control->wall_sec;
        return r;
}

int gettimeofday(struct timeval *restrict ret, void *restrict zone)
{
        struct timespec now;

        (void)zone;
        clock_gettime(CLOCK_REALTIME, &now);
        *ret = (struct timeval){now.tv_sec, now.tv_nsec / 1000};
        return 0;
}

time_t time(time_t *ret)
{
        struct timespec now;

        clock_gettime(CLOCK_REALTIME, &now);
        if (ret)
                *ret = now.tv_sec;
        return now.tv_sec;
}
