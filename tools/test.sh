#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./dev test: builds with gcc, with clang (where a warning is an error), with sanitizers, and once with
# layers that can be switched off; then runs the unit tests, the end to end tests, the attacks, the conformance of the backends, and a short soak.
# A Docker Engine and a Podman service are started for it in the background, and stopped at its end whatever happens.
# Every part runs even when an earlier one failed. The last line is 'N passed, N failed, N skipped'.
set -uo pipefail

# Debian's own, which has Debian's pytest; another one may stand before it in the PATH.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

# shellcheck source=tools/builds.sh
. tools/builds.sh
# shellcheck source=tools/venv.sh
. tools/venv.sh
# shellcheck source=tools/node.sh
. tools/node.sh

passed=0 failed=0 skipped=0 summary='' again=''
pytest_max=900 # seconds for one part; a test that hangs is a failure, not a wait
asan_options=detect_leaks=1:abort_on_error=0 ubsan_options=halt_on_error=1:print_stacktrace=1
second_try_max=5 # failures of one part that are tried once more; with more of them something is wrong
began=$SECONDS

# record NAME PASSED FAILED SKIPPED
record() {
        passed=$((passed + $2)) failed=$((failed + $3)) skipped=$((skipped + $4))
        summary+=$(printf '%-28s %5d passed %5d failed %5d skipped' "$1" "$2" "$3" "$4")$'\n'
}

part() { printf '\n== %s (after %d s)\n' "$*" $((SECONDS - began)); }

# A build counts as a test: it passes or it fails. Returns whether it did.
test_build() {
        part "build: $1"
        if "build_$1"; then
                record "build: $1" 1 0 0
        else
                record "build: $1" 0 1 0
                return 1
        fi
}

# One number of meson's summary; 0 when the line is not there.
meson_count() { sed -n "s/^$1: *\([0-9][0-9]*\) *$/\1/p" "$2" | tail -n 1 | grep . || echo 0; }

# unit_second_try NAME DIRECTORY LOG FAILURES: as python_run has it, and for its reason: the other builds run beside these. Only what failed
# by an assertion: a crash, a timeout or what a sanitizer says is never tried again. Succeeds when all of them pass now.
unit_second_try() {
        local names
        names=$(sed -nE 's/^ *[0-9]+\/[0-9]+ +([^ ]+) +FAIL +[0-9.]+s +exit status [0-9]+$/\1/p' "$3")
        [ "$1" = gcc ] && [ -n "$names" ] || return 1
        [ "$(wc -l <<<"$names")" -eq "$4" ] && [ "$4" -le "$second_try_max" ] || return 1
        echo "the failed ones once more, by themselves:"
        # shellcheck disable=SC2086
        meson test -C "$2" --no-rebuild --print-errorlogs --num-processes 1 $names || return 1
        again+="failed at first: unit ${names//$'\n'/$'\nfailed at first: unit '}"$'\n'
}

# unit_run DIRECTORY: leaves a log and a status for unit_count. More at once than there are processors: many of them wait.
unit_run() {
        local status=0
        meson test -C "$1" --no-rebuild --print-errorlogs --num-processes $((2 * $(nproc))) >"$1/dev.test.log" 2>&1 || status=$?
        echo "$status" >"$1/dev.test.status"
}

