# shellcheck shell=bash
# SPDX-License-Identifier: Apache-2.0
#
# What each verb of ./dev needs, by Debian package name. Sourced by ./dev.

die() {
        echo "dev: $*" >&2
        exit 1
}

build="meson ninja-build pkg-config gcc libc6-dev libjansson-dev libyaml-dev libevent-dev libseccomp-dev libedit-dev python3-dev libsqlite3-dev libssl-dev libarchive-dev libvectorscan-dev libfuse3-dev"
declare -A packages=(
        [build]="$build"
        [test]="$build libcmocka-dev clang python3 python3-pytest python3-numpy python3-pandas python3-matplotlib python3-sklearn yt-dlp \
util-linux python3-pip python3-setuptools python3-wheel python3-venv mypy openssl curl git iproute2 docker.io podman \
runsc runc mmdebstrap apparmor strace"
        [lint]="$build libcmocka-dev clang git clang-tidy cppcheck shellcheck codespell mandoc"
        [fmt]="clang-format"
        [fuzz]="$build libcmocka-dev clang"
        [bench]="$build python3 bubblewrap firejail runc docker.io podman runsc mmdebstrap apparmor"
        [soak]="$build python3 python3-pytest"
        [vm]="$build qemu-system-x86 e2fsprogs python3 apparmor"
        [demo]="$build python3 python3-pandas python3-matplotlib"
)
unset build

packages_missing() {
        local package status
        for package in "$@"; do
                status=$(dpkg-query -W -f "\${db:Status-Status}" "$package" 2>/dev/null) || status=
                case $status in
                installed*) ;;
                *) echo "$package" ;;
                esac
        done
}

packages_as_root() {
        if [ "$(id -u)" -eq 0 ]; then
                "$@"
        elif ! command -v sudo >/dev/null; then
                die "installing packages needs root, and there is no sudo here; as root: apt-get install $missing"
        elif [ -t 0 ]; then
                sudo "$@"
        else
                sudo -n "$@" || die "sudo wants a password; as root: apt-get install $missing"
        fi
}

# Installs those of the given packages that are missing. Instant when none is.
packages_install() {
        local missing
        if ! command -v dpkg-query >/dev/null; then
                echo "dev: this is not a Debian system; it must already have what these packages have: $*" >&2
                return
        fi
        missing=$(packages_missing "$@" | tr '\n' ' ')
        [ -n "$missing" ] || return 0
        echo "dev: installing $missing"
        packages_as_root apt-get update -qq
        # shellcheck disable=SC2086 # a list of words
        packages_as_root env DEBIAN_FRONTEND=noninteractive \
                apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# The packages of a verb.
packages_need() {
        # shellcheck disable=SC2086 # a list of words
        packages_install ${packages[$1]}
}
