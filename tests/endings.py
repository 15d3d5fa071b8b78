# SPDX-License-Identifier: Apache-2.0
"""Programs, and every result that is true of them.

    ending = draw(random.Random(1), "program", {"bash", "sh"})
    result = server.run(ending.code, language=ending.language, **ending.fields)["result"]
    assert not ending.problem(result), ending.problem(result)

An Ending (tests/ending.py) lists each Outcome that its code can have: one where the code decides alone, several where
it races with a limit or a cancel. Each outcome names verdict, exit status and signal together, so that a verdict of
one outcome with the status of another is a wrong result. `problem()` also checks what holds for every result: there is
no exit status -1, `ok` means status 0, and `error` always has an exit status, a signal, or in a context an error.

Endings are made for a place: "once" (POST /v1/runs), "program" (a program in a session), "context" (a context of a
session). tests/soak/truth.py draws from all of them, tests/e2e/test_truth.py uses the short ones.
"""

from ending import Ending, Outcome, ended_by, exited, gone, kept, killed

SMALL = {"mem_limit": "64m", "pids_limit": 16, "disk_limit": "1m", "tmp_size": "1m", "output_limit": "64k"}
OUTPUT_LIMIT = 64 << 10
SHORT = 0.15  # seconds: a time limit that a test can afford, and no program below reaches by accident
LONG = 1000  # seconds: programs that sleep that long do not end by themselves


# ---- exit statuses ----

PRINT_AND_EXIT = {
    "python": "import sys\nprint('{word}')\nsys.exit({n})",
    "bash": "echo {word}; exit {n}",
    "sh": "echo {word}; exit {n}",
    "node": "console.log('{word}'); process.exitCode = {n}",
    "perl": 'print "{word}\\n"; exit {n};',
    "awk": 'BEGIN {{ print "{word}"; exit {n} }}',
    "c": '#include <stdio.h>\nint main(void) {{ puts("{word}"); return {n}; }}',
}

# Without output: these are over before the warden looks.
EXIT = {
    "python": ("import os\nos._exit({n})", "raise SystemExit({n})"),
    "bash": ("exit {n}", "exec sh -c 'exit {n}'"),
    "sh": ("exit {n}", "exec bash -c 'exit {n}'", "trap 'exit {n}' EXIT; exit 99"),
    "node": ("process.exit({n})",),
    "perl": ("exit {n};", "exec 'sh', '-c', 'exit {n}';", "use POSIX; POSIX::_exit({n});"),
    "awk": ("BEGIN {{ exit {n} }}",),
    "c": ("int main(void) {{ return {n}; }}",),
}


def end_with_status(chance, language, word):
    n = chance.randrange(256)
    return Ending("exit status", language, chance.choice(EXIT[language]).format(n=n), exited(n))


def end_with_output(chance, language, word):
    n = chance.randrange(256)
    return Ending(
        "output and exit status",
        language,
        PRINT_AND_EXIT[language].format(n=n, word=word),
        exited(n),
        stdout=f"{word}\n",
    )


def end_well(chance, language, word):
    return Ending("exit status 0", language, chance.choice(EXIT[language]).format(n=0), exited(0))


# ---- signals ----

DEADLY = [
    "SIGHUP",
    "SIGINT",
    "SIGILL",
    "SIGTRAP",
    "SIGABRT",
    "SIGBUS",
    "SIGFPE",
    "SIGKILL",
    "SIGUSR1",
    "SIGSEGV",
    "SIGUSR2",
    "SIGALRM",
    "SIGTERM",
    "SIGXCPU",
    "SIGVTALRM",
    "SIGPROF",
    "SIGSYS",
]
SIGNAL = {
    "python": ("import os, signal\nos.kill(os.getpid(), signal.{name})", DEADLY),
    "bash": ("kill -{short} $$; exit 9", [*DEADLY, "SIGPIPE", "SIGXFSZ"]),
    "sh": ("kill -{short} $$; exit 9", [*DEADLY, "SIGPIPE", "SIGQUIT"]),
    "node": (
        "process.kill(process.pid, '{name}'); setTimeout(() => {{}}, 1e6)",
        ["SIGKILL", "SIGTERM", "SIGABRT", "SIGHUP"],
    ),
    "perl": ("kill '{short}', $$; exit 9;", [name for name in DEADLY if name != "SIGFPE"]),  # which it ignores
    "awk": ('BEGIN {{ system("kill -{short} $PPID"); for (;;) x++ }}', ["SIGKILL", "SIGTERM", "SIGSEGV"]),
    "c": ("#include <signal.h>\nint main(void) {{ raise({name}); return 9; }}", DEADLY),
}
CRASHES = (
    ("a null pointer", "int main(void) { return *(volatile int *)8; }", "SIGSEGV"),
    ("abort", "#include <stdlib.h>\nint main(void) { abort(); }", "SIGABRT"),
    ("division by zero", "int main(int n, char **v) { volatile int zero = n - 1; return n / zero; }", "SIGFPE"),
    ("an illegal instruction", "int main(void) { __builtin_trap(); }", "SIGILL"),
)


