"""A file of anchors: the heads of all chains at a moment, signed, and kept away from the topics.

Its first line is the statement, its second the signature of that, and each further line a head.
"""

import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from answerbus.evidence.chains import ChainName
from answerbus.evidence.pack_file import (
    ANCHOR_DOMAIN,
    LINE_BYTES_MAX,
    UnusablePack,
    parsed,
    signed_object,
)

HEADS_MAX = 10_000_000


class Anchor(NamedTuple):
    """When it was signed, and the head of each chain."""

    at: str
    heads: Sequence[tuple[str, ChainName, str]]


def anchor_of(path: Path, keys: Sequence[bytes]) -> Anchor:
    """The heads in a file, whose statement one of the keys signed. Raises UnusablePack, OSError."""
    place = path.name
    with path.open("rb") as file:
        first, signature = file.readline(LINE_BYTES_MAX), file.readline(LINE_BYTES_MAX)
        statement = signed_object(keys, ANCHOR_DOMAIN, first.rstrip(b"\n"), signature, place)
        digest = hashlib.sha256()
        heads = [*_heads(file, digest, place)]
    if statement.get("kind") != "anchor" or digest.hexdigest() != statement.get("sha256"):
        raise UnusablePack("changed_anchor", place, "its heads are not those that were signed")
    return Anchor(str(statement.get("at")), heads)


def _heads(file: Any, digest: Any, place: str) -> Iterator[tuple[str, ChainName, str]]:
    count = 0
    while line := file.readline(LINE_BYTES_MAX):
        count += 1
        digest.update(line)
        body = parsed(line, place)
        of = body.get("of")
        if count > HEADS_MAX or not isinstance(of, list):
            raise UnusablePack("changed_anchor", place, f"line {count + 2} is not a head")
        yield str(body.get("chain")), tuple(map(str, of)), str(body.get("head"))
