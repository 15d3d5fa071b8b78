#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./dev lint: everything a machine can say about the source without running it. All checks run;
# the exit status tells whether one failed. './dev lint NAME...' runs only those named.
set -uo pipefail

# shellcheck source=tools/builds.sh
. tools/builds.sh

check_gcc() { build_strict; }
check_clang() { build_clang; }

check_layers() { tools/lint-layers.sh; }
check_sizes() { tools/lint-sizes.sh; }
check_docs() { tools/lint-docs.sh; }

# It does not know the cleanup attribute, so leaks are for the sanitizers to find; and there are no
# threads, so what is not reentrant is no concern. accept4() may well have no address to fill.
check_cppcheck() {
        mkdir -p build-strict/cppcheck
        cppcheck --quiet --std=c11 --language=c --enable=warning,performance,portability --inline-suppr \
                --error-exitcode=1 --cppcheck-build-dir=build-strict/cppcheck -j "$(nproc)" \
                --library=posix --library=gnu -D_GNU_SOURCE -DGLOVEBOX_TEST_LAYERS=0 -DGLOVEBOX_SANITIZED=0 \
                --suppress=resourceLeak --suppress=memleak --suppress=leakReturnValNotUsed \
                --suppress=readdirCalled --suppress=strtokCalled --suppress=invalidFunctionArgBool --suppress=invalidFunctionArg \
                --suppress=missingIncludeSystem --suppress=nullPointer:src/cli/verify_host.c --suppress=nullPointer:src/warden/channel.c --suppress=nullPointer:src/agent/connection.c --suppress=nullPointer:src/egress/box.c \
                --suppress=nullPointer:src/backend/test_listener.c --suppress=nullPointer:src/egress/test_world.c \
                --suppress=swapcontextCalled:src/runner/python/test_image.c --suppress=getcontextCalled:src/runner/python/test_image.c \
                --suppress=makecontextCalled:src/runner/python/test_image.c \
                -Isrc -Iinclude src
}

# Files that differ from the last commit, or all of them when that is none (or in CI).
tidy_files() {
        local changed=''
        [ -n "${CI:-}" ] || changed=$(git diff --name-only --diff-filter=d HEAD -- 'src/*.c' 2>/dev/null)
        if [ -n "$changed" ]; then echo "$changed"; else find src -name '*.c' ! -name 'test_*' ! -name 'fuzz_*'; fi
}

check_tidy() {
        build_clang || true # for its list of commands; whether it compiles is for the check before
        tidy_files | xargs -P "$(nproc)" -n 4 clang-tidy -p build-clang --quiet 2>/dev/null
}

check_shell() { shellcheck -x dev .ci/run tools/*.sh src/runner/contexts/bash_runner.bash; }

# Tests misspell on purpose: that is how suggestions are tested.
check_spelling() {
        git ls-files --cached --others --exclude-standard | grep -vE '^(LICENSE|tests/)|/(test|fuzz)_' |
                xargs codespell --ignore-words-list=nd,iterm,readby,te
}

check_man() {
        build_strict || return
        mandoc -Tlint -W warning build-strict/man/glovebox.1
}

checks=(layers sizes docs shell spelling gcc clang man cppcheck tidy)
[ $# -eq 0 ] || checks=("$@")
failed=()
for name in "${checks[@]}"; do
        declare -F "check_$name" >/dev/null || {
                echo "lint: there is no check '$name'" >&2
                exit 1
        }
        began=$SECONDS
        if "check_$name"; then
                printf 'ok    %s (%d s)\n' "$name" $((SECONDS - began))
        else
                printf 'FAIL  %s (%d s)\n' "$name" $((SECONDS - began))
                failed+=("$name")
        fi
done
[ ${#failed[@]} -eq 0 ] || {
        echo "lint: ${#failed[@]} of ${#checks[@]} checks failed: ${failed[*]}"
        exit 1
}
echo "lint: ${#checks[@]} checks passed"