def end_by_signal(chance, language, word):
    code, names = SIGNAL[language]
    name = chance.choice(names)
    return Ending("a signal of its own", language, code.format(name=name, short=name[3:]), killed(name))


def end_by_crash(chance, language, word):
    name, code, signal = chance.choice(CRASHES)
    return Ending(name, "c", code, killed(signal))


def end_by_signal_to_child(chance, language, word):
    """A shell reports the death of its child as a status: that is not a signal."""
    name, n = chance.choice([("KILL", 9), ("TERM", 15), ("SEGV", 11), ("ABRT", 6)])
    return Ending(
        "a child dies by a signal",
        language,
        f"(exec sh -c 'kill -{name} $$') 2>/dev/null; exit $?",
        exited(128 + n),
    )


# ---- failures of the language ----

FAILURES = {
    "python": (("raise ValueError('no')", 1), ("x = = 1", 1), ("import no_such_module", 1), ("1 / 0", 1)),
    "bash": (
        ("if then", 2),
        ("exec /nothing", 127),
        ("exec /tmp", 126),
        ("set -e; false; exit 0", 1),
        ("no_such_command", 127),
    ),
    "sh": (("if then", 2), ("exec /nothing", 127), ("set -u; echo $nothing", 2), ("set -e; false; exit 0", 1)),
    "node": (("throw new Error('no')", 1), ("let = = 1", 1), ("Promise.reject(new Error('no'))", 1)),
    "perl": (("$! = 0; die 'no';", 255), ("my $x = = ;", 255), ("$! = 3; die 'no';", 3)),
    "awk": (("BEGIN { exit 1 } END { exit 3 }", 3),),
}


def end_by_failure(chance, language, word):
    code, status = chance.choice(FAILURES[language])
    return Ending("a failure of the language", language, code, exited(status))


def end_in_compiler(chance, language, word):
    code = chance.choice(
        ["int main(void) { return }", "#error no\nint main(void) { return 0; }", "int main(void) { nothing(); }"]
    )
    return Ending("a compile error", "c", code, exited(1)._replace(phase="compile"))


# ---- processes that stay, stop, or take over ----


def end_before_child(chance, language, word):
    """Children, orphans and daemons are still there when the program ends. They hold its output open, and glovebox
    waits for none of them."""
    n = chance.randrange(256)
    code = {
        "bash": (
            f"sleep {LONG} & exit {n}",
            f"setsid sleep {LONG} & exit {n}",
            f"(sleep {LONG} & sleep {LONG} & ) ; exit {n}",
            f"trap '' TERM HUP; for i in 1 2 3; do sleep {LONG} & done; disown -a; exit {n}",
        ),
        "sh": (
            f"sleep {LONG} & exit {n}",
            f"(setsid sleep {LONG} &); exit {n}",
            f"(while :; do sleep 0.01; done) & exit {n}",
        ),
        "python": (
            "import os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
            f"        time.sleep({LONG})\n    os._exit(1)\n"
            f"os._exit({n})",
            f"import os, time\nfor _ in range(3):\n    if os.fork() == 0:\n        time.sleep({LONG})\nos._exit({n})",
        ),
        "perl": (f"if (fork() == 0) {{ sleep {LONG}; }} exit {n};",),
    }
    return Ending("ends before its children", language, chance.choice(code[language]), exited(n))


