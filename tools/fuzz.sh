#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./dev fuzz [TARGET] [SECONDS]: runs libFuzzer targets of build-fuzz. New inputs are kept in
# build-fuzz/corpus/TARGET; what crashed in build-fuzz/crash/TARGET. A crash worth keeping goes, by
# hand, to tests/fuzz/corpus/TARGET, where the unit tests replay it.
set -euo pipefail

target='' seconds=60
for argument in "$@"; do
        case $argument in
        *[!0-9]*) target=$argument ;;
        *) seconds=$argument ;;
        esac
done

status=0
found=0
while IFS= read -r program; do
        name=$(basename "$program")
        name=${name#fuzz_}
        [ -z "$target" ] || [ "$target" = "$name" ] || continue
        found=$((found + 1))
        mkdir -p "build-fuzz/corpus/$name" "build-fuzz/crash/$name"
        seeds=()
        [ ! -d "tests/fuzz/corpus/$name" ] || seeds=("tests/fuzz/corpus/$name")
        echo "== $name: $seconds s"
        log=build-fuzz/$name.log
        "$program" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 -print_final_stats=1 \
                -artifact_prefix="build-fuzz/crash/$name/" "build-fuzz/corpus/$name" ${seeds[@]+"${seeds[@]}"} \
                >"$log" 2>&1 || {
                status=1
                tail -n 60 "$log"
                echo "fuzz: $name failed; the whole log is $log" >&2
        }
        grep -E '^stat::(number_of_executed_units|average_exec_per_sec|new_units_added)' "$log" || true
done < <(find build-fuzz/src -maxdepth 3 -type f -name 'fuzz_*' -perm -u+x | sort)

if [ "$found" -eq 0 ]; then
        echo "fuzz: there is no target '$target'" >&2
        exit 1
fi
exit $status
