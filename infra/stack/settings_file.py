"""The settings file of a stack: written once, then updated without losing manual changes."""

import hashlib
import re
import tomllib
from pathlib import Path

from answerbus.topics import PARTITIONS_DEFAULT

# Lines whose values are the stack's own; each name is once in what the stack writes.
_OWN = re.compile(r"^(bootstrap_servers|workers|base_url) = (.*)$", re.MULTILINE)


def write(file: Path, text: str) -> None:
    """Write `text`, unless the file was changed by hand: then its addresses alone."""
    before = file.with_suffix(".written")
    last = _read(before)
    found = _read(file)
    is_changed = last is not None and found is not None and found != last
    new = updated(found, last, text) if is_changed and found and last else text
    before.write_text(text, encoding="utf-8")
    file.write_text(new, encoding="utf-8")


def digest(file: Path) -> str:
    """The digest of what users write; the addresses, which follow what runs, are left out."""
    return hashlib.sha256(_OWN.sub(r"\1", _read(file) or "").encode()).hexdigest()


def partitions(file: Path) -> int:
    """How many partitions are in use by a file that `answerbus` has read without complaint."""
    kafka = tomllib.loads(_read(file) or "").get("kafka", {})
    return int(kafka.get("partitions", PARTITIONS_DEFAULT))


def updated(found: str, last: str, text: str) -> str:
    """What was found, with the new addresses where it still has those that were written last."""
    new = dict(_OWN.findall(text))

    def put(line: re.Match[str]) -> str:
        own = line[0] in last.splitlines() and line[1] in new
        return f"{line[1]} = {new[line[1]]}" if own else line[0]

    return _OWN.sub(put, found)


def _read(file: Path) -> str | None:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