def end_after_children(chance, language, word):
    """Statuses of children are their parents' business."""
    n = chance.randrange(256)
    code = {
        "bash": f"for i in 1 2 3 4 5; do (exit $i) & done; wait; echo {word}; exit {n}",
        "sh": f"for i in 1 2 3; do (exit $i) & done; wait; echo {word}; exit {n}",
        "python": "import os\nfor i in range(5):\n    if os.fork() == 0:\n        os._exit(i + 1)\n"
        "for i in range(5):\n    os.wait()\n"
        f"print('{word}')\nraise SystemExit({n})",
        "perl": f'for (1..5) {{ if (fork() == 0) {{ exit $_; }} }} 1 while wait() > 0; print "{word}\\n"; exit {n};',
    }
    return Ending("ends after its children", language, code[language], exited(n), stdout=f"{word}\n")


def end_after_stop(chance, language, word):
    """A process that is stopped has not ended."""
    n = chance.randrange(256)
    return Ending(
        "is stopped and continued",
        language,
        f"(while sleep 0.01; do kill -CONT $$; done) & kill -STOP $$; echo {word}; exit {n}",
        exited(n),
        stdout=f"{word}\n",
    )


def end_by_parent(chance, language, word):
    """The child of a program kills it."""
    name = chance.choice(["KILL", "TERM", "USR1"])
    code = {"bash": f"(kill -{name} $$); sleep {LONG}", "sh": f"(kill -{name} $$) & wait; sleep {LONG}"}
    return Ending("is killed by its child", language, code[language], killed("SIG" + name))


def end_in_thread(chance, language, word):
    n = chance.randrange(256)
    return Ending(
        "a thread exits",
        "python",
        "import os, threading, time\n"
        f"threading.Thread(target=lambda: os._exit({n})).start()\ntime.sleep({LONG})",
        exited(n),
    )


# ---- standard streams ----


def end_without_reading(chance, language, word):
    """Standard input is larger than a pipe, and is not read."""
    n = chance.randrange(256)
    return Ending(
        "does not read its input",
        language,
        chance.choice(EXIT[language]).format(n=n),
        exited(n),
        stdin="x" * 200_000,
    )


def end_after_reading(chance, language, word):
    size, n = chance.choice([0, 1, 4096, 150_000]), chance.randrange(256)
    code = {
        "bash": f"wc -c; exit {n}",
        "sh": f"wc -c; exit {n}",
        "python": f"import sys\nprint(len(sys.stdin.read()))\nsys.exit({n})",
        "perl": f"local $/; my $x = <STDIN> // ''; print length($x), \"\\n\"; exit {n};",
    }
    return Ending("reads its input", language, code[language], exited(n), stdin="x" * size, stdout=f"{size}\n")


def end_with_closed_streams(chance, language, word):
    n = chance.randrange(256)
    code = {
        "bash": f"echo {word}; exec <&- >&- 2>&-; sleep 0.005; exit {n}",
        "sh": f"echo {word}; exec <&- >&- 2>&-; exit {n}",
        "python": f"import os\nos.write(1, b'{word}\\n')\nos.closerange(0, 3)\nos._exit({n})",
    }
    return Ending("closes its streams", language, code[language], exited(n), stdout=f"{word}\n")


def end_with_much_output(chance, language, word):
    """More than a pipe holds, and the last byte counts."""
    size, n = chance.choice([65_536, 200_000]), chance.randrange(256)
    code = {
        "bash": f"head -c {size} /dev/zero | tr '\\0' x; echo {word}; exit {n}",
        "python": f"import sys\nsys.stdout.write('x' * {size})\nprint('{word}')\nsys.exit({n})",
        "perl": f"print 'x' x {size}, \"{word}\\n\"; exit {n};",
    }
    return Ending(
        "much output", language, code[language], exited(n), stdout=lambda text: text == "x" * size + word + "\n"
    )


# ---- limits ----


def end_by_timeout(chance, language, word):
    code = {
        "bash": f"sleep {LONG}",
        "sh": "while :; do :; done",
        "python": chance.choice(["while True: pass", f"import time; time.sleep({LONG})"]),
        "perl": f"sleep {LONG}",
        "node": "for (;;);",
        "awk": "BEGIN { for (;;) x++ }",
    }
    return Ending("time limit", language, code[language], ended_by("timeout"), timeout=SHORT)


def end_near_timeout(chance, language, word):
    """Both are right; a status comes with an end of its own, SIGKILL with the limit."""
    n, seconds = chance.randrange(256), SHORT + chance.uniform(-0.02, 0.005)
    return Ending(
        "near the time limit",
        language,
        f"sleep {seconds:.4f}; exit {n}",
        exited(n),
        ended_by("timeout"),
        timeout=SHORT,
    )


