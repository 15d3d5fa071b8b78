#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# ./dev soak: ten thousand sessions one after the other and a thousand at once leave nothing behind. $GLOVEBOX names
# another build than build/. Arguments are those of tests/soak/sessions.py.
set -euo pipefail

# Debian's own, as in test.sh.
python=/usr/bin/python3
[ -x "$python" ] || python=python3

export GLOVEBOX=${GLOVEBOX:-$PWD/build/src/cli/glovebox}
exec "$python" -B tests/soak/sessions.py "$@"
