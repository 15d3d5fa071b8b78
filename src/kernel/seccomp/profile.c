/* SPDX-License-Identifier: Apache-2.0
 *
 * profile.def as tables. The constants come from the headers of the build machine, so the profile
 * uses only those that have one value on every architecture it is compiled for. */
#include "kernel/seccomp/profile.h"

#include "base/macro.h"

#include <asm/ioctls.h>
#include <asm/resource.h>
#include <errno.h>
#include <linux/fcntl.h>
#include <linux/fs.h>
#include <linux/memfd.h>
#include <linux/mman.h>
#include <linux/prctl.h>
#include <linux/sched.h>
#include <linux/shm.h>
#include <linux/tcp.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define GROUP(title, text) {.kind = SECCOMP_ROW_GROUP, .name = title, .why = text},
#define ALLOW(call) {.kind = SECCOMP_ROW_ALLOW, .name = #call},
#define REFUSE(call, err, text)                                                           \
        {.kind = SECCOMP_ROW_REFUSE, .name = #call, .why = text, .errname = #err,         \
         .errnum = err},
#define PRETEND(call, text) {.kind = SECCOMP_ROW_REFUSE, .name = #call, .why = text, .errname = "0"},

#define V(x) {#x, (uint32_t)(x)}
#define NAMED(text, x) {text, (uint32_t)(x)}
#define LIST(...)                                                                         \
        .values = (const struct seccomp_value[]){__VA_ARGS__},                            \
        .n_values = sizeof((const struct seccomp_value[]){__VA_ARGS__}) / sizeof(struct seccomp_value)
#define ALLOW_ONLY(call, err, text, n, bits, ...)                                         \
        {.kind = SECCOMP_ROW_ONLY, .name = #call, .why = text, .errname = #err,           \
         .errnum = err, .arg = n, .mask = bits, LIST(__VA_ARGS__)},
#define ALLOW_EXCEPT(call, err, text, n, bits, ...)                                       \
        {.kind = SECCOMP_ROW_EXCEPT, .name = #call, .why = text, .errname = #err,         \
         .errnum = err, .arg = n, .mask = bits, LIST(__VA_ARGS__)},
#define ALLOW_EXCEPT_WHEN(call, err, text, gn, gv, n, bits, ...)                          \
        {.kind = SECCOMP_ROW_EXCEPT, .name = #call, .why = text, .errname = #err,         \
         .errnum = err, .arg = n, .mask = bits, LIST(__VA_ARGS__), .guard_arg = gn,       \
         .guard = (const struct seccomp_value[]){gv}},
#define ALLOW_EXCEPT_ON(on, call, err, text, n, bits, ...)                                \
        {.kind = SECCOMP_ROW_EXCEPT, .name = #call, .arch = on, .why = text,              \
         .errname = #err, .errnum = err, .arg = n, .mask = bits, LIST(__VA_ARGS__)},
#define ALLOW_EXCEPT_ON_WHEN(on, call, err, text, gn, gv, n, bits, ...)                   \
        {.kind = SECCOMP_ROW_EXCEPT, .name = #call, .arch = on, .why = text,              \
         .errname = #err, .errnum = err, .arg = n, .mask = bits, LIST(__VA_ARGS__),       \
         .guard_arg = gn, .guard = (const struct seccomp_value[]){gv}},
#define NUMBER(call, n)

const struct seccomp_row seccomp_profile[] = {
#include "profile.def"
};
const size_t n_seccomp_profile = ARRAY_SIZE(seccomp_profile);

#undef GROUP
#undef ALLOW
#undef REFUSE
#undef PRETEND
#undef ALLOW_ONLY
#undef ALLOW_EXCEPT
#undef ALLOW_EXCEPT_WHEN
#undef ALLOW_EXCEPT_ON
#undef ALLOW_EXCEPT_ON_WHEN
#undef NUMBER
#define GROUP(...)
#define ALLOW(...)
#define REFUSE(...)
#define PRETEND(...)
#define ALLOW_ONLY(...)
#define ALLOW_EXCEPT(...)
#define ALLOW_EXCEPT_WHEN(...)
#define ALLOW_EXCEPT_ON(...)
#define ALLOW_EXCEPT_ON_WHEN(...)
#define NUMBER(call, n) {#call, n},

const struct seccomp_number seccomp_numbers[] = {
#include "profile.def"
};
const size_t n_seccomp_numbers = ARRAY_SIZE(seccomp_numbers);