def end_by_memory(chance, language, word):
    code = {"python": "x = bytearray(300_000_000)", "perl": "my $x = 'x' x 300_000_000; exit 3;"}
    return Ending("memory limit", language, code[language], ended_by("memory"), policy=SMALL)


def end_by_memory_of_child(chance, language, word):
    """The kernel kills the child, glovebox the rest; the program may have ended before that, by its own status."""
    return Ending(
        "memory limit of a child",
        language,
        "perl -e 'my $x = \"x\" x 300_000_000' 2>/dev/null; exit 5",
        ended_by("memory"),
        Outcome("memory", 5, None),
        policy=SMALL,
    )


def end_by_pids(chance, language, word):
    code, status = {
        "sh": (f"for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17; do sleep {LONG} & done; exit 0", 2),
        "python": (f"import os, time\nfor _ in range(40):\n    if os.fork() == 0:\n        time.sleep({LONG})", 1),
        "perl": (f"for (1..40) {{ my $p = fork(); defined $p or exit 7; sleep {LONG} if $p == 0; }}", 7),
    }[language]
    return Ending("task limit", language, code, Outcome("pids", status, None), policy=SMALL, spoils=True)


def end_despite_pids(chance, language, word):
    fork = f"for (1..40) {{ my $p = fork(); defined $p or last; sleep {LONG} if $p == 0; push @all, $p; }}"
    return Ending("task limit, and goes on", "perl", f"{fork} kill 9, @all; 1 while wait() > 0; exit 0;", exited(0), policy=SMALL, spoils=True)


def end_and_leave_many(chance, language, word):
    """It ends well by itself. What it leaves running has taken all the tasks, and is ended."""
    code = f"for (1..40) {{ my $p = fork(); defined $p or last; sleep {LONG} if $p == 0; }} exit 0;"
    return Ending("task limit, and leaves them", "perl", code, Outcome("pids", 0, None), policy=SMALL, spoils=True)


def end_by_disk(chance, language, word):
    place = chance.choice(["", "/tmp/"])
    code = {
        "python": f"open('{place}f', 'wb').write(bytes(3_000_000))",
        "sh": f"head -c 3000000 /dev/zero >{place}f",
        "bash": f"head -c 3000000 /dev/zero >{place}f",
    }
    return Ending("disk limit", language, code[language], Outcome("disk", 1, None), policy=SMALL, spoils=True)


def end_despite_disk(chance, language, word):
    return Ending(
        "disk limit, and goes on",
        language,
        "head -c 3000000 /dev/zero >f 2>/dev/null; exit 0",
        exited(0),
        policy=SMALL,
        spoils=True,
    )


def end_by_output(chance, language, word):
    code = {
        "python": "while True: print('x' * 4000)",
        "bash": "while :; do echo xxxxxxxxxxxxxxxxxxxxxxxxx; done",
        "sh": "yes",
        "perl": "print 'x' x 4000 while 1;",
    }
    return Ending(
        "output limit",
        language,
        code[language],
        ended_by("output"),
        policy=SMALL,
        stdout=lambda text: len(text) == OUTPUT_LIMIT,
    )


def end_by_cpu(chance, language, word):
    code = {
        "python": "while True: pass",
        "bash": "while :; do :; done",
        "perl": "1 while 1;",
        "awk": "BEGIN { for (;;) x++ }",
    }
    return Ending("processor time", language, code[language], ended_by("cpu"), policy={"cpu_time": "100ms"})


def end_in_guard(chance, language, word):
    return Ending("refused by the guard", "python", "import selenium", Outcome("blocked", None, None))


# ---- cancels ----


def end_by_kill(chance, language, word):
    code = {
        "python": f"import time\nprint('{word}', flush=True)\ntime.sleep({LONG})",
        "bash": f"echo {word}; sleep {LONG}; exit 3",
        "sh": f"trap '' INT; echo {word}; sleep {LONG}; exit 3",
        "perl": f'$| = 1; print "{word}\\n"; sleep {LONG};',
    }
    return Ending(
        "cancelled by a kill", language, code[language], ended_by("cancelled"), stdout=f"{word}\n", cancel="kill"
    )


