/* SPDX-License-Identifier: Apache-2.0 */
#include "http/message.h"

#include <string.h>
#include <strings.h>

struct http_message *http_message_new(void)
{
        return calloc(1, sizeof(struct http_message));
}

void http_message_free(struct http_message *m)
{
        if (!m)
                return;
        /* There may be a token in it. */
        if (m->bytes)
                explicit_bzero(m->bytes, m->allocated);
        free(m->bytes);
        free(m);
}

const char *http_message_method(const struct http_message *m)
{
        return m->bytes + m->method;
}

const char *http_message_target(const struct http_message *m)
{
        return m->bytes + m->target;
}

const char *http_message_next(const struct http_message *m, const char *name, size_t *i)
{
        for (; *i < m->n_fields; ++*i)
                if (strcasecmp(m->bytes + m->fields[*i].name, name) == 0)
                        return m->bytes + m->fields[(*i)++].value;
        return NULL;
}

const char *http_message_field(const struct http_message *m, const char *name)
{
        size_t i = 0;
        return http_message_next(m, name, &i);
}

bool http_list_has(const char *list, const char *word)
{
        size_t length = strlen(word);

        for (const char *p = list; *p;) {
                p += strspn(p, " \t,");
                size_t n = strcspn(p, ",");
                const char *next = p + n;
                while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t'))
                        n--;
                if (n == length && strncasecmp(p, word, n) == 0)
                        return true;
                p = next;
        }
        return false;
}
