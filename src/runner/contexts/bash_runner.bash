# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
#
# A context of Bash: one shell that takes code over descriptor 20, run after run
# (docs/design/control-channel.md). It is started as
#
#   bash --norc --noprofile -c '. /run/glovebox/bash_runner.bash; eval "$__gb_loop"' bash
#
# Theory of operation. The code is eval'ed on line 1 of the -c text and outside of any function: so
# `declare` makes globals, messages say "bash: line 3: ...", $0 is "bash" and $@ is empty. While it runs,
# the channel is closed; Bash keeps it aside in a descriptor that programs do not inherit. Between runs
# the user's shell options are off, so that what is below does not depend on them.
#
# An interrupt cannot jump out of a shell that is not interactive. It is done by a DEBUG trap that with
# `extdebug` skips each command, leaves each function and breaks each loop, until a command of our own is
# reached; a DEBUG trap of the user is lost by that. The same way ends a run that fails under `set -e`: the
# shell stays. `exit`, and an unset variable under `set -u`, do end the shell, as they end a script.
#
# Names that begin with __gb_ and the descriptors 20 and 21 are ours. Only standard input needs programs
# (head, rm) and a file, in $TMPDIR or /tmp.

__gb_seq='' __gb_pending='' # the run's number; the same, as long as it can be interrupted and has no end
__gb_code='' __gb_stdin=/dev/null __gb_tmp=/tmp
[[ ! -d ${TMPDIR-} || ! -w $TMPDIR ]] || __gb_tmp=$TMPDIR
__gb_status=0 __gb_flags='' # of the run before: $?, and those options of $- that are off between runs
__gb_unwinding='' __gb_interrupted='' __gb_last=''
__gb_traps='' __gb_err='' __gb_armed='' # code ever spoke of traps; the user's trap on ERR; ours is set

# Reads $1 bytes of the channel into __gb_text. A variable cannot hold NUL; the host sends none.
__gb_read() {
        builtin local LC_ALL=C IFS=
        __gb_text=''
        (($1 == 0)) || builtin read -r -N "$1" -u 20 __gb_text || builtin exit 0
}

