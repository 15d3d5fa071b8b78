#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./dev demo: what glovebox does with code that is fine, and with code that is not.
set -euo pipefail

glovebox=build/src/cli/glovebox
examples=docs/examples/demo
weaker=()

bold='' dim='' plain=''
if [ -t 1 ] && [ "${TERM:-dumb}" != dumb ] && [ -z "${NO_COLOR:-}" ]; then
        bold=$'\033[1m' dim=$'\033[2m' plain=$'\033[0m'
fi

title() { printf '\n%s== %s%s\n' "$bold" "$*" "$plain"; }
note() { printf '%s   %s%s\n' "$dim" "$*" "$plain"; }

# Shows the command as one would type it, runs it, explains its exit status.
show() {
        local status=0
        printf '%s$ glovebox %s%s\n' "$dim" "$*" "$plain"
        "$glovebox" "$@" 2>&1 | tail -n 20 || status=${PIPESTATUS[0]}
        note "exit status $status: $(explain "$status")"
}

explain() {
        case $1 in
        0) echo "the program's own, it did well" ;;
        118) echo "memory, the limit of the whole box was reached" ;;
        119) echo "pids, the limit of processes and threads was reached" ;;
        124) echo "timeout, the time limit was reached" ;;
        1[0-9][0-9]) echo "see 'glovebox help exit-codes'" ;;
        *) echo "the program's own" ;;
        esac
}

# As an ordinary user whose cgroup is not delegated the sum of the box's memory cannot be limited.
choose_controls() {
        local message status=0
        message=$("$glovebox" run -c pass 2>&1) || status=$?
        [ "$status" -ne 0 ] || return 0
        if [ "$status" -eq 112 ] && "$glovebox" run --quiet --allow-weaker memory -c pass 2>/dev/null; then
                weaker=(--allow-weaker memory)
                title "This host"
                echo "$message"
                note "So the demo asks for the weaker control by name: --allow-weaker memory."
                note "As root, or with a delegated cgroup, all controls are enforced in full."
                return 0
        fi
        echo "$message" >&2
        echo "demo: this host cannot run a box (status $status)" >&2
        exit 1
}

workspace=build/demo
mkdir -p "$workspace"
workspace=$(mktemp -d "$workspace/workspace.XXXXXX")

choose_controls
set -- ${weaker[@]+"${weaker[@]}"}

title "1. Code that computes: a table, a plot, a file that stays"
show run "$@" --memory 1g --workspace "$workspace" "$examples/table.py"
find "$workspace" -type f -name '*.png' -printf '   on the host: %p (%s bytes)\n'

title "2. Code that attacks: seven ways out, all closed"
show run "$@" "$examples/attack.py"
note "(it exits with the number of ways that worked)"

title "3. A fork bomb"
show run "$@" --timeout 2s "$examples/fork_bomb.py"

title "4. A memory hog"
show run "$@" --memory 128m "$examples/memory_hog.py"

title "5. The same for machines: one object, facts from the kernel"
printf '%s$ glovebox run --json --timeout 200ms -c '\''while True: pass'\''%s\n' "$dim" "$plain"
{ "$glovebox" run "$@" --quiet --json --timeout 200ms -c 'while True: pass' || true; } | python3 -c '
import json, sys
r = json.load(sys.stdin)
print(json.dumps({k: r[k] for k in ("verdict", "exit_code", "signal", "duration_ms", "setup_ms")}, indent=2))
states = [c["state"] for c in r["controls"]]
print("controls:", ", ".join(f"{states.count(s)} {s}" for s in sorted(set(states))))'

title "6. An agent at work, over MCP: ten steps"
printf '%s$ python3 docs/examples/agent.py glovebox mcp%s\n' "$dim" "$plain"
env -u GLOVEBOX_SERVER python3 docs/examples/agent.py "$glovebox" mcp --private "$@" 2>&1 | cut -c 1-160

title "Done"
echo "The workspace is kept: $workspace"
echo "Next: $glovebox run --help, README.md, docs/"
