#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Holds the arrows of src/meson.build: who may include whom. Tests and fuzz targets of a directory
# obey the same rule. A header named in full is allowed alone.
set -euo pipefail

allowed() {
        case $1 in
        base) echo "glovebox/error.h" ;;
        kernel | policy) echo "base" ;;
        image) echo "base policy" ;;
        runner) echo "base kernel warden/protocol.h" ;;
        agent) echo "base kernel runner/first.h engine/files.h engine/files_wire.h" ;;
        warden) echo "base kernel runner glovebox/error.h" ;;
        backend) echo "base kernel policy client http agent/wire.h egress/protocol.h warden/protocol.h hide/hide.h" ;;
        egress) echo "base kernel http" ;;
        hide) echo "base kernel glovebox/error.h" ;;
        engine) echo "base policy guard hide/hide.h backend/backend.h egress/client.h egress/ledger.h egress/protocol.h egress/rules.h egress/rules_write.h" ;;
        lib) echo "base kernel policy image guard backend engine glovebox" ;;
        http | journal | guard) echo "base" ;;
        client | mcp) echo "base http" ;;
        server) echo "base policy image guard engine backend/backend.h egress/ledger.h egress/rules.h http journal mcp" ;;
        cli) echo "base kernel policy image guard backend engine glovebox client runner/probe.h" ;;
        *) echo "" ;;
        esac
}

status=0
while IFS=: read -r file line include; do
        from=${file#src/}
        from=${from%%/*}
        header=${include#*\"}
        header=${header%%\"*}
        to=${header%%/*}
        # A name without a directory is a file beside the one that includes it.
        [ "$to" != "$header" ] || continue
        [ "$to" != "$from" ] || continue
        ok=false
        for name in $(allowed "$from"); do
                [ "$name" != "$to" ] && [ "$name" != "$header" ] || ok=true
        done
        $ok || {
                echo "$file:$line: src/$from may not include $header (see src/meson.build)"
                status=1
        }
done < <(grep -rnE '^#include "' src --include='*.c' --include='*.h')
exit $status
