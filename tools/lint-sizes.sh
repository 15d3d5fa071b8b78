#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# A file has one subject, a function fits a screen, and the code with privilege stays small enough
# to be read in one sitting.
set -euo pipefail

file_max=700
function_max=90
# With the host's privilege: boxes, sessions, templates and processes that are started ahead. It was 1000 lines when
# there were only boxes; code that can leave it should. 70 of the lines are for a front that is not root: the user it
# works for, and files.c. 100 are children.c: each child has one owner that may reap it. 80 are for what a program leaves
# running: only the warden sees it grow, and may end it while other programs go on.
privileged_max=3230
part_max=1207
# A group without cgroup.kill is killed by pidfds, after a second look at the list: a number could be anybody's. So is a
# part of a group.
borrowed_max=1260
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

# Lines of code: what is left without comments and empty lines.
count() { cat "$@" | gcc -fpreprocessed -dD -E -P - 2>/dev/null | grep -c .; }

# What is linked into the warden, by where it runs: with the host's privilege; in the box's own user
# namespace (what builds a box, init, the program before its exec); and what both borrow. The probe is
# a program of its own, the attacker of `glovebox verify`.
with_privilege=(src/warden/{main,box,build,channel,children,files,inside,loop,order,program,session,template}.c
        src/warden/{box,channel,children,files,inside,loop,program,protocol,session,template}.h)
in_the_box=(src/warden/{foreman,setup,root,payload}.c src/warden/{setup,payload}.h src/runner/{first,init,program}.c src/runner/{first,runner}.h)
mapfile -t borrowed < <(sed -n "/^kernel_box_sources = files(/,/^)/s/.*'\(.*\)'.*/src\/kernel\/\1/p" src/kernel/meson.build)
borrowed+=(src/kernel/seccomp.c src/base/error.c src/base/fd.c src/base/message.c)
echo "lines of code in the warden: $(count "${with_privilege[@]}") with privilege, $(count "${in_the_box[@]}") in the box, $(count "${borrowed[@]}") borrowed from kernel/ and base/"
for part in with_privilege in_the_box borrowed; do
        declare -n files=$part
        max=$part_max
        [ $part != with_privilege ] || max=$privileged_max
        [ $part != borrowed ] || max=$borrowed_max
        [ "$(count "${files[@]}")" -le "$max" ] || {
                echo "warden, $part: $(count "${files[@]}") lines, the most is $max"
                status=1
        }
done
exit $status
