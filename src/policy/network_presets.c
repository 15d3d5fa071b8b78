/* SPDX-License-Identifier: Apache-2.0
 *
 * Names for rules that many need. What is listed is what the tools ask for, and nothing that only pages for people use. */
#include "policy/network.h"

#include <string.h>

/* pip: the index, and the files that it names. */
static const char *const python_packages[] = {"https://pypi.org:443", "https://files.pythonhosted.org:443", NULL};

/* npm, yarn and pnpm: index and files are on one host each. */
static const char *const node_packages[] = {"https://registry.npmjs.org:443", "https://registry.yarnpkg.com:443", NULL};

/* apt: signed by the distribution, whatever it comes over. */
static const char *const debian_packages[] = {
        "GET,HEAD http://deb.debian.org:80", "GET,HEAD http://security.debian.org:80", "https://deb.debian.org:443", "https://security.debian.org:443", NULL,
};

/* What packages are made of, and nothing that can be sent there: TLS ends in the proxy, which sees the methods. */
static const char *const dependencies[] = {
        "GET,HEAD https://pypi.org:443",
        "GET,HEAD https://files.pythonhosted.org:443",
        "GET,HEAD https://registry.npmjs.org:443",
        "GET,HEAD https://registry.yarnpkg.com:443",
        NULL,
};

/* git over https, the API, archives, files of releases and of large file storage. */
static const char *const github[] = {
        "https://github.com:443",
        "https://api.github.com:443",
        "https://codeload.github.com:443",
        "https://raw.githubusercontent.com:443",
        "https://objects.githubusercontent.com:443",
        "https://release-assets.githubusercontent.com:443",
        "https://github-releases.githubusercontent.com:443",
        "https://media.githubusercontent.com:443",
        "https://github-cloud.githubusercontent.com:443",
        "https://github-cloud.s3.amazonaws.com:443",
        NULL,
};

static const struct {
        const char *name;
        const char *const *rules;
        bool intercepted;
} presets[] = {
        {"python-packages", python_packages, false}, {"node-packages", node_packages, false}, {"debian-packages", debian_packages, false},
        {"github", github, false},                   {NETWORK_WHITELIST, dependencies, true},
};

const char *const *network_presets(void)
{
        static const char *const names[] = {"python-packages", "node-packages", "debian-packages", "github", NETWORK_WHITELIST, NULL};

        _Static_assert(sizeof(names) / sizeof(names[0]) == sizeof(presets) / sizeof(presets[0]) + 1, "one name for each");
        return names;
}

const char *const *network_preset_rules(const char *name, bool *ret_intercepted)
{
        for (size_t i = 0; i < ARRAY_SIZE(presets); i++)
                if (strcmp(presets[i].name, name) == 0) {
                        *ret_intercepted = presets[i].intercepted;
                        return presets[i].rules;
                }
        return NULL;
}
