/* SPDX-License-Identifier: Apache-2.0
 *
 * After the paper of Aumasson and Bernstein, "SipHash: a fast short-input PRF". */
#include "base/siphash.h"

#include <string.h>

struct state {
        uint64_t v0, v1, v2, v3;
};

static uint64_t turn(uint64_t x, int bits)
{
        return x << bits | x >> (64 - bits);
}

static void mix(struct state *s)
{
        s->v0 += s->v1;
        s->v1 = turn(s->v1, 13) ^ s->v0;
        s->v0 = turn(s->v0, 32);
        s->v2 += s->v3;
        s->v3 = turn(s->v3, 16) ^ s->v2;
        s->v0 += s->v3;
        s->v3 = turn(s->v3, 21) ^ s->v0;
        s->v2 += s->v1;
        s->v1 = turn(s->v1, 17) ^ s->v2;
        s->v2 = turn(s->v2, 32);
}

static void take(struct state *s, uint64_t word)
{
        s->v3 ^= word;
        mix(s);
        mix(s);
        s->v0 ^= word;
}

uint64_t siphash(const uint64_t key[static 2], const uint64_t *head, size_t n_head, const void *bytes, size_t size)
{
        struct state s = {
                key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL, key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL,
        };
        const unsigned char *at = bytes;
        size_t left = size;
        uint64_t last = (uint64_t)(8 * n_head + size) << 56, word;

        for (size_t i = 0; i < n_head; i++)
                take(&s, head[i]);
        for (; left >= sizeof(word); at += sizeof(word), left -= sizeof(word)) {
                memcpy(&word, at, sizeof(word)); /* the machines we run on are little-endian */
                take(&s, word);
        }
        for (size_t i = 0; i < left; i++)
                last |= (uint64_t)at[i] << 8 * i;
        take(&s, last);
        s.v2 ^= 0xff;
        for (int i = 0; i < 4; i++)
                mix(&s);
        return s.v0 ^ s.v1 ^ s.v2 ^ s.v3;
}