def end_by_interrupt(chance, language, word):
    n = chance.randrange(256)
    code, outcome = chance.choice(
        {
            "python": (
                (f"import time\nprint('{word}', flush=True)\ntime.sleep({LONG})", ended_by("cancelled", "SIGINT")),
                (
                    f"import time\ntry:\n    print('{word}', flush=True)\n    time.sleep({LONG})\n"
                    f"except KeyboardInterrupt:\n    raise SystemExit({n})",
                    Outcome("cancelled", n, None),
                ),
            ),
            # Not a shell that waits for a child: when a signal comes before the child's exec, shells may ignore it.
            "bash": (
                (f"echo {word}; exec sleep {LONG}", ended_by("cancelled", "SIGINT")),
                (f"trap 'exit {n}' INT; echo {word}; while :; do sleep 0.01; done", Outcome("cancelled", n, None)),
            ),
            "sh": ((f"echo {word}; exec sleep {LONG}", ended_by("cancelled", "SIGINT")),),
        }[language]
    )
    return Ending(
        "cancelled by an interrupt",
        language,
        code,
        outcome,
        stdout=f"{word}\n",
        cancel="interrupt",
        late=ended_by("cancelled"),
    )


def end_near_kill(chance, language, word):
    """It ends when it is cancelled, or a moment before or after: the status of an end of its own stays true."""
    n = chance.randrange(256)
    code = {
        "bash": f"echo {word}; exit {n}",
        "sh": f"echo {word}; exit {n}",
        "python": f"import os\nos.write(1, b'{word}\\n')\nos._exit({n})",
        "perl": f'syswrite STDOUT, "{word}\\n"; exit {n};',
    }
    return Ending(
        "cancelled near its end",
        language,
        code[language],
        exited(n),
        ended_by("cancelled"),
        Outcome("cancelled", n, None),
        stdout=f"{word}\n",
        cancel="kill",
    )


# ---- contexts ----


def context_value(chance, language, word):
    return Ending(
        "a run in a context",
        language,
        {"python": f"print('{word}')", "bash": f"echo {word}", "node": f"console.log('{word}')"}[language],
        kept(exit_code=0 if language == "bash" else None),
        stdout=f"{word}\n",
    )


def context_error(chance, language, word):
    n = chance.randrange(1, 256)
    code, error, *status = chance.choice(
        {
            "python": (
                ("raise ValueError('no')", "ValueError"),
                (f"import sys; sys.exit({n})", "SystemExit", n),
                ("x = = 1", "SyntaxError"),
                ("1 / 0", "ZeroDivisionError"),
            ),
            "bash": ((f"(exit {n})", "ExitStatus", n), ("false", "ExitStatus", 1)),
            "node": (("throw new TypeError('no')", "TypeError"), ("nothing", "ReferenceError")),
        }[language]
    )
    return Ending("an error in a context", language, code, kept("error", error, *status))


def context_exit(chance, language, word):
    n = chance.randrange(256)
    code = {"python": f"import os\nos._exit({n})", "bash": f"exit {n}", "node": f"process.exit({n})"}
    return Ending("a context exits", language, code[language], gone(exited(n)))


def context_signal(chance, language, word):
    name = chance.choice(
        ["SIGKILL", "SIGTERM", "SIGSEGV", "SIGABRT", "SIGSYS"] if language == "python" else ["SIGKILL"]
    )
    code = {
        "python": f"import os, signal\nos.kill(os.getpid(), signal.{name})",
        "bash": f"kill -{name[3:]} $$",
        "node": f"process.kill(process.pid, '{name}')",
    }
    return Ending("a context dies by a signal", language, code[language], gone(killed(name)))


def context_child(chance, language, word):
    """Children of a context are its own business."""
    n = chance.randrange(1, 256)
    code = f"import os\nif os.fork() == 0:\n    os._exit({n})\nprint(os.waitstatus_to_exitcode(os.wait()[1]))"
    return Ending("a child of a context exits", "python", code, kept(), stdout=f"{n}\n")


def context_timeout(chance, language, word):
    """An interpreter that is not up yet at the limit cannot be interrupted, and is killed."""
    return Ending(
        "time limit in a context",
        "python",
        chance.choice(["while True: pass", f"import time; time.sleep({LONG})"]),
        kept("timeout", "KeyboardInterrupt"),
        gone(ended_by("timeout")),
        timeout=SHORT,
    )


