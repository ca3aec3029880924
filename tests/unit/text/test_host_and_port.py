"""Where a server listens, as people write it."""

import pytest

from services.text.host_and_port import host_and_port


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("127.0.0.1:8080", ("127.0.0.1", 8080)),
        ("[::]:0", ("[::]", 0)),
        ("a:65535", ("a", 65_535)),
        ("a:65536", None),
        ("a:99999", None),
        ("a:" + "9" * 5_000, None),
        ("a:²", None),
        ("a:-1", None),
        (":80", None),
        ("80", None),
    ],
)
def test_a_place_is_a_host_and_a_port(place: str, found: tuple[str, int] | None) -> None:
    assert host_and_port(place) == found
