/* SPDX-License-Identifier: Apache-2.0
 *
 * Strings side by side, and what is in the fields of formatted ones: those are read where they stand, by the same words as everything else, so that a
 * string may have strings of its own quotes in it, and no byte is looked at twice. */
#include "guard/reader/state.h"

static bool read_field(struct reader *r, const struct token *string, struct value *v);

/* Behind the colon of a field, up to its }. False: the string has ended there. */
static bool read_format(struct reader *r, const struct token *string)
{
        enum piece_end end;
        const char *text;
        size_t size;

        do {
                struct value width = value_text("", 0, string->place);
                end = lexer_piece(&r->lexer, string, true, &text, &size);
                if (end != PIECE_OPEN)
                        continue;
                if (r->depth >= READER_DEPTH_MAX) {
                        r->too_much = true;
                        continue;
                }
                r->depth++;
                if (!read_field(r, string, &width))
                        end = PIECE_QUOTE;
                r->depth--;
                reader_show(r, &width);
        } while (end == PIECE_OPEN || end == PIECE_MORE);
        return end == PIECE_CLOSE;
}

/* A field of a formatted string, from behind its { to behind its }. False: the string has ended in it. */
static bool read_field(struct reader *r, const struct token *string, struct value *v)
{
        uint32_t outer = r->format_depth;
        unsigned no_in = r->no_in;
        struct value inner = value_unknown(string->place);
        bool first = true, open = true;

        r->lexer.depth++;
        r->format_depth = r->lexer.depth;
        r->no_in = 0;
        reader_next(r);
        while (!reader_at_stop(r) && !reader_at(r, '}')) {
                const char *at = r->token.text;
                if (reader_at(r, ':') || reader_at(r, OP2(':', '='))) {
                        r->lexer.at = at + 1;
                        r->lexer.depth--;
                        open = read_format(r, string);
                        break;
                }
                if (reader_at(r, '!')) { /* !r */
                        reader_next(r);
                } else if (!reader_at(r, '=') && !reader_at(r, ',')) {
                        struct value more = read_expression(r);
                        if (first)
                                inner = more;
                        else
                                reader_show(r, &more);
                        first = false;
                }
                if (r->token.text == at || reader_at(r, '='))
                        reader_next(r);
        }
        r->format_depth = outer;
        r->no_in = no_in;
        if (inner.kind == VALUE_NUMBER)
                inner = value_digits(r, &inner);
        text_append_value(r, v, &inner);
        return open && r->token.kind != TOKEN_END;
}

static void read_formatted(struct reader *r, struct value *v)
{
        struct token string = r->token;
        enum piece_end end;
        bool open = true;

        if (r->depth >= READER_DEPTH_MAX) {
                r->too_much = true;
                lexer_skip_string(&r->lexer, &string);
                r->lexer.at += r->lexer.at < r->lexer.end;
                text_append_hole(r, v);
                return;
        }
        r->depth++;
        do {
                const char *text;
                size_t size;
                end = lexer_piece(&r->lexer, &string, false, &text, &size);
                struct value piece = literal_string(r, &string, text, size);
                text_append_value(r, v, &piece);
                if (end == PIECE_OPEN)
                        open = read_field(r, &string, v);
        } while (open && end != PIECE_QUOTE && !r->full);
        r->depth--;
}

/* Strings side by side are one. */
struct value read_strings(struct reader *r)
{
        struct value v = value_text("", 0, r->token.place);
        uint8_t lone = VALUE_LONE;

        while (r->token.kind == TOKEN_STRING && !r->full) {
                if (r->token.formatted) {
                        read_formatted(r, &v);
                } else {
                        struct value piece = literal_string(r, &r->token, r->token.text, r->token.size);
                        if (v.size == 0) {
                                uint8_t holes = v.flags & VALUE_HOLES;
                                piece.place = v.place;
                                v = piece; /* however long it is */
                                v.flags |= holes;
                        } else {
                                text_append_value(r, &v, &piece);
                        }
                }
                reader_next(r);
        }
        v.flags |= lone;
        return v;
}