def context_interrupt(chance, language, word):
    return Ending(
        "a context is interrupted",
        "python",
        f"import time\nprint('{word}', flush=True)\ntime.sleep({LONG})",
        kept("cancelled", "KeyboardInterrupt"),
        stdout=f"{word}\n",
        cancel="interrupt",
        late=gone(ended_by("cancelled")),
    )


def context_kill(chance, language, word):
    return Ending(
        "a context is killed",
        "python",
        f"import time\nprint('{word}', flush=True)\ntime.sleep({LONG})",
        gone(ended_by("cancelled")),
        stdout=f"{word}\n",
        cancel="kill",
    )


# ---- the tables ----

SHELLS, SCRIPTS = ("bash", "sh"), ("bash", "sh", "python", "perl")

# Weight, maker, languages. Short programs come most often: they end while others are still being started.
ENDINGS = {
    "program": (
        (30, end_with_status, ("bash", "sh", "python", "perl", "awk")),
        (12, end_with_output, ("bash", "sh", "python", "perl", "awk")),
        (6, end_well, ("bash", "sh", "python", "perl", "awk")),
        (12, end_by_signal, ("bash", "sh", "python", "perl", "awk")),
        (2, end_with_status, ("node",)),
        (2, end_with_output, ("node",)),
        (1, end_by_signal, ("node",)),
        (1, end_by_failure, ("node",)),
        (1, end_with_status, ("c",)),
        (1, end_with_output, ("c",)),
        (1, end_by_signal, ("c",)),
        (1, end_by_crash, ("c",)),
        (1, end_in_compiler, ("c",)),
        (3, end_by_signal_to_child, SHELLS),
        (4, end_by_failure, ("bash", "sh", "python", "perl", "awk")),
        (4, end_before_child, SCRIPTS),
        (3, end_after_children, SCRIPTS),
        (2, end_after_stop, SHELLS),
        (2, end_by_parent, SHELLS),
        (2, end_in_thread, ("python",)),
        (3, end_without_reading, ("bash", "sh", "python", "perl")),
        (3, end_after_reading, SCRIPTS),
        (2, end_with_closed_streams, ("bash", "sh", "python")),
        (1, end_with_much_output, ("bash", "python", "perl")),
        (2, end_by_timeout, ("bash", "sh", "python", "perl", "awk")),
        (1, end_near_timeout, SHELLS),
        (2, end_by_kill, SCRIPTS),
        (2, end_by_interrupt, ("bash", "sh", "python")),
        (3, end_near_kill, SCRIPTS),
        (1, end_in_guard, ("python",)),
    ),
    "limits": (
        (1, end_by_memory, ("python", "perl")),
        (1, end_by_memory_of_child, SHELLS),
        (2, end_by_pids, ("sh", "python", "perl")),
        (1, end_despite_pids, ("perl",)),
        (1, end_and_leave_many, ("perl",)),
        (2, end_by_disk, ("python", "sh", "bash")),
        (1, end_despite_disk, SHELLS),
        (2, end_by_output, SCRIPTS),
        (1, end_by_cpu, ("python", "bash", "perl", "awk")),
    ),
    "context": (
        (6, context_value, ("python", "bash")),
        (4, context_error, ("python", "bash")),
        (4, context_exit, ("python", "bash")),
        (3, context_signal, ("python", "bash")),
        (1, context_child, ("python",)),
        (1, context_timeout, ("python",)),
        (1, context_interrupt, ("python",)),
        (1, context_kill, ("python",)),
        (1, context_value, ("node",)),
        (1, context_error, ("node",)),
        (1, context_exit, ("node",)),
        (1, context_signal, ("node",)),
    ),
}

# Each is over in a moment and has one outcome.
SHORT_ENDINGS = (end_with_status, end_with_output, end_well, end_by_signal)


def draw(chance, table, languages):
    """An ending of that table, in one of these languages."""
    rows = [(weight, make, [name for name in named if name in languages]) for weight, make, named in ENDINGS[table]]
    rows = [row for row in rows if row[2]]
    _, make, named = chance.choices(rows, [row[0] for row in rows])[0]
    return make(chance, chance.choice(named), f"word-{chance.getrandbits(40):x}")


def draw_short(chance, languages):
    return chance.choice(SHORT_ENDINGS)(chance, chance.choice(languages), f"word-{chance.getrandbits(40):x}")
