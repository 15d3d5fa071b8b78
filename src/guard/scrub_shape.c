/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether what begins like a secret is one: how far it goes, the pattern, what stands beside it, and then tests that chance does not pass. */
#include "guard/scrub_state.h"

#include "base/limits.h"

#include <math.h>
#include <string.h>

static bool in_set(const uint8_t set[static 32], unsigned char byte)
{
        return set[byte / 8] >> byte % 8 & 1;
}

static bool is_word(int c)
{
        return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '_';
}

static const struct shape_rule *rule_of(const struct shape_candidate *c)
{
        return &c->scrub->rules->shapes[c->start->rule];
}

/* ---- what stands before ---- */

static int hex_value(unsigned char c)
{
        return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Whether the bytes end in `before` and so many digits, which stand for what is no part of a word. */
static bool ends_in_code(const unsigned char *bytes, size_t n, const char *before, size_t digits, int base)
{
        size_t length = strlen(before);
        unsigned value = 0;

        if (n < length + digits || memcmp(bytes + n - digits - length, before, length) != 0)
                return false;
        for (size_t i = n - digits; i < n; i++) {
                int digit = hex_value(bytes[i]);
                if (digit < 0 || digit >= base)
                        return false;
                value = value * (unsigned)base + (unsigned)digit;
        }
        return value > 0x7f || !is_word((int)value);
}

/* \n and \t as two characters, \x0a, \u000a, \012, %0a: text that was a string in JSON or another language, or part of an address. */
static bool ends_in_escape(const unsigned char *bytes, size_t n)
{
        static const struct {
                const char *before;
                size_t digits;
                int base;
        } codes[] = {{"\\x", 2, 16}, {"\\u", 4, 16}, {"\\U", 8, 16}, {"\\", 3, 8}, {"%", 2, 16}};

        if (n >= 2 && bytes[n - 2] == '\\' && bytes[n - 1] && strchr("abefnrtv0", bytes[n - 1]))
                return true;
        for (size_t i = 0; i < ARRAY_SIZE(codes); i++)
                if (ends_in_code(bytes, n, codes[i].before, codes[i].digits, codes[i].base))
                        return true;
        return false;
}

static bool is_parameter(unsigned char c)
{
        return (c >= '0' && c <= '9') || c == ';' || c == ':' || c == '?';
}

/* What a terminal takes as a command, such as a colour: ESC [ 32 m, ESC ( B. */
static bool ends_in_command(const unsigned char *bytes, size_t n)
{
        size_t i = n - 1; /* its last byte is a letter */

        if (is_parameter(bytes[i]))
                return false;
        while (i > 0 && is_parameter(bytes[i - 1]))
                i--;
        if (i < 2 || (bytes[i - 1] != '[' && bytes[i - 1] != '('))
                return false;
        return bytes[i - 2] == 0x1b || ends_in_escape(bytes, i - 1);
}

/* No letter, digit or _ that is one. */
static bool is_word_before(const struct shape_candidate *c)
{
        unsigned char bytes[SHAPE_CONTEXT_BYTES];
        size_t own = MIN(c->at, sizeof(bytes)), older = MIN(c->context->n, sizeof(bytes) - own);

        if (own + older == 0 || !is_word(own > 0 ? c->text[c->at - 1] : c->context->bytes[c->context->n - 1]))
                return false;
        memcpy(bytes, c->context->bytes + c->context->n - older, older);
        memcpy(bytes + older, c->text + c->at - own, own);
        return !ends_in_escape(bytes, older + own) && !ends_in_command(bytes, older + own);
}

/* ---- how far it goes ---- */

/* What a candidate may cost that was none, counted in bytes: some for itself, and its length. In one run of bytes all of one rule together may cost what is spent
 * on WORK_SPARE and on WORK_PER_BYTE for each byte of the run. Nobody writes so many beginnings side by side but who wants to be slow. */
#define WORK_EACH 64
#define WORK_SPARE (64 * KIB)
#define WORK_PER_BYTE 8

/* Behind the last byte that may belong to it. Returns whether what comes can change that. Candidates of one rule in the same run of bytes look at these once. */
static bool find_end(const struct shape_candidate *c, size_t *ret)
{
        const struct shape_rule *r = rule_of(c);
        size_t first = c->at + c->start->size, limit = MIN(c->size, c->at + r->max);
        bool known = c->base + first >= c->run->from && c->base + first <= c->run->to;
        size_t i = MIN(known ? (size_t)(c->run->to - c->base) : first, limit);

        while (i < limit && in_set(r->chars, c->text[i]))
                i++;
        if (known)
                c->run->to = MAX(c->run->to, c->base + i);
        else
                *c->run = (struct shape_run){.from = c->base + first, .to = c->base + i};
        *ret = i;
        const char *end = r->end ? rules_text(c->scrub->rules, r->end) : NULL;
        const unsigned char *found = end && i > first ? memmem(c->text + first, i - first, end, strlen(end)) : NULL;
        if (found)
                *ret = (size_t)(found - c->text) + strlen(end);
        /* The byte behind it has a say as well. */
        return *ret < c->size || c->final;
}

/* Whether there is something left for a candidate, and counts it. One that had to wait for others of its place comes again, and is not counted twice: what is
 * found may not depend on how the text came. */
static bool may_try(const struct shape_candidate *c, size_t end)
{
        struct shape_run *run = c->run;
        uint64_t at = c->base + c->at, length = at > run->from ? at - run->from : 0;

        if (run->counted_start > 0 && at == run->counted_at && c->start->size <= run->counted_start)
                return true;
        if (run->spent > WORK_SPARE + WORK_PER_BYTE * length)
                return false;
        run->counted_at = at;
        run->counted_start = c->start->size;
        run->counted_cost = (uint32_t)(WORK_EACH + end - c->at);
        run->spent += run->counted_cost;
        return true;
}

/* It was one after all. */
static void uncount(const struct shape_candidate *c)
{
        struct shape_run *run = c->run;

        if (c->base + c->at != run->counted_at || c->start->size != run->counted_start)
                return;
        run->spent -= run->counted_cost;
        run->counted_cost = 0;
}

/* ---- the pattern ---- */

struct confirmation {
        unsigned whole, lead; /* numbers of the patterns */
        size_t whole_end, lead_end;
};

static int on_match(unsigned id, unsigned long long from, unsigned long long to, unsigned flags, void *data)
{
        struct confirmation *m = data;

        if (id == m->whole)
                m->whole_end = MAX(m->whole_end, (size_t)to);
        else if (id == m->lead)
                m->lead_end = MAX(m->lead_end, (size_t)to);
        return 0;
}

/* ---- what chance does not pass ---- */

static double entropy_of(const unsigned char *bytes, size_t size)
{
        unsigned counts[256] = {0};
        double bits = 0;

        for (size_t i = 0; i < size; i++)
                counts[bytes[i]]++;
        for (size_t i = 0; i < 256; i++)
                if (counts[i] > 0)
                        bits -= counts[i] * log2((double)counts[i] / (double)size);
        return size > 0 ? bits / (double)size : 0;
}

static uint32_t crc32_of(const unsigned char *bytes, size_t size)
{
        uint32_t crc = ~0u;

        for (size_t i = 0; i < size; i++) {
                crc ^= bytes[i];
                for (int bit = 0; bit < 8; bit++)
                        crc = crc >> 1 ^ (crc & 1 ? 0xedb88320u : 0);
        }
        return ~crc;
}

#define GITHUB_CHECK_DIGITS 6

static bool check_github(const unsigned char *bytes, size_t size)
{
        static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
        const unsigned char *body = memchr(bytes, '_', size);
        size_t used = body ? (size_t)(body + 1 - bytes) : 0;

        if (!body || size < used + GITHUB_CHECK_DIGITS)
                return false;
        uint32_t crc = crc32_of(body + 1, size - used - GITHUB_CHECK_DIGITS);
        for (size_t i = size; i > size - GITHUB_CHECK_DIGITS; i--, crc /= 62)
                if (bytes[i - 1] != (unsigned char)digits[crc % 62])
                        return false;
        return true;
}

#define JWT_HEAD_MAX 2048

static int base64url_value(unsigned char c)
{
        if (c >= 'A' && c <= 'Z')
                return c - 'A';
        if (c >= 'a' && c <= 'z')
                return c - 'a' + 26;
        if (c >= '0' && c <= '9')
                return c - '0' + 52;
        return c == '-' ? 62 : c == '_' ? 63 : -1;
}

/* Its header is an object that names an algorithm (or an encryption of one). */
static bool check_jwt(const unsigned char *bytes, size_t size)
{
        char head[JWT_HEAD_MAX];
        size_t n = 0;
        unsigned held = 0, bits = 0;

        for (size_t i = 0; i < size && bytes[i] != '.' && n < sizeof(head); i++) {
                int value = base64url_value(bytes[i]);
                if (value < 0)
                        return false;
                held = held << 6 | (unsigned)value;
                bits += 6;
                if (bits >= 8) {
                        bits -= 8;
                        head[n++] = (char)(held >> bits & 0xff);
                }
        }
        return n > 2 && head[0] == '{' && memmem(head, n, "\"alg\"", 5);
}

static bool is_excepted(const struct shape_candidate *c, const unsigned char *bytes, size_t size)
{
        const struct shape_rule *r = rule_of(c);

        if (!r->except)
                return false;
        for (const char *text = rules_text(c->scrub->rules, r->except); *text; text += strlen(text) + 1)
                if (memmem(bytes, size, text, strlen(text)))
                        return true;
        return false;
}

static bool is_certain(const struct shape_candidate *c, const struct confirmation *m)
{
        const struct shape_rule *r = rule_of(c);
        const unsigned char *bytes = c->text + c->at;
        size_t end = m->whole_end - r->keep_end, body = r->lead ? m->lead_end : MIN((size_t)c->start->size, end);

        if (is_excepted(c, bytes, m->whole_end))
                return false;
        if (r->entropy_milli > 0 && entropy_of(bytes + body, end - body) * 1000 < r->entropy_milli)
                return false;
        switch (r->check) {
        case SHAPE_CHECK_GITHUB:
                return check_github(bytes + m->lead_end, end - m->lead_end);
        case SHAPE_CHECK_JWT:
                return check_jwt(bytes + m->lead_end, end - m->lead_end);
        default:
                return true;
        }
}

enum shape_answer shape_look(const struct shape_candidate *c, struct shape_found *ret)
{
        const struct shape_rule *r = rule_of(c);
        const struct rules *rules = c->scrub->rules;
        struct confirmation m = {.whole = 2 * c->start->rule, .lead = 2 * c->start->rule + 1};
        const char *needs = r->needs ? rules_text(rules, r->needs) : NULL;
        size_t end;

        if (r->word_before && is_word_before(c))
                return SHAPE_NONE;
        if (!find_end(c, &end))
                return SHAPE_WAIT;
        if (end - c->at < r->min || (needs && !memmem(c->text + c->at, end - c->at, needs, strlen(needs))) || !may_try(c, end))
                return SHAPE_NONE;
        if (!*c->scratch)
                *c->scratch = rules_scratch_get(rules, RULES_SHAPES);
        /* A failure of the scan is none of the pattern: what may be a secret is not let through because of it. */
        if (!*c->scratch || hs_scan(rules->shape_db, (const char *)c->text + c->at, (unsigned)(end - c->at), 0, *c->scratch, on_match, &m) != HS_SUCCESS)
                m.whole_end = end - c->at;
        if (m.whole_end == 0 || m.lead_end + r->keep_end >= m.whole_end)
                return SHAPE_NONE;
        size_t to = c->at + m.whole_end;
        if (r->word_after && to < c->size && is_word(c->text[to]))
                return SHAPE_NONE;
        if (!is_certain(c, &m))
                return SHAPE_NONE;
        uncount(c);
        *ret = (struct shape_found){c->at + m.lead_end, to - r->keep_end};
        return SHAPE_FOUND;
}
