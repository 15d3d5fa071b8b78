/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether what was typed so far is a whole piece of code, or another line must come. Rules of thumb, line by
 * line; nothing is parsed and nobody is asked. When they are wrong the interpreter says so, or Ctrl-C clears the
 * input. */
#ifndef CLI_BLOCK_H
#define CLI_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#define BLOCK_DEPTH_MAX 64     /* brackets, quotes and keywords that are open; above it the interpreter decides */
#define BLOCK_HEREDOCS_MAX 4   /* here-documents of one line of Bash */
#define BLOCK_DELIMITER_MAX 64 /* bytes of what ends one of them, with its NUL */

struct block;

struct block_heredoc {
        char delimiter[BLOCK_DELIMITER_MAX];
        bool tabs; /* <<-: tabs before the delimiter do not count */
};

struct block {
        void (*scan)(struct block *b, const char *line, size_t size);

        unsigned char open[BLOCK_DEPTH_MAX]; /* what is open, by the character that stands for its end */
        size_t depth;
        bool broken;    /* it cannot be right: for the interpreter to say */
        bool continued; /* the line goes on in the next one */
        bool until_empty; /* an empty line ends it, and nothing else */

        char last;      /* the last character of code, 0 when there was none; Python: of the logical line */
        bool decorated; /* Python: the logical line is a decorator */

        bool command; /* Bash: the next word is a command */
        struct block_heredoc heredocs[BLOCK_HEREDOCS_MAX];
        size_t n_heredocs, heredoc;
};

/* language is what has the context: "python", "bash" or "node"; of others each line is whole. */
void block_init(struct block *b, const char *language);
/* The next line, without its newline. True when the block is whole. */
bool block_add_line(struct block *b, const char *line, size_t size);

/* Inside this module. */
void block_push(struct block *b, unsigned char end);
/* Closes what is open; when that is something else the block is broken. */
void block_pop(struct block *b, unsigned char end);
/* What is open, 0 for nothing. */
unsigned char block_top(const struct block *b);

void block_scan_python(struct block *b, const char *line, size_t size);
void block_scan_bash(struct block *b, const char *line, size_t size);
void block_scan_node(struct block *b, const char *line, size_t size);

#endif
