/* SPDX-License-Identifier: Apache-2.0 */
#include "base/fd.h"
#include "kernel/apparmor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#define ENABLED "/sys/module/apparmor/parameters/enabled"
/* One directory for each profile, "NAME.NUMBER". Everybody may list it; the file apparmor/profiles only root may read. */
#define LOADED "/sys/kernel/security/apparmor/policy/profiles"
#define ENTRIES_MAX 65536

bool apparmor_is_enabled(void)
{
        char value[8] = "";

        return file_read_at(AT_FDCWD, ENABLED, value, sizeof(value)) >= 0 && value[0] == 'Y';
}

static bool is_number(const char *text)
{
        return *text && strspn(text, "0123456789") == strlen(text);
}

int apparmor_is_loaded(const char *profile)
{
        size_t n = strlen(profile);
        int found = 0;

        DIR *dir = opendir(LOADED);
        if (!dir)
                return -errno;
        for (int i = 0; i < ENTRIES_MAX && !found; i++) {
                const struct dirent *entry = readdir(dir);
                if (!entry)
                        break;
                found = strncmp(entry->d_name, profile, n) == 0 && entry->d_name[n] == '.' && is_number(entry->d_name + n + 1);
        }
        closedir(dir);
        return found;
}

enum apparmor_state apparmor_look(void)
{
        if (!apparmor_is_enabled())
                return APPARMOR_ABSENT;
        /* Asked first, because the kernel would log the refusal of every run. */
        if (apparmor_is_loaded(APPARMOR_NATIVE) == 0)
                return APPARMOR_NOT_LOADED;
        int r = apparmor_ask(APPARMOR_MAY_CHANGE APPARMOR_NATIVE);
        return r == 0 ? APPARMOR_READY : r == -ENOENT ? APPARMOR_NOT_LOADED : APPARMOR_REFUSED;
}
