# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# The build directories of ./dev: all of them are build*/, which git ignores. Sourced.

# build_in DIRECTORY COMPILER [MESON OPTIONS...]: sets up when the options are new, then builds. Quiet
# when it goes well; the whole log is in DIRECTORY/dev.log. Of all that is there, or of what the caller has in build_targets.
build_in() {
        local dir=$1 compiler=$2 wanted="$*"
        shift 2
        [ ! -d "$dir" ] || [ -w "$dir" ] || {
                echo "dev: $dir belongs to another user; remove it first" >&2
                return 1
        }
        if [ ! -f "$dir/build.ninja" ] || [ "$wanted" != "$(cat "$dir/dev.options" 2>/dev/null)" ]; then
                [ ! -f "$dir/build.ninja" ] || set -- --reconfigure "$@"
                mkdir -p "$dir"
                CC=$compiler meson setup "$dir" "$@" >"$dir/dev.log" 2>&1 || {
                        cat "$dir/dev.log" >&2
                        return 1
                }
                echo "$wanted" >"$dir/dev.options"
        fi
        ninja -C "$dir" ${build_targets[@]+"${build_targets[@]}"} >"$dir/dev.log" 2>&1 || {
                grep -vE '^(\[[0-9]+/[0-9]+\] |(cc|gcc|clang) )' "$dir/dev.log" | sed -n '/^FAILED/,$p' | head -n 60 >&2
                echo "dev: $dir does not build; the whole log is $dir/dev.log" >&2
                return 1
        }
}

build_gcc() { build_in build gcc -Dtests="$(build_have_cmocka)"; }
build_release() { build_in build-release gcc -Dbuildtype=release -Dtests=false; }
# Less optimized than others, and with no more for debuggers than traces need: they are built for what is found, in each run of the tests.
build_layers() {
        local build_targets=(src/cli/glovebox src/warden/glovebox-warden) # boxes of the command; nothing else is asked of this build
        build_in build-layers gcc -Dtest_layers=true -Dtests=false -Doptimization=0 -Ddebug=false
}
build_asan() { build_in build-asan gcc -Db_sanitize=address,undefined -Db_lundef=false -Doptimization=1 -Ddebug=false -Dc_args=-g1; }
build_fuzz() { build_in build-fuzz clang -Dfuzz=true -Dtests=false -Db_lundef=false; }
# Any warning is an error in these two. (clang would warn about meson's -pie beside -static-pie.)
build_clang() { build_in build-clang clang -Dwerror=true -Doptimization=0 -Ddebug=false -Dc_link_args=-Wno-unused-command-line-argument && build_quiet build-clang; }
build_strict() { build_in build-strict gcc -Dwerror=true && build_quiet build-strict; }

# Warnings of the linker are no errors to it.
build_quiet() { ! grep 'warning:' "$1/dev.log" >&2; }

# The unit tests need cmocka; somebody who only builds does not.
build_have_cmocka() {
        if pkg-config --exists cmocka; then echo true; else echo false; fi
}
