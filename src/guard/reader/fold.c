/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators. */
#include "guard/reader/state.h"

#include <string.h>

/* ---- texts ---- */

/* As os.path.join() does it, but that what is not known may be anything. */
void fold_join_path(struct reader *r, struct value *v, struct value *more)
{
        bool absolute = more->kind == VALUE_TEXT && more->size > 0 && more->text[0] == '/';

        if (absolute) {
                struct place place = v->place;
                reader_show(r, v);
                *v = *more;
                v->place = place;
                return;
        }
        if (v->kind != VALUE_TEXT || (v->size > 0 && v->text[v->size - 1] != '/'))
                text_append(r, v, "/", 1);
        text_append_value(r, v, more);
}

static bool is_ascii(struct reader *r, const struct value *v)
{
        if (!reader_spend(r, v->size))
                return false;
        for (uint32_t i = 0; i < v->size; i++)
                if ((unsigned char)v->text[i] >= 0x80)
                        return false;
        return true;
}

static void repeat(struct reader *r, struct value *v, int64_t times)
{
        size_t most = v->size > 0 ? READER_TEXT_BYTES_MAX / v->size : 0, n = times <= 0 ? 0 : (uint64_t)times > most ? most : (size_t)times;
        size_t size = n * v->size;
        uint8_t holes = v->flags & VALUE_HOLES;

        if (v->size == 0 || n == 1)
                return;
        if ((uint64_t)(times > 0 ? times : 0) > n)
                holes = VALUE_HOLES; /* more of the same tells nothing new */
        char *p = n > 0 && reader_spend(r, size) ? reader_allocate(r, size) : NULL;
        if (p) {
                memcpy(p, v->text, v->size);
                for (size_t done = v->size; done < size; done *= 2)
                        memcpy(p + done, p, done < size - done ? done : size - done);
        } else if (times > 0) {
                v->flags |= VALUE_HOLES;
                return;
        }
        struct place place = v->place;
        *v = value_text(p ? p : "", p ? size : 0, place);
        v->flags = holes;
}

/* ---- numbers ---- */

static bool calculate(uint32_t op, int64_t a, int64_t b, int64_t *ret)
{
        switch (op) {
        case '+':
                return !__builtin_add_overflow(a, b, ret);
        case '-':
                return !__builtin_sub_overflow(a, b, ret);
        case '*':
                return !__builtin_mul_overflow(a, b, ret);
        case '^':
                *ret = a ^ b;
                return true;
        case '|':
                *ret = a | b;
                return true;
        case '&':
                *ret = a & b;
                return true;
        case '%':
        case OP2('/', '/'):
                if (a < 0 || b <= 0)
                        return false;
                *ret = op == '%' ? a % b : a / b;
                return true;
        case OP2('<', '<'):
                if (a < 0 || b < 0 || b > 62 || a > INT64_MAX >> b)
                        return false;
                *ret = (int64_t)((uint64_t)a << b);
                return true;
        case OP2('>', '>'):
                if (a < 0 || b < 0 || b > 62)
                        return false;
                *ret = a >> b;
                return true;
        case OP2('*', '*'):
                if (b < 0 || b > 64)
                        return false;
                for (*ret = 1; b > 0; b--)
                        if (__builtin_mul_overflow(*ret, a, ret))
                                return false;
                return true;
        default:
                return false;
        }
}

static bool add_lists(struct reader *r, struct value *left, struct value *right)
{
        uint32_t base = r->n_stack;
        uint8_t cut = (left->flags | right->flags) & VALUE_CUT;

        if (!reader_spend(r, ((size_t)left->size + right->size) * sizeof(struct value)))
                return false;
        for (uint32_t i = 0; i < left->size; i++)
                reader_push(r, &left->members[i]);
        for (uint32_t i = 0; i < right->size; i++)
                reader_push(r, &right->members[i]);
        *left = value_list(r, base, left->place);
        left->flags |= cut;
        return true;
}

static struct value drop_both(struct reader *r, struct value *left, struct value *right)
{
        reader_show(r, left);
        reader_show(r, right);
        return value_unknown(left->place);
}

static bool is_number(const struct value *v)
{
        return v->kind == VALUE_NUMBER;
}

struct value fold_binary(struct reader *r, uint32_t op, struct value *left, struct value *right)
{
        bool text_left = left->kind == VALUE_TEXT, text_right = right->kind == VALUE_TEXT;
        uint8_t lone = left->flags & right->flags & VALUE_LONE;
        int64_t number;

        if (is_number(left) && is_number(right))
                return calculate(op, left->number, right->number, &number) ? value_number(number, left->place) : value_unknown(left->place);
        if (op == '+' && left->kind == VALUE_LIST && right->kind == VALUE_LIST && add_lists(r, left, right))
                return *left;
        if (op == '+' && (text_left || text_right)) {
                text_append_value(r, left, right);
                left->flags |= lone;
                return *left;
        }
        if (op == '/' && (text_left || text_right)) {
                fold_join_path(r, left, right);
                return *left;
        }
        if (op == '*' && text_left && is_number(right)) {
                repeat(r, left, right->number);
                return *left;
        }
        if (op == '*' && is_number(left) && text_right) {
                repeat(r, right, left->number);
                right->place = left->place;
                return *right;
        }
        if (op == '%' && text_left && fold_percent(r, left, right))
                return *left;
        return drop_both(r, left, right);
}

/* ---- [..] ---- */

