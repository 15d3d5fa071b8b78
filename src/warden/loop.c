/* SPDX-License-Identifier: Apache-2.0 */
#include "warden/loop.h"

#include "base/fd.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#define EVENTS_MAX 32
#define KIND_MASK 15U /* objects are aligned to 16 bytes, so the kind fits into the pointer */

static int epoll = -1;

int loop_init(void)
{
        epoll = epoll_create1(EPOLL_CLOEXEC);
        return epoll < 0 ? -errno : 0;
}

void loop_keep_private(void *table, size_t size)
{
        (void)madvise(table, size & ~(size_t)4095, MADV_DONTFORK);
}

void loop_watch(int fd, enum loop_kind kind, void *object)
{
        struct epoll_event event = {.events = EPOLLIN, .data.u64 = (uintptr_t)object | kind};

        if (epoll >= 0 && fd >= 0)
                (void)epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event); /* out of memory: its end is then found by the ticks */
}

void loop_forget(int fd)
{
        if (epoll >= 0 && fd >= 0)
                (void)epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL);
}

int loop_close(int fd)
{
        loop_forget(fd); /* not by close() alone: a child that was just cloned may still hold a copy */
        return safe_close(fd);
}

int loop_turn(int timeout_msec, void (*const handlers[LOOP_KIND_COUNT])(void *object))
{
        struct epoll_event events[EVENTS_MAX];

        int n = epoll_wait(epoll, events, EVENTS_MAX, timeout_msec);
        if (n < 0)
                return errno == EINTR ? 1 : -errno; /* as if something had happened */
        for (int i = 0; i < n; i++)
                handlers[events[i].data.u64 & KIND_MASK]((void *)(uintptr_t)(events[i].data.u64 & ~(uint64_t)KIND_MASK));
        return n;
}
