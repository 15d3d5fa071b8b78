/* SPDX-License-Identifier: Apache-2.0
 *
 * Methods of texts. */
#include "guard/reader/state.h"

#include "base/macro.h"

#include <string.h>

static bool text_is(const struct value *v, const char *text)
{
        return value_is_exact(v) && v->size == strlen(text) && memcmp(v->text, text, v->size) == 0;
}

/* ---- formatting ---- */

/* What is put in for a field. */
static void append_field(struct reader *r, struct value *v, struct value *arg)
{
        struct value text = arg && arg->kind == VALUE_NUMBER ? value_digits(r, arg) : value_unknown(v->place);

        if (!arg)
                text_append_hole(r, v);
        else
                text_append_value(r, v, arg->kind == VALUE_NUMBER ? &text : arg);
}

static struct value *find_keyword(struct value *args, uint32_t n, const char *name, size_t size)
{
        for (uint32_t i = 0; i < n; i++)
                if (args[i].flags & VALUE_KEYWORD && args[i].path && args[i].path_size == size && memcmp(args[i].path, name, size) == 0)
                        return &args[i];
        return NULL;
}

/* The field that begins at text: a number, a name, or the next. */
static struct value *find_field(const char *text, size_t size, uint32_t *next, struct value *args, uint32_t n)
{
        uint32_t index = 0;
        size_t i = 0;

        if (size == 0)
                return *next < n && !(args[*next].flags & VALUE_KEYWORD) ? &args[(*next)++] : NULL;
        while (i < size && text[i] >= '0' && text[i] <= '9' && index < 100000)
                index = index * 10 + (uint32_t)(text[i++] - '0');
        if (i == size)
                return index < n ? &args[index] : NULL;
        return find_keyword(args, n, text, size);
}

static bool format(struct reader *r, struct value *v, struct value *args, uint32_t n)
{
        struct value out = value_text("", 0, v->place);
        const char *at = v->text, *end = v->text + v->size;
        uint32_t next = 0;

        /* Names are searched for: as long as few were given that costs little. */
        if (v->flags & VALUE_HOLES || !reader_spend(r, v->size + (size_t)v->size / 8 * MIN(n, 64u)))
                return false;
        while (at < end) {
                const char *stop = at;
                while (stop < end && *stop != '{' && *stop != '}')
                        stop++;
                text_append(r, &out, at, (size_t)(stop - at));
                if (stop >= end)
                        break;
                if (stop + 1 < end && stop[1] == *stop) {
                        text_append(r, &out, stop, 1);
                        at = stop + 2;
                        continue;
                }
                const char *close = memchr(stop, '}', MIN((size_t)(end - stop), (size_t)READER_NAME_BYTES_MAX));
                if (!reader_spend(r, 8))
                        return false;
                if (*stop == '}' || !close) {
                        text_append(r, &out, stop, 1);
                        at = stop + 1;
                        continue;
                }
                size_t size = 0;
                while (stop + 1 + size < close && !strchr("!:.[", stop[1 + size]))
                        size++;
                append_field(r, &out, find_field(stop + 1, size, &next, args, MIN(n, 64u)));
                at = close + 1;
        }
        for (uint32_t i = 0; i < n; i++)
                if (args[i].kind != VALUE_TEXT || i >= 64)
                        reader_show(r, &args[i]);
        *v = out;
        return true;
}

static struct value *find_key(struct reader *r, struct value *args, const char *name, size_t size)
{
        if (args->kind != VALUE_DICT || !reader_spend(r, args->size * sizeof(*args)))
                return NULL;
        for (uint32_t i = 0; i + 1 < args->size; i += 2)
                if (value_is_exact(&args->members[i]) && args->members[i].size == size && memcmp(args->members[i].text, name, size) == 0)
                        return &args->members[i + 1];
        return NULL;
}

