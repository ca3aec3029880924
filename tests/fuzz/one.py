"""Targets under the fuzzer, each in a process of its own.

`python -m tests.fuzz.one PROGRAM TARGET OPTION …`: the options go to libFuzzer, PROGRAM as its own
name. It ends the process itself. Without arguments such arguments are lines of JSON on its input,
the file of the log before them, and its output has a line with each exit code: to instrument the
code takes longer than to try a target.
"""

import json
import os
import sys

import atheris

with atheris.instrument_imports(include=["answerbus", "services"], enable_loader_override=False):
    from tests.fuzz.targets import TARGETS


def main(program: str, name: str, *options: str) -> None:
    atheris.Setup([program, *options], TARGETS[name].check)
    atheris.Fuzz()


def serve() -> None:
    for line in sys.stdin:
        log, *arguments = json.loads(line)
        child = os.fork()
        if not child:
            file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(file, sys.stdout.fileno())
            os.dup2(file, sys.stderr.fileno())
            main(*arguments)
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:]) if len(sys.argv) > 1 else serve()
