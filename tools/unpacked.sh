# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# Programs of Debian packages that would start a service if they were installed. To be sourced.
#
#   unpacked_need PACKAGE   makes sure that build/unpacked/PACKAGE has the files of the package; nothing is installed
unpacked_need() {
        local place=build/unpacked/$1 download
        [ ! -d "$place" ] || return 0
        mkdir -p build/unpacked
        download=$(mktemp -d build/unpacked/.new-XXXXXX) || return 1
        # apt gives up its rights for a download where it cannot enter the directory; here it may keep them.
        (cd "$download" && apt-get -q -o APT::Sandbox::User= download "$1" && dpkg-deb -x ./*.deb files) &&
                mv "$download/files" "$place"
        local status=$?
        rm -rf "$download"
        return $status
}
