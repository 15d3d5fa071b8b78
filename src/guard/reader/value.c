/* SPDX-License-Identifier: Apache-2.0 */
#include "guard/reader/state.h"

#include "base/macro.h"

#include <string.h>

bool reader_spend(struct reader *r, size_t bytes)
{
        if (bytes <= r->work) {
                r->work -= bytes;
                return true;
        }
        r->work = 0;
        r->too_much = true;
        return false;
}

/* Not aligned; lists see to that themselves. */
char *reader_allocate(struct reader *r, size_t size)
{
        if (size > (size_t)(r->end - r->top)) {
                r->too_much = true;
                return NULL;
        }
        char *p = r->top;
        r->top += size;
        return p;
}

struct value value_unknown(struct place place)
{
        return (struct value){.kind = VALUE_UNKNOWN, .place = place};
}

struct value value_text(const char *text, size_t size, struct place place)
{
        return (struct value){.kind = VALUE_TEXT, .place = place, .text = text, .size = (uint32_t)size};
}

struct value value_name(const char *text, size_t size, struct place place)
{
        return (struct value){.kind = VALUE_NAME, .place = place, .text = text, .size = (uint32_t)size};
}

struct value value_number(int64_t number, struct place place)
{
        return (struct value){.kind = VALUE_NUMBER, .place = place, .number = number};
}

struct value value_digits(struct reader *r, const struct value *number)
{
        char digits[24];
        size_t n = sizeof(digits);
        uint64_t left = number->number < 0 ? -(uint64_t)number->number : (uint64_t)number->number;

        do
                digits[--n] = (char)('0' + left % 10);
        while ((left /= 10) > 0);
        if (number->number < 0)
                digits[--n] = '-';
        char *p = reader_allocate(r, sizeof(digits) - n);
        if (!p)
                return value_unknown(number->place);
        memcpy(p, digits + n, sizeof(digits) - n);
        return value_text(p, sizeof(digits) - n, number->place);
}

struct value value_list(struct reader *r, uint32_t base, struct place place)
{
        struct value list = {.kind = VALUE_LIST, .place = place};
        size_t n = r->n_stack - base, kept = MIN(n, (size_t)READER_LIST_MAX);

        for (size_t i = kept; i < n; i++)
                reader_show(r, &r->stack[base + i]);
        if (kept < n || r->n_stack == READER_STACK_MAX)
                list.flags |= VALUE_CUT;
        size_t pad = (size_t)(-(uintptr_t)r->top & (_Alignof(struct value) - 1));
        char *p = reader_allocate(r, pad + kept * sizeof(struct value));
        if (p) {
                list.members = (struct value *)(void *)(p + pad);
                list.size = (uint32_t)kept;
                memcpy(list.members, &r->stack[base], kept * sizeof(struct value));
        } else {
                for (size_t i = 0; i < kept; i++)
                        reader_show(r, &r->stack[base + i]);
                list = value_unknown(place);
        }
        r->n_stack = base;
        return list;
}

bool value_is_exact(const struct value *v)
{
        return v->kind == VALUE_TEXT && !(v->flags & VALUE_HOLES);
}

void reader_push(struct reader *r, struct value *v)
{
        if (r->n_stack < READER_STACK_MAX)
                r->stack[r->n_stack++] = *v;
        else
                reader_show(r, v);
}

/* ---- texts ---- */

