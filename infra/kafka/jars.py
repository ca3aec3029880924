"""The jars that a broker runs, held against the SHA-256 that are written down beside this file."""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path

TABLE = Path(__file__).parent / "jars.sha256"  # as `sha256sum` writes it


def expected() -> Mapping[str, str]:
    """The SHA-256 of each jar, by its file name."""
    pairs = (line.split() for line in TABLE.read_text(encoding="ascii").splitlines())
    return {name: sha256 for sha256, name in pairs}


def difference(jars: Iterable[Path], table: Mapping[str, str]) -> str | None:
    """Why these are not the jars of the table; None if they are."""
    found = {jar.name: jar for jar in jars}
    if missing := sorted(table.keys() - found.keys()):
        return f"{missing[0]} is not among them"
    for name, jar in sorted(found.items()):
        if name not in table:
            return f"{name} is none of those that are written down in {TABLE.name}"
        with jar.open("rb") as file:
            sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        if sha256 != table[name]:
            return f"the SHA-256 of {jar} is {sha256} and not {table[name]}"
    return None
