/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_MACRO_H
#define BASE_MACRO_H

#include <stddef.h>
#include <stdlib.h>

#define _cleanup_(f) __attribute__((cleanup(f)))
#define _printf_(a, b) __attribute__((format(printf, a, b)))
#define _noreturn_ __attribute__((noreturn))
#define _unused_ __attribute__((unused))

#define ARRAY_SIZE(a) (sizeof(a) / sizeof((a)[0]))
/* Not to be nested: the locals would shadow each other. */
#define MIN(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a < _b ? _a : _b; })
#define MAX(a, b) ({ typeof(a) _a = (a); typeof(b) _b = (b); _a > _b ? _a : _b; })

/* Hand a resource on: the local forgets it, so its cleanup does nothing. */
#define TAKE_PTR(p) ({ typeof(p) *_pp = &(p); typeof(p) _v = *_pp; *_pp = NULL; _v; })
#define TAKE_FD(fd) ({ int *_fp = &(fd); int _v = *_fp; *_fp = -1; _v; })

static inline void free_ptr(void *p)
{
        free(*(void **)p);
}
#define _cleanup_free_ _cleanup_(free_ptr)

#define DEFINE_CLEANUP(type, func)                      \
        static inline void func##_ptr(type **p)         \
        {                                               \
                if (*p)                                 \
                        func(*p);                       \
        }

#endif