void text_append(struct reader *r, struct value *v, const char *text, size_t size)
{
        if (v->kind != VALUE_TEXT) {
                struct place place = v->place;
                reader_show(r, v);
                *v = value_text("{}", 2, place);
                v->flags = VALUE_HOLES;
        }
        if ((size_t)v->size + size > READER_TEXT_BYTES_MAX) {
                /* Too long for one: what there is is told, and it goes on behind a hole. */
                reader_show(r, v);
                struct place place = v->place;
                *v = value_text("{}", 2, place);
                v->flags = VALUE_HOLES;
                if (size > READER_TEXT_BYTES_MAX - 2) {
                        reader_tell(r, READER_STRING, place, text, size);
                        return;
                }
        }
        v->flags &= VALUE_HOLES;
        v->path = NULL;
        if (v->size == 0) {
                v->text = text;
                v->size = (uint32_t)size;
                return;
        }
        if (size == 0)
                return;
        if (v->text + v->size == text) { /* it was made right behind */
                v->size += (uint32_t)size;
                return;
        }
        bool grows = v->text + v->size == r->top && v->text >= r->arena;
        size_t cost = size + (grows ? 0 : v->size);
        char *p = reader_spend(r, cost) ? reader_allocate(r, cost) : NULL;
        if (!p) {
                reader_show(r, v);
                *v = value_text(text, size, v->place);
                return;
        }
        if (!grows) {
                memcpy(p, v->text, v->size);
                v->text = p;
                p += v->size;
        }
        memcpy(p, text, size);
        v->size += (uint32_t)size;
}

void text_append_hole(struct reader *r, struct value *v)
{
        text_append(r, v, "{}", 2);
        v->flags |= VALUE_HOLES;
}

void text_append_value(struct reader *r, struct value *v, struct value *more)
{
        uint8_t holes = more->flags & VALUE_HOLES;

        if (more->kind != VALUE_TEXT) {
                reader_show(r, more);
                text_append_hole(r, v);
                return;
        }
        text_append(r, v, more->text, more->size);
        v->flags |= holes;
}

/* ---- items ---- */

void reader_tell(struct reader *r, enum reader_kind kind, struct place place, const char *text, size_t size)
{
        if (size == 0)
                return;
        if (r->n_told >= READER_ITEMS_MAX || r->told_bytes + size > READER_ANSWER_BYTES_MAX) {
                r->full = r->too_much = true;
                return;
        }
        r->n_told++;
        r->told_bytes += size;
        r->items[r->n_items++] = (struct item){.kind = kind, .place = place, .text = text, .size = (uint32_t)size};
}

static bool is_hollow(const struct value *v)
{
        return (v->flags & VALUE_HOLES) && v->size == 2;
}

/* A path that goes a detour is told without it, too: /etc/./x, /a/../etc/x, /etc//x. */
static void tell_straight(struct reader *r, const struct value *v)
{
        const char *text = v->text, *end = text + v->size;
        bool detour = v->size > 2 && v->size <= READER_PATH_BYTES_MAX && (text[0] == '/' || text[0] == '~' || text[0] == '.') &&
                      (memmem(text, v->size, "//", 2) || memmem(text, v->size, "/./", 3) || memmem(text, v->size, "/../", 4));
        char *out = detour && reader_spend(r, v->size) ? reader_allocate(r, v->size) : NULL;
        size_t used = 0;

        while (out && text < end) {
                const char *slash = memchr(text, '/', (size_t)(end - text));
                size_t n = (size_t)((slash ? slash : end) - text);
                if (n == 2 && memcmp(text, "..", 2) == 0 && used > 1) {
                        used--;
                        while (used > 0 && out[used - 1] != '/')
                                used--;
                } else if (!(n == 1 && *text == '.') && !(n == 0 && used > 0)) {
                        memcpy(out + used, text, n);
                        used += n;
                        if (slash)
                                out[used++] = '/';
                }
                text += n + (slash ? 1 : 0);
        }
        reader_tell(r, READER_STRING, v->place, out, used);
}

void reader_show(struct reader *r, struct value *v)
{
        if (v->flags & VALUE_SHOWN)
                return;
        v->flags |= VALUE_SHOWN;
        if (v->kind == VALUE_TEXT && !is_hollow(v)) {
                reader_tell(r, READER_STRING, v->place, v->text, v->size);
                tell_straight(r, v);
        }
        if (v->kind != VALUE_LIST && v->kind != VALUE_DICT)
                return;
        /* Lists in lists are as deep as the brackets were. */
        for (uint32_t i = 0; i < v->size; i++)
                reader_show(r, &v->members[i]);
}