/* Python's rule: first, step and how many there are. */
static bool cut(const struct slice *s, int64_t size, int64_t *ret_first, int64_t *ret_step, int64_t *ret_n)
{
        int64_t step = s->has[2] ? s->number[2] : 1, low = step < 0 ? -1 : 0, high = step < 0 ? size - 1 : size;

        if (step == 0 || step == INT64_MIN)
                return false;
        int64_t ends[2] = {step < 0 ? high : 0, step < 0 ? -1 : size};
        for (int i = 0; i < 2; i++) {
                if (!s->has[i])
                        continue;
                ends[i] = s->number[i] < 0 ? (s->number[i] < -size ? low : s->number[i] + size) : s->number[i];
                ends[i] = ends[i] < low ? low : ends[i] > high ? high : ends[i];
        }
        *ret_first = ends[0];
        *ret_step = step;
        *ret_n = step > 0 ? (ends[1] > ends[0] ? (ends[1] - ends[0] - 1) / step + 1 : 0) : (ends[0] > ends[1] ? (ends[0] - ends[1] - 1) / -step + 1 : 0);
        return true;
}

static bool cut_text(struct reader *r, struct value *v, const struct slice *s)
{
        int64_t first, step, n;

        if (!value_is_exact(v) || !is_ascii(r, v) || !cut(s, v->size, &first, &step, &n))
                return false;
        struct place place = v->place;
        if (step == 1) {
                *v = value_text(v->text + first, (size_t)n, place);
                return true;
        }
        char *p = reader_spend(r, (size_t)n) ? reader_allocate(r, (size_t)n) : NULL;
        if (!p)
                return false;
        for (int64_t i = 0; i < n; i++)
                p[i] = v->text[first + i * step];
        *v = value_text(p, (size_t)n, place);
        return true;
}

static bool cut_list(struct reader *r, struct value *v, const struct slice *s)
{
        int64_t first, step, n;
        uint32_t base = r->n_stack;

        if (v->flags & VALUE_CUT || !cut(s, v->size, &first, &step, &n) || !reader_spend(r, (size_t)n * sizeof(*v)))
                return false;
        for (int64_t i = 0; i < n; i++)
                reader_push(r, &v->members[first + i * step]);
        *v = value_list(r, base, v->place);
        return true;
}

bool fold_reverse(struct reader *r, struct value *v)
{
        struct slice s = {.is_slice = true, .has[2] = true, .number[2] = -1};

        return v->kind == VALUE_TEXT ? cut_text(r, v, &s) : v->kind == VALUE_LIST && cut_list(r, v, &s);
}

static bool take_member(struct reader *r, struct value *v, const struct value *key)
{
        struct place place = v->place;
        int64_t i = key->number;

        if (v->kind == VALUE_LIST && is_number(key)) {
                i += i < 0 ? (int64_t)v->size : 0;
                if (i < 0 || i >= (int64_t)v->size)
                        return false;
                reader_show(r, v); /* the others, too */
                *v = v->members[i];
                v->place = place;
                v->path = NULL;
                return true;
        }
        if (v->kind != VALUE_DICT || !reader_spend(r, v->size * sizeof(*v)))
                return false;
        for (uint32_t k = 0; k + 1 < v->size; k += 2) {
                const struct value *own = &v->members[k];
                bool same = own->kind == key->kind &&
                            ((is_number(own) && own->number == key->number) ||
                             (value_is_exact(own) && own->size == key->size && memcmp(own->text, key->text, own->size) == 0));
                if (!same)
                        continue;
                reader_show(r, v);
                *v = v->members[k + 1];
                v->place = place;
                v->path = NULL;
                return true;
        }
        return false;
}

/* What modules and namespaces have under a name. */
static bool take_attribute(struct reader *r, struct value *v, const struct value *key)
{
        static const char dict[] = ".__dict__", vars[] = "vars()";
        size_t n = v->size;

        if (v->kind != VALUE_NAME || !value_is_exact(key))
                return false;
        if ((value_is(v, "os.environ") || value_is(v, "os.environb")) && key->size == 4 && memcmp(key->text, "HOME", 4) == 0) {
                *v = value_text("~", 1, v->place);
                return true;
        }
        if (value_is(v, "sys.modules") || value_is(v, "globals()") || value_is(v, "locals()") || value_is(v, vars) || value_is(v, "__builtins__") ||
            value_is(v, "__dict__")) { /* of the builtins: their name is left out */
                *v = value_name(key->text, key->size, v->place);
                return key->size <= READER_NAME_BYTES_MAX;
        }
        if (n <= sizeof(dict) - 1 || memcmp(v->text + n - (sizeof(dict) - 1), dict, sizeof(dict) - 1) != 0)
                return false;
        n -= sizeof(dict) - 2; /* the dot stays */
        char *p = n + key->size <= READER_NAME_BYTES_MAX ? reader_allocate(r, n + key->size) : NULL;
        if (!p)
                return false;
        memcpy(p, v->text, n);
        memcpy(p + n, key->text, key->size);
        *v = value_name(p, n + key->size, v->place);
        return true;
}

struct value fold_subscript(struct reader *r, struct value *v, struct value *key, const struct slice *s)
{
        v->path = NULL;
        if (s->is_slice) {
                reader_show(r, key);
                if (v->kind == VALUE_TEXT ? cut_text(r, v, s) : v->kind == VALUE_LIST && cut_list(r, v, s))
                        return *v;
        } else {
                if (value_is_exact(v) && is_number(key) && key->number > INT64_MIN && key->number < INT64_MAX) {
                        struct slice one = {.is_slice = true, .has = {true, key->number != -1}, .number = {key->number, key->number + 1}};
                        if (cut_text(r, v, &one))
                                return *v;
                }
                reader_show(r, key);
                if (take_member(r, v, key) || take_attribute(r, v, key))
                        return *v;
        }
        reader_show(r, v);
        return value_unknown(v->place);
}