# unit_count NAME DIRECTORY
unit_count() {
        local log=$2/dev.test.log ok=0 bad=0 skip=0 status
        status=$(cat "$2/dev.test.status")
        ok=$(meson_count Ok "$log") skip=$(meson_count Skipped "$log")
        bad=$(($(meson_count Fail "$log") + $(meson_count Timeout "$log") + $(meson_count 'Unexpected Pass' "$log")))
        [ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
        [ "$bad" -eq 0 ] || cat "$log"
        if [ "$bad" -gt 0 ] && unit_second_try "$1" "$2" "$log" "$bad"; then
                ok=$((ok + bad)) bad=0
        fi
        record "unit: $1" "$ok" "$bad" "$skip"
}

# test_unit NAME DIRECTORY
test_unit() {
        part "unit tests: $1"
        unit_run "$2"
        unit_count "$1" "$2"
}

# An attribute of the testsuite element that pytest writes; 0 when there is none.
junit_count() { sed -n "s/.*<testsuite [^>]*\b$1=\"\([0-9]*\)\".*/\1/p" "$2" 2>/dev/null | head -n 1 | grep . || echo 0; }

# In CI a test may be skipped only for what the host or the caller's rights are; others are printed.
skips_without_reason() {
        grep -oE '<skipped [^>]*message="[^"]*"' "$1" | sed 's/.*message="\(.*\)"/skipped without need: \1/' |
                grep -vE 'host|root|kernel|not installed'
}

# python_run NAME DIRECTORY-OF-THE-BUILD ARGUMENTS OF PYTEST...: leaves a report and a status for python_count.
# Tests of time limits, killed processes and sudden ends meet machines where a process may stand still for a second. So a few
# that fail are tried once more, by themselves, and only those that fail again count; the summary names the others. Not of the
# attacks: a race that was won once is a hole.
python_run() {
        local name=${1// /-} dir=$2 report status=0 second=0
        shift 2
        report=$dir/dev.pytest.$name.xml
        rm -rf "$report" "$report.second" "$dir/dev.pytest.$name.cache"
        pytest_once "$dir" "$name" "$report" "$@" || status=$?
        if [ "$status" -eq 1 ] && [[ $name != attacks* ]] && [ "$(junit_bad "$report")" -le "$second_try_max" ]; then
                echo "the failed ones once more, by themselves:"
                pytest_once "$dir" "$name" "$report.second" --last-failed --last-failed-no-failures none "$@" || second=$?
                [ "$second" -ne 0 ] || status=0
        fi
        echo "$status" >"$dir/dev.pytest.$name.status"
}

# pytest_once DIRECTORY-OF-THE-BUILD NAME REPORT ARGUMENTS OF PYTEST...
pytest_once() {
        local dir=$1 cache=$PWD/$1/dev.pytest.$2.cache report=$3
        shift 3
        GLOVEBOX="$PWD/$dir/src/cli/glovebox" GLOVEBOX_LAYERS_BINARY="$PWD/build-layers/src/cli/glovebox" \
                timeout --kill-after=30 "$pytest_max" "$python" -m pytest -o cache_dir="$cache" -q -rs --junitxml="$report" "$@"
}

# What failed at first, a line each.
junit_names() {
        grep -oE '<testcase [^>]*><(failure|error) ' "$1" | sed -E 's/.*classname="([^"]*)" name="([^"]*)".*/failed at first: \1.\2/'
}

junit_bad() { echo $(($(junit_count failures "$1") + $(junit_count errors "$1"))); }

# python_count NAME DIRECTORY-OF-THE-BUILD
python_count() {
        local report=$2/dev.pytest.${1// /-}.xml status all bad skip
        status=$(cat "$2/dev.pytest.${1// /-}.status")
        all=$(junit_count tests "$report") skip=$(junit_count skipped "$report")
        bad=$(junit_bad "$report")
        if [ -e "$report.second" ]; then
                again+=$(junit_names "$report")$'\n'
                bad=$(junit_bad "$report.second")
        fi
        # 5: no test was collected, which must not pass for a success.
        [ "$status" -eq 0 ] || [ "$bad" -gt 0 ] || bad=1
        if [ -n "${CI:-}" ] && skips_without_reason "$report"; then
                bad=$((bad + 1))
        fi
        [ "$all" -ge $((bad + skip)) ] || all=$((bad + skip))
        record "$1" $((all - bad - skip)) "$bad" "$skip"
}

# test_python NAME DIRECTORY-OF-THE-BUILD ARGUMENTS OF PYTEST...
test_python() {
        part "$1"
        python_run "$@"
        python_count "$1" "$2"
}

# The other builds, while tests run that mostly wait. What is wrong with one shows when its turn comes.
builds_begin() {
        (
                renice -n 5 "$BASHPID" >/dev/null
                build_layers
                build_asan
                build_clang
        ) >/dev/null 2>&1 &
        builds=$!
}

# The interpreters' side of a context, without boxes. Mostly it waits for interpreters to start, so it runs beside others.
runners_begin() {
        python_run "runners" build tests/runner >build/dev.runners.log 2>&1 &
        runners=$!
}

runners_end() {
        part "runners"
        wait "$runners"
        cat build/dev.runners.log
        python_count "runners" build
}

# What waits for most of its time, and is marked so. Beside tests that wait for engines, none of which asks right after itself whether anything is left; at
# their ends the suites are asked, and GLOVEBOX_TEST_BESIDE has them wait for each other.
waiting_begin() {
        export GLOVEBOX_TEST_BESIDE=1
        {
                python_run "end to end, waiting" build tests/e2e -m waits
                python_run "attacks, waiting" build tests/escape -m waits
        } >build/dev.waiting.log 2>&1 &
        waiting=$!
}

waiting_end() {
        part "end to end and attacks, waiting"
        wait "$waiting"
        unset GLOVEBOX_TEST_BESIDE
        cat build/dev.waiting.log
        python_count "end to end, waiting" build
        python_count "attacks, waiting" build
}

# MCP, with clients of others where they could be had. It mostly waits for those to start, so it runs beside others, too; not beside conformance, which wants its
# engines to answer in time.
mcp_begin() {
        [ ! -f build/node-mcp/packages ] || export GLOVEBOX_TEST_NODE=$PWD/build/node-mcp
        [ ! -f build/venv-mcp/packages ] || export GLOVEBOX_TEST_MCP_PYTHON=$PWD/build/venv-mcp/bin/python
        python_run "MCP" build tests/mcp >build/dev.mcp.log 2>&1 &
        mcp=$!
}

mcp_end() {
        part "MCP"
        wait "$mcp"
        cat build/dev.mcp.log
        python_count "MCP" build
}

# The unit tests with sanitizers, beside tests that mostly wait for engines.
sanitized_begin() {
        ASAN_OPTIONS=$asan_options UBSAN_OPTIONS=$ubsan_options unit_run build-asan &
        sanitized=$!
}

# The library in a Python that has no sanitizer of its own: the library's must come first, and Python's leaks do not count.
test_sessions_sanitized() {
        ASAN_OPTIONS=detect_leaks=0 LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)" \
                test_python "sessions, sanitizers" build-asan tests/e2e/test_sessions_python.py tests/e2e/test_sessions_files.py -k 'not user'
}

# The engines for the suites that need some: only root can have them. Where they are not installed the tests skip and say so.
engines_begin() {
        [ "$(id -u)" -eq 0 ] || return 0
        GLOVEBOX_TEST_ENGINES=$(mktemp -d /var/tmp/gb-engines.XXXXXX)
        export GLOVEBOX_TEST_ENGINES
        trap engines_end EXIT
        GLOVEBOX="$PWD/build/src/cli/glovebox" "$python" tests/engines.py start "$GLOVEBOX_TEST_ENGINES" >build/dev.engines.log 2>&1 &
        engines=$!
}

engines_end() {
        [ -n "${GLOVEBOX_TEST_ENGINES:-}" ] || return 0
        wait "$engines"
        "$python" tests/engines.py stop "$GLOVEBOX_TEST_ENGINES"
        unset GLOVEBOX_TEST_ENGINES
}

# Clients of MCP, from npm; -NAME is one that nobody needs here.
mcp_clients=(@modelcontextprotocol/sdk@1.32.2 @modelcontextprotocol/client@2.4.0 @modelcontextprotocol/inspector@2.12.0 @modelcontextprotocol/conformance@0.1.16
        node@22.23.3 -vite -@vitejs/plugin-react -react -ink -pino -@napi-rs/keyring)

# Packages of others that ours is tried with, from PyPI and npm. They are fetched while the builds and the first tests run.
others_begin() {
        {
                node_need mcp "${mcp_clients[@]}"
                venv_need mcp mcp==2.3.0
                venv_need adapters pytest smolagents langchain-core openai-agents pydantic-ai-slim
                venv_need interpreter open-interpreter
        } >build/dev.venv.log 2>&1 &
        others=$!
}

# The adapters with the frameworks they are for, by the Python that has those.
test_adapters() {
        if [ -x build/venv-adapters/bin/pytest ]; then
                python=$PWD/build/venv-adapters/bin/python test_python "adapters" build --confcutdir=tests/adapters tests/adapters
        else
                part "adapters"
                echo "skipped: the frameworks are not installed: $(tail -n 3 build/dev.venv.log)"
                record "adapters" 0 0 1
        fi
}

# The programs that move in; one of them with its own package.
test_compat() {
        [ ! -f build/venv-interpreter/packages ] || export GLOVEBOX_OPEN_INTERPRETER=$PWD/build/venv-interpreter/bin/python
        test_python "compat" build tests/compat
        test_adapters
}

# soak NAME ARGUMENTS: ./dev soak is the long version of each.
soak() {
        local name=$1 status=0
        shift
        part "soak: $name, short"
        GLOVEBOX="$PWD/build/src/cli/glovebox" timeout --kill-after=30 "$pytest_max" tools/soak.sh "$name" "$@" || status=1
        record "soak: $name, short" $((1 - status)) "$status" 0
}

# A hundred sessions leave nothing behind; nor does a server under load; and one that is killed says nothing wrong.
test_soak() {
        soak sessions --sessions 100 --alive 50
        soak server --minutes 0.2
        soak kills --points 6
}

# The examples in the documentation print what it says.
test_examples() {
        local log=build/dev.examples.log
        part "examples of the documentation"
        GLOVEBOX="$PWD/build/src/cli/glovebox" tools/doc_examples.py README.md docs/*.md >"$log" 2>&1
        cat "$log"
        record "examples" "$(sed -n '$s/^\([0-9]*\) passed.*/\1/p' "$log")" "$(sed -n '$s/.*, \([0-9]*\) failed$/\1/p' "$log" | grep . || echo 1)" 0
}

finish() {
        engines_end
        printf '\n== Summary (%d s, %s)\n%s' $((SECONDS - began)) \
                "$([ "$(id -u)" -eq 0 ] && echo 'as root' || echo 'as an ordinary user')" "$summary$again"
        printf '%d passed, %d failed, %d skipped\n' "$passed" "$failed" "$skipped"
        [ "$failed" -eq 0 ]
        exit
}

test_build gcc || finish
others_begin
engines_begin
builds_begin
test_unit gcc build

runners_begin
test_python "end to end" build tests/e2e -m 'not waits'
runners_end
test_python "Python SDK" build tests/sdk
wait "$builds"
test_build layers || true
test_python "attacks" build tests/escape -m 'not waits'
asan=false
! test_build asan || asan=true
! $asan || sanitized_begin
wait "$others" || echo "some packages cannot be had here: $(tail -n 3 build/dev.venv.log)"
waiting_begin
test_python "conformance" build tests/conformance
mcp_begin
test_compat
waiting_end
mcp_end
test_soak
test_examples

if $asan; then
        part "unit tests: sanitizers"
        wait "$sanitized"
        unit_count sanitizers build-asan
        export ASAN_OPTIONS=$asan_options UBSAN_OPTIONS=$ubsan_options
        # Where no cgroup counts memory it is limited by address space, and a sanitizer wants terabytes of that:
        # so only as somebody who has cgroups.
        if build-asan/src/cli/glovebox run --quiet -c pass </dev/null 2>/dev/null; then
                test_python "end to end, sanitizers" build-asan tests/e2e -m smoke -k 'not as-user'
                test_sessions_sanitized
                test_python "MCP, sanitizers" build-asan tests/mcp/test_protocol.py
        else
                echo "skipped: end to end with sanitizers (no cgroup for this user on this host)"
                record "end to end, sanitizers" 0 0 1
        fi
        unset ASAN_OPTIONS UBSAN_OPTIONS
fi
test_build clang || true
finish
