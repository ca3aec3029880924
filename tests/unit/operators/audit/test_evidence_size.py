"""A pack that no verifier would read is not written."""

import zipfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from answerbus.evidence.pack_file import MANIFEST_BYTES_MAX
from services.operators.adapters import evidence
from services.operators.adapters.evidence import PackTooLarge, _Pack
from services.operators.adapters.signing import EvidenceSigner


async def lines(count: int) -> AsyncIterator[bytes]:
    for n in range(count):
        yield f"{n}\n".encode()


async def test_a_pack_is_no_larger_than_a_zip_whose_end_says_its_size(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(evidence, "PACK_BYTES_MAX", 60_000)
    with (tmp_path / "pack.zip").open("xb") as file, zipfile.ZipFile(file, "w") as archive:
        pack = _Pack(archive, file)
        await pack.write("attempts", lines(10_000))
        with pytest.raises(PackTooLarge, match="a shorter time"):
            await pack.write("steps", lines(10_000))


def test_a_manifest_that_no_verifier_would_read_is_not_written(tmp_path: Path) -> None:
    with (tmp_path / "pack.zip").open("xb") as file, zipfile.ZipFile(file, "w") as archive:
        pack = _Pack(archive, file)
        with pytest.raises(PackTooLarge, match=r"Its manifest, .* a shorter time"):
            pack.seal(b" " * (MANIFEST_BYTES_MAX + 1), EvidenceSigner(bytes(32), bytes))


def test_the_limit_leaves_room_below_that_of_such_a_zip() -> None:
    assert evidence.PACK_BYTES_MAX < zipfile.ZIP64_LIMIT - 16 * 1024 * 1024
