#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./dev soak: much for a long time, and nothing is left behind. $GLOVEBOX names another build than build/.
#
#   sessions   ten thousand sessions one after the other and a thousand at once (the default)
#   server     a server under all kinds of requests for ten minutes
#   kills      a server that is killed a hundred times while clients work
#   truth      fifty thousand short runs; each result is compared with the expected one
#
# Arguments are those of the program of that name in tests/soak/.
set -euo pipefail

# Debian's own, as in test.py.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

which=sessions
case ${1:-} in
sessions | server | kills | truth)
        which=$1
        shift
        ;;
esac

export GLOVEBOX=${GLOVEBOX:-$PWD/build/src/cli/glovebox}
# Fails when a process, group or file is left.
exec "$python" -B tests/isolation.py "$python" -B "tests/soak/$which.py" "$@"
