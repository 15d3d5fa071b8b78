/* SPDX-License-Identifier: Apache-2.0
 *
 * AppArmor: a profile around processes, where the kernel has it. Root loads profiles (apparmor_parser); here it is only looked
 * whether one is there, and a process changes to it. Ours are in images/apparmor. */
#ifndef KERNEL_APPARMOR_H
#define KERNEL_APPARMOR_H

#include <stdbool.h>

#define APPARMOR_NATIVE "glovebox-native"       /* programs of the native backend */
#define APPARMOR_CONTAINER "glovebox-container" /* what is in a container of an engine */

/* What a thread asks for itself: one of these, followed by the name of a profile. The change is for good: no profile of ours lets anybody change again. */
#define APPARMOR_CHANGE "changeprofile "
#define APPARMOR_MAY_CHANGE "permprofile " /* whether it could; the kernel logs a refusal */

/* Needs a /proc of the caller's pid namespace or of one above. -ENOENT: the profile is not loaded, or this kernel has no AppArmor; -EACCES or
 * -EPERM: the caller is confined and may not. */
int apparmor_ask(const char *what);

enum apparmor_state {
        APPARMOR_ABSENT,     /* not in this kernel, or switched off */
        APPARMOR_NOT_LOADED, /* the profile */
        APPARMOR_REFUSED,    /* the caller is confined and may not change to it */
        APPARMOR_READY,
};

/* Whether the caller, and what it starts, can change to APPARMOR_NATIVE. */
enum apparmor_state apparmor_look(void);
bool apparmor_is_enabled(void);
/* 1: loaded; 0: not; -errno: this user cannot see what is (securityfs is not mounted). */
int apparmor_is_loaded(const char *profile);

#endif
