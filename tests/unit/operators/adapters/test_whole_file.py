"""A file is there whole or not at all; what leads elsewhere is not replaced."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from services.operators.adapters.whole_file import write_whole


def test_a_file_is_written_in_the_place_of_one_that_is_there(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    for text in (b"one", b"two"):
        write_whole(path, [text, b"!"])

    assert path.read_bytes() == b"two!"
    assert list(tmp_path.iterdir()) == [path]


def test_what_fails_half_way_leaves_what_was_there(tmp_path: Path) -> None:
    def parts() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    path = tmp_path / "a.csv"
    with pytest.raises(OSError, match="No space"):
        write_whole(path, parts())
    assert list(tmp_path.iterdir()) == []

    path.write_bytes(b"before")
    with pytest.raises(OSError, match="No space"):
        write_whole(path, parts())
    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == [(path, b"before")]


def test_an_error_names_the_file_that_was_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.csv"
    with pytest.raises(FileNotFoundError) as raised:
        write_whole(path, [b"one"])

    assert raised.value.filename == str(path)


def test_links_and_devices_stay_what_they_are(tmp_path: Path) -> None:
    path, link = tmp_path / "a.csv", tmp_path / "link"
    link.symlink_to(path)
    write_whole(link, [b"text"])

    assert link.is_symlink()
    assert path.read_bytes() == b"text"
    with pytest.raises(OSError, match="No space"):
        write_whole(Path("/dev/full"), [b"text"])
    assert Path("/dev/full").is_char_device()


def test_what_others_write_beside_it_stays(tmp_path: Path) -> None:
    """Processes of several containers have equal ids, and one that is killed leaves its part."""

    def parts() -> Iterator[bytes]:
        (others,) = tmp_path.iterdir()
        yield b"mine"
        write_whole(path, [b"another's"])
        assert others.exists()

    path = tmp_path / ("\N{CJK UNIFIED IDEOGRAPH-6F22}" * 80 + ".csv")
    write_whole(path, parts())

    assert [(one, one.read_bytes()) for one in tmp_path.iterdir()] == [(path, b"mine")]
