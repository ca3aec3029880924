"""The zip of an evidence pack: its size, its members and its signature, before all that it holds.

Nothing but the manifest is read before the signature is checked, and no more than was signed.
"""

import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from answerbus.evidence.ed25519 import is_signed
from answerbus.evidence.record_digest import NO_OBJECT, object_of

FILES = ("attempts", "steps", "outcomes", "definitions", "schemas", "heads")
NAMES = {"manifest.json", "manifest.sig", *(f"{name}.jsonl" for name in FILES)}
PACK_DOMAIN, ANCHOR_DOMAIN = b"answerbus evidence v1\n", b"answerbus anchor v1\n"
DIRECTORY_BYTES_MAX = 4 * 1024  # of a zip with eight members
MANIFEST_BYTES_MAX = 16 * 1024 * 1024  # 200,000 digests for which nothing was found
UNSIGNED_BYTES_MAX = 1024 * 1024  # of a manifest that is read without a right signature
LINE_BYTES_MAX = 4 * 1024 * 1024
_END_BYTES = 22  # of a zip, and a comment of up to 64 KiB
_LOCATOR_BYTES = 20  # before that: of another end, whose sizes count instead, as in huge zips
# Of the others zipfile takes all that a few KiB unpack to into memory: gigabytes.
_COMPRESSIONS = {zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED}
# By zipfile, an encrypted member is a RuntimeError, a name or an offset out of range a ValueError.
_BROKEN_ZIP = (zipfile.BadZipFile, zlib.error, EOFError, OSError, RuntimeError, ValueError)


class PackFinding(NamedTuple):
    """One thing that is wrong: its kind, where (file and line, from 1), and in words."""

    kind: str
    place: str
    text: str


class UnusablePack(Exception):
    """The pack, or one file of it, cannot be read any further."""

    def __init__(self, kind: str, place: str, text: str) -> None:
        super().__init__(text)
        self.finding = PackFinding(kind, place, text)


def opened(file: BinaryIO) -> zipfile.ZipFile:
    """The zip; its directory is measured before it is read. Raises UnusablePack."""
    try:
        file.seek(0, 2)
        start = max(file.tell() - _LOCATOR_BYTES - _END_BYTES - 65_535, 0)
        file.seek(start)
        end = file.read()
        at = end.rfind(b"PK\x05\x06")
        if at < 0 or len(end) - at < _END_BYTES:
            raise zipfile.BadZipFile("its end is missing")
        size = struct.unpack_from("<L", end, at + 12)[0]
        has_other_end = end[:at][-_LOCATOR_BYTES:].startswith(b"PK\x06\x07")
        if has_other_end or size > DIRECTORY_BYTES_MAX:
            raise UnusablePack("not_a_pack", "zip", "its directory is larger than that of a pack")
        found = zipfile.ZipFile(file)
    except _BROKEN_ZIP as error:
        raise UnusablePack("truncated_zip", "zip", f"it is not a complete zip: {error}") from None
    names = [entry.filename for entry in found.infolist()]
    if sorted(names) != sorted(NAMES):
        raise UnusablePack(
            "not_a_pack", "zip", f"its members are {', '.join(map(repr, names))[:400]}"
        )
    if not _COMPRESSIONS.issuperset(entry.compress_type for entry in found.infolist()):
        raise UnusablePack("not_a_pack", "zip", "it is compressed in another way than packs are")
    return found


def small(pack: zipfile.ZipFile, name: str) -> bytes:
    """A member that is read at once. Raises UnusablePack."""
    try:
        with pack.open(name) as member:
            found = member.read(MANIFEST_BYTES_MAX + 1)
    except _BROKEN_ZIP as error:
        raise UnusablePack("truncated_zip", name, f"it cannot be read: {error}") from None
    if len(found) > MANIFEST_BYTES_MAX:
        raise UnusablePack("not_a_pack", name, "it is too large")
    return found


def signed_object(
    keys: Sequence[bytes], domain: bytes, message: bytes, signature: bytes, place: str
) -> dict[str, Any]:
    """The JSON object in a message that one of the keys, the one that it names, has signed.

    A large one is read only if the signature is right. Raises UnusablePack.
    """
    try:
        code = bytes.fromhex(signature.decode().strip())
    except ValueError:
        raise UnusablePack("bad_signature", "signature", "it is not a signature") from None
    key = next((one for one in keys if is_signed(one, domain + message, code)), None)
    if key is None and len(message) > UNSIGNED_BYTES_MAX:
        raise UnusablePack("bad_signature", "signature", "no key that was given has signed it")
    found = parsed(message, place)
    named = found.get("key")
    if key is not None and named == key.hex():
        return found
    if isinstance(named, str) and named not in [one.hex() for one in keys]:
        text = "it is signed by another key than those that were given"
        raise UnusablePack("unknown_key", "signature", text)
    raise UnusablePack("bad_signature", "signature", "what was signed is not what is here")


def manifest_of(pack: zipfile.ZipFile, keys: Sequence[bytes]) -> dict[str, Any]:
    """The manifest, once its signature is right. Raises UnusablePack."""
    text = small(pack, "manifest.json")
    signature = small(pack, "manifest.sig")
    found = signed_object(keys, PACK_DOMAIN, text, signature, "manifest.json")
    files = found.get("files")
    if found.get("kind") != "evidence" or found.get("version") != 1 or not isinstance(files, dict):
        raise UnusablePack("not_a_pack", "manifest.json", "it is of another version")
    return found


def parsed(text: bytes, place: str) -> dict[str, Any]:
    """A small JSON object. Raises UnusablePack."""
    found = object_of(text)
    if found is None:
        raise UnusablePack("not_a_pack", place, NO_OBJECT)
    return found


def lines_of(pack: zipfile.ZipFile, name: str, bytes_max: int) -> Iterator[bytes]:
    """Each line with its end, of no more bytes than were signed. Raises UnusablePack."""
    try:
        with pack.open(name) as member:
            left = bytes_max
            while line := member.readline(min(LINE_BYTES_MAX, left) + 1):
                left -= len(line)
                if left < 0 or len(line) > LINE_BYTES_MAX:
                    text = "it, or a line of it, is longer than it may be"
                    raise UnusablePack("changed_file", name, text)
                yield line
    except _BROKEN_ZIP as error:
        raise UnusablePack("truncated_zip", name, f"it cannot be read: {error}") from None
