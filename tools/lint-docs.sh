#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
#
# Documentation and code must agree: limits, exit codes, links; and nothing names a machine.
set -euo pipefail

status=0
complain() {
        echo "$*"
        status=1
}

# Every limit, with the value it has in the header.
while read -r name; do
        grep -q "^| \`$name\` |" docs/limits.md || complain "docs/limits.md: $name of src/base/limits.h is missing"
done < <(sed -n 's/^#define \([A-Z][A-Z0-9_]*\) .*\/\*.*/\1/p' src/base/limits.h)
while read -r name; do
        grep -rqE "^#define $name\b" src include || complain "docs/limits.md: there is no $name in the source"
done < <(grep -oE '^\| .[A-Z][A-Z0-9_]*. \|' docs/limits.md | tr -cd 'A-Z0-9_\n')

# Every verdict and error code with its exit status.
while read -r text exit_status; do
        grep -qE "^\| +$exit_status +\| +\`$text\`" docs/exit-codes.md ||
                complain "docs/exit-codes.md: no row for $text with $exit_status"
done < <(sed -n 's/^ *X(\(GB_E\|VERDICT\)_[A-Z_]*, "\([a-z_]*\)", \([0-9]*\)[,)].*/\2 \3/p' \
        include/glovebox/error.h src/engine/verdict.h | grep -v '^none ')

# Every control in the table of what is enforced.
while read -r name; do
        grep -q "\`$name\`" docs/results.md || complain "docs/results.md: the control $name is missing"
done < <(sed -n 's/^ *X(CONTROL_[A-Z_]*, "\([a-z_]*\)".*/\1/p' src/policy/control.h)

# Relative links lead somewhere.
while IFS=: read -r file link; do
        target=${link#*](}
        target=${target%)}
        target=${target%%#*}
        case $target in
        '' | http:* | https:* | mailto:*) continue ;;
        esac
        [ -e "$(dirname "$file")/$target" ] || complain "$file: the link $target leads nowhere"
done < <(grep -roE '\]\([^)]+\)' --include='*.md' README.md NEWS.md SECURITY.md CONTRIBUTING.md docs -H)

mapfile -t files < <(git ls-files --cached --others --exclude-standard | grep -vE '^(LICENSE|tests/fuzz/corpus/)')
here=$(pwd)
if grep -nIF "$(dirname "$here")/" "${files[@]}" 2>/dev/null | grep -v "^tools/" | grep . && [ "$(dirname "$here")" != / ]; then
        complain "a file names a path of this machine"
fi
if grep -nIE '(^|[^a-z])/(home/[a-z]+|Users|root)/[a-z]' "${files[@]}" 2>/dev/null | grep -vE '(^tests/|^docs/examples/|^tools/lint-docs)' | grep .; then
        complain "a file names somebody's home directory"
fi
if grep -nIwE 'TODO|FIXME|XXX|HACK' "${files[@]}" 2>/dev/null | grep -vE '^(tools/lint-docs|\.clang)' | grep .; then
        complain "unfinished work belongs into an issue, not into the tree"
fi
exit $status
