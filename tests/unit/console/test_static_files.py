"""Styles, scripts and icons: browsers keep them for good, and get others when there are others."""

import base64
import gzip
import hashlib
import re

import pytest

from services.console.pages.static_file import FOR_GOOD, takes_gzip
from services.console.static_files import FOLDER, StaticFiles, read_static_files
from tests.unit.console.context import VIEWER, Site, site

NAMES = ("styles.css", "scripts.js", "icon.svg", "icon-red.svg")


async def loaded(here: Site, path: str = "/") -> list[str]:
    """The addresses under /static/ that a page names."""
    text = await (await here.get(path, await here.log_in(VIEWER))).text()
    return list(dict.fromkeys(re.findall(r'"(/static/[^"]*)"', text)))


async def test_what_a_page_loads_is_kept_for_good_and_needs_no_session() -> None:
    async with site() as here:
        addresses = await loaded(here)
        assert len(addresses) >= 3
        for address in addresses:
            response = await here.get(address)

            assert response.status == 200, address
            assert response.headers["Cache-Control"] == FOR_GOOD
            assert {"immutable", "max-age=31536000"} <= set(FOR_GOOD.split(", "))
            assert response.headers["X-Content-Type-Options"] == "nosniff"
            assert response.headers["Vary"] == "Accept-Encoding"
            assert "Set-Cookie" not in response.headers


async def test_no_request_is_waited_for_before_the_status_is_painted() -> None:
    async with site() as here:
        answer = await here.get("/", await here.log_in(VIEWER))
        text, policy = await answer.text(), answer.headers["Content-Security-Policy"]
    head = text.partition("</head>")[0]
    _, first, _ = re.split("<style>|</style>", head)
    before, linked, after = text.partition('<link rel="stylesheet"')
    digest = base64.b64encode(hashlib.sha256(first.encode()).digest()).decode()

    assert f"style-src 'self' 'sha256-{digest}';" in policy
    assert 'id="status"' in before
    assert "<img" not in before
    assert linked
    assert "<main" in after
    assert '<link rel="stylesheet"' not in after
    assert re.findall(r"<script[^>]*>", text) == re.findall(r"<script[^>]* defer>", head)
    assert len(re.findall(r"<script", text)) == 1


@pytest.mark.parametrize("query", ["", "?v=", "?v=0123456789abcdef", "?other=1"])
@pytest.mark.parametrize("name", NAMES)
async def test_of_another_version_there_is_what_is_now_and_it_is_not_kept(
    name: str, query: str
) -> None:
    """A page of an older console may ask this one, behind one address."""
    async with site() as here:
        found = here.context.static_files.find(name)
        response = await here.get(f"/static/{name}{query}")

        assert found
        assert await response.read() == found.body
        assert response.headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/static/console.css", "/static/", "/static/x.js?v=1"])
async def test_what_is_no_file_is_not_found_and_not_kept(path: str) -> None:
    async with site() as here:
        response = await here.get(path)

        assert response.status == 404
        assert response.headers["Cache-Control"] == "no-store"


async def test_pages_are_cached_nowhere() -> None:
    async with site() as here:
        cookie = await here.log_in(VIEWER)
        for path in ("/", "/letters", "/login", f"/?v={'0' * 16}"):
            assert (await here.get(path, cookie)).headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("name", NAMES)
async def test_files_are_sent_packed_to_those_who_take_it(name: str) -> None:
    async with site() as here:
        found = here.context.static_files.find(name)
        assert found
        address = here.url + found.address
        async with here.client.get(address, headers={"Accept-Encoding": "gzip, br"}) as packed:
            assert packed.headers["Content-Encoding"] == "gzip"
            assert int(packed.headers["Content-Length"]) == len(found.packed)
            assert await packed.read() == found.body  # unpacked by the client
            media_type = packed.headers["Content-Type"]
        async with here.client.get(address, headers={"Accept-Encoding": "identity"}) as plain:
            assert "Content-Encoding" not in plain.headers
            assert await plain.read() == found.body
            assert plain.headers["Content-Type"] == media_type
        async with here.client.head(address) as head:
            assert head.headers["Cache-Control"] == FOR_GOOD
            assert await head.read() == b""

    assert media_type.startswith({"c": "text/css", "j": "text/javascript", "s": "image/svg+xml"}[
        name.rpartition(".")[2][0]
    ])  # fmt: skip


@pytest.mark.parametrize(
    ("accepted", "taken"),
    [
        ("gzip", True),
        ("br;q=1.0, GZIP ; q=0.8", True),
        ("gzip;q=0", False),
        ("gzip; q=0.000, br", False),
        ("x-gzip", False),
        ("", False),
        ("*", False),
        (";,;q=", False),
    ],
)
def test_who_takes_gzip(accepted: str, *, taken: bool) -> None:
    assert takes_gzip(accepted) == taken


def test_an_address_changes_with_its_contents_alone() -> None:
    one, same, other = (StaticFiles({"a.css": body}) for body in (b"a {}", b"a {}", b"b {}"))

    assert one.address("a.css") == same.address("a.css") != other.address("a.css")


def test_all_files_of_the_folder_are_served() -> None:
    files = read_static_files()
    served = b"\n".join(found.body for name in NAMES if (found := files.find(name)))
    served += files.first_style.encode()
    served += b"".join(path.read_bytes() for path in FOLDER.glob("icon-*.svg"))

    for path in FOLDER.iterdir():
        assert path.read_bytes() in served, path.name
    packed = files.find("styles.css")
    assert packed
    assert gzip.decompress(packed.packed) == packed.body
    assert len(packed.packed) < len(packed.body) / 2
