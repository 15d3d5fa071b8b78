/* SPDX-License-Identifier: Apache-2.0
 *
 * Records are put together to one message, and that is read when it is whole. What is decided after some bytes stays so whatever follows them, and what a
 * server might read in another way is bad. */
#include "egress/hello.h"

#include "base/limits.h"
#include "base/macro.h"

#include <string.h>

#define RECORD_HEAD 5
#define RECORD_MAX 16384
#define RECORD_HANDSHAKE 22
#define MESSAGE_HEAD 4
#define MESSAGE_CLIENT_HELLO 1
#define EXTENSION_SERVER_NAME 0
#define SERVER_NAME_HOST 0

/* RFC 9849, and what came before it under another number. */
static const uint16_t encrypted_names[] = {0xfe0d, 0xffce};

/* What is left to be read. */
struct part {
        const uint8_t *bytes;
        size_t size;
};

static bool take(struct part *from, size_t size, struct part *ret)
{
        if (from->size < size)
                return false;
        *ret = (struct part){from->bytes, size};
        from->bytes += size;
        from->size -= size;
        return true;
}

static bool take_number(struct part *from, unsigned n_bytes, size_t *ret)
{
        struct part number;

        if (!take(from, n_bytes, &number))
                return false;
        *ret = 0;
        for (unsigned i = 0; i < n_bytes; i++)
                *ret = *ret << 8 | number.bytes[i];
        return true;
}

/* Bytes behind their number, which takes n_bytes itself. */
static bool take_vector(struct part *from, unsigned n_bytes, struct part *ret)
{
        size_t size;

        return take_number(from, n_bytes, &size) && take(from, size, ret);
}

static bool parse_server_name(struct part extension, struct hello *ret)
{
        struct part list, name;
        size_t type;

        if (!take_vector(&extension, 2, &list) || extension.size > 0)
                return false;
        /* One name: servers differ in which of several they take. */
        if (!take_number(&list, 1, &type) || type != SERVER_NAME_HOST || !take_vector(&list, 2, &name) || list.size > 0)
                return false;
        if (name.size == 0 || name.size >= sizeof(ret->name))
                return false;
        for (size_t i = 0; i < name.size; i++)
                if (name.bytes[i] <= ' ' || name.bytes[i] >= 0x7f)
                        return false;
        memcpy(ret->name, name.bytes, name.size);
        ret->name[name.size] = '\0';
        ret->has_name = true;
        return true;
}

static bool parse_extensions(struct part extensions, struct hello *ret)
{
        uint8_t seen[65536 / 8] = {};

        while (extensions.size > 0) {
                struct part extension;
                size_t type;

                if (!take_number(&extensions, 2, &type) || !take_vector(&extensions, 2, &extension))
                        return false;
                if (seen[type / 8] & 1U << type % 8)
                        return false;
                seen[type / 8] |= (uint8_t)(1U << type % 8);
                if (type == EXTENSION_SERVER_NAME && !parse_server_name(extension, ret))
                        return false;
                for (size_t i = 0; i < ARRAY_SIZE(encrypted_names); i++)
                        if (type == encrypted_names[i])
                                ret->has_ech = true;
        }
        return true;
}

/* A ClientHello without its head. */
static bool parse_message(struct part message, struct hello *ret)
{
        struct part random, session, ciphers, compressions, extensions;
        size_t version;

        /* TLS 1.3 says 1.2 here, and itself in an extension. */
        if (!take_number(&message, 2, &version) || version < 0x0301 || version > 0x0303)
                return false;
        if (!take(&message, 32, &random) || !take_vector(&message, 1, &session) || session.size > 32)
                return false;
        if (!take_vector(&message, 2, &ciphers) || ciphers.size == 0 || ciphers.size % 2 != 0)
                return false;
        if (!take_vector(&message, 1, &compressions) || compressions.size == 0 || !memchr(compressions.bytes, 0, compressions.size))
                return false;
        if (message.size == 0)
                return true; /* before there were extensions */
        return take_vector(&message, 2, &extensions) && message.size == 0 && parse_extensions(extensions, ret);
}

/* The head of a record, of which the first size bytes are there. is_first: something else than TLS may begin like this. */
static enum hello_result check_record(const uint8_t *head, size_t size, bool is_first)
{
        enum hello_result other = is_first ? HELLO_NOT_TLS : HELLO_BAD;

        if (size >= 1 && head[0] != RECORD_HANDSHAKE)
                return other;
        if (size >= 2 && head[1] != 3)
                return other;
        if (size >= 3 && (head[2] < 1 || head[2] > 4))
                return other;
        if (size < RECORD_HEAD)
                return HELLO_MORE;

        size_t length = (size_t)head[3] << 8 | head[4];
        return length == 0 || length > RECORD_MAX ? HELLO_BAD : HELLO_DONE;
}

/* What is there of a message, in size bytes; *ret_whole: how long it will be, or SIZE_MAX as long as that is not known. */
static enum hello_result check_message(const uint8_t *message, size_t size, size_t *ret_whole)
{
        *ret_whole = SIZE_MAX;
        if (size >= 1 && message[0] != MESSAGE_CLIENT_HELLO)
                return HELLO_BAD;
        if (size < MESSAGE_HEAD)
                return HELLO_MORE;
        *ret_whole = MESSAGE_HEAD + ((size_t)message[1] << 16 | (size_t)message[2] << 8 | message[3]);
        return *ret_whole + RECORD_HEAD > EGRESS_HELLO_MAX ? HELLO_BAD : HELLO_MORE;
}

enum hello_result hello_parse(const uint8_t *bytes, size_t size, struct hello *ret)
{
        uint8_t message[EGRESS_HELLO_MAX];
        size_t at = 0, have = 0, whole;
        struct hello hello = {};

        for (;;) {
                enum hello_result r = check_record(bytes + at, size - at, at == 0);
                if (r != HELLO_DONE)
                        return r;

                size_t length = (size_t)bytes[at + 3] << 8 | bytes[at + 4];
                at += RECORD_HEAD;
                if (length > EGRESS_HELLO_MAX - at)
                        return HELLO_BAD;
                size_t there = MIN(length, size - at);
                memcpy(message + have, bytes + at, there);

                /* It ends where a record ends: nothing else may stand behind it there. */
                r = check_message(message, have + there, &whole);
                if (r != HELLO_MORE || (whole != SIZE_MAX && have + length > whole))
                        return HELLO_BAD;
                if (there < length)
                        return HELLO_MORE;
                at += length;
                have += length;
                if (have == whole)
                        break;
                if (at + RECORD_HEAD + 1 > EGRESS_HELLO_MAX)
                        return HELLO_BAD;
        }
        if (!parse_message((struct part){message + MESSAGE_HEAD, have - MESSAGE_HEAD}, &hello))
                return HELLO_BAD;
        *ret = hello;
        return HELLO_DONE;
}