static bool is_before(const struct item *a, const struct item *b)
{
        return a->place.line != b->place.line ? a->place.line < b->place.line : a->place.column < b->place.column;
}

/* Merges runs that double each time; equal ones stay in their order. */
static void sort_items(struct reader *r)
{
        size_t n = r->n_items;
        struct item *from = r->items, *to = r->sorted;
        bool sorted = true;

        for (size_t i = 1; sorted && i < n; i++)
                sorted = !is_before(&from[i], &from[i - 1]);
        for (size_t run = 1; !sorted && run < n; run *= 2) {
                for (size_t base = 0; base < n; base += 2 * run) {
                        size_t a = base, middle = MIN(base + run, n), b = middle, last = MIN(base + 2 * run, n);
                        for (size_t k = base; k < last; k++)
                                to[k] = a < middle && (b >= last || !is_before(&from[b], &from[a])) ? from[a++] : from[b++];
                }
                struct item *other = from;
                from = to;
                to = other;
        }
        if (from != r->items)
                memcpy(r->items, from, n * sizeof(*from));
}

void reader_flush(struct reader *r)
{
        sort_items(r);
        for (uint32_t i = 0; i < r->n_items; i++)
                r->sink(r->data, r->items[i].kind, r->items[i].place.line, r->items[i].place.column, r->items[i].text, r->items[i].size);
        r->n_items = 0;
        r->n_stack = 0;
        if (!r->kept)
                r->top = r->mark;
        r->mark = r->top;
        r->kept = false;
}

/* ---- names ---- */

/* The place of a name, or a free one; NULL: neither is near. */
static struct slot *find_slot(struct reader *r, const char *path, size_t size)
{
        uint32_t hash = 2166136261u;

        for (size_t i = 0; i < size; i++)
                hash = (hash ^ (unsigned char)path[i]) * 16777619u;
        hash ^= hash >> 15;
        for (uint32_t i = 0; i < READER_PROBES_MAX; i++) {
                struct slot *s = &r->names[(hash + i) & r->name_mask];
                if (!s->key || (s->size == size && memcmp(s->key, path, size) == 0))
                        return s;
        }
        return NULL;
}

/* Whether the end of it lies in what was made for this statement; its beginning need not. */
static bool is_new(const struct reader *r, const void *p, size_t size)
{
        uintptr_t end = (uintptr_t)p + size;

        return end > (uintptr_t)r->mark && end <= (uintptr_t)r->end;
}

void reader_assign(struct reader *r, const char *path, size_t size, const struct value *v)
{
        if (!path || size == 0 || size > READER_NAME_BYTES_MAX)
                return;
        struct slot *s = find_slot(r, path, size);
        if (!s) {
                r->too_much = true;
                return;
        }
        if (!s->key) {
                s->key = path;
                s->size = (uint32_t)size;
                r->named = r->name_mask + 1;
                r->kept |= is_new(r, path, size);
        }
        s->gone = false;
        s->value = *v;
        s->value.path = NULL;
        s->value.flags &= VALUE_HOLES | VALUE_CUT;
        s->value.flags |= VALUE_SHOWN;
        if (v->kind == VALUE_TEXT || v->kind == VALUE_NAME)
                r->kept |= is_new(r, v->text, v->size);
        else if (v->kind == VALUE_LIST || v->kind == VALUE_DICT)
                r->kept |= is_new(r, v->members, v->size * sizeof(struct value));
        if (v->call)
                r->kept |= is_new(r, v->call, v->call_size);
}

void reader_forget_name(struct reader *r, const char *path, size_t size)
{
        struct slot *s = path && size > 0 && size <= READER_NAME_BYTES_MAX ? find_slot(r, path, size) : NULL;

        if (s && s->key)
                s->gone = true;
}

bool reader_find(struct reader *r, const char *path, size_t size, struct value *ret)
{
        if (size == 0 || size > READER_NAME_BYTES_MAX)
                return false;
        const struct slot *s = find_slot(r, path, size);
        if (!s || !s->key || s->gone)
                return false;
        *ret = s->value;
        return true;
}
