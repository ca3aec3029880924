"""Forms: where they are read."""

import threading
from unittest import mock

import pytest
from aiohttp import StreamReader, web
from aiohttp.test_utils import make_mocked_request

from services.console import form
from tests.unit.console.context import OPERATOR, site


@pytest.mark.parametrize(("size", "is_apart"), [(100, False), (form.IN_PLACE_BYTES_MAX + 3, True)])
async def test_a_large_form_is_not_read_in_the_event_loop(
    size: int, is_apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each character behind a `%` takes as long as 50 others."""
    found, threads, parsed = StreamReader(mock.Mock(), 2**16), [], form._parsed

    def counted(request: web.Request, body: bytes) -> form.Form:
        threads.append(threading.current_thread())
        return parsed(request, body)

    monkeypatch.setattr(form, "_parsed", counted)
    found.feed_data(b"a=" + b"%41" * (size // 3))
    found.feed_eof()
    kind = {"Content-Type": "application/x-www-form-urlencoded"}

    read = await form.form_of(make_mocked_request("POST", "/", kind, payload=found))

    assert read["a"] == "A" * (size // 3)
    assert (threads != [threading.current_thread()]) == is_apart


@pytest.mark.parametrize(
    ("fields", "is_read"),
    [({"everything": "1", "x" * 100_000: "1"}, False), ({"theme": "\u202e" * 50_000}, True)],
)
async def test_a_long_field_is_neither_looked_for_nor_sent_back(
    fields: dict[str, str], *, is_read: bool
) -> None:
    """To find the filter whose name is the nearest takes half a second for a megabyte."""
    async with site() as here:
        cookie = await here.log_in(OPERATOR)
        session = here.context.guard.sessions.find(cookie, 0)
        assert session is not None
        for path in ("/theme", "/letters/plan"):
            response = await here.post(path, {"csrf": session.csrf, **fields}, cookie)

            text = await response.text()
            assert response.status == 400
            assert len(text) < 50_000
            assert ("a field with a name that none here has" in text) is not is_read
