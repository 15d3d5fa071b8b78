#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# tools/bench.sh run|sessions|server|mcp|backends|guard|egress|check [ARGUMENTS]
# Runs one of the benchmarks, for ./dev bench. GLOVEBOX is the program to measure.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# shellcheck source=tools/packages.sh
. tools/packages.sh

# The interpreter that the packages are for; another python3 may come first in PATH.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

which=$1
shift
case $which in
run | check) ;;
sessions | server)
        # What the template python-data has, and the peers.
        packages_install python3-numpy python3-pandas python3-matplotlib python3-scipy python3-sklearn \
                python3-jupyter-client python3-ipykernel
        ;;
mcp)
        # MCP's own Python package comes from PyPI; without it the benchmark says that its servers are absent.
        packages_install python3-venv
        # shellcheck source=tools/venv.sh
        . tools/venv.sh
        if VENV_DIR=build-release venv_need mcp mcp; then
                export BENCH_MCP_PYTHON=$PWD/$venv/bin/python
        fi
        ;;
backends) packages_install podman runsc mmdebstrap ;;
guard)
        # The peer comes from PyPI; without it the benchmark says that it is absent.
        packages_install python3-venv ninja-build
        peers="build-release/peers"
        if ! "$peers/bin/python" -c 'import detect_secrets' 2>/dev/null; then
                "$python" -m venv "$peers" || true
                "$peers/bin/pip" install -q detect-secrets==1.5.0 || true
        fi
        [ ! -x "$peers/bin/python" ] || export BENCH_PEER_PYTHON=$PWD/$peers/bin/python
        ;;
egress) packages_install tinyproxy-bin openssl curl ninja-build ;; # not squid: its package would start a service; it takes part where it is
*) die "bench: there is no benchmark '$which': run, sessions, server, mcp, backends, guard, egress, check" ;;
esac
exec "$python" "bench/$which.py" "$@"
