/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether what begins like a secret is one: how far it goes, the pattern, what stands beside it, and then tests that chance does not pass. */
#include "guard/scrub_state.h"

#include "base/base64.h"

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

/* ---- how far it goes ---- */

/* Behind the last byte that may belong to it. Returns whether what comes can change that. Candidates of one rule in the same run of bytes look at these once. */
static bool find_end(const struct shape_candidate *c, size_t *ret)
{
        const struct shape_rule *r = rule_of(c);
        size_t first = c->at + c->start->size, limit = MIN(c->size, c->at + r->max);
        bool known = first >= c->run->from && first <= c->run->to;
        size_t i = MIN(known ? c->run->to : first, limit);

        while (i < limit && in_set(r->chars, c->text[i]))
                i++;
        if (known)
                c->run->to = MAX(c->run->to, i);
        else
                *c->run = (struct shape_run){first, i};
        *ret = i;
        const char *end = r->end ? rules_text(c->scrub->rules, r->end) : NULL;
        const unsigned char *found = end && i > first ? memmem(c->text + first, i - first, end, strlen(end)) : NULL;
        if (found)
                *ret = (size_t)(found - c->text) + strlen(end);
        /* The byte behind it has a say as well. */
        return *ret < c->size || c->final;
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
        size_t body = r->lead ? m->lead_end : MIN((size_t)c->start->size, m->whole_end);

        if (is_excepted(c, bytes, m->whole_end))
                return false;
        if (r->entropy_milli > 0 && entropy_of(bytes + body, m->whole_end - body) * 1000 < r->entropy_milli)
                return false;
        switch (r->check) {
        case SHAPE_CHECK_GITHUB:
                return check_github(bytes + m->lead_end, m->whole_end - m->lead_end);
        case SHAPE_CHECK_JWT:
                return check_jwt(bytes + m->lead_end, m->whole_end - m->lead_end);
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

        if (r->word_before && is_word(c->at > 0 ? c->text[c->at - 1] : c->before))
                return SHAPE_NONE;
        if (!find_end(c, &end))
                return SHAPE_WAIT;
        if (needs && !memmem(c->text + c->at, end - c->at, needs, strlen(needs)))
                return SHAPE_NONE;
        /* A failure of the scan is none of the pattern: what may be a secret is not let through because of it. */
        if (hs_scan(rules->shape_db, (const char *)c->text + c->at, (unsigned)(end - c->at), 0, c->scratch, on_match, &m) != HS_SUCCESS)
                m.whole_end = end - c->at;
        if (m.whole_end == 0 || m.lead_end >= m.whole_end)
                return SHAPE_NONE;
        size_t to = c->at + m.whole_end;
        if (r->word_after && to < c->size && is_word(c->text[to]))
                return SHAPE_NONE;
        if (!is_certain(c, &m))
                return SHAPE_NONE;
        *ret = (struct shape_found){c->at + m.lead_end, to};
        return SHAPE_FOUND;
}