/* One % and what belongs to it; returns where it ends. */
static const char *percent_field(struct reader *r, struct value *out, const char *at, const char *end, struct value *args, uint32_t *next)
{
        struct value *arg = NULL;
        const char *close = at < end && *at == '(' ? memchr(at, ')', MIN((size_t)(end - at), (size_t)READER_NAME_BYTES_MAX)) : NULL;

        if (close) {
                arg = find_key(r, args, at + 1, (size_t)(close - at) - 1);
                at = close + 1;
        }
        while (at < end && *at && strchr("#0-+ .123456789*", *at))
                at++;
        if (at < end && *at == '%') {
                text_append(r, out, "%", 1);
                return at + 1;
        }
        if (args->kind == VALUE_LIST)
                arg = *next < args->size ? &args->members[(*next)++] : NULL;
        else if (args->kind != VALUE_DICT && (*next)++ == 0)
                arg = args;
        if (at < end && *at == 'c' && arg && arg->kind == VALUE_NUMBER && arg->number > 0 && arg->number < 0x80) {
                char *p = reader_allocate(r, 1);
                if (p) {
                        *p = (char)arg->number;
                        text_append(r, out, p, 1);
                }
        } else {
                append_field(r, out, arg);
        }
        return at < end ? at + 1 : end;
}

bool fold_percent(struct reader *r, struct value *v, struct value *args)
{
        struct value out = value_text("", 0, v->place);
        const char *at = v->text, *end = v->text + v->size;
        uint32_t next = 0;

        if (!reader_spend(r, v->size))
                return false;
        out.flags |= v->flags & VALUE_HOLES;
        while (at < end) {
                const char *stop = memchr(at, '%', (size_t)(end - at));
                if (!stop)
                        stop = end;
                if (!reader_spend(r, 8))
                        return false;
                text_append(r, &out, at, (size_t)(stop - at));
                at = stop < end ? percent_field(r, &out, stop + 1, end, args, &next) : end;
        }
        /* Members that were put in are told with it; a name in a dictionary is none of them. */
        if (args->kind == VALUE_DICT)
                reader_show(r, args);
        for (uint32_t i = next; args->kind == VALUE_LIST && i < args->size; i++)
                reader_show(r, &args->members[i]);
        *v = out;
        return true;
}

/* ---- others ---- */

static bool join(struct reader *r, struct value *v, struct value *list)
{
        struct value out = value_text("", 0, v->place);

        if (list->kind == VALUE_TEXT && v->size == 0) {
                struct place place = v->place;
                *v = *list;
                v->place = place;
                v->flags &= VALUE_HOLES;
                return true;
        }
        if (list->kind != VALUE_LIST || v->flags & VALUE_HOLES || !reader_spend(r, list->size))
                return false;
        for (uint32_t i = 0; i < list->size; i++) {
                if (i > 0)
                        text_append(r, &out, v->text, v->size);
                text_append_value(r, &out, &list->members[i]);
        }
        if (list->flags & VALUE_CUT)
                text_append_hole(r, &out);
        *v = out;
        return true;
}

static bool replace(struct reader *r, struct value *v, const struct value *from, const struct value *to)
{
        struct value out = value_text("", 0, v->place);
        const char *at = v->text, *end = v->text + v->size;

        if (!value_is_exact(from) || to->kind != VALUE_TEXT || from->size == 0 || !reader_spend(r, v->size + (size_t)from->size))
                return false;
        out.flags |= (v->flags | to->flags) & VALUE_HOLES;
        while (at < end) {
                const char *hit = memmem(at, (size_t)(end - at), from->text, from->size);
                text_append(r, &out, at, (size_t)((hit ? hit : end) - at));
                if (!hit)
                        break;
                if (!reader_spend(r, 8))
                        return false;
                text_append(r, &out, to->text, to->size);
                at = hit + from->size;
        }
        *v = out;
        return true;
}

static bool change_case(struct reader *r, struct value *v, char how)
{
        char *p = reader_spend(r, v->size) ? reader_allocate(r, v->size) : NULL;
        bool starts = true;

        if (!p)
                return false;
        for (uint32_t i = 0; i < v->size; i++) {
                char c = v->text[i], low = c | 0x20;
                bool letter = low >= 'a' && low <= 'z';
                bool upper = how == 'u' || (how == 's' && c == low) || ((how == 't' || how == 'c') && starts);
                p[i] = !letter ? c : upper ? (char)(c & ~0x20) : low;
                starts = how == 't' && !letter;
        }
        v->text = p;
        return true;
}

