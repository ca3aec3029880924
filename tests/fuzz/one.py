"""One target under the fuzzer, in a process of its own.

`python -m tests.fuzz.one PROGRAM TARGET OPTION …`: the options go to libFuzzer, PROGRAM as its own
name. It ends the process itself.
"""

import sys

import atheris

with atheris.instrument_imports(include=["answerbus", "services"], enable_loader_override=False):
    from tests.fuzz.targets import TARGETS


def main(program: str, name: str, *options: str) -> None:
    atheris.Setup([program, *options], TARGETS[name].check)
    atheris.Fuzz()


if __name__ == "__main__":
    main(*sys.argv[1:])
