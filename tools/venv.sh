# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Python packages that only tests need, apart from the system's. To be sourced.
#
#   venv_need NAME PACKAGE...   makes sure that $VENV_DIR/venv-NAME (build/venv-NAME) has them; sets venv to that directory
venv_need() {
        local name=$1 wanted
        shift
        wanted="$*"
        venv=${VENV_DIR:-build}/venv-$name
        [ "$(cat "$venv/packages" 2>/dev/null)" != "$wanted" ] || return 0
        rm -rf "$venv"
        mkdir -p "$(dirname "$venv")"
        python3 -m venv "$venv" || return 1
        "$venv/bin/pip" install --quiet --no-compile --disable-pip-version-check "$@" || return 1
        echo "$wanted" >"$venv/packages"
}
