/* SPDX-License-Identifier: Apache-2.0 */
#include "base/path_set.h"

#include "base/macro.h"
#include "base/siphash.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

#define FIRST_SLOTS 1024

struct path_set {
        uint64_t *slots; /* 0: free; else a hash whose last bit says that it is a directory */
        size_t n_slots;  /* a power of two, at least twice n */
        size_t n, max;
        uint64_t key[2];
};

void path_set_free(struct path_set *s)
{
        if (s)
                free(s->slots);
        free(s);
}

int path_set_new(size_t max, struct path_set **ret)
{
        struct path_set *s = calloc(1, sizeof(*s));

        if (s) {
                *s = (struct path_set){.n_slots = FIRST_SLOTS, .max = max, .slots = calloc(FIRST_SLOTS, sizeof(uint64_t))};
                if (s->slots && getrandom(s->key, sizeof(s->key), 0) == sizeof(s->key)) {
                        *ret = s;
                        return 0;
                }
        }
        path_set_free(s);
        return -ENOMEM;
}

size_t path_set_size(const struct path_set *s)
{
        return s->n;
}

static uint64_t *find(uint64_t *slots, size_t n_slots, uint64_t key)
{
        size_t i = (size_t)(key >> 1) & (n_slots - 1);

        while (slots[i] != 0 && (slots[i] | 1) != (key | 1))
                i = (i + 1) & (n_slots - 1);
        return &slots[i];
}

static int grow(struct path_set *s)
{
        if ((s->n + 1) * 2 <= s->n_slots)
                return 0;
        uint64_t *slots = calloc(s->n_slots * 2, sizeof(*slots));
        if (!slots)
                return -ENOMEM;
        for (size_t i = 0; i < s->n_slots; i++)
                if (s->slots[i] != 0)
                        *find(slots, s->n_slots * 2, s->slots[i]) = s->slots[i];
        free(s->slots);
        s->slots = slots;
        s->n_slots *= 2;
        return 0;
}

/* Never one that means a free slot. */
static uint64_t key_of(uint64_t hash, bool directory)
{
        uint64_t key = (hash & ~1ULL) | directory;

        return key <= 1 ? 2 | directory : key;
}

static int add(struct path_set *s, uint64_t hash, bool directory)
{
        uint64_t key = key_of(hash, directory);

        int r = grow(s);
        if (r < 0)
                return r;
        uint64_t *slot = find(s->slots, s->n_slots, key);
        if (*slot != 0)
                return directory && *slot == key ? 0 : -EEXIST;
        if (s->n == s->max)
                return -E2BIG;
        *slot = key;
        s->n++;
        return 0;
}

/* Of the path so far and its next name. The key is secret: who could choose names that meet would make every look long. */
static uint64_t hash_name(const struct path_set *s, uint64_t before, const char *name, size_t size)
{
        return siphash(s->key, &before, 1, name, size);
}

int path_set_add(struct path_set *s, const char *path, bool directory)
{
        uint64_t hash = 0;

        for (;;) {
                size_t n = strcspn(path, "/");
                hash = hash_name(s, hash, path, n);
                if (path[n] == '\0')
                        return add(s, hash, directory);
                int r = add(s, hash, true); /* a directory on the way */
                if (r < 0)
                        return r;
                path += n + 1;
        }
}

bool path_set_has(const struct path_set *s, const char *path)
{
        uint64_t hash = 0;

        for (size_t n;; path += n + 1) {
                n = strcspn(path, "/");
                hash = hash_name(s, hash, path, n);
                if (path[n] == '\0')
                        return *find(s->slots, s->n_slots, key_of(hash, false)) != 0;
        }
}
