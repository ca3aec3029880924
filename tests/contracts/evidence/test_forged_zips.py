"""Zips of evidence packs that were made by hand: what zipfile takes, and a pack never has."""

import struct
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from answerbus.evidence.verifier import verify
from tests.contracts.evidence.packs import signed, whole, written
from tests.contracts.evidence.test_forgeries import KEYS, checked, kinds

pytestmark = pytest.mark.wide


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_a_member_that_unpacks_without_a_bound_is_not_read(method: int, tmp_path: Path) -> None:
    """zipfile unpacks such a member as a whole: 2 KB of a manifest became 3 GiB."""
    members = {**signed(whole()), "manifest.json": b" " * 100_000_000}
    path = written(tmp_path / "pack.zip", members, method)

    tracemalloc.start()
    assert kinds(verify(path, KEYS)) == {"not_a_pack"}
    assert tracemalloc.get_traced_memory()[1] < 10_000_000
    tracemalloc.stop()


def test_names_and_offsets_of_members_that_cannot_be_are_named(tmp_path: Path) -> None:
    path = written(tmp_path / "pack.zip", signed(whole()))
    content = path.read_bytes()
    for header, flags, name in ((b"PK\x01\x02", 8, 46), (b"PK\x03\x04", 6, 30)):
        at = content.index(header)
        forged = bytearray(content)
        forged[at + flags : at + flags + 2] = struct.pack("<H", 0x800)  # names are UTF-8
        forged[at + name] = 0xFF
        path.write_bytes(forged)
        assert "truncated_zip" in kinds(verify(path, KEYS))

    with zipfile.ZipFile(path, "w") as archive:
        for one in sorted(signed(whole()), key=lambda one: one != "manifest.json"):
            member = zipfile.ZipInfo(one)
            member.extra = struct.pack("<HHQ", 1, 8, 2**64 - 1)
            archive.writestr(member, b"")
    forged = bytearray(path.read_bytes())
    at = forged.index(b"PK\x01\x02")
    forged[at + 42 : at + 46] = b"\xff" * 4  # the offset is in the extra field
    path.write_bytes(forged)
    assert kinds(verify(path, KEYS)) == {"truncated_zip"}


def test_other_members_and_a_large_directory_are_refused(tmp_path: Path) -> None:
    members = signed(whole())
    assert kinds(checked(tmp_path, {**members, "../../etc/x": b""})) == {"not_a_pack"}
    many = {f"{'n' * 200}{n}": b"" for n in range(40)}
    assert kinds(checked(tmp_path, {**members, **many})) == {"not_a_pack"}


def test_a_large_directory_is_refused_though_the_end_of_the_zip_hides_its_size(
    tmp_path: Path,
) -> None:
    path = written(tmp_path / "pack.zip", signed(whole()))
    with zipfile.ZipFile(path, "a") as archive:
        for member in archive.infolist():
            member.comment = b" " * 60_000
        archive.comment = b" " * 65_535
    content = path.read_bytes()
    end = len(content) - 65_535 - 22
    size, begin = struct.unpack_from("<LL", content, end + 12)
    counts = struct.pack("<QHHLLQQ", 44, 45, 45, 0, 0, 8, 8)
    record = b"PK\x06\x06" + counts + struct.pack("<QQ", size, begin)
    locator = b"PK\x06\x07" + struct.pack("<LQL", 0, end, 1)
    small = content[end : end + 12] + struct.pack("<L", 100) + content[end + 16 :]
    path.write_bytes(content[:end] + record + locator + small)

    with zipfile.ZipFile(path) as archive:
        assert len(archive.infolist()) == len(signed(whole()))
    assert kinds(verify(path, KEYS)) == {"not_a_pack"}