static bool strip(struct reader *r, struct value *v, const struct value *chars, bool left, bool right)
{
        static const char blanks[] = " \t\n\r\f\v";
        struct value set = chars && value_is_exact(chars) ? *chars : value_text(blanks, sizeof(blanks) - 1, v->place);

        if (set.size > 64 || !reader_spend(r, 4 * (size_t)v->size))
                return false;
        while (left && v->size > 0 && memchr(set.text, v->text[0], set.size)) {
                v->text++;
                v->size--;
        }
        while (right && v->size > 0 && memchr(set.text, v->text[v->size - 1], set.size))
                v->size--;
        return true;
}

bool fold_codec(struct reader *r, struct value *v, const struct value *codec)
{
        static const struct {
                const char *name;
                bool (*decode)(struct reader *r, struct value *v);
        } codecs[] = {
                {"rot13", decode_rot13}, {"rot_13", decode_rot13}, {"rot-13", decode_rot13}, {"hex", decode_hex}, {"hex_codec", decode_hex},
                {"base64", decode_base64}, {"base64_codec", decode_base64}, {"base-64", decode_base64},
        };

        for (size_t i = 0; codec && i < ARRAY_SIZE(codecs); i++)
                if (text_is(codec, codecs[i].name))
                        return codecs[i].decode(r, v);
        return true; /* an encoding of characters: the text stays what it is */
}

enum method { SAME, FORMAT, JOIN, REPLACE, LOWER, UPPER, TITLE, CAPITAL, SWAP, STRIP, LSTRIP, RSTRIP, DECODE, JOINPATH };

static const struct {
        const char *name;
        enum method method;
} methods[] = {
        {"format", FORMAT}, {"join", JOIN}, {"replace", REPLACE}, {"lower", LOWER}, {"casefold", LOWER}, {"upper", UPPER}, {"title", TITLE},
        {"capitalize", CAPITAL}, {"swapcase", SWAP}, {"strip", STRIP}, {"lstrip", LSTRIP}, {"rstrip", RSTRIP}, {"decode", DECODE},
        {"encode", DECODE}, {"joinpath", JOINPATH}, {"expanduser", SAME}, {"resolve", SAME}, {"absolute", SAME}, {"as_posix", SAME},
        {"__str__", SAME}, {"tobytes", SAME}, {"expandtabs", SAME},
};

/* A text that is put into another by an argument is not told by itself; the others are. */
static void show_rest(struct reader *r, struct value *args, uint32_t n, uint32_t used)
{
        for (uint32_t i = used; i < n; i++)
                reader_show(r, &args[i]);
}

static bool call_method(struct reader *r, struct value *v, enum method m, struct value *args, uint32_t n)
{
        switch (m) {
        case SAME:
                return true;
        case FORMAT:
                return format(r, v, args, n);
        case JOIN:
                return n == 1 && join(r, v, &args[0]);
        case REPLACE:
                return n >= 2 && replace(r, v, &args[0], &args[1]);
        case LOWER:
                return change_case(r, v, 'l');
        case UPPER:
                return change_case(r, v, 'u');
        case TITLE:
                return change_case(r, v, 't');
        case CAPITAL:
                return change_case(r, v, 'c');
        case SWAP:
                return change_case(r, v, 's');
        case STRIP:
        case LSTRIP:
        case RSTRIP:
                return strip(r, v, n ? args : NULL, m != RSTRIP, m != LSTRIP);
        case DECODE:
                return fold_codec(r, v, n ? args : NULL);
        case JOINPATH:
                for (uint32_t i = 0; i < n; i++)
                        fold_join_path(r, v, &args[i]);
                return true;
        }
        return false;
}

bool fold_method(struct reader *r, struct value *v, const char *name, size_t size, struct value *args, uint32_t n)
{
        for (size_t i = 0; i < ARRAY_SIZE(methods); i++) {
                if (methods[i].name[0] != name[0] || strlen(methods[i].name) != size || memcmp(methods[i].name, name, size) != 0)
                        continue;
                if (!call_method(r, v, methods[i].method, args, n))
                        return false;
                if (methods[i].method == SAME)
                        show_rest(r, args, n, 0);
                v->flags &= VALUE_HOLES;
                v->path = NULL;
                return true;
        }
        return false;
}
