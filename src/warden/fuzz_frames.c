/* SPDX-License-Identifier: Apache-2.0
 *
 * What comes out of a box while it is built: frames of any kind, size and order, with and without
 * descriptors. Nothing of it may crash the warden, leak a descriptor or leave the box in a state
 * its table does not have. Input: [kind of datagram, number of descriptors, size, bytes...]... */
#include "base/fd.h"
#include "base/message.h"
#include "runner/runner.h"
#include "warden/box.h"

#include <assert.h>
#include <fcntl.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define FRAMES_MAX 16

static void send_frame(int socket, uint8_t form, uint8_t n_fds, const uint8_t *bytes, size_t size)
{
        struct setup_frame frame = {0};
        int fds[8];

        n_fds %= 8;
        for (int i = 0; i < n_fds; i++)
                fds[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
        memcpy(&frame, bytes, size < sizeof(frame) ? size : sizeof(frame));
        if (form & 1)
                frame.kind = 1 + frame.kind % 6;
        if (form & 2)
                (void)send(socket, &frame, size % sizeof(frame), MSG_DONTWAIT | MSG_NOSIGNAL);
        else
                message_send(socket, &frame, sizeof(frame), fds, n_fds);
        for (int i = 0; i < n_fds; i++)
                safe_close(fds[i]);
}

static int lowest_free_fd(void)
{
        int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
        safe_close(fd);
        return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
        struct box box;
        int pair[2], before = lowest_free_fd();

        if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
                return 0;
        box_init(&box);
        box.state = BOX_BUILDING;
        box.socket = pair[0];
        for (int n = 0; n < FRAMES_MAX && size >= 3; n++) {
                uint8_t form = data[0], n_fds = data[1];
                size_t length = data[2] < size - 3 ? data[2] : size - 3;
                send_frame(pair[1], form, n_fds, data + 3, length);
                data += 3 + length;
                size -= 3 + length;
                if (box.socket >= 0)
                        box_on_frame(&box);
                assert(box.state == BOX_BUILDING || box.state == BOX_RUNNING);
                assert(box.n_watch >= 0 && box.n_watch <= BOX_WRITABLE_MAX);
                assert(memchr(box.error.message, '\0', sizeof(box.error.message)));
        }
        safe_close(pair[1]);
        if (box.socket >= 0)
                box_on_frame(&box);
        box_done(&box);
        assert(lowest_free_fd() == before);
        return 0;
}
