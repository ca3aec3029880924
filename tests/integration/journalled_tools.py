"""A toolset that notes each run in a file and ends when another file is there, to be killed."""

import os
import time
from pathlib import Path

from answerbus.tools import Toolset

FOLDER = Path(os.environ.get("JOURNAL", "."))  # noqa: TID251 - set by the test

deeds = Toolset("deeds")


def run(name: str) -> str:
    with (FOLDER / "journal").open("a") as journal:
        journal.write(f"{name}\n")
    while not (FOLDER / "may-end").exists():
        time.sleep(0.02)
    return name


@deeds.tool
def often(name: str) -> str:
    """At least once."""
    return run(name)


@deeds.tool(delivery="at_most_once")
def once(name: str) -> str:
    return run(name)