# __gb_send KIND SEQ [NAME VALUE]...
__gb_send() {
        builtin local LC_ALL=C "kind=$1" "seq=$2" payload=''
        builtin shift 2
        while (($# > 0)); do
                payload+="$1 ${#2}"$'\n'"$2"
                builtin shift 2
        done
        builtin printf '%s %s %s\n%s' "$kind" "$seq" "${#payload}" "$payload" >&20
}

# The configuration: variables to be exported. The rest is for runners that have results.
__gb_configure() {
        builtin local LC_ALL=C rest name size value
        __gb_read "$1"
        rest=$__gb_text
        while [[ $rest == *$'\n'* ]]; do
                name=${rest%% *} size=${rest%%$'\n'*} rest=${rest#*$'\n'}
                size=${size##* }
                value=${rest:0:size} rest=${rest:size}
                # shellcheck disable=SC2163
                [[ $name != env ]] || builtin export -- "$value"
        done
        __gb_send Y 0 version "$BASH_VERSION"
}

# The run's standard input. It may hold any byte, so it goes to a file, which is open on 21 and has no name.
__gb_input() {
        builtin local file
        file=$__gb_tmp/.glovebox-stdin.$$
        # An interrupt must not end head: the rest would be taken for a frame.
        if ! (builtin trap '' INT; builtin command -p head -c "$1") <&20 >|"$file" || ! exec 21<"$file"; then
                builtin echo "glovebox: cannot keep the run's standard input in $file; is its directory full?" >&2
                builtin exit 1
        fi
        builtin command -p rm -f "$file"
        __gb_stdin=/dev/fd/21
}

# __gb_unwind STATUS OPTIONS [interrupted]: begins to leave the code, from within a trap. The options go off at once:
# under `set -e` the way out would be an exit, under `set -a` our variables would be exported.
__gb_unwind() {
        [[ -z $__gb_unwinding && -n $__gb_pending && $BASH_SUBSHELL == 0 ]] || builtin return 0
        builtin set +aefkuvxC
        __gb_unwinding=$1 __gb_flags=${2//[!aefkuvxC]/} __gb_interrupted=${3-}
        builtin shopt -s extdebug
        # shellcheck disable=SC2064
        builtin trap "$__gb_step" DEBUG
}

# Before each command: 0 lets it run, 2 leaves the function or sourced file, anything else skips it. Our own steps
# are known by their names; an interrupt that came just before the code skips it whole.
# shellcheck disable=SC2016
__gb_step='case "$BASH_COMMAND ${FUNCNAME[*]}" in *__gb_end* | *__gb_next* | *__gb_again*) __gb_unwound ;;
*__gb_restore* | *__gb_arm* | *__gb_catch*) ;; *__gb_code*) ! : ;; *)
if ((${#FUNCNAME[@]})); then __gb_leave; else ! builtin break 2>/dev/null; fi ;; esac'

__gb_leave() { builtin return 2; }

__gb_unwound() {
        builtin trap - DEBUG
        builtin shopt -u extdebug
        [[ -z $__gb_armed ]] || builtin set -E # extdebug took it along
}

# The traps have a group around them, so that `set -x` does not show what is in it.
__gb_catch_int() { builtin trap '{ __gb_unwind 130 "$-" interrupted; } 2>/dev/null' INT; }
__gb_catch_err() { builtin trap '{ __gb_failed "$?" "$-"; } 2>/dev/null' ERR; }

__gb_failed() { [[ $2 != *e* ]] || __gb_unwind "$1" "$2"; }

# __gb_end STATUS OPTIONS: the end of a run.
__gb_end() {
        builtin set +aefkuvxC
        builtin local status=ok
        __gb_pending='' __gb_status=$1
        [[ -z $__gb_unwinding ]] || __gb_status=$__gb_unwinding
        [[ -n $__gb_unwinding ]] || __gb_flags=${2//[!aefkuvxC]/}
        [[ -z $__gb_armed ]] || __gb_disarm
        if [[ $__gb_stdin != /dev/null ]]; then
                exec 21<&-
                __gb_stdin=/dev/null
        fi
        if ((__gb_status != 0)); then
                status=error
                __gb_send X "$__gb_seq" name ExitStatus value "$__gb_status" traceback ''
        fi
        # The exit says it all. It comes later, where the user's trap on it has the user's standard error.
        [[ -z $__gb_last ]] || builtin return 0
        [[ -z $__gb_interrupted ]] || status=interrupted
        __gb_unwinding='' __gb_interrupted=''
        __gb_send D "$__gb_seq" status "$status" exit "$__gb_status"
}

# Without `set -E` a function neither sees nor changes the trap on ERR of its caller; it is on here.
__gb_disarm() {
        if [[ -z $__gb_traps || $(builtin trap -p ERR) == *__gb_failed* ]]; then builtin trap - ERR; fi
        builtin set +E
        __gb_armed=''
}

# Waits for the next code. In an old Bash, a stray `break` or `continue` of the code lands here, with its run not ended.
__gb_next() {
        if [[ -n $__gb_pending ]]; then
                [[ -n $__gb_unwinding ]] ||
                        builtin echo "glovebox: break or continue outside of a loop: the code after it was not run" >&2
                { __gb_end 1 "$-"; } 2>/dev/null
                [[ -z $__gb_last ]] || builtin exit 1
        fi
        builtin local kind seq size IFS=' '
        while builtin read -r -u 20 kind seq size; do
                case $kind in
                C) __gb_configure "$size" ;;
                I) __gb_input "$size" ;;
                # Or the next run would say how each of its jobs was killed.
                K) builtin jobs >/dev/null 2>&1 ;;
                E | L)
                        __gb_read "$size"
                        __gb_code=$__gb_text __gb_text='' __gb_seq=$seq
                        [[ $kind == E ]] || __gb_last=1
                        [[ $__gb_code != *trap* ]] || __gb_traps=1
                        builtin return 0
                        ;;
                *) builtin exit 1 ;;
                esac
        done
        builtin exit 0
}

# A trap that the user set stays; one on INT that was taken away is set again.
__gb_arm() {
        if [[ -n $__gb_traps && -z $(builtin trap -p INT) ]]; then __gb_catch_int; fi
        [[ $__gb_flags == *e* || $__gb_code == *"set -"* || $__gb_code == *errexit* ]] || builtin return 0
        [[ -z $__gb_err && $- != *E* ]] || builtin return 0
        __gb_armed=1
        __gb_catch_err
        builtin set -E
}

# The last step before the code: its traps, its options, and $? of the run before.
__gb_restore() {
        __gb_pending=$__gb_seq
        __gb_arm
        # These two would show our own commands.
        [[ $__gb_flags != *v* ]] || __gb_code="builtin set -v; $__gb_code"
        [[ $__gb_flags != *x* ]] || __gb_code="builtin set -x; $__gb_code"
        __gb_flags=${__gb_flags//[xv]/}
        [[ -z $__gb_flags ]] || builtin set "-$__gb_flags"
        [[ $__gb_flags != *e* ]] || builtin return 0
        builtin return "$__gb_status"
}

__gb_again() { builtin return 0; }

# The user's trap on ERR can only be seen here; it takes a fork, so only if code ever spoke of traps.
# shellcheck disable=SC2016
__gb_turn='if [[ -n $__gb_traps ]]; then __gb_err=$(builtin trap -p ERR); fi; '\
'{ __gb_restore; builtin eval "$__gb_code"; } <"$__gb_stdin" 20>&- 21>&-; { __gb_end "$?" "$-"; } 2>/dev/null; '\
'[[ -z $__gb_last ]] || builtin exit "$__gb_status"'

# Run by the -c text. In a loop of ours a stray `break` of the code would leave that loop and drop the rest of the code,
# where a script says that there is no loop, and goes on. So the turns are those of mapfile, which calls us for each
# line that it reads: each byte of /dev/zero is an empty one to it. What it keeps of them is thrown away.
# A Bash before 4.4 cannot do that. There the inner loop can be left by unwinding or a stray `break`, both only by a
# `break 2` or more.
# shellcheck disable=SC2016,SC2034
if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 404)); then
        __gb_turn="__gb_next; $__gb_turn; __gb_turns=(); builtin :" # mapfile adds a number and the line
        __gb_loop='builtin mapfile -d "" -c 1 -C "$__gb_turn" __gb_turns </dev/zero'
else
        __gb_loop="while __gb_again; do while __gb_next; do $__gb_turn; done; done; builtin eval \"\$__gb_loop\""
fi

__gb_catch_int
