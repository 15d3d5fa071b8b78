#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A file has one subject, a function fits a screen, and the code with privilege stays small enough
# to be read in one sitting.
set -euo pipefail

file_max=700
function_max=90
privileged_max=2000
status=0

while IFS= read -r file; do
        lines=$(wc -l <"$file")
        [ "$lines" -le "$file_max" ] || {
                echo "$file: $lines lines, the most is $file_max"
                status=1
        }
        awk -v file="$file" -v max="$function_max" '
                /^\{/ { start = NR }
                /^\}/ {
                        if (start && NR - start > max) {
                                printf "%s:%d: a function of %d lines, the most is %d\n", file, start, NR - start, max
                                bad = 1
                        }
                        start = 0
                }
                END { exit bad }' "$file" || status=1
done < <(find src -name '*.c' -o -name '*.h' | sort)

count() { cat "$@" | wc -l; }

# What is linked into the warden: its own code and what it starts in the box, then what it borrows.
# The probe is a program of its own, the attacker of `glovebox verify`.
mapfile -t own < <(find src/warden src/runner -name '*.[ch]' ! -name 'test_*' ! -name 'fuzz_*' ! -name 'probe*')
mapfile -t borrowed < <(sed -n "/^kernel_box_sources = files(/,/^)/s/.*'\(.*\)'.*/src\/kernel\/\1/p" src/kernel/meson.build)
borrowed+=(src/kernel/seccomp.c src/base/error.c src/base/fd.c)
own_lines=$(count "${own[@]}")
echo "privileged code: $own_lines lines (warden and runner), and $(count "${borrowed[@]}") lines it borrows from kernel/ and base/"
[ "$own_lines" -le "$privileged_max" ] || {
        echo "src/warden and src/runner: $own_lines lines, the most is $privileged_max"
        status=1
}
exit $status
